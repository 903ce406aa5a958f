"""Workspaces, their volumes and archives, their timeline, and the drivers that hold them.

Each column of `workspaces` has one writer (states.Writer), and a trigger refuses the others. Nothing here is proof that
a container or a volume exists: the conditions are what the monitor saw last, `observed_at` says when.
"""

import uuid
from enum import StrEnum

from django.contrib.postgres.functions import TransactionNow
from django.db import models
from django.db.models import Q

from ops.workspaces.states import ArchiveState, DesiredState, Operation, Phase, VolumeState
from tenants.models import Tenant


def _workspace_enum_values(names: type[StrEnum]) -> list[str]:
    return [one.value for one in names]


def _choices(names: type[StrEnum]) -> list[tuple[str, str]]:
    return [(value, value) for value in _workspace_enum_values(names)]


class Workspace(models.Model):
    """A tenant's home folder and the container that works in it."""

    workspace_id = models.UUIDField(primary_key=True, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)

    # The API's.
    name = models.TextField()
    spec = models.JSONField(default=dict)
    generation = models.BigIntegerField(default=1, db_default=1)
    """Grows with each change a tenant or operator makes; what a PATCH names in If-Match."""
    desired_state = models.TextField(choices=_choices(DesiredState), default=DesiredState.RUNNING.value)
    standby_ttl_seconds = models.PositiveIntegerField(null=True)
    archive_ttl_seconds = models.PositiveIntegerField(null=True)
    delete_requested_at = models.DateTimeField(null=True)
    discard = models.BooleanField(default=False, db_default=False)
    """The deletion may do without an archive: said explicitly, and only from ERROR."""
    recover_generation = models.BigIntegerField(default=0, db_default=0)
    recover_from = models.TextField(null=True)  # noqa: DJ001  absent is not empty

    # The monitor's.
    conditions = models.JSONField(default=dict, db_default={})
    phase = models.TextField(choices=_choices(Phase), default=Phase.PENDING.value, db_default=Phase.PENDING.value)
    observed_at = models.DateTimeField(null=True)
    observed_rev = models.BigIntegerField(default=-1, db_default=-1)
    observed_generation = models.BigIntegerField(default=0, db_default=0)

    # The reconciler's.
    driver_id = models.TextField(null=True)  # noqa: DJ001  absent: no driver has taken it yet
    operation = models.TextField(
        choices=_choices(Operation), default=Operation.NONE.value, db_default=Operation.NONE.value
    )
    op_id = models.UUIDField(null=True)
    op_attempt = models.PositiveIntegerField(default=0, db_default=0)
    op_step = models.TextField(default="", db_default="", blank=True)
    rev = models.BigIntegerField(default=0, db_default=0)
    """Grows at the beginning of an operation and after each of its effects; only an observation that read it, or a
    later one, ends the operation."""
    op_started_at = models.DateTimeField(null=True)
    op_lease_until = models.DateTimeField(null=True)
    op_progress_bytes = models.BigIntegerField(default=0, db_default=0)
    archive_key = models.TextField(null=True)  # noqa: DJ001  absent is not empty
    home_ctx = models.JSONField(default=dict, db_default={})
    """`volume`, `epoch`, `restore_marker`: which volume is the home, and which archive it was filled from."""
    error_count = models.PositiveIntegerField(default=0, db_default=0)
    error_info = models.JSONField(null=True)
    reconcile_failure_count = models.PositiveIntegerField(default=0, db_default=0)
    next_reconcile_at = models.DateTimeField(null=True)
    recovered_generation = models.BigIntegerField(default=0, db_default=0)
    deleted_at = models.DateTimeField(null=True)
    purged_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "workspaces"
        ordering = ["-created_at", "-workspace_id"]
        indexes = [
            models.Index(fields=["tenant", "-workspace_id"], name="idx_workspaces_tenant"),
            models.Index(fields=["driver_id", "observed_at"], name="idx_workspaces_looked_at"),
            models.Index(
                fields=["driver_id", "op_lease_until"], name="idx_workspaces_at_work", condition=~Q(operation="NONE")
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"], name="workspaces_name_unique", condition=Q(delete_requested_at__isnull=True)
            ),
            models.CheckConstraint(
                condition=Q(desired_state__in=_workspace_enum_values(DesiredState)),
                name="workspaces_desired_state_known",
            ),
            models.CheckConstraint(condition=Q(phase__in=_workspace_enum_values(Phase)), name="workspaces_phase_known"),
            models.CheckConstraint(
                condition=Q(operation__in=_workspace_enum_values(Operation)), name="workspaces_operation_known"
            ),
            models.CheckConstraint(
                condition=Q(operation="NONE")
                | Q(op_id__isnull=False, op_started_at__isnull=False, op_lease_until__isnull=False, op_attempt__gte=1),
                name="workspaces_operation_has_a_lease",
            ),
            models.CheckConstraint(
                condition=Q(desired_state="DELETED", delete_requested_at__isnull=False)
                | ~Q(desired_state="DELETED") & Q(delete_requested_at__isnull=True, discard=False),
                name="workspaces_deletion_is_asked_for",
            ),
            models.CheckConstraint(
                condition=Q(purged_at__isnull=True) | Q(deleted_at__isnull=False), name="workspaces_purged_is_deleted"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.workspace_id}"


class WorkspaceCreation(models.Model):
    """Which request made a workspace, by the key that its caller gave: asking again makes no second one."""

    workspace = models.OneToOneField(Workspace, on_delete=models.PROTECT, primary_key=True, related_name="creation")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    idempotency_key = models.TextField()
    asked_sha256 = models.TextField()
    """Of the request, which may hold secrets of the tenant's."""

    class Meta:
        db_table = "workspace_creations"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "idempotency_key"], name="workspace_creations_key_unique"),
        ]

    def __str__(self) -> str:
        return self.idempotency_key


