"""What workspaces leave: rows stay for the books, timelines go, the collection deletes archives."""

from typing import Final

from dpp_project.constants import RETENTION_DAYS
from dpp_project.retention import DataKind

TIMELINES: Final = "workspace_events"

KINDS = (
    DataKind(
        name="workspaces",
        tables=("workspaces", "workspace_creations", "workspace_volumes", "workspace_access"),
        states="PENDING, RUNNING, STANDBY, ARCHIVED, ERROR, DELETED",
        made_by="their tenant; what was seen by the monitor, what was done by the reconciler",
        read_by="the loops, the tenant, operators",
        until="for good; a deleted one can be brought back for 7 days",
        why="The rows say which volumes and archives are whose: without them nothing may be deleted.",
        deleted_by="no part of the platform",
    ),
    DataKind(
        name=TIMELINES,
        tables=("workspace_events",),
        states="written; a trigger refuses a change",
        made_by="every act and look of the loops, API and operators",
        read_by="the tenant, operators",
        days=RETENTION_DAYS,
        until="after the workspace was purged",
        why="Until then its timeline says what became of a home.",
        deleted_by="the job `workspace_retention`",
    ),
    DataKind(
        name="workspace_drivers",
        tables=("workspace_drivers",),
        states="listed, frozen",
        made_by="the first process `workspaces` of a host",
        read_by="the loops, API",
        until="for good",
        why="Whose host a workspace's volume is on.",
        deleted_by="no part of the platform",
    ),
    DataKind(
        name="archives",
        tables=("workspace_archives",),
        archives=("",),
        states="UPLOADING, VERIFIED, SUPERSEDED, DELETED, QUARANTINED",
        made_by="the reconciler, as a workspace is put to rest or archived",
        read_by="a restore, the scrub",
        until="as long as it is the newest of its workspace; 2 hours after a newer one, 7 days after a deletion",
        why="Once the volume is gone it is the only copy of a home. No rule of the bucket expires one.",
        deleted_by="the jobs `workspace_gc` and `workspace_orphans`; a row stays, DELETED",
    ),
    DataKind(
        name="homes",
        files=("$DPP_WORKSPACES_DIR/volumes/*", "$DPP_WORKSPACES_DIR/containers/*", "$DPP_WORKSPACES_DIR/locks/*"),
        states="at work, at rest",
        made_by="the reconciler, by its driver of processes",
        read_by="what runs in the workspace",
        until="until its workspace is archived or deleted",
        why="A tenant's home, and the record of what runs in it.",
        deleted_by="the reconciler",
    ),
    DataKind(
        name="home_leftovers",
        files=("$DPP_WORKSPACES_DIR/doomed/*", "$DPP_WORKSPACES_DIR/drafts/*"),
        states="being removed, being made",
        made_by="the driver of processes",
        read_by="the driver of processes",
        until="until the verb that made it ends, or within two hours, by the sweeper",
        why="A volume is made and removed aside, so that a death leaves none half.",
        deleted_by="the driver of processes",
    ),
    DataKind(
        name="disk_sentinel",
        files=("$DPP_WORKSPACES_DIR/sentinel",),
        states="placed",
        made_by="the first start of a host",
        read_by="each look",
        until="as long as the disk is used",
        why="A folder without it is another installation's, or an empty mount.",
        deleted_by="no part of the platform",
    ),
)
