"""The ledger against itself and against the runs, tenant by tenant, a chunk at a time:

    snapshots   each daily sum is what its tenant's entries come to, counted from the first one
    days        the days of spending are what the entries before the last daily sum come to, date by date and key by key
    usage       the running month, as the tenant reads it, is the sum of its entries
    charges     each CHARGE is that of a committed run of its tenant
    runs        each committed run's entries come to what its row says: CHARGE and what was taken too much to its cost,
                what a dispute or a failure of ours gave back to what was refunded

The balance is proved from the ledger's sum (verify.py), so a sum that is wrong, or a charge that is missing in both,
would be proved with it; here each is looked up. A chunk is one view of Postgres: a run and its CHARGE are committed in
one statement. A walk holds one chunk in memory, ends after any chunk, and goes on from its place, so that a
ledger of any size is audited in turns. What is still being written is left to the next walk.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Self

from django.db import connection, transaction
from django.db.models import Q

from budget import ledger, ports
from budget.models import BalanceSnapshot, LedgerEntry
from budget.ports import CommittedRun
from budget.verification import days_audit
from budget.verification.days_audit import DaysWalk
from budget.verification.verify import Difference, DifferenceKind
from dpp_project import clock

CHUNK: Final = 2_000


@dataclass(frozen=True, slots=True)
class AuditPlace:
    """Behind this row the audit of a tenant goes on: `side` is entries or runs, the sums are those of the entries.

    `wrong_micros` is what was found wrong on the way here; None where nothing was.
    """

    tenant_id: str
    side: str = "entries"
    at: datetime | None = None
    row_id: uuid.UUID | None = None
    total_micros: int = 0
    credited_micros: int = 0
    wrong_micros: int | None = None
    days: DaysWalk | None = field(default_factory=DaysWalk)
    """None where an older release began this walk, which weighed nothing: the next walk compares the days."""

    @property
    def position(self) -> tuple[datetime, uuid.UUID] | None:
        return None if self.at is None or self.row_id is None else (self.at, self.row_id)

    def document(self) -> dict[str, Any]:
        """As JSON holds it. What an older release does not know is kept apart: it reads the rest."""
        known = {name: value for name, value in asdict(self).items() if name != "days"}
        return known | {
            "at": None if self.at is None else self.at.isoformat(),
            "row_id": None if self.row_id is None else str(self.row_id),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any], days: Mapping[str, Any] | None) -> Self:
        at, row_id = document["at"], document["row_id"]
        read = {
            "at": None if at is None else datetime.fromisoformat(at),
            "row_id": None if row_id is None else uuid.UUID(row_id),
            "days": None if days is None else DaysWalk.of(days),
        }
        return cls(**{**document, **read})


@dataclass(frozen=True, slots=True)
class Audited:
    """One chunk: what was wrong in it, how many rows it had, and where to go on; None when the tenant is through."""

    differences: tuple[Difference, ...]
    rows: int
    place: AuditPlace | None
    wrong_micros: int | None
    """In the tenant so far; None where nothing was."""


_Chunk = tuple[list[Difference], int, AuditPlace | None]


def audit_ledger(tenant_id: str) -> Iterator[Audited]:
    """All of one tenant, chunk by chunk."""
    place: AuditPlace | None = AuditPlace(tenant_id)
    while place is not None:
        chunk = audit_chunk(place)
        yield chunk
        place = chunk.place


def audit_chunk(place: AuditPlace) -> Audited:
    """The chunk behind a place. Raises DatabaseError where Postgres does not answer."""
    until = ledger.settled_until()
    with one_view():
        found, rows, behind = _entries(place, until) if place.side == "entries" else _runs(place)
    wrong = place.wrong_micros
    if found:
        wrong = (wrong or 0) + sum(abs(it.expected_micros - it.found_micros) for it in found)
    return Audited(tuple(found), rows, None if behind is None else replace(behind, wrong_micros=wrong), wrong)


@contextmanager
def one_view() -> Iterator[None]:
    """A transaction in which every statement sees the same moment."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def _entries(place: AuditPlace, until: datetime) -> _Chunk:
    chosen = LedgerEntry.objects.filter(tenant_id=place.tenant_id, created_at__lt=until)
    if place.position is not None:
        at, row_id = place.position
        chosen = chosen.filter(Q(created_at__gt=at) | Q(entry_id__gt=row_id), created_at__gte=at)
    found = list(chosen.order_by("created_at", "entry_id")[:CHUNK])
    is_last = len(found) < CHUNK
    walked_until = until if is_last else found[-1].created_at
    differences = [*_wrong_snapshots(place, found, until=walked_until)]
    sums = days_audit.sums_with_days(place.tenant_id, after=place.at, until=walked_until)
    days = None if place.days is None else place.days.behind(found, sums)
    differences += _wrong_charges([it for it in found if it.kind == LedgerEntry.Kind.CHARGE])
    if is_last:
        differences += [] if days is None else days_audit.wrong_days(place.tenant_id, days)
        differences += days_audit.wrong_usage(place.tenant_id)
        return differences, len(found), AuditPlace(place.tenant_id, side="runs")
    total, credited = _added(place.total_micros, place.credited_micros, found)
    last = found[-1]
    behind = replace(
        place, at=last.created_at, row_id=last.entry_id, total_micros=total, credited_micros=credited, days=days
    )
    return differences, len(found), behind


