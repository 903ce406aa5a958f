"""What people, and the platform for them, ask of workspaces: the only writer of the API's columns.

Each act is one transaction under two row locks, its tenant's before the workspace's; audit trail and timeline are
written with it, the loops get a hint after it. A death before the commit leaves nothing, one after it everything: the
loops find in the rows what is asked for.

Nothing is done here to a container, a volume or an archive. What is asked for is a level; how it is come by, step by
step, is the reconciler's.
"""

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final

import structlog
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from dpp_project import clock, uuid7
from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from ops.workspaces import hints, naming, offer, quotas, selectors
from ops.workspaces.models import (
    Workspace,
    WorkspaceAccess,
    WorkspaceArchive,
    WorkspaceCreation,
    WorkspaceDriver,
)
from ops.workspaces.rows import timeline
from ops.workspaces.rows.writing import writing_as
from ops.workspaces.specs import SpecDocument, image_fault
from ops.workspaces.states import UNDELETE_FOR, ArchiveState, DesiredState, Operation, Phase, Writer

log = structlog.get_logger("dpp.workspaces")

STANDBY_TTL_DEFAULT: Final = 3_600
ARCHIVE_TTL_DEFAULT: Final = 7 * 86_400
TOUCH_EVERY: Final = timedelta(seconds=10)
"""Use is written down no more often: the shortest TTL is six times as long."""
WORKSPACE: Final = "workspace_id"
FROM_ARCHIVE: Final = "archive:"
EMPTY: Final = "empty"
RECHECK: Final = "recheck"
_UP: Final = (DesiredState.RUNNING, DesiredState.STANDBY)


@dataclass(frozen=True, slots=True)
class Made:
    workspace: Workspace
    is_new: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorkspace:
    """What a creation asks for."""

    name: str
    spec: SpecDocument
    desired_state: DesiredState = DesiredState.RUNNING
    standby_ttl_seconds: int | None = STANDBY_TTL_DEFAULT
    archive_ttl_seconds: int | None = ARCHIVE_TTL_DEFAULT

    def sha256(self) -> str:
        asked = self.spec.model_dump(mode="json"), self.name, self.standby_ttl_seconds, self.archive_ttl_seconds
        return hashlib.sha256(json.dumps([*asked, self.desired_state.value], sort_keys=True).encode()).hexdigest()


def create_workspace(
    *, tenant_id: str, asked: NewWorkspace, actor: str, idempotency_key: str | None = None
) -> Made | Refusal:
    """A new workspace, of which nothing is there yet. Under a key that stands already, the workspace it made."""
    stored = _stored_spec(asked.spec)
    with writing_as(Writer.API):
        if not quotas.lock_quotas(tenant_id):
            return Refusal(ReasonCode.NOT_FOUND, f"there is no tenant {tenant_id}; see list_tenants", "tenant_id")
        if (before := _made_before(tenant_id, idempotency_key, asked)) is not None:
            return before
        if isinstance(stored, Refusal):
            return stored
        fault = _name_fault(tenant_id, asked.name) or quotas.another_fault(tenant_id) or quotas.space_fault(tenant_id)
        fault = fault or quotas.archives_fault(tenant_id)
        if asked.desired_state == DesiredState.RUNNING:
            fault = fault or quotas.running_fault(tenant_id)
        if fault is not None:
            return fault
        workspace = Workspace.objects.create(
            workspace_id=uuid7.new_uuid7(),
            tenant_id=tenant_id,
            name=asked.name,
            spec=stored,
            desired_state=asked.desired_state,
            standby_ttl_seconds=asked.standby_ttl_seconds,
            archive_ttl_seconds=asked.archive_ttl_seconds,
        )
        if idempotency_key is not None:
            WorkspaceCreation.objects.create(
                workspace=workspace, tenant_id=tenant_id, idempotency_key=idempotency_key, asked_sha256=asked.sha256()
            )
        _used(workspace.pk)
        _record_workspace_act(
            "workspace created",
            "Created",
            workspace,
            actor,
            after={"name": asked.name, "spec": _spec_without_env_values(stored)},
        )
    return Made(_again(workspace.pk))


