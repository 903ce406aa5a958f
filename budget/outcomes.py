"""What a money operation can answer, each as its own type. A refusal is an answer, not an exception."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Closed(StrEnum):
    """Why money cannot be touched now."""

    EPOCH = "epoch"  # Redis lost or may have lost data, and is being rebuilt from the ledger
    GATE = "gate"  # this tenant alone is being rebuilt or verified
    BALANCE = "balance"  # this tenant's balance key is lost, or was never written
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
    """The reserve key stands, the hold is gone: the tenant must be rebuilt."""


@dataclass(frozen=True)
class Insufficient:
    balance_micros: int


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
    """Neither hold nor receipt. On a claimed run: rebuild the tenant, then ask again."""


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
class Written:
    """A batch of a rebuild stands."""


@dataclass(frozen=True)
class Superseded:
    """The gate is no longer closed by this rebuild; what it wrote may be gone."""


HoldOutcome = Held | AlreadyHeld | HoldLost | Insufficient | RunClosed | Unavailable
SettleOutcome = Settled | NoHold | Unavailable
RefundOutcome = Refunded | NoHold | Unavailable
CreditOutcome = Credited | LimitPassed | Unavailable
WriteOutcome = Written | Superseded


class ScriptRefused(AssertionError):  # noqa: N818  named for what happened
    """A script refused its arguments, or the tenant does not own the run. Checked before: reaching this is a bug."""


def hold_outcome(answer: Sequence[str]) -> HoldOutcome:
    match answer:
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
    return _unavailable(answer)


def settle_outcome(answer: Sequence[str]) -> SettleOutcome:
    match answer:
        case ["OK", charge, refund, balance, "first" | "again" as turn]:
            return Settled(int(charge), int(refund), int(balance), again=turn == "again")
        case ["ERR_NO_RESERVE"]:
            return NoHold()
    return _unavailable(answer)


def refund_outcome(answer: Sequence[str]) -> RefundOutcome:
    match answer:
        case ["OK", refund, balance, charge, "first" | "again" | "tombstone" as turn]:
            return Refunded(
                int(refund), int(balance), int(charge), again=turn == "again", tombstone=turn == "tombstone"
            )
        case ["ERR_NO_RESERVE"]:
            return NoHold()
    return _unavailable(answer)


def credit_outcome(answer: Sequence[str]) -> CreditOutcome:
    match answer:
        case ["OK", balance, "first" | "again" as turn]:
            return Credited(int(balance), again=turn == "again")
        case ["ERR_LIMIT", balance]:
            return LimitPassed(int(balance))
    return _unavailable(answer)


def write_outcome(answer: Sequence[str]) -> WriteOutcome:
    match answer:
        case ["OK"]:
            return Written()
        case ["ERR_SUPERSEDED"]:
            return Superseded()
    raise ScriptRefused(" ".join(answer))


def _unavailable(answer: Sequence[str]) -> Unavailable:
    match answer:
        case ["ERR_UNAVAILABLE", closed]:
            return Unavailable(Closed(closed))
    raise ScriptRefused(" ".join(answer))
