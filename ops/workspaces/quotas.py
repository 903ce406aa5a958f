"""How many workspaces a tenant may have, run and fill. Asked with the tenant's row locked, so that two cannot pass at
once; what counts is what was asked for, which the same transaction writes.
"""

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from dpp_project.process_env import ENV
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceVolume
from ops.workspaces.states import ArchiveState, DesiredState, VolumeState
from tenants.models import Tenant

MEGABYTE = 1_000_000
PRESENT = (VolumeState.FILLING, VolumeState.LIVE, VolumeState.DOOMED)


@dataclass(frozen=True, slots=True)
class Quotas:
    workspaces: int
    running: int
    megabytes: int


def current_quotas() -> Quotas:
    return Quotas(
        ENV.DPP_WORKSPACES_PER_TENANT, ENV.DPP_WORKSPACES_RUNNING_PER_TENANT, ENV.DPP_WORKSPACES_MB_PER_TENANT
    )


def lock_quotas(tenant_id: str) -> bool:
    """Until the transaction ends. False: there is no such tenant."""
    return Tenant.objects.select_for_update(no_key=True).filter(tenant_id=tenant_id).first() is not None


def another_fault(tenant_id: str) -> Refusal | None:
    most = current_quotas().workspaces
    if _present(tenant_id).count() < most:
        return None
    return _workspace_quota_reached(
        f"a tenant has at most {most} workspaces; delete one, which counts until its volume is gone"
    )


def running_fault(tenant_id: str) -> Refusal | None:
    most = current_quotas().running
    if _present(tenant_id).filter(desired_state=DesiredState.RUNNING).count() < most:
        return None
    return _workspace_quota_reached(f"at most {most} workspaces of a tenant run at once; put one into STANDBY first")


def space_fault(tenant_id: str, workspace: Workspace | None = None) -> Refusal | None:
    """Whether a further volume may be made: none is, for a workspace that has one already."""
    if workspace is not None and workspace.volumes.filter(state__in=PRESENT).exists():
        return None
    comes = 0
    if workspace is not None and workspace.archive_key is not None:
        comes = (
            WorkspaceArchive.objects.filter(pk=workspace.archive_key).values_list("tar_bytes", flat=True).first() or 0
        )
    most = current_quotas().megabytes * MEGABYTE
    used = used_bytes(tenant_id)
    if used < most and used + comes <= most:
        return None
    return _workspace_quota_reached(
        f"the volumes hold {used // MEGABYTE} MB, this one would add {comes // MEGABYTE} MB, and {most // MEGABYTE} MB"
        " is the most; archive a workspace, or delete files in one"
    )


def archives_fault(tenant_id: str) -> Refusal | None:
    """Whether a further workspace may be made. What is archived is never refused its way back, and no home its archive:
    so this bounds what making, filling, archiving and deleting again and again would heap up in the bucket.
    """
    most = current_quotas().megabytes * MEGABYTE
    rows = WorkspaceArchive.objects.filter(workspace__tenant_id=tenant_id).exclude(state=ArchiveState.DELETED)
    kept = rows.aggregate(all=Coalesce(Sum("object_bytes"), 0))["all"]
    if kept < most:
        return None
    return _workspace_quota_reached(
        f"the archives hold {kept // MEGABYTE} MB, and {most // MEGABYTE} MB is the most; those of a deleted workspace"
        " go seven days after its deletion"
    )


def used_bytes(tenant_id: str) -> int:
    """Of the tenant's volumes, as they were measured last."""
    rows = WorkspaceVolume.objects.filter(workspace__tenant_id=tenant_id, state__in=PRESENT)
    found: int = rows.aggregate(all=Coalesce(Sum("used_bytes"), 0))["all"]
    return found


def _present(tenant_id: str) -> QuerySet[Workspace]:
    """Those that are not deleted, and those that still take room."""
    volume = WorkspaceVolume.objects.filter(workspace=OuterRef("pk"), state__in=PRESENT)
    rows = Workspace.objects.filter(tenant_id=tenant_id, purged_at__isnull=True)
    return rows.filter(Q(deleted_at__isnull=True) | Exists(volume))


def _workspace_quota_reached(detail: str) -> Refusal:
    return Refusal(ReasonCode.WORKSPACE_QUOTA_REACHED, detail)
