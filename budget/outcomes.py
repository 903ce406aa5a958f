"""What a money operation can answer, each as its own type. A refusal is an answer, not an exception.

A script's answer says where the tenant's money is lost: HoldLost, NoHold, Unavailable(BALANCE), Unavailable(CAPS). The
services rebuild it then, and their outcome is AskAgain, or the Unavailable where it could not be rebuilt now.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Literal


class Closed(StrEnum):
    """Why money cannot be touched now."""

    EPOCH = "epoch"  # Redis lost or may have lost data, and is being rebuilt from the ledger
    GATE = "gate"  # this tenant alone is being rebuilt or verified
    BALANCE = "balance"  # this tenant's balance key is lost or was never written; a service could not rebuild it now
    CAPS = "caps"  # a scope of this run is lost, or older than its caller knows; a service could not rebuild it now
    REDIS = "redis"  # no answer: the operation may or may not have happened


@dataclass(frozen=True)
class Unavailable:
    closed: Closed


@dataclass(frozen=True)
class Held:
    balance_micros: int


@dataclass(frozen=True)
class AlreadyHeld:
    """This run's hold exists: success for the submitter that asks again."""

    held_micros: int


@dataclass(frozen=True)
class HoldLost:
    """The reserve key stands, the hold is gone."""


@dataclass(frozen=True)
class Insufficient:
    balance_micros: int


@dataclass(frozen=True)
class CapReached:
    """The window of `period` that `day` lies in has no room for the run. Nothing was held."""

    scope: Literal["tenant", "key"]
    period: Literal["day", "week", "month", "total"]
    limit_micros: int
    counted_micros: int
    """What runs of the window hold and were charged; above the limit where that was lowered since."""
    used_micros: int
    """What they were charged."""
    day: date

    @property
    def held_micros(self) -> int:
        return self.counted_micros - self.used_micros

    @property
    def left_micros(self) -> int:
        return max(0, self.limit_micros - self.counted_micros)


@dataclass(frozen=True)
class DateBehind:
    """A window after the run's date has begun, and nothing of the run is held: it is to be dated `day` at least."""

    day: date


@dataclass(frozen=True)
class RunClosed:
    """The run was settled or refunded, or a refund came before the hold; no money moved now."""

    charge_micros: int


@dataclass(frozen=True)
class Settled:
    """`again`: a settle or refund had already ended the hold; these are its numbers."""

    charge_micros: int
    refund_micros: int
    balance_micros: int
    again: bool


@dataclass(frozen=True)
class NoHold:
    """Neither hold nor receipt."""


@dataclass(frozen=True)
class AskAgain:
    """Money of this tenant was lost, and has been rebuilt from the ledger. No money moved for the caller.

    The rebuild has raised the version of rows that are CLAIMED or at money NONE, the caller's too: read the row again,
    then ask again.
    """


@dataclass(frozen=True)
class Refunded:
    """`tombstone`: there was no hold, and none can come now. `charge_micros` is above zero only after a settle."""

    refund_micros: int
    balance_micros: int
    charge_micros: int
    again: bool
    tombstone: bool


@dataclass(frozen=True)
class Credited:
    balance_micros: int
    again: bool


@dataclass(frozen=True)
class LimitPassed:
    balance_micros: int


@dataclass(frozen=True)
class CapsInForce:
    """Every hold from here on meets these limits, or those of the later change whose `revision` this is."""

    revision: int
    again: bool = False
    """It, or a later one, was in force before; nothing changed."""


@dataclass(frozen=True)
class CapsAbsent:
    """The scope does not stand, and nothing changed: a rebuild of the tenant counts it."""


@dataclass(frozen=True)
class Written:
    """A batch of a rebuild stands."""


@dataclass(frozen=True)
class Superseded:
    """The gate is no longer closed by this rebuild; what it wrote may be gone."""


