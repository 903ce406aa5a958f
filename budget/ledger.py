"""The ledger: what is summed, what is appended, what is read as a statement. Nothing here talks to Redis.

A tenant's entries are in order by (created_at, entry_id). Sums start at its last snapshot, so that they cost the same
however long the ledger grows.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final

from django.db import connection
from django.db.models import BigIntegerField, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from budget.models import BalanceSnapshot, LedgerEntry, PendingCredit
from budget.money import MAX_MICROS
from tenants.models import Tenant

CHUNK: Final = 2_000

_ENTRIES_OF_ENDED_RUN: Final = """,
    taken AS (
        SELECT *, %s::bigint AS taken_micros FROM ended
    ),
    ledger_charge AS (
        INSERT INTO ledger_entries (entry_id, tenant_id, run_id, kind, amount_usd_micros, actor, lineage_id, spend_day)
        SELECT gen_random_uuid(), tenant_id, run_id, 'CHARGE', -taken_micros, actor, lineage_id, spend_day
          FROM taken WHERE taken_micros > 0
    ),
    ledger_adjust AS (
        INSERT INTO ledger_entries (entry_id, tenant_id, run_id, kind, amount_usd_micros, reference, reason, actor,
                                    lineage_id, spend_day)
        SELECT gen_random_uuid(), tenant_id, run_id, 'ADJUST', taken_micros - due_micros, 'run:' || run_id,
               'more was taken than the run was to cost', actor, lineage_id, spend_day
          FROM taken WHERE taken_micros > due_micros
        RETURNING entry_id, tenant_id, amount_usd_micros
    ),
    ledger_refund AS (
        INSERT INTO ledger_entries (entry_id, tenant_id, run_id, kind, amount_usd_micros, reference, reason, actor,
                                    lineage_id, spend_day)
        SELECT gen_random_uuid(), taken.tenant_id, run_id, 'ADJUST', least(taken_micros, due_micros),
               'refund:' || run_id, 'it failed on our side: ' || own_failure, actor, lineage_id, spend_day
          FROM taken JOIN tenants USING (tenant_id)
         WHERE own_failure IS NOT NULL AND tenants.refund_own_failures AND least(taken_micros, due_micros) > 0
        RETURNING entry_id, tenant_id, amount_usd_micros
    ),
    ledger_pending AS (
        INSERT INTO pending_credits (entry_id, tenant_id, amount_usd_micros)
        SELECT * FROM ledger_adjust UNION ALL SELECT * FROM ledger_refund
    )
"""
GIVEN_BACK: Final = "coalesce((SELECT amount_usd_micros FROM ledger_refund), 0)"
"""For `beside`: what a failure of ours gives back, of the one run."""


def end_run_with_entries(ended: str, values: Sequence[Any], *, taken_micros: int, beside: str = "") -> int:
    """Ends a run and appends its entries in one statement: no crash lies between the two. The number of runs it ended.

    `ended` is the UPDATE that ends the run, RETURNING tenant_id, run_id, due_micros, actor, own_failure, and lineage_id
    and spend_day, where its entries count; the loser of its compare-and-set appends nothing. `taken_micros` is what the
    receipt says, `due_micros` what the run was to cost: CHARGE = what was taken, and what was taken too much goes back
    as an ADJUST, which waits in pending_credits until it has reached the balance. `own_failure` names a failure of the
    platform's: a tenant that is given those back gets what the run cost as a further ADJUST, in the same statement.
    `beside` are further CTEs without values of their own, which tell others of the end: they read `ended`, and must be
    such that they cannot fail.
    """
    told = f",{beside}" if beside else ""
    sql = f"WITH ended AS ({ended}){_ENTRIES_OF_ENDED_RUN}{told}\nSELECT count(*) FROM ended"
    with connection.cursor() as cursor:
        cursor.execute(sql, [*values, taken_micros])
        (count,) = cursor.fetchone()
    return int(count)


@dataclass(frozen=True, slots=True)
class Sums:
    """What a tenant's entries come to. `credited` leaves the charges out."""

    total_micros: int
    credited_micros: int


_SUMS: Final = """
SELECT tenants.tenant_id,
       (coalesce(summed.total_usd_micros, 0) + coalesce(since.total, 0))::bigint,
       (coalesce(summed.credited_usd_micros, 0) + coalesce(since.credited, 0))::bigint
  FROM tenants
  LEFT JOIN LATERAL (
        SELECT through, total_usd_micros, credited_usd_micros FROM balance_snapshots
         WHERE tenant_id = tenants.tenant_id AND through <= coalesce(%(before)s::timestamptz, 'infinity')
         ORDER BY through DESC LIMIT 1
       ) summed ON true
  LEFT JOIN LATERAL (
        SELECT sum(amount_usd_micros) AS total, sum(amount_usd_micros) FILTER (WHERE kind <> 'CHARGE') AS credited
          FROM ledger_entries
         WHERE tenant_id = tenants.tenant_id
           AND created_at >= coalesce(summed.through, '-infinity')
           AND created_at < coalesce(%(before)s::timestamptz, 'infinity')
       ) since ON true
 WHERE %(tenant_id)s::text IS NULL OR tenants.tenant_id = %(tenant_id)s
"""


