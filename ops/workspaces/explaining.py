"""What a workspace waits for, who acts next and when, in words. Reads what it is given and asks nothing."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from ops.workspaces.models import Workspace, WorkspaceDriver
from ops.workspaces.states import LEVELS, UNDELETE_FOR, DesiredState, Operation, Phase


class Actor(StrEnum):
    NOBODY = "nobody"
    YOU = "you"
    OPERATOR = "operator"
    HOST = "host"
    MONITOR = "monitor"
    RECONCILER = "reconciler"
    TTL = "ttl"
    PURGE = "purge"


@dataclass(frozen=True, slots=True)
class NextStep:
    """`at` is None where it is as soon as the actor looks, which takes seconds, or where there is no time for it."""

    said: str
    next_actor: Actor
    at: datetime | None = None


_STEP_UP: Final = {
    Phase.PENDING: Operation.PROVISIONING,
    Phase.ARCHIVED: Operation.RESTORING,
    Phase.STANDBY: Operation.STARTING,
}
_STEP_DOWN: Final = {
    Phase.RUNNING: Operation.STOPPING,
    Phase.STANDBY: Operation.ARCHIVING,
    Phase.ARCHIVED: Operation.DELETING,
    Phase.PENDING: Operation.DELETING,
}


def explain_workspace(workspace: Workspace, driver: WorkspaceDriver | None, *, now: datetime) -> NextStep:
    """`driver` is the one that holds it; None where none has taken it yet."""
    for rule in (_deleted, _frozen, _in_error, _not_taken, _at_work, _not_seen, _converged):
        if (found := rule(workspace, driver, now)) is not None:
            return found
    return _next_workspace_step(workspace, now)


def _deleted(workspace: Workspace, _driver: WorkspaceDriver | None, _now: datetime) -> NextStep | None:
    if workspace.phase != Phase.DELETED or workspace.desired_state != DesiredState.DELETED:
        return None
    purged_at = (workspace.delete_requested_at or _now) + UNDELETE_FOR
    return NextStep("It is deleted. Until its archive is, too, it can be undeleted.", Actor.PURGE, purged_at)


def _frozen(_workspace: Workspace, driver: WorkspaceDriver | None, _now: datetime) -> NextStep | None:
    if driver is None or driver.frozen_at is None:
        return None
    return NextStep(
        "Too much vanished at once at its host. It is looked at, and nothing is done to it until an operator has found"
        " out why.",
        Actor.OPERATOR,
    )


def _in_error(workspace: Workspace, _driver: WorkspaceDriver | None, _now: datetime) -> NextStep | None:
    error: dict[str, Any] = workspace.error_info or {}
    terminal = workspace.operation == Operation.NONE and bool(error.get("is_terminal"))
    if workspace.phase != Phase.ERROR and not terminal:
        return None
    if workspace.recover_generation > workspace.recovered_generation:
        return NextStep(f"Its recovery ({workspace.recover_from}) is asked for and begins.", Actor.RECONCILER)
    healthy = workspace.conditions.get("policy.healthy") or {}
    shown = error if terminal else healthy
    why = f"{shown.get('reason') or 'Unknown'}: {shown.get('message') or 'no more is known'}".rstrip(".")
    if workspace.desired_state == DesiredState.DELETED and workspace.discard:
        return NextStep(f"It is in ERROR ({why}), and is deleted without an archive.", Actor.RECONCILER)
    return NextStep(
        f"It is in ERROR ({why}). Nothing is done until it is recovered, or deleted with discard=true.", Actor.YOU
    )


def _not_taken(workspace: Workspace, driver: WorkspaceDriver | None, _now: datetime) -> NextStep | None:
    if driver is not None and workspace.driver_id is not None:
        return None
    return NextStep("No host has taken it yet.", Actor.HOST)


def _at_work(workspace: Workspace, _driver: WorkspaceDriver | None, now: datetime) -> NextStep | None:
    if workspace.operation == Operation.NONE:
        return None
    what = f"{workspace.operation} is under way" + (f", at {workspace.op_step}" if workspace.op_step else "")
    if workspace.op_progress_bytes:
        what += f", {workspace.op_progress_bytes:,} bytes so far"
    error = workspace.error_info or {}
    if (again_at := workspace.next_reconcile_at) is not None and again_at > now:
        why = error.get("reason") or "its host did not answer"
        return NextStep(f"{what}; it failed ({why}) and is tried again.", Actor.RECONCILER, again_at)
    is_given_back = workspace.op_lease_until == workspace.op_started_at
    if is_given_back and workspace.observed_rev < workspace.rev:
        return NextStep(f"{what}; what was done is to be looked at.", Actor.MONITOR)
    if not is_given_back and workspace.op_lease_until is not None and workspace.op_lease_until < now:
        return NextStep(f"{what}; who did it is not heard of any more, and another takes it over.", Actor.RECONCILER)
    if workspace.observed_rev >= workspace.rev:
        return NextStep(f"{what}; its next step is due.", Actor.RECONCILER)
    return NextStep(f"{what}.", Actor.RECONCILER)


def _not_seen(workspace: Workspace, _driver: WorkspaceDriver | None, _now: datetime) -> NextStep | None:
    if workspace.observed_at is None:
        return NextStep("It was not looked at yet.", Actor.MONITOR)
    stale = sorted(name for name, condition in workspace.conditions.items() if condition.get("stale"))
    if stale:
        return NextStep(
            f"What is known of {', '.join(stale)} is old: its host or the archives' store did not answer. Nothing is"
            " begun meanwhile.",
            Actor.MONITOR,
        )
    return None


def _converged(workspace: Workspace, _driver: WorkspaceDriver | None, _now: datetime) -> NextStep | None:
    if workspace.phase != workspace.desired_state:
        return None
    rests_at = _rests_at(workspace)
    if rests_at is None:
        return NextStep(f"It is {workspace.phase}, as asked for.", Actor.NOBODY)
    lower = DesiredState.STANDBY if workspace.phase == Phase.RUNNING else DesiredState.ARCHIVED
    said = (
        f"It is {workspace.phase}, as asked for. Unused until {rests_at:%Y-%m-%d %H:%M} UTC, it is asked to be {lower}."
    )
    return NextStep(said, Actor.TTL, rests_at)


def _rests_at(workspace: Workspace) -> datetime | None:
    seconds = {
        Phase.RUNNING: workspace.standby_ttl_seconds,
        Phase.STANDBY: workspace.archive_ttl_seconds,
    }.get(Phase(workspace.phase))
    used_at = getattr(getattr(workspace, "access", None), "last_access_at", None)
    return None if seconds is None or used_at is None else used_at + timedelta(seconds=seconds)


def _next_workspace_step(workspace: Workspace, now: datetime) -> NextStep:
    phase, wanted = Phase(workspace.phase), Phase(workspace.desired_state)
    if phase == Phase.DELETED:
        return NextStep("It was deleted and is asked for again: its way back begins.", Actor.RECONCILER)
    if (phase, wanted) == (Phase.PENDING, Phase.ARCHIVED):
        return NextStep("There is nothing yet that could be archived; ask for STANDBY or RUNNING first.", Actor.YOU)
    step = (_STEP_UP if LEVELS[wanted] > LEVELS[phase] else _STEP_DOWN).get(phase)
    again_at = workspace.next_reconcile_at
    later = again_at if again_at is not None and again_at > now else None
    said = f"It is {phase}, and {wanted} is asked for. {step or 'The next step'} comes next."
    return NextStep(said, Actor.RECONCILER, later)