def _made_before(tenant_id: str, key: str | None, asked: NewWorkspace) -> Made | Refusal | None:
    if key is None:
        return None
    creations = WorkspaceCreation.objects.filter(tenant_id=tenant_id, idempotency_key=key)
    found = creations.select_related("workspace").first()
    if found is None:
        return None
    if found.asked_sha256 != asked.sha256():
        return Refusal(ReasonCode.IDEMPOTENCY_CONFLICT, "it stands for another workspace", "idempotency_key")
    if found.workspace.delete_requested_at is not None:
        return Refusal(ReasonCode.CONFLICT, "the workspace that this Idempotency-Key made is deleted; use another key")
    return Made(found.workspace, is_new=False)


def change_workspace(
    *,
    workspace_id: uuid.UUID,
    actor: str,
    wanted: Mapping[str, Any],
    tenant_id: str | None = None,
    generation: int | None = None,
) -> Workspace | Refusal:
    """`wanted` holds what shall differ, of name, spec, desired_state and the two TTLs. What stands so already is left.

    `generation` is the one that the caller has read, None: whatever it is. To ask for a state counts as use.
    """
    stored = _stored_spec(wanted["spec"]) if "spec" in wanted else None
    if isinstance(stored, Refusal):
        return stored
    asked = dict(wanted) | ({} if stored is None else {"spec": stored})
    with writing_as(Writer.API):
        workspace = _locked(tenant_id, workspace_id)
        if workspace is None:
            return _no_workspace()
        if generation is not None and generation != workspace.generation:
            detail = f"it is at generation {workspace.generation}; read it again before you change it"
            return Refusal(ReasonCode.PRECONDITION_FAILED, detail, "generation")
        fault = _change_fault(workspace, asked)
        if fault is not None:
            return fault
        before, after = trail.differing_values({name: getattr(workspace, name) for name in asked}, asked)
        if after:
            _write_next_generation(workspace.pk, **after)
            _record_workspace_act(
                "workspace changed", "Changed", workspace, actor, before=_shown_of(before), after=_shown_of(after)
            )
        if "desired_state" in asked:
            _used(workspace.pk)
        return _again(workspace.pk)


def _change_fault(workspace: Workspace, asked: Mapping[str, Any]) -> Refusal | None:
    if workspace.delete_requested_at is not None:
        return Refusal(ReasonCode.CONFLICT, "it is being deleted; undelete it first", WORKSPACE)
    fault = None
    if asked.get("name", workspace.name) != workspace.name:
        fault = _name_fault(workspace.tenant_id, asked["name"])
    wanted = asked.get("desired_state", workspace.desired_state)
    return fault if fault is not None or wanted == workspace.desired_state else _room_fault(workspace, wanted)


def _room_fault(workspace: Workspace, wanted: str) -> Refusal | None:
    """Whether there is room for it at this level. The tenant's row is locked."""
    if wanted not in _UP:
        return None
    fault = quotas.running_fault(workspace.tenant_id) if wanted == DesiredState.RUNNING else None
    return fault or quotas.space_fault(workspace.tenant_id, workspace)


def wake_workspace(*, workspace_id: uuid.UUID, actor: str, tenant_id: str | None = None) -> Workspace | Refusal:
    """For one who uses it: it is asked to run, if it is not. Fifty at once make one change."""
    wanted = {"desired_state": DesiredState.RUNNING.value}
    return change_workspace(workspace_id=workspace_id, actor=actor, wanted=wanted, tenant_id=tenant_id)


def touch_workspace(workspace_id: uuid.UUID) -> None:
    """It is used right now: an exec, a command, bytes through the proxy. A look, a probe and a poll are no use.

    By the database's clock, as its age is: a host whose own is wrong puts nothing to rest too soon.
    """
    old = WorkspaceAccess.objects.filter(workspace_id=workspace_id, last_access_at__lt=Now() - TOUCH_EVERY)
    old.update(last_access_at=Now())


