"""What budget must know of runs, named here because runs stand above it.

`runs` registers its own implementation when Django starts. Without that app there are no open runs.
"""

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Protocol

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from budget.redis.windows import NOWHERE, Counted

Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""A statement and its values; the rows."""


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run whose money is not ended in the database."""

    tenant_id: str
    run_id: str
    reserved_micros: int
    created_at_ms: int
    reserved: bool
    """False at money NONE: a hold may or may not have been made; the database does not count it."""
    claimed: bool = False
    """A finisher has it: only then can there be a receipt of its own."""
    counted: Counted = NOWHERE


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A committed run: what its receipt says."""

    tenant_id: str
    run_id: str
    charge_micros: int
    refund_micros: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """What a tenant's runs at money RESERVED come to."""

    tenant_id: str
    runs: int
    micros: int


@dataclass(frozen=True, slots=True)
class HeldOn:
    """What the open runs of one date hold; nothing where all of them are at money NONE."""

    tenant_id: str
    lineage_id: uuid.UUID | None
    day: date
    micros: int


class OpenRuns(Protocol):
    """Each call but `fence` runs inside the caller's transaction and sees its snapshot. `tenant_id=None`: every tenant.

    What is named run by run comes in pieces, and one tenant's runs follow each other.
    """

    def fence(self, *, tenant_id: str | None) -> Iterator[int]:
        """Raise the version of every run that is CLAIMED or at money NONE, so that no step under way can commit.

        In batches, each a transaction of its own, and each yields its count: what was fenced stays fenced if the rest
        is cut off. To be called behind a closed gate: what is claimed or accepted after it moves no money, and needs
        no fence.
        """

    def reserved(self, *, tenant_id: str | None) -> Iterator[Reserved]:
        """The sums of what `open` names with `reserved`, for tenants that have such runs."""

    def held_by_date(self, *, tenant_ids: Sequence[str]) -> Iterator[HeldOn]:
        """What `open` names of these tenants, by lineage and date; undated runs are left out."""

    def open(self, *, tenant_id: str | None) -> Iterator[OpenRun]:
        """Every run not COMMITTED whose money is NONE or RESERVED."""

    def ended(self, *, tenant_id: str | None, within: timedelta) -> Iterator[EndedRun]:
        """Every run COMMITTED so lately, by the database's clock."""

    def still_open(self, *, run_ids: Collection[str]) -> Collection[str]:
        """Of these, the runs not COMMITTED whose row stands, at any money. What is no run's id is none of them."""

    def standing(self, ask: Ask, run_ids: Collection[str]) -> Mapping[str, bool]:
        """Of these runs, those whose row has come to money RESERVED; True for one that has come to its claim.

        Asked on the connection that `ask` leads to, which need not be Django's.
        """


class NoRuns:
    """A platform that sells nothing yet."""

    def fence(self, *, tenant_id: str | None) -> Iterator[int]:
        del tenant_id
        return iter(())

    def reserved(self, *, tenant_id: str | None) -> Iterator[Reserved]:
        del tenant_id
        return iter(())

    def held_by_date(self, *, tenant_ids: Sequence[str]) -> Iterator[HeldOn]:
        del tenant_ids
        return iter(())

    def open(self, *, tenant_id: str | None) -> Iterator[OpenRun]:
        del tenant_id
        return iter(())

    def ended(self, *, tenant_id: str | None, within: timedelta) -> Iterator[EndedRun]:
        del tenant_id, within
        return iter(())

    def still_open(self, *, run_ids: Collection[str]) -> Collection[str]:
        del run_ids
        return ()

    def standing(self, ask: Ask, run_ids: Collection[str]) -> Mapping[str, bool]:
        del ask, run_ids
        return {}


_registered: list[OpenRuns] = []


def register_open_runs(open_runs: OpenRuns) -> None:
    _registered[:] = [open_runs]


def open_runs() -> OpenRuns:
    if _registered:
        return _registered[0]
    if apps.is_installed("runs"):
        raise ImproperlyConfigured("runs has not registered its OpenRuns: a rebuild would forget every hold")
    return NoRuns()


# What the audit of the ledger must know of runs that have ended.

RunPosition = tuple[datetime, uuid.UUID]


@dataclass(frozen=True, slots=True)
class CommittedRun:
    """What a committed run's row says of its money."""

    tenant_id: str
    run_id: uuid.UUID
    created_at: datetime
    cost_micros: int
    returned_micros: int
    """What must have gone back of it: all of it where a dispute was decided so."""
    own_failure: bool = False
    """It failed on our side: its tenant may be one that is given back the whole cost for that."""


class CommittedRuns(Protocol):
    """Each call runs inside the caller's transaction and sees its snapshot."""

    def page(self, tenant_id: str, *, after: RunPosition | None, limit: int) -> Sequence[CommittedRun]:
        """The tenant's committed runs in the order of (created_at, run_id)."""

    def those(self, run_ids: Sequence[uuid.UUID]) -> Sequence[CommittedRun]:
        """Which of these have been committed."""

    def kept_for(self) -> timedelta:
        """How long after its creation a run's row stands at least; the ledger's entries stand for ever."""

    def sold(self) -> str:
        """A SELECT of run_id, pack_type, reason ('' of one that completed) and tokens, without values.

        For a statement that takes entries and their runs from one view: it is joined there, by run_id.
        """

    def metadata_values(self) -> str:
        """A SELECT of run_id and value, of the tenant's runs that have `%(metadata_key)s`; joined as `sold` is."""


class NoCommittedRuns:
    """A platform that sells nothing yet."""

    def page(self, tenant_id: str, *, after: RunPosition | None, limit: int) -> Sequence[CommittedRun]:
        del tenant_id, after, limit
        return ()

    def those(self, run_ids: Sequence[uuid.UUID]) -> Sequence[CommittedRun]:
        del run_ids
        return ()

    def kept_for(self) -> timedelta:
        return timedelta()

    def sold(self) -> str:
        return "SELECT NULL::uuid AS run_id, '' AS pack_type, '' AS reason, 0::bigint AS tokens WHERE false"

    def metadata_values(self) -> str:
        return "SELECT NULL::uuid AS run_id, '' AS value WHERE false"


_committed: list[CommittedRuns] = []


def register_committed(committed_runs: CommittedRuns) -> None:
    _committed[:] = [committed_runs]


def committed_runs() -> CommittedRuns:
    if _committed:
        return _committed[0]
    if apps.is_installed("runs"):
        raise ImproperlyConfigured("runs has not registered its CommittedRuns: an audit would miss every charge")
    return NoCommittedRuns()
