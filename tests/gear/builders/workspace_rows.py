"""Workspaces as rows: made by the services, seen and worked on by writers who stand in for the loops."""

import secrets
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from dpp_project import clock
from ops.workspaces import naming, offer, services
from ops.workspaces.models import Workspace, WorkspaceAccess, WorkspaceArchive, WorkspaceDriver, WorkspaceVolume
from ops.workspaces.offer import Offer
from ops.workspaces.rows import writing
from ops.workspaces.specs import SpecDocument
from ops.workspaces.states import ArchiveState, Phase, VolumeState, Writer
from tenants.models import Tenant

DRIVER: str = "local"


@pytest.fixture
def sold(monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Workspaces of processes are sold by this process."""
    here = Offer("process")
    monkeypatch.setattr(offer, "current_workspace_offer", lambda: here)
    return here


def a_workspace(tenant: Tenant, **asked: Any) -> Workspace:
    facts: dict[str, Any] = {"name": f"w-{secrets.token_hex(4)}", "spec": SpecDocument()}
    new = services.NewWorkspace(**(facts | asked))
    made = services.create_workspace(tenant_id=tenant.tenant_id, asked=new, actor="owner:dpp_test")
    assert isinstance(made, services.Made), made
    return made.workspace


def a_driver(driver_id: str = DRIVER, **columns: Any) -> WorkspaceDriver:
    driver, _ = WorkspaceDriver.objects.update_or_create(driver_id=driver_id, defaults={"kind": "process"} | columns)
    return driver


def seen(workspace: Workspace, phase: Phase, **columns: Any) -> Workspace:
    """As the monitor saw it."""
    healthy = {"status": phase != Phase.ERROR, "reason": "VolumeLost" if phase == Phase.ERROR else "Healthy"}
    facts: dict[str, Any] = {
        "phase": phase.value,
        "conditions": {"policy.healthy": healthy | {"message": "", "last_transition_time": None}},
        "observed_at": clock.now(),
        "observed_generation": workspace.generation,
    }
    return written(workspace, Writer.MONITOR, **(facts | columns))


def worked_on(workspace: Workspace, **columns: Any) -> Workspace:
    """As the reconciler left it."""
    a_driver()
    return written(workspace, Writer.RECONCILER, **({"driver_id": DRIVER} | columns))


def written(workspace: Workspace, writer: Writer, **columns: Any) -> Workspace:
    with writing.writing_as(writer):
        Workspace.objects.filter(pk=workspace.pk).update(**columns)
    return Workspace.objects.get(pk=workspace.pk)


def unused(workspace: Workspace, *, seconds: int) -> None:
    """For so long, by the database's clock."""
    WorkspaceAccess.objects.filter(pk=workspace.pk).update(last_access_at=Now() - timedelta(seconds=seconds))


def a_volume(
    workspace: Workspace, state: VolumeState = VolumeState.LIVE, *, epoch: int = 1, **columns: Any
) -> WorkspaceVolume:
    op_id = uuid.uuid4()
    return WorkspaceVolume.objects.create(
        volume_name=naming.volume_name(workspace.pk, op_id=op_id, attempt=1),
        workspace=workspace,
        driver_id=DRIVER,
        op_id=op_id,
        attempt=1,
        epoch=epoch,
        state=state,
        **columns,
    )


def an_archive(
    workspace: Workspace, state: ArchiveState = ArchiveState.VERIFIED, *, hours_old: float = 0, **columns: Any
) -> WorkspaceArchive:
    op_id, at = uuid.uuid4(), clock.now() - timedelta(hours=hours_old)
    facts: dict[str, Any] = {
        "archive_key": naming.archive_key(workspace.pk, op_id=op_id),
        "workspace": workspace,
        "op_id": op_id,
        "epoch": 1,
        "token": op_id.hex,
        "state": state,
        "object_bytes": 100,
        "tar_bytes": 1_000,
        "members": 3,
        "sha256": "0" * 64,
        "verified_at": at,
        "superseded_at": at if state == ArchiveState.SUPERSEDED else None,
    }
    return WorkspaceArchive.objects.create(**(facts | columns))


def someone_waits_for_a_row() -> bool:
    """Postgres shows a transaction its first look again, unless it is told to forget it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return bool(cursor.fetchone()[0])


def one_for(act: str, tenant: Tenant) -> Workspace:
    """One to which it can be done, by the end of the act's address."""
    workspace = a_workspace(tenant)
    if act == "undelete":
        services.delete_workspace(workspace_id=workspace.pk, actor="owner:dpp_test")
    if act == "recover":
        seen(workspace, Phase.ERROR)
    an_archive(workspace)
    return workspace
