"""What a money operation can answer, each as its own type. A refusal is an answer, not an exception.

A script's answer says where the tenant's money is lost: HoldLost, NoHold, Unavailable(BALANCE). The services rebuild it
then, and their outcome is AskAgain, or Unavailable(BALANCE) where it could not be rebuilt now.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Closed(StrEnum):
    """Why money cannot be touched now."""

    EPOCH = "epoch"  # Redis lost or may have lost data, and is being rebuilt from the ledger
    GATE = "gate"  # this tenant alone is being rebuilt or verified
    BALANCE = "balance"  # this tenant's balance key is lost or was never written; a service could not rebuild it now
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
class Written:
    """A batch of a rebuild stands."""


@dataclass(frozen=True)
class Superseded:
    """The gate is no longer closed by this rebuild; what it wrote may be gone."""


HoldAnswer = Held | AlreadyHeld | HoldLost | Insufficient | RunClosed | Unavailable
SettleAnswer = Settled | NoHold | Unavailable
RefundAnswer = Refunded | NoHold | Unavailable
CreditAnswer = Credited | LimitPassed | Unavailable
WriteAnswer = Written | Superseded

HoldOutcome = Held | AlreadyHeld | Insufficient | RunClosed | AskAgain | Unavailable
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
    return _unavailable(words)


def settle_answer(words: Sequence[str]) -> SettleAnswer:
    match words:
        case ["OK", charge, refund, balance, "first" | "again" as turn]:
            return Settled(int(charge), int(refund), int(balance), again=turn == "again")
        case ["ERR_NO_RESERVE"]:
            return NoHold()
    return _unavailable(words)


def refund_answer(words: Sequence[str]) -> RefundAnswer:
    match words:
        case ["OK", refund, balance, charge, "first" | "again" | "tombstone" as turn]:
            return Refunded(
                int(refund), int(balance), int(charge), again=turn == "again", tombstone=turn == "tombstone"
            )
        case ["ERR_NO_RESERVE"]:
            return NoHold()
    return _unavailable(words)


def credit_answer(words: Sequence[str]) -> CreditAnswer:
    match words:
        case ["OK", balance, "first" | "again" as turn]:
            return Credited(int(balance), again=turn == "again")
        case ["ERR_LIMIT", balance]:
            return LimitPassed(int(balance))
    return _unavailable(words)


def write_answer(words: Sequence[str]) -> WriteAnswer:
    match words:
        case ["OK"]:
            return Written()
        case ["ERR_SUPERSEDED"]:
            return Superseded()
    raise ScriptRefused(" ".join(words))


def _unavailable(words: Sequence[str]) -> Unavailable:
    match words:
        case ["ERR_UNAVAILABLE", closed]:
            return Unavailable(Closed(closed))
    raise ScriptRefused(" ".join(words))