def _wrong_snapshots(place: AuditPlace, found: Sequence[LedgerEntry], *, until: datetime) -> Iterator[Difference]:
    """Each snapshot that ends among these entries, against the sums of all entries before its end."""
    ending = BalanceSnapshot.objects.filter(tenant_id=place.tenant_id, through__lte=until)
    if place.at is not None:
        ending = ending.filter(through__gt=place.at)
    total, credited, at = place.total_micros, place.credited_micros, 0
    for snapshot in ending.order_by("through"):
        before = at
        while at < len(found) and found[at].created_at < snapshot.through:
            at += 1
        total, credited = _added(total, credited, found[before:at])
        for expected, said in ((total, snapshot.total_usd_micros), (credited, snapshot.credited_usd_micros)):
            if expected != said:
                yield Difference(DifferenceKind.SNAPSHOT_OF_ANOTHER_SUM, expected, said)


def _added(total: int, credited: int, entries: Iterable[LedgerEntry]) -> tuple[int, int]:
    for entry in entries:
        total += entry.amount_usd_micros
        credited += 0 if entry.kind == LedgerEntry.Kind.CHARGE else entry.amount_usd_micros
    return total, credited


def _wrong_charges(charges: Sequence[LedgerEntry]) -> Iterator[Difference]:
    runs = ports.committed_runs()
    owners = {run.run_id: run.tenant_id for run in runs.those([it.run_id for it in charges if it.run_id is not None])}
    kept_since = clock.now() - runs.kept_for()
    for charge in charges:
        if charge.run_id is not None and owners.get(charge.run_id) != charge.tenant_id:
            if charge.created_at < kept_since and charge.run_id not in owners:
                continue  # its run's row has gone, as it must
            taken = -charge.amount_usd_micros
            yield Difference(DifferenceKind.CHARGE_WITHOUT_RUN, 0, taken, str(charge.run_id))


def _runs(place: AuditPlace) -> _Chunk:
    found = ports.committed_runs().page(place.tenant_id, after=place.position, limit=CHUNK)
    differences = list(_wrong_runs(place.tenant_id, found))
    if len(found) < CHUNK:
        return differences, len(found), None
    return differences, len(found), replace(place, at=found[-1].created_at, row_id=found[-1].run_id)


def _wrong_runs(tenant_id: str, found: Sequence[CommittedRun]) -> Iterator[Difference]:
    charges = _audited_ledger_amounts("run_id", run_id__in=[run.run_id for run in found], kind=LedgerEntry.Kind.CHARGE)
    references = [name for run in found for name in (_excess(run), _returned(run), _audited_refund_reference(run))]
    adjusted = _audited_ledger_amounts(
        "reference", tenant_id=tenant_id, kind=LedgerEntry.Kind.ADJUST, reference__in=references
    )
    for run in found:
        cost = -charges.get(run.run_id, 0) - adjusted.get(_excess(run), 0)
        if cost != run.cost_micros:
            yield Difference(DifferenceKind.RUN_OF_ANOTHER_CHARGE, run.cost_micros, cost, str(run.run_id))
        given_back = adjusted.get(_audited_refund_reference(run), 0)
        returned = adjusted.get(_returned(run), 0) + given_back
        # The switch of its tenant may have been turned since: a failure of ours went back whole, or not at all.
        due = run.cost_micros if given_back and run.own_failure else run.returned_micros
        if returned != due:
            yield Difference(DifferenceKind.REFUND_OF_ANOTHER_AMOUNT, due, returned, str(run.run_id))


def _excess(run: CommittedRun) -> str:
    """What was taken too much goes back under this reference, in the commit itself."""
    return f"run:{run.run_id}"


def _returned(run: CommittedRun) -> str:
    return f"dispute:{run.run_id}"


def _audited_refund_reference(run: CommittedRun) -> str:
    """What a failure of ours cost may go back under this one, in the commit too."""
    return f"refund:{run.run_id}"


def _audited_ledger_amounts(key: str, **chosen: Any) -> dict[Any, int]:
    return dict(LedgerEntry.objects.filter(**chosen).values_list(key, "amount_usd_micros"))