def delete_workspace(
    *, workspace_id: uuid.UUID, actor: str, discard: bool = False, tenant_id: str | None = None
) -> Workspace | Refusal:
    """It steps down, is archived, and is then deleted; its archive stays for `UNDELETE_FOR`. Safe to repeat.

    Out of ERROR nothing can be archived: it goes with what was not archived, where `discard` says so.
    """
    with writing_as(Writer.API):
        workspace = _locked(tenant_id, workspace_id)
        if workspace is None:
            return _no_workspace()
        in_error = is_in_error(workspace)
        if discard and not in_error and not workspace.discard:
            return Refusal(
                ReasonCode.CONFLICT,
                f"it is {workspace.phase}, and only a workspace in ERROR is deleted unarchived; leave discard out",
                "discard",
            )
        if in_error and not (discard or workspace.discard):
            return Refusal(
                ReasonCode.CONFLICT,
                "it is in ERROR and cannot be archived; recover it first, or give up what is not archived by"
                " discard=true",
                "discard",
            )
        if workspace.delete_requested_at is None or (discard and not workspace.discard):
            asked_at = workspace.delete_requested_at or clock.now()
            _write_next_generation(
                workspace.pk, desired_state=DesiredState.DELETED, delete_requested_at=asked_at, discard=discard
            )
            after = {"desired_state": DesiredState.DELETED.value, "discard": discard}
            before = {"desired_state": workspace.desired_state, "discard": workspace.discard}
            _record_workspace_act("workspace deleted", "DeleteAsked", workspace, actor, before=before, after=after)
        return _again(workspace.pk)


def undelete_workspace(
    *,
    workspace_id: uuid.UUID,
    actor: str,
    desired_state: DesiredState = DesiredState.STANDBY,
    name: str | None = None,
    tenant_id: str | None = None,
) -> Workspace | Refusal:
    """Within seven days of its deletion, from its archive or, where it is not archived yet, as it stands."""
    with writing_as(Writer.API):
        workspace = _locked(tenant_id, workspace_id)
        if workspace is None:
            return _no_workspace()
        asked_at = workspace.delete_requested_at
        if asked_at is None:
            return Refusal(ReasonCode.CONFLICT, "it is not deleted", WORKSPACE)
        if clock.now() >= asked_at + UNDELETE_FOR:
            return Refusal(ReasonCode.CONFLICT, f"it was deleted more than {UNDELETE_FOR.days} days ago", WORKSPACE)
        called = name or workspace.name
        fault = _name_fault(workspace.tenant_id, called) or _room_fault(workspace, desired_state)
        if workspace.deleted_at is not None:
            fault = fault or quotas.another_fault(workspace.tenant_id)
        if fault is not None:
            return fault
        after = {"desired_state": desired_state.value, "name": called}
        _write_next_generation(workspace.pk, **after, delete_requested_at=None, discard=False)
        _used(workspace.pk)
        before = {"desired_state": DesiredState.DELETED.value, "name": workspace.name}
        _record_workspace_act("workspace undeleted", "Undeleted", workspace, actor, before=before, after=after)
        return _again(workspace.pk)


def recover_workspace(
    *, workspace_id: uuid.UUID, actor: str, source: str, tenant_id: str | None = None
) -> Workspace | Refusal:
    """Out of ERROR, once a person has seen why: from one of its archives, empty, or as it is found when looked at anew.

    An archive may be one that was set aside, or that no row knows: it is read back whole before it counts.
    The loops take it from here: `recover_generation` says that it was asked, `recovered_generation` that it was done.
    """
    with writing_as(Writer.API):
        workspace = _locked(tenant_id, workspace_id)
        if workspace is None:
            return _no_workspace()
        fault = _source_fault(workspace, source)
        if fault is not None:
            return fault
        if not is_in_error(workspace):
            return Refusal(ReasonCode.CONFLICT, f"it is {workspace.phase}, there is nothing to recover", WORKSPACE)
        if workspace.delete_requested_at is not None:
            return Refusal(ReasonCode.CONFLICT, "it is being deleted; undelete it first", WORKSPACE)
        _write_next_generation(workspace.pk, recover_generation=F("recover_generation") + 1, recover_from=source)
        _used(workspace.pk)
        before = {"phase": workspace.phase, "reason": error_reason(workspace)}
        _record_workspace_act(
            "workspace recovered", "RecoverAsked", workspace, actor, before=before, after={"from": source}
        )
        return _again(workspace.pk)


