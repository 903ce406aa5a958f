"""Faults in auth errors: what is recorded, moved, counted, decided and merged."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

TRANSITIONS: Final = "ops/auth_errors/transitions.py"
CLUSTERS: Final = "ops/auth_errors/clusters.py"
RECORDING: Final = "ops/auth_errors/recording.py"

reports = In("integration/auth_errors/test_reports_api")
events = In("integration/auth_errors/test_auth_error_events")
decisions = In("integration/auth_errors/test_decisions")
reads = In("integration/auth_errors/test_auth_error_reads")
platform = In("integration/auth_errors/test_platform_reports")

MUTANTS: Final = (
    Mutant(
        "an analysis ends an error that was decided meanwhile",
        TRANSITIONS,
        "filter(pk=auth_error_id, status=AuthErrorStatus.ANALYSIS_REQUESTED).update(",
        "filter(pk=auth_error_id).update(",
        events("test_aut_04_an_edge_is_won_from_its_own_status_alone"),
    ),
    Mutant(
        "an error that is analysed again is counted again",
        CLUSTERS,
        "        ON CONFLICT (auth_error_id, cluster_id) DO NOTHING RETURNING cluster_id\n",
        "        ON CONFLICT (auth_error_id, cluster_id) DO UPDATE SET cluster_id = excluded.cluster_id"
        " RETURNING cluster_id\n",
        events("test_aut_04_a_retry_has_its_count_and_time_and_its_event_is_sent_again"),
    ),
    Mutant(
        "an error that was reported before its cluster was resolved reopens it",
        CLUSTERS,
        "status=ClusterStatus.RESOLVED, resolved_at__lt=seen_at",
        "status=ClusterStatus.RESOLVED",
        decisions("test_aut_10_an_error_reported_before_and_analysed_after_is_resolved_along"),
    ),
    Mutant(
        "two merges at once close a circle",
        CLUSTERS,
        "        if root_of(into_id) == source_id:\n",
        "        if into_id == source_id:\n",
        decisions("test_aut_10_chains_are_followed_and_circles_refused"),
    ),
    Mutant(
        "a later event counts in the cluster that was merged away",
        CLUSTERS,
        "    root_id = root_of(cluster_id)\n",
        "    root_id = cluster_id\n",
        decisions("test_aut_10_a_merge_holds_for_later_events_and_unmerge_gives_back"),
    ),
    Mutant(
        "a decision about a large cluster ends with its first batch",
        "ops/auth_errors/bulk.py",
        "            finished_at=Now() if len(ids) < BATCH else None,\n",
        "            finished_at=Now(),\n",
        decisions("test_aut_11_a_large_cluster_is_decided_batch_by_batch"),
    ),
    Mutant(
        "a report that was recorded before is answered as a new one",
        RECORDING,
        "            is_new = made is not None\n",
        "            is_new = found is not None\n",
        reports("test_aut_02_the_same_request_id_answers_the_first_whatever_else_it_says"),
    ),
    Mutant(
        "a tenant reads who decided and why",
        "ops/auth_errors/api/documents.py",
        '                    detail=line.detail if for_operator else "",\n',
        "                    detail=line.detail,\n",
        reads("test_aut_11_a_tenant_reads_its_own_reports_and_nothing_of_clusters"),
    ),
    Mutant(
        "a failure that could not be recorded is forgotten",
        "tenants/failures.py",
        "                self._run_later(pause, self._flush_in_thread)\n                return\n",
        "                self._run_later(pause, self._flush_in_thread)\n",
        platform("test_aut_01_while_the_database_is_away_failures_wait"),
    ),
)