def ledger_sums(*, tenant_id: str | None = None, before: datetime | None = None) -> dict[str, Sums]:
    """Every tenant's sums, or one's, also of those without entries; of the entries before an instant, or of all."""
    with connection.cursor() as cursor:
        cursor.execute(_SUMS, {"tenant_id": tenant_id, "before": before})
        return {owner: Sums(total, credited) for owner, total, credited in cursor.fetchall()}


_TOTALS: Final = """
SELECT tenants.tenant_id, (coalesce(summed.total_usd_micros, 0) + coalesce(since.total, 0))::bigint
  FROM tenants
  LEFT JOIN LATERAL (
        SELECT through, total_usd_micros FROM balance_snapshots
         WHERE tenant_id = tenants.tenant_id ORDER BY through DESC LIMIT 1
       ) summed ON true
  LEFT JOIN LATERAL (
        SELECT sum(amount_usd_micros) AS total FROM ledger_entries
         WHERE tenant_id = tenants.tenant_id AND created_at >= coalesce(summed.through, '-infinity')
       ) since ON true
 WHERE %(tenant_id)s::text IS NULL OR tenants.tenant_id = %(tenant_id)s
"""


def ledger_totals(*, tenant_id: str | None = None) -> dict[str, int]:
    """As `ledger_sums` says it, but from the index alone: money is closed for as long as a rebuild asks."""
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS, {"tenant_id": tenant_id})
        return dict(cursor.fetchall())


def sums_of(tenant_id: str, *, before: datetime | None = None) -> Sums:
    return ledger_sums(tenant_id=tenant_id, before=before).get(tenant_id, Sums(0, 0))


def entry_by_reference(tenant_id: str, reference: str) -> LedgerEntry | None:
    return LedgerEntry.objects.filter(tenant_id=tenant_id, reference=reference).exclude(kind="CHARGE").first()


def entries_of_run(tenant_id: str, run_id: uuid.UUID) -> list[LedgerEntry]:
    """Oldest first. Asked for by charge and correction apart, since each has an index by the run: without them the one
    that fits is the tenant's, and all of its entries are read.
    """
    charge = Q(run_id=run_id, kind=LedgerEntry.Kind.CHARGE)
    corrections = Q(run_id=run_id) & ~Q(kind=LedgerEntry.Kind.CHARGE)
    found = LedgerEntry.objects.filter(charge | corrections, tenant_id=tenant_id)
    return list(found.order_by("created_at", "entry_id"))


def counted_charge_of(run_id: uuid.UUID) -> tuple[uuid.UUID | None, date | None]:
    """Where a run's charge counts: its lineage and date; nowhere where it has no charge.

    It is not always where the run's row says: a process of a release before the caps enters charges without a date.
    What goes back of such a one must count nowhere either, or it would make room that nobody had taken.
    """
    charge = LedgerEntry.objects.filter(run_id=run_id, kind=LedgerEntry.Kind.CHARGE)
    found: tuple[uuid.UUID | None, date | None] | None = charge.values_list("lineage_id", "spend_day").first()
    return found or (None, None)


def refund_of(tenant_id: str, run_id: uuid.UUID) -> int:
    """What a run gave back because it failed on our side."""
    entry = entry_by_reference(tenant_id, f"refund:{run_id}")
    return 0 if entry is None else entry.amount_usd_micros


def has_room(tenant_id: str, amount_micros: int) -> bool:
    """Whether the tenant's entries and one more come to no more than Redis counts exactly.

    To be called inside the transaction that appends it: the tenant's row is locked to its end, as for a top-up, so that
    two just under the limit take turns.
    """
    Tenant.objects.select_for_update(no_key=True).only("pk").get(tenant_id=tenant_id)
    return sums_of(tenant_id).total_micros + amount_micros <= MAX_MICROS


def append_credit(
    *,
    tenant_id: str,
    kind: LedgerEntry.Kind,
    amount_micros: int,
    reference: str,
    reason: str,
    actor: str,
    run_id: uuid.UUID | None = None,
    lineage_id: uuid.UUID | None = None,
    spend_day: date | None = None,
) -> LedgerEntry:
    """A top-up or adjustment and its pending credit; to be called inside a transaction.

    One of a run carries its lineage and date: what goes back goes back to the windows that counted it.
    """
    entry = LedgerEntry.objects.create(
        entry_id=uuid.uuid4(),
        tenant_id=tenant_id,
        run_id=run_id,
        kind=kind,
        amount_usd_micros=amount_micros,
        reference=reference,
        reason=reason,
        actor=actor,
        lineage_id=lineage_id,
        spend_day=spend_day,
    )
    PendingCredit.objects.create(entry=entry, tenant_id=tenant_id, amount_usd_micros=amount_micros)
    return entry