def _source_fault(workspace: Workspace, source: str) -> Refusal | None:
    if source in {EMPTY, RECHECK}:
        return None
    if not source.startswith(FROM_ARCHIVE):
        return invalid("from", f"must be {RECHECK}, {EMPTY}, or {FROM_ARCHIVE} followed by the key of an archive")
    key = source.removeprefix(FROM_ARCHIVE)
    named = naming.read_archive_key(key)
    if named is None or named.workspace_id != workspace.pk:
        return invalid("from", "its key is none of this workspace's; its archives are listed beside it")
    if WorkspaceArchive.objects.filter(pk=key, state=ArchiveState.DELETED).exists():
        return invalid("from", "this archive was deleted; its archives are listed beside it")
    return None


def rest_workspace(workspace: Workspace, *, to: DesiredState, unused_for: timedelta) -> bool:
    """A TTL's own step down. False: it was used, changed or deleted meanwhile, and stays as it is.

    The row of its use is locked as it is read: a use that commits before is seen, one that comes after finds it asked
    to rest, and wakes it.
    """
    with writing_as(Writer.API):
        same = Workspace.objects.filter(
            pk=workspace.pk, generation=workspace.generation, desired_state=workspace.desired_state
        )
        unused = WorkspaceAccess.objects.filter(workspace_id=workspace.pk, last_access_at__lt=Now() - unused_for)
        if not same.select_for_update(no_key=True).exists() or not unused.select_for_update().exists():
            return False
        _write_next_generation(workspace.pk, desired_state=to)
        said = {"desired_state": to.value, "unused_seconds": int(unused_for.total_seconds())}
        _note_act_in_timeline("workspace rested", workspace, "Rested", "ttl", said)
    return True


def rest_overfull(workspace: Workspace) -> bool:
    """Put to rest for what its tenant's homes hold. False: it was changed or deleted meanwhile."""
    with writing_as(Writer.API):
        same = Workspace.objects.filter(pk=workspace.pk, generation=workspace.generation)
        if not same.select_for_update(no_key=True).exists():
            return False
        _write_next_generation(workspace.pk, desired_state=DesiredState.STANDBY)
        said = {"desired_state": DesiredState.STANDBY.value, "used_bytes": quotas.used_bytes(workspace.tenant_id)}
        _note_act_in_timeline("workspace rested", workspace, "Overfull", "quota", said)
    return True


def release_driver(*, driver_id: str, actor: str) -> WorkspaceDriver | Refusal:
    """A frozen driver's workspaces are acted on again. An operator has seen where its volumes went."""
    with transaction.atomic():
        driver = WorkspaceDriver.objects.select_for_update().filter(driver_id=driver_id).first()
        if driver is None:
            return Refusal(ReasonCode.NOT_FOUND, "there is no such driver; see workspace drivers", "driver_id")
        if driver.frozen_at is None:
            return Refusal(ReasonCode.CONFLICT, "it is not frozen", "driver_id")
        before = {"frozen_at": driver.frozen_at, "frozen_reason": driver.frozen_reason}
        driver.frozen_at, driver.frozen_reason = None, ""
        driver.save(update_fields=["frozen_at", "frozen_reason"])
        trail.record_in_trail(
            "workspace driver released", actor=actor, subject=f"workspace driver {driver_id}", before=before
        )
    return driver