class WorkspaceVolume(models.Model):
    """Every volume that was ever to be: its row is committed before it is made, and stays when it is gone."""

    volume_name = models.TextField(primary_key=True)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="volumes", db_index=False)
    driver_id = models.TextField()
    op_id = models.UUIDField()
    attempt = models.PositiveIntegerField()
    epoch = models.PositiveIntegerField()
    """Which of the workspace's volumes this is; an archive says which one it was made from."""
    state = models.TextField(choices=_choices(VolumeState), default=VolumeState.FILLING.value)
    starts = models.PositiveIntegerField(null=True, default=0, db_default=0)
    """How often it had been started when it was doomed: one that was started more often is not deleted. NULL: whatever
    it was used for, said by a person."""
    filled_from = models.TextField(null=True)  # noqa: DJ001  absent: it began empty
    used_bytes = models.BigIntegerField(null=True)
    """As it was measured last; absent: not yet."""
    measured_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    changed_at = models.DateTimeField(db_default=TransactionNow())

    class Meta:
        db_table = "workspace_volumes"
        indexes = [
            models.Index(fields=["driver_id"], name="idx_workspace_volumes_driver", condition=~Q(state="GONE")),
        ]
        constraints = [
            models.UniqueConstraint(fields=["workspace", "epoch"], name="workspace_volumes_epoch_unique"),
            models.UniqueConstraint(
                fields=["workspace"], name="workspace_volumes_one_live", condition=Q(state=VolumeState.LIVE.value)
            ),
            models.CheckConstraint(
                condition=Q(state__in=_workspace_enum_values(VolumeState)), name="workspace_volumes_state_known"
            ),
        ]

    def __str__(self) -> str:
        return self.volume_name


class WorkspaceArchive(models.Model):
    """Every archive that was ever begun; an upload's row is committed before its first byte."""

    archive_key = models.TextField(primary_key=True)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="archives", db_index=False)
    op_id = models.UUIDField()
    epoch = models.PositiveIntegerField(null=True)
    token = models.TextField()
    """In the object's metadata: an object with another one is not of this operation."""
    state = models.TextField(choices=_choices(ArchiveState), default=ArchiveState.UPLOADING.value)
    upload_id = models.TextField(null=True)  # noqa: DJ001  absent: none is open
    object_bytes = models.BigIntegerField(null=True)
    tar_bytes = models.BigIntegerField(null=True)
    members = models.BigIntegerField(null=True)
    sha256 = models.TextField(null=True)  # noqa: DJ001  absent until it is read back
    pinned_by = models.UUIDField(null=True)
    """The operation that restores from it: it is not collected meanwhile."""
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    verified_at = models.DateTimeField(null=True)
    superseded_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    scrubbed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "workspace_archives"
        indexes = [
            models.Index(fields=["workspace", "-created_at"], name="idx_workspace_archives_newest"),
            models.Index(fields=["superseded_at"], name="idx_workspace_archives_gc", condition=Q(state="SUPERSEDED")),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=_workspace_enum_values(ArchiveState)), name="workspace_archives_state_known"
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["VERIFIED", "SUPERSEDED"])
                | Q(verified_at__isnull=False, sha256__isnull=False, object_bytes__isnull=False),
                name="workspace_archives_verified_whole",
            ),
            models.CheckConstraint(
                condition=~Q(state="SUPERSEDED") | Q(superseded_at__isnull=False),
                name="workspace_archives_superseded_when",
            ),
        ]

    def __str__(self) -> str:
        return self.archive_key


class WorkspaceAccess(models.Model):
    """When a workspace was last used: an exec, a command, bytes through the proxy. A look or a probe is no use.

    Apart from the workspace's row, which the loops rewrite: this one is hot.
    """

    workspace = models.OneToOneField(Workspace, on_delete=models.CASCADE, primary_key=True, related_name="access")
    last_access_at = models.DateTimeField(db_default=TransactionNow())

    class Meta:
        db_table = "workspace_access"

    def __str__(self) -> str:
        return f"{self.pk} {self.last_access_at}"


class WorkspaceEvent(models.Model):
    """The timeline: one line for each thing that was asked, begun, done, observed or refused. Never changed."""

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="events", db_index=False)
    at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    actor = models.TextField()
    kind = models.TextField()
    detail = models.JSONField(default=dict)

    class Meta:
        db_table = "workspace_events"
        indexes = [models.Index(fields=["workspace", "-id"], name="idx_workspace_events_newest")]

    def __str__(self) -> str:
        return f"{self.kind} by {self.actor}"


class WorkspaceDriver(models.Model):
    """One host or daemon that holds workspaces. Only its own loops look at and act on its rows."""

    driver_id = models.TextField(primary_key=True)
    kind = models.TextField()
    sentinel = models.UUIDField(default=uuid.uuid4)
    """The token of its sentinel volume: a list without it is of another disk."""
    sentinel_placed_at = models.DateTimeField(null=True)
    listed_at = models.DateTimeField(null=True)
    address = models.TextField(default="", db_default="", blank=True)
    """Where the process that holds them listens, as the one of them that told it last has said."""
    frozen_at = models.DateTimeField(null=True)
    """Too much vanished at once: observed, and nothing is done until an operator releases it."""
    frozen_reason = models.TextField(default="", db_default="", blank=True)
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)

    class Meta:
        db_table = "workspace_drivers"

    def __str__(self) -> str:
        return self.driver_id
