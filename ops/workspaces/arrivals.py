"""Whether a workspace has come to where it was asked to be, and waiting for that (`?wait=`).

It is a level, asked of the rows as they are, four times a second and with one statement for all who wait: what moves a
workspace takes seconds. So a waiter needs to have seen nothing, and one that has arrived wakes all who wait for it.
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from django.db import connections
from django.db.models import F

from dpp_project.process_env import ENV
from dpp_project.processes.per_process import PerProcess
from dpp_project.stores import postgres
from dpp_project.stores.postgres import DATABASE_AWAY
from dpp_project.waiting.until import WaitEnd, wait_until_it_is
from dpp_project.waiting.watcher import News, Waiter, Watcher
from ops.workspaces.conditions import ConditionReason
from ops.workspaces.models import Workspace
from ops.workspaces.states import DesiredState, Operation, Phase
from tenants import key_watch

LOOK_SECONDS: Final = 0.25
_WHAT: Final = "workspace"
_NOTHING_SEEN: Final = 0
_ARRIVED: Final = 1
_OTHER_CONNECTIONS: Final = 3
"""Beside the threads' and this watcher's: the runs' watcher, the heartbeat, and whatever looks at metrics."""
_UNFINISHED: Final = frozenset({ConditionReason.CONTAINER_OUTDATED, ConditionReason.HOME_DOOMED})
"""At the level that was asked for, and an operation is due all the same."""
_COLUMNS: Final = (
    "phase",
    "desired_state",
    "operation",
    "conditions",
    "error_info",
    "discard",
    "recover_generation",
    "recovered_generation",
    "generation",
    "observed_generation",
)


def has_arrived(workspace: Workspace) -> bool:
    """It was seen as its last change wants it and nothing is under way; or nothing is done before its owner acts."""
    if workspace.operation != Operation.NONE or workspace.observed_generation < workspace.generation:
        return False
    if workspace.phase == Phase.ERROR or bool((workspace.error_info or {}).get("is_terminal")):
        is_recovering = workspace.recover_generation > workspace.recovered_generation
        is_discarded = workspace.desired_state == DesiredState.DELETED and workspace.discard
        return not is_recovering and not is_discarded
    unfinished = any(condition.get("reason") in _UNFINISHED for condition in workspace.conditions.values())
    return workspace.phase == workspace.desired_state and not unfinished


async def until_arrived(*, workspace_id: uuid.UUID, tenant_id: str, key_id: uuid.UUID, seconds: float) -> WaitEnd:
    """In one of the places of this tenant. Asks the database nothing by itself, and raises nothing."""

    @contextmanager
    def watching(waiter: Waiter) -> Iterator[None]:
        with (
            arrivals_watcher().watching(waiter, str(workspace_id), seen=_NOTHING_SEEN),
            key_watch.watching_key(waiter, key_id),
        ):
            yield

    return await wait_until_it_is(
        _WHAT,
        tenant_id=tenant_id,
        watching=watching,
        is_it=lambda _news: True,
        seconds=seconds,
    )


def arrived_workspaces(watched: Mapping[str, int]) -> Iterator[News]:
    rows = Workspace.objects.filter(
        workspace_id__in=list(watched), operation=Operation.NONE.value, observed_generation__gte=F("generation")
    )
    for one in rows.only(*_COLUMNS).iterator():
        if has_arrived(one):
            yield News(str(one.workspace_id), _ARRIVED, None)


@PerProcess
def arrivals_watcher() -> Watcher[int]:
    """Its connection is its own while anyone waits, and goes back to the pool when nobody does."""
    postgres.make_room(ENV.DPP_API_THREADS + 1 + _OTHER_CONNECTIONS)
    return Watcher(
        "workspaces", arrived_workspaces, every_seconds=LOOK_SECONDS, away=DATABASE_AWAY, rest=connections.close_all
    )
