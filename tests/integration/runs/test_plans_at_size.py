"""What grew with the tables when `make bench B=growth` was first asked, and does so no more."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from budget import ledger
from budget.models import LedgerEntry
from runs.models import Run
from runs.reads import for_recovery
from tenants.models import Tenant
from tests.gear.builders import bulk

ENTRIES = 5_000

pytestmark = pytest.mark.django_db


def fill(tenant: Tenant) -> uuid.UUID:
    """One tenant's runs with a charge each, and others' top-ups; the id of one run.

    Into tables as new, which are planned by their size.
    """
    with connection.cursor() as cursor:
        with bulk.without_triggers(cursor):
            cursor.execute("TRUNCATE runs, ledger_entries CASCADE")
            bulk.ended(cursor, owners=[tenant.tenant_id], count=ENTRIES)
            bulk.charges(cursor)
            bulk.credits(cursor, [f"t_{number}" for number in range(2_000)])
        cursor.execute("ANALYZE runs, ledger_entries")
    return Run.objects.order_by("run_id")[ENTRIES // 2].run_id


def plan_of(call: Callable[[], object]) -> str:
    """Of its one statement."""
    with CaptureQueriesContext(connection) as queries:
        call()
    (query,) = queries.captured_queries
    return explained(query["sql"])


def explained(sql: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT TEXT) {sql}")
        return "\n".join(line for (line,) in cursor.fetchall())


def test_the_entries_of_one_run_are_found_without_reading_its_tenants(tenant: Tenant) -> None:
    """Without its charge's index and the corrections', a customer's page of one run read every entry they ever had."""
    run_id = fill(tenant)
    plan = plan_of(lambda: ledger.entries_of_run(tenant.tenant_id, run_id))
    assert "ledger_entries_one_charge_per_run" in plan, plan
    assert "idx_ledger_entries_corrections" in plan, plan
    assert "idx_ledger_entries_statement" not in plan, plan
    assert "Seq Scan" not in plan, plan


def test_the_entries_of_one_run_are_its_charge_and_what_was_corrected(tenant: Tenant) -> None:
    run_id = fill(tenant)
    charge = LedgerEntry.objects.get(run_id=run_id)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_entries (entry_id, tenant_id, run_id, kind, amount_usd_micros, reference, actor)"
            " VALUES (gen_random_uuid(), %s, %s, 'ADJUST', 7, 'refund:one', 'test')",
            [tenant.tenant_id, run_id],
        )
    found = ledger.entries_of_run(tenant.tenant_id, run_id)
    assert [(one.kind, one.amount_usd_micros) for one in found] == [("CHARGE", charge.amount_usd_micros), ("ADJUST", 7)]
    assert ledger.entries_of_run("t_another", run_id) == []
    assert ledger.entries_of_run(tenant.tenant_id, uuid.uuid4()) == []


def test_what_is_due_for_sending_is_found_without_reading_the_line(tenant: Tenant) -> None:
    """Whether one is parked was looked for in all of the line: 1,000 pages of 100,000 runs, each minute."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE runs CASCADE")
        with bulk.without_triggers(cursor):
            bulk.in_line(cursor, owners=[tenant.tenant_id], count=3_000)
            bulk.left_behind(cursor, owners=[tenant.tenant_id], count=20)
        cursor.execute("ANALYZE runs, run_turns")
    due: list[Any] = []
    plan = plan_of(lambda: due.extend(for_recovery.send_due()[:500]))
    assert len(due) == 20
    assert "Seq Scan" not in plan, plan
