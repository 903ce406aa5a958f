"""The board of the console: a column for each phase, a card for each workspace, the one that waits longest first."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ops.workspaces import explaining, selectors, services
from ops.workspaces.models import Workspace, WorkspaceDriver
from ops.workspaces.states import Operation, Phase

CARDS_MAX: Final = 50
"""In a column; the list of the console has the rest."""
COLUMNS: Final = (Phase.ERROR, Phase.PENDING, Phase.RUNNING, Phase.STANDBY, Phase.ARCHIVED, Phase.DELETED)
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True, slots=True)
class Card:
    workspace: Workspace
    doing: str
    """The operation with its step, and how long it has been under way; else where it is asked to go."""
    age: str
    reason: str
    said: str


@dataclass(frozen=True, slots=True)
class Column:
    phase: Phase
    count: int
    cards: list[Card]

    @property
    def more(self) -> int:
        return self.count - len(self.cards)


def board_columns(*, now: datetime) -> list[Column]:
    drivers = {driver.driver_id: driver for driver in selectors.list_drivers()}
    found = []
    for phase in COLUMNS:
        rows = selectors.workspaces_of(None).filter(phase=phase).select_related("access")
        some = rows.order_by("-op_lease_until", "-workspace_id")[:CARDS_MAX]
        found.append(Column(phase, rows.count(), [_card(one, drivers, now=now) for one in some]))
    return found


def _card(workspace: Workspace, drivers: Mapping[str, WorkspaceDriver], *, now: datetime) -> Card:
    step = explaining.explain_workspace(workspace, drivers.get(workspace.driver_id or ""), now=now)
    since = workspace.created_at
    doing = "" if workspace.desired_state == workspace.phase else f"→ {workspace.desired_state}"
    if workspace.operation != Operation.NONE:
        doing = f"{workspace.operation}: {workspace.op_step}".rstrip(": ")
        since = workspace.op_started_at or since
    return Card(workspace, doing, _age(since, now), services.error_reason(workspace), step.said)


def _age(since: datetime, now: datetime) -> str:
    seconds = max(0, int((now - since).total_seconds()))
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), _UNITS[-1])
    return f"{seconds // size} {unit}"
