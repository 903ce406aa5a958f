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

NEXT_STATUS: Final[Mapping[Status, frozenset[Status]]] = {
    Status.QUEUED: frozenset({Status.PROCESSING, Status.FAILED}),
    Status.PROCESSING: frozenset({Status.COMPLETED, Status.FAILED}),
    Status.COMPLETED: frozenset({Status.EXPIRED}),
    Status.FAILED: frozenset({Status.EXPIRED}),
    Status.EXPIRED: frozenset(),
}
NEXT_MONEY: Final[Mapping[MoneyState, frozenset[MoneyState]]] = {
    MoneyState.NONE: frozenset({MoneyState.RESERVED, MoneyState.REFUNDED}),
    MoneyState.RESERVED: frozenset({MoneyState.SETTLED, MoneyState.REFUNDED}),
    MoneyState.SETTLED: frozenset({MoneyState.DISPUTED}),
    MoneyState.DISPUTED: frozenset({MoneyState.SETTLED, MoneyState.REFUNDED}),
    MoneyState.REFUNDED: frozenset(),
}
NEXT_STAGE: Final[Mapping[Stage | None, frozenset[Stage]]] = {
    None: frozenset({Stage.CLAIMED}),
    Stage.CLAIMED: frozenset({Stage.COMMITTED}),
    Stage.COMMITTED: frozenset(),
}


def may_follow(before: Combination, after: Combination) -> bool:
    """Whether one step of the version may lead from one combination to the other."""
    (status, money, stage), (next_status, next_money, next_stage) = before, after
    return (
        before in LEGAL
        and after in LEGAL
        and (status == next_status or next_status in NEXT_STATUS[status])
        and (money == next_money or next_money in NEXT_MONEY[money])
        and (stage == next_stage or next_stage in NEXT_STAGE[stage])
    )
