"""The days of spending, and what is counted from them: the plain sum over the ledger, whenever it is asked for."""

import random
import uuid
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import DataError, connection, transaction

from budget import daily_snapshots, spend
from budget.models import BalanceSnapshot, LedgerEntry, SpendDay
from budget.spend import SpendScope, Spent
from runs import transitions
from runs.models import Run
from tests.gear.builders.runs import claim_of, claimed, fee, won
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.rivals import OnAnotherConnection
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.contract("CAP-10")]

DAY = datetime(2026, 2, 20, tzinfo=UTC)
KEY = uuid.UUID(int=7)


def charge(tenant_id: str, micros: int, at: datetime, *, lineage: uuid.UUID | None = KEY, day: date | None) -> Any:
    return LedgerEntry.objects.create(
        tenant_id=tenant_id,
        run_id=uuid.uuid4(),
        kind="CHARGE",
        amount_usd_micros=-micros,
        actor="test",
        created_at=at,
        lineage_id=lineage,
        spend_day=day,
    )


def given_back(charged: LedgerEntry, micros: int, at: datetime) -> None:
    LedgerEntry.objects.create(
        tenant_id=charged.tenant_id,
        run_id=charged.run_id,
        kind="ADJUST",
        amount_usd_micros=micros,
        reference=f"dispute:{charged.run_id}",
        actor="test",
        created_at=at,
        lineage_id=charged.lineage_id,
        spend_day=charged.spend_day,
    )


def summed_up(until: datetime) -> int:
    return daily_snapshots.sum_up(now=until + timedelta(hours=1), limit=10)


def days_of(tenant_id: str) -> list[tuple[Any, ...]]:
    rows = SpendDay.objects.filter(tenant_id=tenant_id).order_by("spend_day", "lineage_id", "pack_type", "reason")
    return list(
        rows.values_list(
            *("spend_day", "lineage_id", "pack_type", "reason", "charged_usd_micros", "credited_usd_micros"),
            *("runs", "tokens"),
        )
    )


def plain_sum(scope: SpendScope) -> Spent:
    """Entry by entry, in Python."""
    micros: Counter[str] = Counter()
    for entry in LedgerEntry.objects.filter(tenant_id=scope.tenant_id, spend_day__isnull=False):
        day = entry.spend_day
        if day is None or scope.lineage_id not in {None, entry.lineage_id}:
            continue
        windows = {
            "day_micros": day == scope.day,
            "week_micros": day.isocalendar()[:2] == scope.day.isocalendar()[:2],
            "month_micros": (day.year, day.month) == (scope.day.year, scope.day.month),
            "total_micros": True,
        }
        micros.update({window: -entry.amount_usd_micros for window, holds in windows.items() if holds})
    return Spent(scope.day, **micros)


@pytest.mark.contract("CAP-13")
def test_what_is_counted_is_the_plain_sum_whenever_it_is_summed_up() -> None:
    rng = random.Random(16)  # noqa: S311  a fixed course of events
    tenant_id, other = a_tenant().tenant_id, a_tenant().tenant_id
    lineages = [uuid.UUID(int=number) for number in (1, 2)] + [None]
    at, standing = DAY, list[LedgerEntry]()
    seen = 0
    for step in range(220):
        at += timedelta(minutes=rng.randint(1, 240))
        if standing and rng.random() < 0.2:
            charged = standing.pop(rng.randrange(len(standing)))
            given_back(charged, -charged.amount_usd_micros, at)
        else:
            day = None if rng.random() < 0.1 else (at - timedelta(hours=rng.choice([0, 0, 20]))).date()
            owner = other if rng.random() < 0.1 else tenant_id
            made = charge(owner, rng.randint(1, 10**6), at, lineage=rng.choice(lineages), day=day)
            standing += [made] if day else []
        if rng.random() < 0.08:
            summed_up(at.replace(hour=0, minute=0))
        if step % 20 == 19:
            days = [at.date(), at.date() - timedelta(days=rng.randint(1, 9))]
            scopes = [SpendScope(tenant_id, lineage, day) for lineage in [*lineages, uuid.uuid4()] for day in days]
            scopes += [SpendScope(other, lineage, days[0]) for lineage in lineages]
            assert spend.spent_of_scopes(scopes) == {scope: plain_sum(scope) for scope in scopes}, step
            seen += len(scopes)
    assert seen == 121
    assert BalanceSnapshot.objects.filter(tenant_id=tenant_id).count() > 5
    assert spend.spent_of_scopes([]) == {}