def find_workspace(workspace_id: str) -> Workspace | Refusal:
    """Of any tenant, for operators."""
    try:
        wanted = uuid.UUID(workspace_id)
    except ValueError:
        return _no_workspace()
    return selectors.workspace_of(None, wanted) or _no_workspace()


def is_in_error(workspace: Workspace) -> bool:
    """As it was seen last, or as its last operation ended: the monitor may not have looked since."""
    return workspace.phase == Phase.ERROR or (
        workspace.operation == Operation.NONE and bool((workspace.error_info or {}).get("is_terminal"))
    )


def error_reason(workspace: Workspace) -> str:
    """Of its ERROR, or of what failed last; empty where nothing is wrong."""
    healthy = workspace.conditions.get("policy.healthy") or {}
    wrong = "" if healthy.get("status", True) else healthy.get("reason") or ""
    found: str = (workspace.error_info or {}).get("reason") or wrong
    return found


def _locked(tenant_id: str | None, workspace_id: uuid.UUID) -> Workspace | None:
    """With its tenant's row locked before it: the order in which a creation takes them."""
    found = selectors.workspaces_of(tenant_id).filter(pk=workspace_id).values_list("tenant_id", flat=True).first()
    if found is None or not quotas.lock_quotas(found):
        return None
    return selectors.workspaces_of(tenant_id).select_for_update(no_key=True).filter(pk=workspace_id).first()


def _write_next_generation(workspace_id: uuid.UUID, **columns: Any) -> None:
    Workspace.objects.filter(pk=workspace_id).update(generation=F("generation") + 1, **columns)


def _used(workspace_id: uuid.UUID) -> None:
    WorkspaceAccess.objects.update_or_create(workspace_id=workspace_id, defaults={"last_access_at": Now()})


def _again(workspace_id: uuid.UUID) -> Workspace:
    return Workspace.objects.select_related("access").get(pk=workspace_id)


def _stored_spec(spec: SpecDocument) -> dict[str, Any] | Refusal:
    here = offer.current_workspace_offer()
    if here is None:
        return Refusal(ReasonCode.SERVICE_UNAVAILABLE, "workspaces are not set up here; ask your operator")
    if (fault := image_fault(spec.image, kind=here.kind, allowed=here.images)) is not None:
        return invalid("spec.image", fault)
    if here.kind == "docker" and here.default_image is None:
        return Refusal(ReasonCode.SERVICE_UNAVAILABLE, "no image is allowed here; ask your operator")
    return spec.stored(default_image=here.default_image)


def _name_fault(tenant_id: str, name: str) -> Refusal | None:
    if not Workspace.objects.filter(tenant_id=tenant_id, name=name, delete_requested_at__isnull=True).exists():
        return None
    return Refusal(ReasonCode.CONFLICT, f"a workspace is called {name} already; choose another name", "name")


def _no_workspace() -> Refusal:
    return Refusal(ReasonCode.NOT_FOUND, "there is no such workspace", WORKSPACE)


def _spec_without_env_values(spec: Mapping[str, Any]) -> dict[str, Any]:
    """For trail and timeline: names of its environment without their values, which may be secrets."""
    return {**spec, "env": sorted(spec["env"])}


def _shown_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {**facts} | ({"spec": _spec_without_env_values(facts["spec"])} if facts.get("spec") else {})


def _record_workspace_act(
    act: str,
    kind: str,
    workspace: Workspace,
    actor: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    trail.record_in_trail(
        act,
        actor=actor,
        subject=f"workspace {workspace.pk}",
        tenant_id=workspace.tenant_id,
        before=before,
        after=after,
    )
    _note_act_in_timeline(act, workspace, kind, actor, after or {})


def _note_act_in_timeline(act: str, workspace: Workspace, kind: str, actor: str, detail: Mapping[str, Any]) -> None:
    timeline.add_to_timeline(workspace.pk, kind, actor=actor, **detail)
    hints.give_after_commit(workspace.pk)
    said = partial(log.info, act, actor=actor, tenant_id=workspace.tenant_id, workspace=str(workspace.pk))
    transaction.on_commit(said)
