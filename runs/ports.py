"""What runs must know of what stands above it: workspaces (`ops.workspaces` registers its own), and copies of a run's
data, which those who keep some delete with the run's own (`ops.automations`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from runs.packs.pack import CommandAsked, WorkspaceCommand


@dataclass(frozen=True, slots=True)
class Waking:
    """It slept, and is being woken; worth asking again in so many seconds."""

    seconds: int


@dataclass(frozen=True, slots=True)
class NotUsable:
    """No command will run in it, and waiting does not help. `detail` names the cure."""

    detail: str


class Workspaces(Protocol):
    def ready(self, *, tenant_id: str, workspace_id: str) -> Waking | NotUsable | None:
        """None for one that runs; its use is noted, so that it does not fall asleep meanwhile."""

    def command(self, *, tenant_id: str, exec_id: str, asked: CommandAsked) -> WorkspaceCommand:
        """A run's command, to be begun once by this id."""


class NoWorkspaces:
    """A platform without any."""

    def ready(self, *, tenant_id: str, workspace_id: str) -> Waking | NotUsable | None:
        del tenant_id, workspace_id
        return NotUsable("there is no such workspace; this platform holds none")

    def command(self, *, tenant_id: str, exec_id: str, asked: CommandAsked) -> WorkspaceCommand:
        raise NotImplementedError


_registered: list[Workspaces] = []


def register_workspaces(workspaces: Workspaces) -> None:
    _registered[:] = [workspaces]


def registered_workspaces() -> Workspaces:
    return _registered[0] if _registered else NoWorkspaces()


DeleteCopies = Callable[[UUID], None]
"""Given a run, in the transaction that ends its time: what was copied of its inputs and its result goes. Safe to
repeat."""

_delete_copies: list[DeleteCopies] = []


def register_copies(delete: DeleteCopies) -> None:
    if delete not in _delete_copies:
        _delete_copies.append(delete)


def delete_copies(run_id: UUID) -> None:
    for delete in _delete_copies:
        delete(run_id)
