"""Faults in what is asked of workspaces, and in what is done to them by time and by the books."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

SERVICES: Final = "ops/workspaces/services.py"
QUOTAS: Final = "ops/workspaces/quotas.py"
SELECTORS: Final = "ops/workspaces/selectors.py"
ARCHIVES: Final = "ops/workspaces/rows/archives.py"
COLLECTING: Final = "ops/workspaces/upkeep/collecting.py"
ORPHANS: Final = "ops/workspaces/upkeep/orphans.py"
FORGETTING: Final = "ops/workspaces/upkeep/forgetting.py"
PURGING: Final = "ops/workspaces/upkeep/purging.py"
SCRUBBING: Final = "ops/workspaces/upkeep/scrubbing.py"
OVERFULL: Final = "ops/workspaces/host/overfull.py"
DOCUMENTS: Final = "ops/workspaces/api/documents.py"

api = In("integration/workspaces/test_workspaces_api")
services = In("integration/workspaces/test_workspaces_services")
upkeep = In("integration/workspaces/test_workspaces_upkeep")

MUTANTS: Final = (
    Mutant(
        "a quota is counted without waiting for who counts beside it",
        QUOTAS,
        "    return Tenant.objects.select_for_update(no_key=True).filter(tenant_id=tenant_id).first() is not None\n",
        "    return Tenant.objects.filter(tenant_id=tenant_id).first() is not None\n",
        services(
            "test_wsp_14_a_quota_holds_against_creations_at_once", "test_wsp_14_a_quota_holds_against_wakes_at_once"
        ),
    ),
    Mutant(
        "a deleted workspace whose volume is there takes no room",
        QUOTAS,
        "    return rows.filter(Q(deleted_at__isnull=True) | Exists(volume))\n",
        "    return rows.filter(Q(delete_requested_at__isnull=True))\n",
        services("test_wsp_14_a_deleted_workspace_counts_until_its_volume_is_gone"),
    ),
    Mutant(
        "what an archive holds is not counted when it is restored",
        QUOTAS,
        "    if used < most and used + comes <= most:\n",
        "    if used < most:\n",
        services("test_wsp_14_a_full_tenant_gets_no_further_volume_and_keeps_those_it_has"),
    ),
    Mutant(
        "a change overwrites one that came before it",
        SERVICES,
        "        if generation is not None and generation != workspace.generation:\n",
        "        if generation is not None and generation > workspace.generation:\n",
        api("test_wsp_12_from_its_creation_to_its_deletion_over_http"),
    ),
    Mutant(
        "a rest does not look whether it is used",
        SERVICES,
        "        if not same.select_for_update(no_key=True).exists() or not unused.select_for_update().exists():\n",
        "        if not same.select_for_update(no_key=True).exists():\n",
        services(
            "test_wsp_12_a_rest_gives_way_to_a_use_a_change_and_a_deletion",
            "test_wsp_12_a_use_that_commits_while_a_rest_is_decided_is_seen",
        ),
    ),
    Mutant(
        "out of ERROR a plain deletion gives the home up",
        SERVICES,
        "        if in_error and not (discard or workspace.discard):\n",
        "        if in_error and False:\n",
        api("test_wsp_10_out_of_error_only_an_explicit_discard_deletes"),
    ),
    Mutant(
        "a healthy workspace is deleted without an archive",
        SERVICES,
        "        if discard and not in_error and not workspace.discard:\n",
        "        if False:\n",
        api("test_wsp_10_out_of_error_only_an_explicit_discard_deletes"),
    ),
    Mutant(
        "a workspace is recovered from another's archive",
        SERVICES,
        "    if named is None or named.workspace_id != workspace.pk:\n",
        "    if named is None:\n",
        api("test_wsp_09_a_recovery_says_from_what_and_only_out_of_error"),
    ),
    Mutant(
        "another tenant's workspace is found by its id",
        SELECTORS,
        "    return rows if tenant_id is None else rows.filter(tenant_id=tenant_id)\n",
        "    return rows\n",
        api("test_wsp_12_anothers_and_a_purged_workspace_are_none"),
    ),
    Mutant(
        "a key that only reads is shown what an environment holds",
        DOCUMENTS,
        "        spec = workspace.spec if shows_values else",
        "        spec = workspace.spec if True else",
        api("test_wsp_12_values_of_the_environment_are_shown_to_keys_that_may_write_them"),
    ),
    Mutant(
        "an archive is collected though a restore has pinned it meanwhile",
        ARCHIVES,
        "        if not rows.filter(pk=archive_key, pinned_by__isnull=True).exists():\n",
        "        if False:\n",
        upkeep("test_wsp_08_a_pin_that_commits_while_it_is_collected_keeps_the_archive"),
    ),
    Mutant(
        "one refused archive counts as a bucket that is away",
        "ops/workspaces/upkeep/bucket_outages.py",
        "        if isinstance(answer, ClientError) and not outages.is_of_every_object(answer):\n",
        "        if answer is None:\n",
        (
            "tests/integration/workspaces/test_workspace_upkeep_poison.py::test_wsp_08_what_s3_refuses_is_one_rows_alone_and_shown",
        ),
    ),
    Mutant(
        "an archive is collected by the books alone",
        COLLECTING,
        "        if not _is_replaced(store, row):\n",
        "        if False:\n",
        upkeep("test_wsp_08_only_what_a_newer_archive_replaced_two_hours_ago_is_collected"),
    ),
    Mutant(
        "an archive of a workspace in ERROR is collected",
        COLLECTING,
        "        | unhealthy\n",
        "",
        upkeep("test_wsp_08_only_what_a_newer_archive_replaced_two_hours_ago_is_collected"),
    ),
    Mutant(
        "an object that is newer than its row is deleted",
        ORPHANS,
        "        if one.written_at > row.deleted_at:\n",
        "        if False:\n",
        upkeep("test_wsp_08_what_no_row_accounts_for_is_set_aside_or_told_and_never_deleted"),
    ),
    Mutant(
        "an upload that is under way is ended",
        ORPHANS,
        "        is_dead = age >= UPLOAD_LEFT_FOR and not _under_way().filter(pk=row.pk).exists()\n",
        "        is_dead = age >= UPLOAD_LEFT_FOR\n",
        upkeep("test_wsp_08_uploads_whose_operation_is_over_are_ended_and_those_under_way_are_left"),
    ),
    Mutant(
        "a workspace is purged though the bucket holds what came after these rows",
        PURGING,
        "    if unknown := _unknown(store, workspace_id):\n",
        "    if unknown := []:\n",
        upkeep("test_wsp_08_a_deletion_that_an_older_database_brings_back_purges_nothing_that_came_since"),
    ),
    Mutant(
        "an archive that was found counts as one that was made here",
        PURGING,
        "    ours = WorkspaceArchive.objects.filter(workspace_id=workspace_id, epoch__isnull=False)\n",
        "    ours = WorkspaceArchive.objects.filter(workspace_id=workspace_id)\n",
        upkeep("test_wsp_08_a_deletion_that_an_older_database_brings_back_purges_nothing_that_came_since"),
    ),
    Mutant(
        "archives count in no quota",
        SERVICES,
        "        fault = fault or quotas.archives_fault(tenant_id)\n",
        "",
        services("test_wsp_14_who_has_too_much_archived_makes_no_further_one_and_has_back_what_there_is"),
    ),
    Mutant(
        "the timeline of a workspace goes before its time",
        FORGETTING,
        "    rows = Workspace.objects.filter(purged_at__lt=cutoff)",
        "    rows = Workspace.objects.filter(purged_at__isnull=False)",
        upkeep("test_wsp_10_a_timeline_is_kept_as_long_as_its_workspace_and_thirty_days"),
    ),
    Mutant(
        "a workspace is purged before its deletion is done",
        PURGING,
        "        deleted_at__isnull=False,\n",
        "",
        upkeep("test_wsp_10_a_deleted_workspace_is_let_go_after_seven_days_and_not_before_it_is_gone"),
    ),
    Mutant(
        "nobody looks anew where a scrub has found a fault",
        SCRUBBING,
        "    transitions.doubt_workspace(row.workspace_id)\n",
        "",
        upkeep("test_wsp_07_a_scrub_finds_what_the_bucket_changed_or_lost"),
    ),
    Mutant(
        "an archive that was missed once is missed for good",
        ORPHANS,
        "        _look_again(tally, listed.objects, found)\n",
        "",
        upkeep("test_wsp_08_an_archive_that_was_missed_once_is_looked_at_anew_where_it_lies"),
    ),
    Mutant(
        "who has more files than can be measured fills the disk",
        OVERFULL,
        "sum(services.rest_overfull(one) for one in running)\n    if measured",
        "0\n    if measured",
        upkeep("test_wsp_14_a_home_of_too_many_files_to_measure_is_put_to_rest_where_the_disk_is_full"),
    ),
)
