"""What a task finds in its workspace: `CLAUDE.md`, by the rule's context file, and `.kingdom-task.json`.

Each is written beside its place and renamed there by the workspace's init, so that a command reads the one of before or
the whole new one. They are written anew before each attempt: one IN_PROGRESS task a workspace, so no other task's.

A host that hangs takes five seconds to say nothing, and all rules' attempts are submitted one after the other. So it is
asked once for all its workspaces, and again after a pause that grows: by another of them, so that one workspace that
makes its host seem silent holds up the others for one pause.
"""

import asyncio
import json
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from time import monotonic
from typing import Final

from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.automations.models import AutomationTask
from ops.workspaces import selectors, using
from ops.workspaces.drivers.base import DriverError, DriverUnavailable
from ops.workspaces.remote import client

CONTEXT_NAME: Final = "CLAUDE.md"
TASK_NAME: Final = ".kingdom-task.json"
BEHIND_SECONDS: Final = 2.0
"""So much later than the others comes the attempt that has asked."""
PAUSES_SECONDS: Final = ((10.0, 2.0), (60.0, 5.0), (300.0, 15.0), (inf, 60.0))
"""Away for less than that: the pause until it is asked again."""
FORGOTTEN_SECONDS: Final = 60.0
HOST_AWAY: Final = "workspace host away"
ACTOR: Final = "automations"


@dataclass(frozen=True, slots=True)
class FilesLater:
    """The workspace sleeps, or its host is away."""

    seconds: float
    reason: str


@dataclass(slots=True)
class SilentHosts:
    """Hosts that did not answer this process, by address: since when, and until when they are not asked."""

    _known: dict[str, tuple[float, float]] = field(default_factory=dict)

    def pause_left(self, address: str) -> float:
        _, until = self._known.get(address, (0.0, 0.0))
        return max(0.0, until - monotonic())

    def was_silent(self, address: str) -> float:
        """The pause that it has."""
        now = monotonic()
        since, until = self._known.get(address, (now, now))
        if now - until > FORGOTTEN_SECONDS:  # nobody asked it meanwhile
            since = now
        pause = _pause_seconds(now - since)
        self._known[address] = (since, now + pause)
        return pause

    def answered(self, address: str) -> None:
        self._known.pop(address, None)


silent_hosts = SilentHosts()


def _pause_seconds(away_seconds: float) -> float:
    return next(pause for within, pause in PAUSES_SECONDS if away_seconds < within)


def write_workspace_files(task: AutomationTask, *, waited: timedelta = timedelta()) -> FilesLater | Refusal | None:
    """None: they are there. Safe to repeat. `waited`: since when the attempt is refused by what passes."""
    assert task.workspace_id is not None  # noqa: S101  asked where there is one
    workspace = selectors.workspace_of(task.tenant_id, task.workspace_id)
    if workspace is None:
        return Refusal(ReasonCode.NOT_FOUND, "the workspace of the rule is gone", "workspace_id")
    found = using.awake_workspace(workspace, actor=ACTOR)
    if isinstance(found, using.Asleep):
        return FilesLater(found.seconds, "workspace waking")
    return found if isinstance(found, Refusal) else _put(task, found, _pause_seconds(waited.total_seconds()))


def _put(task: AutomationTask, place: using.Awake, pause_seconds: float) -> FilesLater | Refusal | None:
    if place.address is None:
        return FilesLater(pause_seconds, HOST_AWAY)
    if (left := silent_hosts.pause_left(place.address)) > 0:
        return FilesLater(left, HOST_AWAY)
    files = {TASK_NAME: task_document(task)}
    if task.context_file is not None:
        files[CONTEXT_NAME] = task.context_file.encode()
    try:
        for path, content in files.items():
            asyncio.run(client.put_file(place.address, place.workspace_id, path, content))
    except client.HostSilent as silent:
        behind = silent_hosts.was_silent(place.address) + BEHIND_SECONDS
        return FilesLater(max(behind, pause_seconds), str(silent))
    except DriverError as error:
        silent_hosts.answered(place.address)
        if isinstance(error, DriverUnavailable):
            return FilesLater(pause_seconds, str(error))
        return Refusal(ReasonCode.CONFLICT, f"the workspace did not take a file: {error}", "workspace_id")
    silent_hosts.answered(place.address)
    return None


def task_document(task: AutomationTask) -> bytes:
    said = {"task_id": task.number, "result_path": f".kingdom-results/{task.number}.json"}
    return json.dumps(said, indent=2).encode() + b"\n"
