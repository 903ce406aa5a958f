"""What a failed run costs, and what goes back when the failure was ours (HRD-22)."""

import json

import pytest
from django.db import connection, transaction
from django.test import Client

from budget import entries
from budget.models import LedgerEntry, PendingCredit
from budget.verification import ledger_audit
from dpp_project.reasons import ReasonCode
from reaper import lease_reaper
from runs.intents import Intent
from runs.models import Run
from runs.operators import disputes
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import RUNS, Shop

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("HRD-22")]

RULE = (
    "A run that fails at work costs 2 % of its hold, at least 0.0050 and at most 0.1000 USD"
    ", and never more than the hold."
)


@pytest.fixture
def given_back(tenant: Tenant) -> Tenant:
    Tenant.objects.filter(pk=tenant.pk).update(refund_own_failures=True)
    return tenant


def reaped(tenant: Tenant) -> Run:
    run = recovery.lease_ran_out(tenant)
    assert recovery.run_loop(lease_reaper.reap_leases).changed == 1
    return gear.row(run.run_id)


def credits_of(run: Run) -> list[tuple[str, int, str | None, str]]:
    found = LedgerEntry.objects.filter(run_id=run.run_id).exclude(kind="CHARGE")
    return [(entry.kind, entry.amount_usd_micros, entry.reference, entry.reason) for entry in found]


def test_a_lost_worker_costs_nothing_in_the_end_and_the_statement_says_why(given_back: Tenant) -> None:
    run = reaped(given_back)
    assert (run.money_state, run.actual_cost_usd_micros) == ("SETTLED", gear.FEE_MICROS)
    assert sorted(recovery.charges(run)) == [-gear.FEE_MICROS, gear.FEE_MICROS]
    assert credits_of(run) == [
        ("ADJUST", gear.FEE_MICROS, f"refund:{run.run_id}", "it failed on our side: WORKER_TIMEOUT")
    ]
    pending = PendingCredit.objects.get()
    assert entries.bring_to_balance(pending, epoch=entries.open_epoch()) == recovery.FUNDS_MICROS
    assert not PendingCredit.objects.exists()
    recovery.law_holds(given_back)


def test_the_customary_tenant_is_charged_as_the_document_says(tenant: Tenant) -> None:
    run = reaped(tenant)
    assert recovery.charges(run) == [-gear.FEE_MICROS]
    assert credits_of(run) == []
    assert not PendingCredit.objects.exists()
    recovery.law_holds(tenant)


@pytest.mark.parametrize("reason", [ReasonCode.PACK_FAILED, ReasonCode.CANCELED_BY_OWNER])
def test_a_failure_of_the_work_or_a_cancel_is_not_ours(given_back: Tenant, reason: ReasonCode) -> None:
    run = gear.committed(intent=gear.fee(reason), tenant_id=given_back.tenant_id)
    assert credits_of(run) == []


def test_a_lost_result_is_ours(given_back: Tenant) -> None:
    run = gear.committed(intent=gear.fee(ReasonCode.RESULT_LOST), tenant_id=given_back.tenant_id)
    assert [amount for _, amount, _, _ in credits_of(run)] == [gear.FEE_MICROS]


def test_a_failure_of_ours_that_cost_nothing_gives_nothing_back(given_back: Tenant) -> None:
    nothing = Intent.full_refund(reason=ReasonCode.WORKER_TIMEOUT)
    run = gear.committed(intent=nothing, tenant_id=given_back.tenant_id)
    assert (run.actual_cost_usd_micros, credits_of(run)) == (0, [])


def test_what_went_back_does_not_go_back_again_by_a_dispute(given_back: Tenant) -> None:
    run = reaped(given_back)
    opened = disputes.open_dispute(run_id=run.run_id, reason="twice?", actor="operator:kim")
    assert isinstance(opened, Run)
    assert isinstance(disputes.refund_dispute(run_id=run.run_id, reason="twice?", actor="operator:kim"), Run)
    assert [amount for _, amount, _, _ in credits_of(run)] == [gear.FEE_MICROS]


@pytest.mark.contract("HRD-07")
def test_hrd_07_runs_and_ledger_agree_about_what_went_back(given_back: Tenant) -> None:
    """Undisputed, and refunded in a dispute behind it: what went back is whole, by one entry or two."""
    run = reaped(given_back)
    recovery.law_holds(given_back)
    disputes.open_dispute(run_id=run.run_id, reason="twice?", actor="operator:kim")
    disputes.refund_dispute(run_id=run.run_id, reason="twice?", actor="operator:kim")
    recovery.law_holds(given_back)


@pytest.mark.contract("HRD-07")
def test_hrd_07_a_failure_given_back_in_another_amount_or_for_no_reason_is_found(given_back: Tenant) -> None:
    short, unearned = reaped(given_back), gear.committed(tenant_id=given_back.tenant_id)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            "UPDATE ledger_entries SET amount_usd_micros = 1 WHERE reference = %s", [f"refund:{short.run_id}"]
        )
        cursor.execute(
            "INSERT INTO ledger_entries"
            " (entry_id, tenant_id, run_id, kind, amount_usd_micros, reference, reason, actor)"
            " VALUES (gen_random_uuid(), %s, %s, 'ADJUST', 7, %s, '', 'test')",
            [given_back.pk, unearned.pk, f"refund:{unearned.run_id}"],
        )
    found = [it for chunk in ledger_audit.audit_ledger(given_back.tenant_id) for it in chunk.differences]
    assert [(it.kind, it.expected_micros, it.found_micros, it.run_id) for it in found] == [
        ("REFUND_OF_ANOTHER_AMOUNT", gear.FEE_MICROS, 1, str(short.run_id)),
        ("REFUND_OF_ANOTHER_AMOUNT", 0, 7, str(unearned.run_id)),
    ]


def test_the_run_tells_its_fee_and_what_went_back(shop: Shop) -> None:
    Tenant.objects.filter(pk=shop.tenant.pk).update(refund_own_failures=True)
    run = reaped(shop.tenant)
    fee = shop.get(f"{RUNS}/{run.run_id}").json()["result"]["failure_fee"]
    assert fee == {"charged_usd_micros": gear.FEE_MICROS, "refunded_usd_micros": gear.FEE_MICROS, "rule": RULE}


def test_a_run_that_failed_for_nothing_has_no_fee(shop: Shop) -> None:
    run_id = shop.submit().json()["run_id"]
    answer = shop.cancel(run_id).json()
    assert (answer["result"]["reason_code"], answer["result"]["failure_fee"]) == ("CANCELED_BY_OWNER", None)


def test_the_price_list_names_the_rule(shop: Shop) -> None:
    assert json.loads(shop.get("/v1/packs").content)["failure_fee"] == {
        "rule": RULE,
        "percent_of_hold": 2,
        "least_usd_micros": 5_000,
        "most_usd_micros": 100_000,
    }


def test_the_operator_gives_it_in_the_console_form_and_the_trail_keeps_it(shop: Shop, console: Client) -> None:
    tenant = shop.tenant
    path = f"/admin/tenants/tenant/{tenant.tenant_id}/change/"
    sent = {
        "display_name": tenant.display_name,
        "poll_rate_per_minute": tenant.poll_rate_per_minute,
        "submit_rate_per_minute": tenant.submit_rate_per_minute,
        "refund_own_failures": "on",
        "api_keys-TOTAL_FORMS": "0",
        "api_keys-INITIAL_FORMS": "0",
    }
    answer = console.post(path, sent)
    assert answer.status_code == 302, answer.content
    assert Tenant.objects.get(pk=tenant.pk).refund_own_failures is True
