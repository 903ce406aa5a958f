"""What a task finds in its workspace: `CLAUDE.md`, by the rule's context file, and `.kingdom-task.json`.

Each is written beside its place and renamed there by the workspace's init, so that a command reads the one of before or
the whole new one. They are written anew before each attempt: one IN_PROGRESS task a workspace, so no other task's.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Final

from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.automations.models import AutomationTask
from ops.workspaces import selectors, using
from ops.workspaces.drivers.base import DriverError, DriverUnavailable
from ops.workspaces.remote import client

CONTEXT_NAME: Final = "CLAUDE.md"
TASK_NAME: Final = ".kingdom-task.json"
RETRY_SECONDS: Final = 2.0
ACTOR: Final = "automations"


@dataclass(frozen=True, slots=True)
class FilesLater:
    """The workspace sleeps, or its host is away."""

    seconds: float
    reason: str


def write_workspace_files(task: AutomationTask) -> FilesLater | Refusal | None:
    """None: they are there. Safe to repeat."""
    assert task.workspace_id is not None  # noqa: S101  asked where there is one
    workspace = selectors.workspace_of(task.tenant_id, task.workspace_id)
    if workspace is None:
        return Refusal(ReasonCode.NOT_FOUND, "the workspace of the rule is gone", "workspace_id")
    found = using.awake_workspace(workspace, actor=ACTOR)
    if isinstance(found, using.Asleep):
        return FilesLater(found.seconds, "workspace waking")
    return found if isinstance(found, Refusal) else _put(task, found)


def _put(task: AutomationTask, place: using.Awake) -> FilesLater | Refusal | None:
    if place.address is None:
        return FilesLater(RETRY_SECONDS, "workspace host away")
    files = {TASK_NAME: task_document(task)}
    if task.context_file is not None:
        files[CONTEXT_NAME] = task.context_file.encode()
    try:
        for path, content in files.items():
            asyncio.run(client.put_file(place.address, place.workspace_id, path, content))
    except DriverUnavailable as error:
        return FilesLater(RETRY_SECONDS, str(error))
    except DriverError as error:
        return Refusal(ReasonCode.CONFLICT, f"the workspace did not take a file: {error}", "workspace_id")
    return None


def task_document(task: AutomationTask) -> bytes:
    said = {"task_id": task.number, "result_path": f".kingdom-results/{task.number}.json"}
    return json.dumps(said, indent=2).encode() + b"\n"
