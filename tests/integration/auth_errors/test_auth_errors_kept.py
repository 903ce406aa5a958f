"""How long auth errors are kept, and what a scrape tells of those that wait."""

from datetime import timedelta

import pytest
from django.db import connection

from dpp_project import clock, uuid7
from dpp_project.clock import FixedClock
from dpp_project.observe import metrics
from ops.auth_errors import clusters, deciding, retention, rules
from ops.auth_errors.models import AuthError, Cluster, ClusterDay, ClusterMember, ErrorDecision
from ops.auth_errors.states import DecisionType
from tests.gear.builders import auth_errors as gear

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("AUT-11")]


def aged(error: AuthError, *, days: int) -> None:
    """Recorded so long ago, as its id says too; the guards look away meanwhile."""
    at = clock.now() - timedelta(days=days)
    older = uuid7.first_at(at)
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        for table in ("auth_error", "auth_error_cluster_member", "auth_error_decision"):
            cursor.execute(f"UPDATE {table} SET auth_error_id = %s WHERE auth_error_id = %s", [older, error.pk])  # noqa: S608
        cursor.execute("UPDATE auth_error SET recorded_at = %s WHERE auth_error_id = %s", [at, older])
        cursor.execute("UPDATE auth_error_cluster SET last_seen_at = %s WHERE cluster_id = %s", [at, error.cluster_id])
        cursor.execute("SET session_replication_role = origin")


def test_aut_11_after_90_days_an_error_goes_with_its_fault() -> None:
    old, kept = gear.analyzed(name="Old"), gear.analyzed(name="Kept")
    deciding.decide_auth_error(auth_error_id=old.pk, decision=DecisionType.IGNORE, by="operator:ada")
    aged(old, days=91)
    aged(kept, days=89)
    assert retention.preview_deleting_auth_errors(now=clock.now(), limit=100).changed == 1
    report = retention.delete_old_auth_errors(now=clock.now(), limit=100)
    assert (report.changed, report.detail) == (2, {"errors": 1, "clusters": 1})
    assert AuthError.objects.get().exception_class == "com.acme.auth.Kept"
    assert Cluster.objects.get().pk == kept.cluster_id
    assert (ClusterMember.objects.count(), ClusterDay.objects.count(), ErrorDecision.objects.count()) == (1, 1, 0)
    assert retention.delete_old_auth_errors(now=clock.now(), limit=100).changed == 0


def test_aut_11_a_fault_that_a_rule_or_a_merge_names_is_kept() -> None:
    ruled, merged, into = (gear.analyzed(name=name) for name in ("Ruled", "Merged", "Into"))
    assert ruled.cluster_id is not None
    assert merged.cluster_id is not None
    assert into.cluster_id is not None
    rules.add_decision_rule(
        name="x",
        decision=DecisionType.FAIL,
        cluster_id=ruled.cluster_id,
        exception_class="",
        path_prefix="",
        by="operator:ada",
    )
    clusters.merge_clusters(source_id=merged.cluster_id, into_id=into.cluster_id, by="operator:ada")
    for place, error in enumerate((ruled, merged, into)):
        aged(error, days=91 + place)
    assert retention.delete_old_auth_errors(now=clock.now(), limit=100).detail == {"errors": 3, "clusters": 0}
    assert Cluster.objects.count() == 3


def test_aut_11_an_error_that_a_process_with_a_wrong_clock_recorded_is_kept(clock: FixedClock) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        (now,) = cursor.fetchone()
    clock.advance(seconds=-400 * 86_400)
    error = gear.recorded()
    assert error.pk < uuid7.first_at(now - timedelta(days=200))
    assert retention.preview_deleting_auth_errors(now=now, limit=100).changed == 0
    assert retention.delete_old_auth_errors(now=now, limit=100).changed == 0
    assert AuthError.objects.get().pk == error.pk


def test_aut_11_a_host_whose_clock_is_ahead_deletes_nothing_young() -> None:
    kept = gear.analyzed()
    ahead = clock.now() + timedelta(days=400)
    assert retention.preview_deleting_auth_errors(now=ahead, limit=100).changed == 0
    assert retention.delete_old_auth_errors(now=ahead, limit=100).changed == 0
    assert (AuthError.objects.get().pk, Cluster.objects.get().pk) == (kept.pk, kept.cluster_id)


def test_aut_11_a_scrape_tells_how_many_wait_and_how_long(clock: FixedClock) -> None:
    gear.recorded()
    gear.requested()
    gear.analyzed()
    page = metrics.render_metrics().decode()
    for line in (
        *('dpp_auth_errors_waiting{status="NEW"} 1.0', 'dpp_auth_errors_waiting{status="ANALYSIS_REQUESTED"} 1.0'),
        *('dpp_auth_errors_waiting{status="ANALYSIS_COMPLETED"} 1.0', 'dpp_auth_errors_waiting{status="RETRY"} 0.0'),
        "dpp_auth_errors_oldest_waiting_seconds",
    ):
        assert line in page
