"""Periodic work of workspaces; also by hand, `manage.py run_job workspace_gc`."""

from typing import Final

from dpp_project.jobs.registry import Job
from ops.workspaces.upkeep import collecting, forgetting, orphans, purging, resting, scrubbing

JOBS: Final = (
    Job(
        name="workspace_ttl",
        summary="Puts unused workspaces to rest: RUNNING to STANDBY, STANDBY to ARCHIVED, by their own TTLs.",
        every_seconds=60,
        run_once=resting.rest_idle_workspaces,
        preview=resting.preview_resting_workspaces,
    ),
    Job(
        name="workspace_gc",
        summary="Deletes archives that were superseded two hours ago, and those of purged workspaces.",
        every_seconds=300,
        run_once=collecting.collect_archives,
        preview=collecting.preview_collecting_archives,
    ),
    Job(
        name="workspace_orphans",
        summary="Finds archives and uploads that no row accounts for; sets them aside and tells of them.",
        every_seconds=300,
        run_once=orphans.look_for_orphans,
    ),
    Job(
        name="workspace_purge",
        summary="Lets go of workspaces that were deleted seven days ago, so that their archives are collected.",
        every_seconds=3_600,
        run_once=purging.purge_workspaces,
        preview=purging.preview_purging_workspaces,
    ),
    Job(
        name="workspace_retention",
        summary="Deletes the timelines of workspaces that were purged 30 days ago.",
        every_seconds=86_400,
        run_once=forgetting.forget_timelines,
        preview=forgetting.preview_forgetting_timelines,
    ),
    Job(
        name="workspace_scrub",
        summary="Reads the archives back that were not read for the longest time, and sets aside what is wrong.",
        every_seconds=86_400,
        run_once=scrubbing.scrub_archives,
        preview=scrubbing.preview_scrubbing_archives,
    ),
)