WRITER_SECONDS_MAX: Final = 60
"""Longer than any statement of ours takes: a session that was left open in a transaction hides nothing for longer."""

_SETTLED_UNTIL: Final = """
SELECT greatest(
         least(statement_timestamp(), (
           SELECT min(coalesce(writer.xact_start, '-infinity'))
             FROM pg_locks held LEFT JOIN pg_stat_activity writer USING (pid)
            WHERE held.locktype = 'relation' AND held.relation = 'ledger_entries'::regclass
              AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
              AND held.mode = 'RowExclusiveLock' AND held.granted)),
         statement_timestamp() - make_interval(secs => %(longest)s))
"""


def settled_until() -> datetime:
    """No entry can appear any more before this moment.

    An entry has the moment at which it was written, and is seen when its transaction ends; another that was written
    later may be seen before. A writer has its lock on the table before it takes that moment, and until it ends, so
    what is being written is younger than the oldest transaction that has such a lock, and what begins to be written
    while we look is younger than our statement. To be called outside of a transaction, before what it bounds is read.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SETTLED_UNTIL, {"longest": WRITER_SECONDS_MAX})
        (moment,) = cursor.fetchone()
    found: datetime = moment
    return found


# Statements.


@dataclass(frozen=True, slots=True)
class StatementPeriod:
    """From the first instant, included, to the last, excluded; None is open."""

    start: datetime | None = None
    end: datetime | None = None

    def before(self, until: datetime) -> "StatementPeriod":
        return replace(self, end=until if self.end is None else min(self.end, until))


Position = tuple[datetime, uuid.UUID]


def ledger_entries(tenant_id: str, period: StatementPeriod, *, kind: str | None = None) -> QuerySet[LedgerEntry]:
    chosen = LedgerEntry.objects.filter(tenant_id=tenant_id)
    if period.start is not None:
        chosen = chosen.filter(created_at__gte=period.start)
    if period.end is not None:
        chosen = chosen.filter(created_at__lt=period.end)
    return chosen if kind is None else chosen.filter(kind=kind)


def newest_first(chosen: QuerySet[LedgerEntry], *, after: Position | None, limit: int) -> list[LedgerEntry]:
    """The page that follows a position; `limit + 1` of it tells whether there is another."""
    if after is not None:
        at, entry_id = after
        chosen = chosen.filter(Q(created_at__lt=at) | Q(created_at=at, entry_id__lt=entry_id), created_at__lte=at)
    return list(chosen.order_by("-created_at", "-entry_id")[:limit])


def oldest_first(chosen: QuerySet[LedgerEntry]) -> Iterator[LedgerEntry]:
    """All of them, in pieces that each are a query of their own: no cursor stays open while a client reads slowly."""
    position: Position | None = None
    while True:
        page = chosen.order_by("created_at", "entry_id")
        if position is not None:
            at, entry_id = position
            page = page.filter(Q(created_at__gt=at) | Q(created_at=at, entry_id__gt=entry_id), created_at__gte=at)
        found = list(page[:CHUNK])
        yield from found
        if len(found) < CHUNK:
            return
        position = (found[-1].created_at, found[-1].entry_id)


def balance_before(tenant_id: str, entry: LedgerEntry) -> int:
    """The sum of what stands before an entry, in the statement's order."""
    at_the_same_instant = LedgerEntry.objects.filter(
        tenant_id=tenant_id, created_at=entry.created_at, entry_id__lt=entry.entry_id
    ).values_list("amount_usd_micros", flat=True)
    return sums_of(tenant_id, before=entry.created_at).total_micros + sum(at_the_same_instant)


def sum_between(tenant_id: str, first: LedgerEntry, last: LedgerEntry) -> int:
    """The sum of what stands between two entries, without either, in the statement's order."""
    behind = Q(created_at__gt=first.created_at) | Q(entry_id__gt=first.entry_id)
    before = Q(created_at__lt=last.created_at) | Q(entry_id__lt=last.entry_id)
    chosen = LedgerEntry.objects.filter(
        behind, before, tenant_id=tenant_id, created_at__gte=first.created_at, created_at__lte=last.created_at
    )
    found: int = chosen.aggregate(total=Coalesce(Sum("amount_usd_micros"), 0, output_field=BigIntegerField()))["total"]
    return found


def snapshots_between(tenant_id: str, first: datetime, last: datetime) -> list[datetime]:
    """The ends of the daily sums behind the first instant, to the last one."""
    ends = BalanceSnapshot.objects.filter(tenant_id=tenant_id, through__gt=first, through__lte=last)
    return list(ends.order_by("through").values_list("through", flat=True))
