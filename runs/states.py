"""What a run can be, and what may follow. Pure: no ORM, no clock, no settings.

The database holds the same tables as constraints and a trigger; a test compares the two, combination by combination.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Status(StrEnum):
    QUEUED = "QUEUED"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"


class MoneyState(StrEnum):
    NONE = "NONE"  # the row stands before the hold does; invisible to its tenant
    RESERVED = "RESERVED"
    SETTLED = "SETTLED"
    REFUNDED = "REFUNDED"
    DISPUTED = "DISPUTED"


class Stage(StrEnum):
    """How far the finish has come; no stage means that nobody has claimed it."""

    CLAIMED = "CLAIMED"
    COMMITTED = "COMMITTED"


OPEN: Final = frozenset({Status.QUEUED, Status.PROCESSING})
TERMINAL: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.EXPIRED})
UNENDED_MONEY: Final = frozenset({MoneyState.NONE, MoneyState.RESERVED})
ENDED_MONEY: Final = frozenset({MoneyState.SETTLED, MoneyState.REFUNDED, MoneyState.DISPUTED})

Combination = tuple[Status, MoneyState, Stage | None]

LEGAL: Final[frozenset[Combination]] = frozenset(
    {(Status.QUEUED, money, stage) for money in UNENDED_MONEY for stage in (None, Stage.CLAIMED)}
    | {(Status.PROCESSING, MoneyState.RESERVED, stage) for stage in (None, Stage.CLAIMED)}
    | {(status, money, Stage.COMMITTED) for status in TERMINAL for money in ENDED_MONEY}
)

Step = tuple[Combination, Combination]

_UNHELD: Final[Combination] = (Status.QUEUED, MoneyState.NONE, None)
_HELD: Final[Combination] = (Status.QUEUED, MoneyState.RESERVED, None)
_WORKING: Final[Combination] = (Status.PROCESSING, MoneyState.RESERVED, None)
_ENDED: Final = tuple((status, money) for status in sorted(TERMINAL) for money in sorted(ENDED_MONEY))


def _claimed_run_state(combination: Combination) -> Combination:
    status, money, _ = combination
    return (status, money, Stage.CLAIMED)


def _committed(status: Status, money: MoneyState) -> Combination:
    return (status, money, Stage.COMMITTED)


_ALL_CLAIMED: Final = tuple(_claimed_run_state(before) for before in (_UNHELD, _HELD, _WORKING))
_REFUNDED: Final = _committed(Status.FAILED, MoneyState.REFUNDED)

EDGES: Final[Mapping[str, frozenset[Step]]] = {
    "resume": frozenset({(_UNHELD, _UNHELD)}),
    "reserve": frozenset({(_UNHELD, _HELD)}),
    "start": frozenset({(_HELD, _WORKING)}),
    "claim_worked": frozenset({(_WORKING, _claimed_run_state(_WORKING))}),
    "claim_lease_expired": frozenset({(_WORKING, _claimed_run_state(_WORKING))}),
    "claim_never_started": frozenset({(_HELD, _claimed_run_state(_HELD))}),
    "claim_abandoned": frozenset({(_UNHELD, _claimed_run_state(_UNHELD))}),
    "claim_unsent": frozenset({(_HELD, _claimed_run_state(_HELD))}),
    "claim_dead_lettered": frozenset({(_HELD, _claimed_run_state(_HELD))}),
    "claim_canceled": frozenset({(before, _claimed_run_state(before)) for before in (_HELD, _WORKING)}),
    "retake": frozenset({(claimed, claimed) for claimed in _ALL_CLAIMED}),
    "reintend": frozenset({(_claimed_run_state(_WORKING), _claimed_run_state(_WORKING))}),
    "fence": frozenset({(between, between) for between in (_UNHELD, *_ALL_CLAIMED)}),
    "commit": frozenset(
        {(claimed, _REFUNDED) for claimed in _ALL_CLAIMED}
        | {
            (_claimed_run_state(_WORKING), _committed(Status.COMPLETED, MoneyState.SETTLED)),
            (_claimed_run_state(_WORKING), _committed(Status.FAILED, MoneyState.SETTLED)),
        }
    ),
    "dispute": frozenset(
        {
            (_committed(status, MoneyState.SETTLED), _committed(status, MoneyState.DISPUTED))
            for status in sorted(TERMINAL)
        }
    ),
    "resolve": frozenset(
        {
            (_committed(status, MoneyState.DISPUTED), _committed(status, money))
            for status in sorted(TERMINAL)
            for money in (MoneyState.SETTLED, MoneyState.REFUNDED)
        }
    ),
    "expire": frozenset(
        {
            (_committed(status, money), _committed(Status.EXPIRED, money))
            for status, money in _ENDED
            if status is not Status.EXPIRED
        }
    ),
}
"""What each edge of transitions.py that raises the version may do. `accept` and `drop` make and delete the row."""


def may_follow(before: Combination, after: Combination) -> bool:
    """Whether some edge leads from one combination to the other."""
    return any((before, after) in steps for steps in EDGES.values())
