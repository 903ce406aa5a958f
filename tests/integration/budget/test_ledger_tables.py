"""What the database refuses: a changed ledger, a second charge, an amount that fits nothing (DPP-54)."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction

from budget import ledger
from budget.ledger import StatementPeriod, Sums
from budget.models import BalanceSnapshot, LedgerEntry, PendingCredit
from budget.money import MAX_MICROS
from tests.gear.builders.tenants import a_tenant

A_RUN = uuid.UUID(int=7)  # fixed: every test process must collect the same names

pytestmark = [pytest.mark.django_db, pytest.mark.contract("DPP-54", "DPP-59")]

JANUARY = datetime(2026, 1, 1, tzinfo=UTC)


def entry(tenant_id: str, **more: Any) -> LedgerEntry:
    values: dict[str, Any] = {
        "kind": "TOPUP",
        "amount_usd_micros": 1_000_000,
        "reference": uuid.uuid4().hex,
        "actor": "test",
    }
    return LedgerEntry.objects.create(tenant_id=tenant_id, **(values | more))


def charge(tenant_id: str, micros: int, **more: Any) -> LedgerEntry:
    values: dict[str, Any] = {"kind": "CHARGE", "amount_usd_micros": -micros, "reference": None, "run_id": uuid.uuid4()}
    return entry(tenant_id, **(values | more))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET amount_usd_micros = 2",
        "UPDATE ledger_entries SET reason = 'better'",
        "DELETE FROM ledger_entries",
    ],
)
def test_dpp_54_an_entry_is_never_changed_and_never_deleted(statement: str) -> None:
    written = entry(a_tenant().tenant_id)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert LedgerEntry.objects.get(pk=written.pk).amount_usd_micros == 1_000_000


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statement", ["TRUNCATE ledger_entries CASCADE", "TRUNCATE tenants CASCADE"])
def test_dpp_54_the_ledger_is_never_emptied(statement: str) -> None:
    written = entry(a_tenant().tenant_id)
    refusal = "ledger_entries is append-only: TRUNCATE refused"
    with pytest.raises(IntegrityError, match=refusal), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert LedgerEntry.objects.get(pk=written.pk).amount_usd_micros == 1_000_000


def test_dpp_54_a_run_is_charged_once() -> None:
    tenant_id, run_id = a_tenant().tenant_id, uuid.uuid4()
    charge(tenant_id, 5, run_id=run_id)
    with pytest.raises(IntegrityError), transaction.atomic():
        charge(tenant_id, 6, run_id=run_id)
    assert ledger.sums_of(tenant_id) == Sums(total_micros=-5, credited_micros=0)


@pytest.mark.parametrize("second", ["TOPUP", "ADJUST"])
def test_dpp_54_a_reference_stands_once_per_tenant(second: str) -> None:
    one, other = a_tenant().tenant_id, a_tenant().tenant_id
    entry(one, reference="invoice 7")
    with pytest.raises(IntegrityError), transaction.atomic():
        entry(one, kind=second, reference="invoice 7")
    entry(other, reference="invoice 7")
    assert LedgerEntry.objects.filter(reference="invoice 7").count() == 2


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("amount_range", {"amount_usd_micros": 0}),
        ("kind_fits", {"amount_usd_micros": -1}),
        ("amount_range", {"amount_usd_micros": MAX_MICROS + 1}),
        ("amount_range", {"kind": "ADJUST", "amount_usd_micros": -MAX_MICROS - 1}),
        ("kind_fits", {"kind": "GIFT"}),
        ("kind_fits", {"reference": None}),
        ("reference_given", {"reference": ""}),
        ("kind_fits", {"run_id": A_RUN}),
        ("actor_given", {"actor": ""}),
        ("kind_fits", {"kind": "CHARGE", "amount_usd_micros": 5, "run_id": A_RUN, "reference": None}),
        ("kind_fits", {"kind": "CHARGE", "amount_usd_micros": -5, "reference": None}),
        ("kind_fits", {"kind": "CHARGE", "amount_usd_micros": -5, "run_id": A_RUN, "reference": "x"}),
        ("kind_fits", {"kind": "ADJUST", "reference": None}),
    ],
    ids=str,
)
def test_the_database_refuses_what_must_not_be(constraint: str, values: dict[str, Any]) -> None:
    tenant_id = a_tenant().tenant_id
    with pytest.raises(IntegrityError) as caught, transaction.atomic():
        entry(tenant_id, **values)
    refused = caught.value.__cause__
    assert isinstance(refused, psycopg.errors.CheckViolation)
    assert refused.diag.constraint_name == f"ledger_entries_{constraint}"
    assert not LedgerEntry.objects.filter(tenant_id=tenant_id).exists()


def test_a_tenant_with_entries_cannot_go() -> None:
    tenant = a_tenant()
    entry(tenant.tenant_id)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM tenants WHERE tenant_id = %s", [tenant.tenant_id])


def test_an_amount_may_be_as_large_as_the_limit() -> None:
    tenant_id = a_tenant().tenant_id
    entry(tenant_id, amount_usd_micros=MAX_MICROS)
    charge(tenant_id, MAX_MICROS)
    assert ledger.sums_of(tenant_id) == Sums(total_micros=0, credited_micros=MAX_MICROS)


def test_sums_start_at_the_last_snapshot() -> None:
    tenant_id, silent = a_tenant().tenant_id, a_tenant().tenant_id
    entry(tenant_id, created_at=JANUARY)
    charge(tenant_id, 30, created_at=JANUARY + timedelta(days=1))
    BalanceSnapshot.objects.create(
        tenant_id=tenant_id,
        through=JANUARY + timedelta(days=1),
        total_usd_micros=1_000_000,
        credited_usd_micros=1_000_000,
    )
    BalanceSnapshot.objects.create(
        tenant_id=tenant_id,
        through=JANUARY + timedelta(days=2),
        total_usd_micros=999_970,
        credited_usd_micros=1_000_000,
    )
    charge(tenant_id, 70, created_at=JANUARY + timedelta(days=3))
    assert ledger.sums_of(tenant_id) == Sums(999_900, 1_000_000)
    assert ledger.sums_of(tenant_id, before=JANUARY) == Sums(0, 0)
    assert ledger.sums_of(tenant_id, before=JANUARY + timedelta(days=1)) == Sums(1_000_000, 1_000_000)
    assert ledger.sums_of(tenant_id, before=JANUARY + timedelta(days=1, seconds=1)) == Sums(999_970, 1_000_000)
    assert ledger.ledger_sums()[silent] == Sums(0, 0)


def test_nothing_is_written_into_a_day_that_is_summed_up() -> None:
    tenant_id = a_tenant().tenant_id
    BalanceSnapshot.objects.create(tenant_id=tenant_id, through=JANUARY, total_usd_micros=0, credited_usd_micros=0)
    with pytest.raises(IntegrityError, match="summed up"), transaction.atomic():
        entry(tenant_id, created_at=JANUARY - timedelta(seconds=1))
    entry(tenant_id, created_at=JANUARY)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE balance_snapshots SET total_usd_micros = 1")


def test_pages_walk_a_statement_without_gaps_or_repeats() -> None:
    tenant_id = a_tenant().tenant_id
    written = [entry(tenant_id, created_at=JANUARY + timedelta(hours=at // 3)) for at in range(10)]
    in_order = sorted(written, key=lambda it: (it.created_at, it.entry_id))
    chosen = ledger.ledger_entries(tenant_id, StatementPeriod())
    walked: list[LedgerEntry] = []
    after = None
    while page := ledger.newest_first(chosen, after=after, limit=3):
        walked += page
        after = (page[-1].created_at, page[-1].entry_id)
    assert walked == in_order[::-1]
    assert list(ledger.oldest_first(chosen)) == in_order
    assert [ledger.balance_before(tenant_id, it) for it in in_order] == [at * 1_000_000 for at in range(10)]


def test_append_credit_leaves_a_pending_credit_in_the_same_transaction() -> None:
    tenant_id = a_tenant().tenant_id
    with transaction.atomic():
        made = ledger.append_credit(
            tenant_id=tenant_id,
            kind=LedgerEntry.Kind.ADJUST,
            amount_micros=-7,
            reference="r",
            reason="why",
            actor="test",
        )
    pending = PendingCredit.objects.get(entry=made)
    assert (pending.tenant_id, pending.amount_usd_micros) == (tenant_id, -7)
    assert ledger.entry_by_reference(tenant_id, "r") == made
