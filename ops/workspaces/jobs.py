"""Periodic work of workspaces; also by hand, `manage.py run_job workspace_gc`."""

from typing import Final

from dpp_project.jobs.registry import Job
from ops.workspaces.upkeep import collecting, forgetting, orphans, purging, resting, scrubbing

JOBS: Final = (
    Job(
        name="workspace_ttl",
        summary="Puts unused workspaces to rest: RUNNING to STANDBY, STANDBY to ARCHIVED, by their own TTLs.",
        every_seconds=60,
        run_once=resting.run_once,
        preview=resting.preview,
    ),
    Job(
        name="workspace_gc",
        summary="Deletes archives that were superseded two hours ago, and those of purged workspaces.",
        every_seconds=300,
        run_once=collecting.run_once,
        preview=collecting.preview,
    ),
    Job(
        name="workspace_orphans",
        summary="Finds archives and uploads that no row accounts for; sets them aside and tells of them.",
        every_seconds=300,
        run_once=orphans.run_once,
    ),
    Job(
        name="workspace_purge",
        summary="Lets go of workspaces that were deleted seven days ago, so that their archives are collected.",
        every_seconds=3_600,
        run_once=purging.run_once,
        preview=purging.preview,
    ),
    Job(
        name="workspace_retention",
        summary="Deletes the timelines of workspaces that were purged 30 days ago.",
        every_seconds=86_400,
        run_once=forgetting.run_once,
        preview=forgetting.preview,
    ),
    Job(
        name="workspace_scrub",
        summary="Reads the archives back that were not read for the longest time, and sets aside what is wrong.",
        every_seconds=86_400,
        run_once=scrubbing.run_once,
        preview=scrubbing.preview,
    ),
)