def ended(tenant_id: str, at: datetime, **intent: Any) -> Run:
    """A run of the platform's own, its entries moved to `at`; they count where they say."""
    run = claimed(tenant_id=tenant_id, lineage_id=KEY, **intent)
    won(transitions.commit(claim=claim_of(run, **intent), taken_micros=run.intent_charge_usd_micros or 0))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            "UPDATE ledger_entries SET created_at = %s, spend_day = %s, lineage_id = %s WHERE run_id = %s",
            [at, at.date(), KEY, run.run_id],
        )
        cursor.execute("SET LOCAL session_replication_role = origin")
    return run


def test_a_day_is_told_apart_by_pack_and_reason_and_counts_runs_and_tokens_once() -> None:
    tenant_id = a_tenant().tenant_id
    ended(tenant_id, DAY)
    later = DAY + timedelta(days=1)
    ended(tenant_id, later, intent=fee())
    gone = charge(tenant_id, 9, later, day=DAY.date())
    assert summed_up(later) == 1
    first = (DAY.date(), KEY, "decision", "", 50_000, 0, 1, 7)
    assert days_of(tenant_id) == [first]
    run = Run.objects.filter(tenant_id=tenant_id, last_error_reason_code__isnull=True).get()
    given_back(LedgerEntry.objects.get(run_id=run.run_id), 50_000, later)
    given_back(gone, 4, later)
    assert summed_up(later + timedelta(days=1)) == 1
    assert days_of(tenant_id) == [
        (DAY.date(), KEY, "", "", 9, 4, 1, 0),
        (*first[:5], 50_000, 1, 7),
        (later.date(), KEY, "decision", "WORKER_TIMEOUT", 5_000, 0, 1, 0),
    ], "a row that is gone is counted, and the run that was given back keeps its day"
    assert summed_up(later + timedelta(days=1)) == 0


def test_what_an_older_release_summed_up_without_days_is_added_by_the_next_sum() -> None:
    """Two releases run beside each other: the older one's job knows of no days, and moves only the balance on."""
    tenant_id = a_tenant().tenant_id
    charge(tenant_id, 5, DAY, day=DAY.date())
    old = {"total_usd_micros": -5, "credited_usd_micros": 0}
    BalanceSnapshot.objects.create(tenant_id=tenant_id, through=DAY + timedelta(days=1), **old)
    scope = SpendScope(tenant_id, KEY, DAY.date())
    assert spend.spent_of_scopes([scope])[scope].total_micros == 5
    charge(tenant_id, 3, DAY + timedelta(days=1), day=DAY.date())
    assert summed_up(DAY + timedelta(days=2)) == 1
    assert [row[4] for row in days_of(tenant_id)] == [8]
    assert spend.spent_of_scopes([scope])[scope] == plain_sum(scope) == Spent(DAY.date(), 8, 8, 8, 8)


def test_a_sum_and_its_days_are_written_together_or_not_at_all() -> None:
    tenant_id = a_tenant().tenant_id
    full = {"charged_usd_micros": 2**63 - 1, "credited_usd_micros": 0, "runs": 1, "tokens": 0}
    SpendDay.objects.create(tenant_id=tenant_id, lineage_id=KEY, spend_day=DAY.date(), pack_type="", **full)
    charge(tenant_id, 1, DAY, day=DAY.date())
    with pytest.raises(DataError, match="out of range"), transaction.atomic():
        summed_up(DAY + timedelta(days=1))
    assert not BalanceSnapshot.objects.exists()
    assert [row[4] for row in days_of(tenant_id)] == [2**63 - 1]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("second_through", [1, 2])
def test_two_sums_at_once_add_each_entry_once(second_through: int) -> None:
    """Also where midnight has passed between the two, and each means another day."""
    tenant_id = a_tenant().tenant_id
    charge(tenant_id, 5, DAY, day=DAY.date())
    charge(tenant_id, 3, DAY + timedelta(days=1), day=DAY.date())
    with transaction.atomic():
        assert summed_up(DAY + timedelta(days=1)) == 1
        rival = OnAnotherConnection(lambda: summed_up(DAY + timedelta(days=second_through)))
        wait_until(lambda: rival.is_done() or rival.waits_for_a_lock(), what="the rival to meet the lock")
    assert rival.answer() == second_through - 1
    assert [row[4:7] for row in days_of(tenant_id)] == [(5 if second_through == 1 else 8, 0, second_through)]
