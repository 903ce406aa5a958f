"""Lets go of workspaces that were deleted seven days ago: from then on their archives are collected.

The row is locked as it is chosen again: an undeletion that committed before is seen, and one that comes after finds no
workspace. Its rows stay, for the books; one whose deletion is not done yet is left until it is.

The bucket is asked first: an archive that no row of ours has made says that the deletion was taken back in a time that
these rows, restored from a backup, know nothing of. Such a workspace is kept, for a person.
"""

import uuid
from datetime import datetime
from typing import Final

import structlog
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from dpp_project.jobs.registry import PassReport
from ops.workspaces import naming
from ops.workspaces.archive_store import configured
from ops.workspaces.archive_store.store import ArchiveStore
from ops.workspaces.models import Workspace, WorkspaceArchive
from ops.workspaces.rows import transitions
from ops.workspaces.states import UNDELETE_FOR, DesiredState, Operation
from ops.workspaces.upkeep.bucket_outages import bucket_outages_told_apart
from reaper import driver
from reaper.tally import Tally

LOOP: Final = "workspace_purge"
log = structlog.get_logger("dpp.workspaces")


class ArchivesAreUnknown(Exception):  # noqa: N818  a finding
    """The bucket holds archives of the workspace that no row of ours has made: it is kept, for a person."""


def purge_workspaces(*, now: datetime, limit: int) -> PassReport:
    """Ages go by the database's clock. A workspace that is kept, or that S3 refuses, is one row, and comes last."""
    del now
    tally, store = Tally(LOOP, limit=limit), configured.shared_archive_store()
    for workspace in driver.rows_left_behind(tally, _due().order_by("delete_requested_at")):
        with tally.each(workspace.pk), bucket_outages_told_apart():
            tally.changed += _purge(store, workspace.pk)
    return tally.report()


def preview_purging_workspaces(*, now: datetime, limit: int) -> PassReport:
    del now
    count = _due()[:limit].count()
    return PassReport(seen=count, changed=count)


def _purge(store: ArchiveStore, workspace_id: uuid.UUID) -> bool:
    if unknown := _unknown(store, workspace_id):
        log.warning("a workspace is not purged", workspace=str(workspace_id), unknown=unknown[0])
        raise ArchivesAreUnknown
    with transaction.atomic():
        if not _due().select_for_update(no_key=True).filter(pk=workspace_id).exists():
            return False
        return transitions.purge_workspace(workspace_id)


def _unknown(store: ArchiveStore, workspace_id: uuid.UUID) -> list[str]:
    """Archives of it that no row has, or that were found so before. One that we began has its epoch in its row."""
    ours = WorkspaceArchive.objects.filter(workspace_id=workspace_id, epoch__isnull=False)
    begun = set(ours.values_list("archive_key", flat=True))
    return sorted({one.key for one in store.list_archives(naming.archive_prefix(workspace_id))} - begun)


def _due() -> QuerySet[Workspace]:
    return Workspace.objects.filter(
        desired_state=DesiredState.DELETED,
        operation=Operation.NONE,
        delete_requested_at__lte=Now() - UNDELETE_FOR,
        deleted_at__isnull=False,
        purged_at__isnull=True,
    )
