"""What an edge of transitions.py answers: that it won the row, and with it what its winner goes on with, or LOST.

A claiming edge answers `Claimed(claim)`. The claim is all that `finish` needs: its holder moves the money as the
claim says and commits the row at the version that the claim names.
"""

import enum
import uuid
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, Protocol, Self

from budget.redis.windows import Counted
from runs.models import Run
from runs.states import MoneyState, Stage


class Lost(enum.Enum):
    """The row is not in the state, or at the version, that the caller saw; nothing was changed."""

    LOST = "lost"


LOST: Final = Lost.LOST


class SeenRun(Protocol):
    """A row as its caller read it: the version is the guard of the edge that it asks for."""

    @property
    def run_id(self) -> uuid.UUID: ...
    @property
    def tenant_id(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def lineage_id(self) -> uuid.UUID | None: ...
    @property
    def spend_day(self) -> date | None: ...
    @property
    def trace_id(self) -> str | None: ...


def counted_of(run: SeenRun) -> Counted:
    """Where its money counts, as its row says; the row's date is the run's, whatever day it is now."""
    return Counted(None if run.lineage_id is None else str(run.lineage_id), run.spend_day)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claimed row as its finisher knows it: what carrying out its intent needs, and no more."""

    run_id: uuid.UUID
    tenant_id: str
    trace_id: str | None
    version: int
    """The row's, after the claim."""
    token: str
    actor: str
    money_state: MoneyState
    charge_micros: int
    was_held: bool
    """The row was RESERVED when it was claimed: its price was held, so a hold that is not there was lost."""
    counted: Counted

    @classmethod
    def stored(cls, run: Run, *, actor: str) -> Self:
        """What the claimed row itself says."""
        token, money_state, charge_micros = run.finalize_token, run.intent_money_state, run.intent_charge_usd_micros
        if run.finalize_stage != Stage.CLAIMED or token is None or money_state is None or charge_micros is None:
            raise ValueError(f"run {run.run_id} is not claimed")
        return cls(
            run_id=run.run_id,
            tenant_id=run.tenant_id,
            trace_id=run.trace_id,
            version=run.version,
            token=token,
            actor=actor,
            money_state=MoneyState(money_state),
            charge_micros=charge_micros,
            was_held=run.money_state == MoneyState.RESERVED,
            counted=counted_of(run),
        )


@dataclass(frozen=True, slots=True)
class Won:
    """The edge changed the row and left its version alone, or deleted it."""


@dataclass(frozen=True, slots=True)
class Moved(Won):
    """The edge moved the row, which is at this version now."""

    version: int


@dataclass(frozen=True, slots=True)
class Claimed(Won):
    """The caller decides how the run ends: this is its claim."""

    claim: Claim


def new_token() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Accepted:
    """A new row, QUEUED and at money NONE, version 0."""

    run_id: uuid.UUID
    created_at: datetime
    spend_day: date


@dataclass(frozen=True, slots=True)
class AlreadyAccepted:
    """The tenant used this key before; whether for the same request, the hash tells."""

    run_id: uuid.UUID
    payload_hash: str


@dataclass(frozen=True, slots=True)
class Lease:
    run_id: uuid.UUID
    token: str
