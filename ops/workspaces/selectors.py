"""Every query of workspaces that people ask for. `tenant_id` names whose; None is an operator, who sees all.

A purged workspace is answered as one that never was, to its tenant and to operators alike: its rows stay for the books.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from dpp_project.http.cursors import Cursor
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceDriver, WorkspaceEvent
from ops.workspaces.states import Phase


@dataclass(frozen=True, slots=True)
class WantedWorkspaces:
    tenant_id: str | None = None
    phase: Phase | None = None
    name: str | None = None
    deleted: bool = False
    """Also those whose deletion was asked for."""


@dataclass(frozen=True, slots=True)
class WorkspacePage:
    workspaces: list[Workspace]
    next: tuple[datetime, uuid.UUID] | None


@dataclass(frozen=True, slots=True)
class EventPage:
    events: list[WorkspaceEvent]
    next: int | None


def workspaces_of(tenant_id: str | None) -> QuerySet[Workspace]:
    rows = Workspace.objects.filter(purged_at__isnull=True)
    return rows if tenant_id is None else rows.filter(tenant_id=tenant_id)


def workspace_of(tenant_id: str | None, workspace_id: uuid.UUID) -> Workspace | None:
    return workspaces_of(tenant_id).filter(workspace_id=workspace_id).select_related("access").first()


def list_workspaces(wanted: WantedWorkspaces, *, after: Cursor | None = None, limit: int) -> WorkspacePage:
    """The newest first. Ids are in order of time."""
    rows = workspaces_of(wanted.tenant_id).select_related("access")
    if wanted.phase is not None:
        rows = rows.filter(phase=wanted.phase)
    if wanted.name is not None:
        rows = rows.filter(name=wanted.name)
    if not wanted.deleted and wanted.phase != Phase.DELETED:
        rows = rows.filter(delete_requested_at__isnull=True)
    if after is not None:
        rows = rows.filter(workspace_id__lt=after.id)
    found = list(rows.order_by("-workspace_id")[: limit + 1])
    more = len(found) > limit
    last = found[limit - 1] if more else None
    return WorkspacePage(found[:limit], None if last is None else (last.created_at, last.workspace_id))


def archives_of(workspace: Workspace, *, limit: int) -> list[WorkspaceArchive]:
    """The newest first, those collected left out."""
    rows = workspace.archives.exclude(state="DELETED").order_by("-created_at", "-archive_key")
    return list(rows[:limit])


def events_of(workspace: Workspace, *, below: int | None, limit: int) -> EventPage:
    """The newest first."""
    rows = workspace.events.order_by("-id")
    if below is not None:
        rows = rows.filter(Q(id__lt=below))
    found = list(rows[: limit + 1])
    more = len(found) > limit
    return EventPage(found[:limit], found[limit - 1].id if more else None)


def list_drivers() -> list[WorkspaceDriver]:
    return list(WorkspaceDriver.objects.order_by("driver_id"))
