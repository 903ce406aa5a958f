"""A workspace is used: it is found awake, or woken; and what is asked of it goes to the host that holds it.

A use is written down when it begins, and every few seconds while it lasts (remote/server.py): what is at work is not
put to rest.
"""

import uuid
from dataclasses import dataclass
from typing import Final

from django.apps import apps

from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.workspaces import selectors, services
from ops.workspaces.drivers.base import DriverRefused, DriverUnavailable, ExecEnd, ExecRequest
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceDriver
from ops.workspaces.remote import client
from ops.workspaces.states import DesiredState, Operation, Phase
from runs import ports
from runs.packs.pack import CommandAsked, CommandEnd, CommandResult, EngineUnavailable

WAKING_SECONDS: Final = 1
"""What a start takes, rounded up."""
RESTORED_BYTES_A_SECOND: Final = 50_000_000
"""Fewer than are measured (bench/workspace_archive.py)."""
RESTORING_SECONDS_MAX: Final = 30
NO_WORKSPACE: Final = "there is no such workspace of yours; GET /v1/workspaces lists them"
_ENDS: Final = {
    ExecEnd.EXITED: CommandEnd.EXITED,
    ExecEnd.DEADLINE: CommandEnd.DEADLINE,
    ExecEnd.KILLED: CommandEnd.KILLED,
}


@dataclass(frozen=True, slots=True)
class Awake:
    """It runs, as it was seen last. `address` is None while its host has told none."""

    workspace_id: str
    address: str | None


@dataclass(frozen=True, slots=True)
class Asleep:
    """It has been asked to run, by this use or before."""

    seconds: int = WAKING_SECONDS


def awake_workspace(workspace: Workspace, *, actor: str, is_used: bool = True) -> Awake | Asleep | Refusal:
    """For one use of it, which is written down. One at rest is asked to run, where there is room for it.

    Not `is_used`: the caller writes the use down once it comes to one. What is asked in vain keeps nothing awake.
    """
    if workspace.phase == Phase.ERROR:
        return Refusal(
            ReasonCode.CONFLICT, f"it is in ERROR: {_unhealthy_workspace_reason(workspace)}", services.WORKSPACE
        )
    if workspace.desired_state != DesiredState.RUNNING:
        woken = services.wake_workspace(workspace_id=workspace.pk, actor=actor, tenant_id=workspace.tenant_id)
        return woken if isinstance(woken, Refusal) else Asleep(_waking_seconds(workspace))
    if is_used:
        services.touch_workspace(workspace.pk)
    if workspace.phase != Phase.RUNNING or workspace.operation != Operation.NONE:
        return Asleep(_waking_seconds(workspace))
    return Awake(str(workspace.pk), address_of(workspace))


def _waking_seconds(workspace: Workspace) -> int:
    """Until it is worth asking again. One in the archive is restored first, which takes as long as it is large."""
    if workspace.phase != Phase.ARCHIVED or workspace.archive_key is None:
        return WAKING_SECONDS
    rows = WorkspaceArchive.objects.filter(pk=workspace.archive_key)
    tar_bytes = rows.values_list("tar_bytes", flat=True).first() or 0
    return min(WAKING_SECONDS + -(-tar_bytes // RESTORED_BYTES_A_SECOND), RESTORING_SECONDS_MAX)


def address_of(workspace: Workspace) -> str | None:
    found = WorkspaceDriver.objects.filter(pk=workspace.driver_id).values_list("address", flat=True).first()
    return found or None


def _unhealthy_workspace_reason(workspace: Workspace) -> str:
    healthy = workspace.conditions.get("policy.healthy") or {}
    return str(healthy.get("reason") or "see its conditions")


class RunCommands:
    """The port of `runs`: commands of runs in workspaces."""

    def ready(self, *, tenant_id: str, workspace_id: str) -> ports.Waking | ports.NotUsable | None:
        found = selectors.workspace_of(tenant_id, uuid.UUID(workspace_id))
        if found is None:
            return ports.NotUsable(NO_WORKSPACE)
        answer = awake_workspace(found, actor="submit")
        if isinstance(answer, Refusal):
            return ports.NotUsable(answer.detail)
        return ports.Waking(answer.seconds) if isinstance(answer, Asleep) else None

    def command(self, *, tenant_id: str, exec_id: str, asked: CommandAsked) -> "RunCommand":
        found = selectors.workspace_of(tenant_id, uuid.UUID(asked.workspace_id))
        return RunCommand(None if found is None else address_of(found), tenant_id, exec_id, asked)


@dataclass(frozen=True, slots=True)
class RunCommand:
    """One run's. Begun once: the workspace refuses the run's id a second time."""

    address: str | None
    tenant_id: str
    exec_id: str
    asked: CommandAsked

    async def run(self, *, seconds: float) -> CommandResult:
        if self.address is None:
            raise EngineUnavailable("The workspace is gone, or its host is away.")
        request = ExecRequest(
            exec_id=self.exec_id, argv=self.asked.argv, stdin=self.asked.stdin, deadline_seconds=seconds
        )
        try:
            result = await client.run_remote_exec(
                self.address, self.asked.workspace_id, request, tenant_id=self.tenant_id
            )
        except DriverRefused as refused:
            raise EngineUnavailable(f"The workspace did not take the command: {refused}") from None
        except DriverUnavailable as error:
            raise EngineUnavailable(str(error)) from None
        return CommandResult(
            end=_ENDS[result.end],
            exit_code=result.exit_code,
            stdout=result.stdout,
            stderr=result.stderr,
            stdout_cut=result.stdout_cut,
            stderr_cut=result.stderr_cut,
            seconds=result.seconds,
        )

    async def stop(self) -> None:
        assert self.address is not None  # noqa: S101  it has begun
        try:
            await client.stop_remote_exec(self.address, self.exec_id)
        except (DriverRefused, DriverUnavailable) as error:
            raise EngineUnavailable(str(error)) from None


def register_run_commands() -> None:
    if apps.is_installed("runs"):
        ports.register_workspaces(RunCommands())