HoldAnswer = Held | AlreadyHeld | HoldLost | Insufficient | CapReached | DateBehind | RunClosed | Unavailable
SettleAnswer = Settled | NoHold | Unavailable
RefundAnswer = Refunded | NoHold | Unavailable
CreditAnswer = Credited | LimitPassed | Unavailable
WriteAnswer = Written | Superseded
CapsAnswer = CapsInForce | CapsAbsent | Unavailable

HoldOutcome = Held | AlreadyHeld | Insufficient | CapReached | DateBehind | RunClosed | AskAgain | Unavailable
SettleOutcome = Settled | AskAgain | Unavailable
RefundOutcome = Refunded | AskAgain | Unavailable


class ScriptRefused(AssertionError):  # noqa: N818  named for what happened
    """A script refused its arguments, or the tenant does not own the run. Checked before: reaching this is a bug."""


def hold_answer(words: Sequence[str]) -> HoldAnswer:
    match words:
        case ["OK", balance]:
            return Held(int(balance))
        case ["ERR_ALREADY_RESERVED", "0"]:
            return HoldLost()
        case ["ERR_ALREADY_RESERVED", held]:
            return AlreadyHeld(int(held))
        case ["ERR_INSUFFICIENT", balance]:
            return Insufficient(int(balance))
        case ["ERR_CLOSED", charge]:
            return RunClosed(int(charge))
    return _outside_the_caps(words)


def _outside_the_caps(words: Sequence[str]) -> CapReached | DateBehind | Unavailable:
    match words:
        case ["ERR_CAP", "tenant" | "key" as scope, "day" | "week" | "month" | "total" as period, *numbers, day]:
            limit, counted, used = (int(number) for number in numbers)
            return CapReached(scope, period, limit, counted, used, _date_in(day))
        case ["ERR_DATE", day]:
            return DateBehind(_date_in(day))
    return _unavailable_budget_outcome(words)


def settle_answer(words: Sequence[str]) -> SettleAnswer:
    match words:
        case ["OK", charge, refund, balance, "first" | "again" as turn]:
            return Settled(int(charge), int(refund), int(balance), again=turn == "again")
        case ["ERR_NO_RESERVE"]:
            return NoHold()
    return _unavailable_budget_outcome(words)


def refund_answer(words: Sequence[str]) -> RefundAnswer:
    match words:
        case ["OK", refund, balance, charge, "first" | "again" | "tombstone" as turn]:
            return Refunded(
                int(refund), int(balance), int(charge), again=turn == "again", tombstone=turn == "tombstone"
            )
        case ["ERR_NO_RESERVE"]:
            return NoHold()
    return _unavailable_budget_outcome(words)


def credit_answer(words: Sequence[str]) -> CreditAnswer:
    match words:
        case ["OK", balance, "first" | "again" as turn]:
            return Credited(int(balance), again=turn == "again")
        case ["ERR_LIMIT", balance]:
            return LimitPassed(int(balance))
    return _unavailable_budget_outcome(words)


def write_answer(words: Sequence[str]) -> WriteAnswer:
    match words:
        case ["OK"]:
            return Written()
        case ["ERR_SUPERSEDED"]:
            return Superseded()
    raise ScriptRefused(" ".join(words))


def caps_answer(words: Sequence[str], *, revision: int) -> CapsAnswer:
    match words:
        case ["OK"]:
            return CapsInForce(revision)
        case ["ERR_OLD", later]:
            return CapsInForce(int(later), again=True)
        case ["ERR_ABSENT"]:
            return CapsAbsent()
    return _unavailable_budget_outcome(words)


def _date_in(number: str) -> date:
    """The first half of the scripts' word for a date; see budget/redis/windows.py."""
    return date.fromisoformat(number[:8])


def _unavailable_budget_outcome(words: Sequence[str]) -> Unavailable:
    match words:
        case ["ERR_UNAVAILABLE", closed]:
            return Unavailable(Closed(closed))
    raise ScriptRefused(" ".join(words))
