"""budget.low: told once when a balance falls below its tenant's own line, and again after it had risen (HOOK-01)."""

from collections.abc import Callable
from typing import Any

import pytest
import redis as redis_library
from django.test import Client

from budget import entries, low_balances, services
from budget.entries import Entered
from budget.rebuild import rebuild
from budget.redis import keys
from dpp_project import clock
from tenants import services as tenants
from tenants.models import Tenant
from tenants.webhooks import low_balance
from tenants.webhooks.models import WebhookMessage
from tests.gear.builders import webhook_sending as hooks
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.rivals import OnAnotherConnection

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("HOOK-01")]
FUNDS, LINE = 10_000_000, 4_000_000
Hold = Callable[[int], None]


@pytest.fixture
def tenant(valkey: redis_library.Redis) -> Tenant:
    made = a_tenant()
    rebuild.rebuild_all()
    entered = entries.top_up(
        tenant_id=made.tenant_id, amount_micros=FUNDS, reference="first", reason="funds", actor="operator:kim"
    )
    assert isinstance(entered, Entered)
    hooks.an_endpoint(made)
    draw(made, LINE)
    return made


def draw(tenant: Tenant, micros: int | None) -> None:
    Tenant.objects.filter(pk=tenant.pk).update(low_balance_usd_micros=micros)


def hold(tenant: Tenant, micros: int, run_id: str = "a-run") -> None:
    services.hold(tenant_id=tenant.tenant_id, run_id=run_id, reserved_micros=micros, created_at_ms=1)


def look() -> int:
    return low_balances.tell_low_balances(now=clock.now(), limit=1_000).changed


def told() -> list[str]:
    return list(WebhookMessage.objects.order_by("at").values_list("key", flat=True))


def test_hook_01_a_hold_that_takes_the_balance_below_the_line_is_told_with_exact_money(tenant: Tenant) -> None:
    hold(tenant, FUNDS - LINE)
    assert look() == 0  # at the line it is not below it
    hold(tenant, 1, "another")
    assert look() == 1
    (message,) = WebhookMessage.objects.all()
    assert (message.tenant_id, message.event) == (tenant.pk, "budget.low")
    assert message.key == f"budget_low:{tenant.pk}:1"
    assert message.payload == {
        "balance": "3.9999",
        "balance_usd_micros": LINE - 1,
        "threshold": "4.0000",
        "threshold_usd_micros": LINE,
        "href": "/v1/budget",
    }


def test_hook_01_a_balance_about_the_line_is_told_once_until_it_is_a_tenth_above(tenant: Tenant) -> None:
    hold(tenant, FUNDS - LINE + 1)
    assert [look(), look()] == [1, 0]
    services.refund(tenant_id=tenant.pk, run_id="a-run", was_held=True)
    hold(tenant, FUNDS - LINE - LINE // 10 + 1, "to just below a tenth above")
    assert look() == 0
    hold(tenant, 1_000_000, "and below again")
    assert look() == 0
    assert len(told()) == 1
    services.refund(tenant_id=tenant.pk, run_id="and below again", was_held=True)
    services.refund(tenant_id=tenant.pk, run_id="to just below a tenth above", was_held=True)
    hold(tenant, FUNDS - LINE - LINE // 10, "to a tenth above")
    assert look() == 1  # it is well again
    assert len(told()) == 1
    hold(tenant, 1_000_000, "the second crossing")
    assert look() == 1
    assert told() == [f"budget_low:{tenant.pk}:1", f"budget_low:{tenant.pk}:2"]


def test_hook_01_a_tenant_whose_balance_cannot_be_judged_keeps_no_other_from_being_told(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison = a_tenant()
    draw(poison, LINE)
    rebuild.rebuild_all()
    hold(tenant, FUNDS - LINE + 1)
    judge = low_balance.judge_balance

    def fails(line: low_balance.BalanceLine, **more: Any) -> int:
        if line.tenant_id == poison.pk:
            raise ValueError(poison.pk)
        return judge(line, **more)

    monkeypatch.setattr(low_balance, "judge_balance", fails)
    report = low_balances.tell_low_balances(now=clock.now(), limit=10)
    assert (report.seen, report.changed, report.errors) == (2, 1, 1)
    assert report.detail == {"unknown": 0, "skipped": {poison.pk: "ValueError"}}
    assert len(told()) == 1


def test_hook_01_without_a_line_or_an_endpoint_that_wants_it_nothing_is_told(tenant: Tenant) -> None:
    draw(tenant, None)
    hold(tenant, FUNDS)
    assert low_balances.tell_low_balances(now=clock.now(), limit=10).seen == 0
    deaf = a_tenant()
    hooks.an_endpoint(deaf, events=["run.failed"])
    draw(deaf, LINE)
    rebuild.rebuild_all()
    assert look() == 1  # it is low all the same: an endpoint of later hears of the next crossing
    assert told() == []


def test_hook_01_a_line_that_is_taken_away_and_drawn_anew_tells_anew(tenant: Tenant) -> None:
    hold(tenant, FUNDS - 1)
    assert look() == 1
    draw(tenant, None)
    assert look() == 1
    draw(tenant, LINE)
    assert look() == 1
    assert len(told()) == 2


def test_hook_01_an_unknown_balance_is_neither_low_nor_high(tenant: Tenant, valkey: redis_library.Redis) -> None:
    valkey.delete(keys.balance_key(tenant.pk))
    report = low_balances.tell_low_balances(now=clock.now(), limit=10)
    assert (report.seen, report.changed, report.detail) == (1, 0, {"unknown": 1})
    assert told() == []


def test_hook_01_two_looks_at_once_tell_once(tenant: Tenant) -> None:
    (line,) = low_balance.balance_lines(after="", limit=10)
    rivals = [
        OnAnotherConnection(lambda: low_balance.judge_balance(line, balance_micros=1, payload={"n": 1}))
        for _ in range(4)
    ]
    assert sorted(rival.answer() for rival in rivals) == [False, False, False, True]
    assert len(told()) == 1


def test_hook_01_the_operator_draws_the_line_in_the_console_and_the_trail_keeps_it(
    tenant: Tenant, console: Client
) -> None:
    path = f"/admin/tenants/tenant/{tenant.pk}/change/"
    sent = {
        "display_name": tenant.display_name,
        "poll_rate_per_minute": 60,
        "submit_rate_per_minute": 60,
        "api_keys-TOTAL_FORMS": "0",
        "api_keys-INITIAL_FORMS": "0",
    }
    answer = console.post(path, {**sent, "low_balance_usd_micros": "0"})
    assert answer.status_code == 200
    assert "must be a whole number from 1" in answer.content.decode()
    assert Tenant.objects.get(pk=tenant.pk).low_balance_usd_micros == LINE
    answer = console.post(path, {**sent, "low_balance_usd_micros": "2500000"})
    assert answer.status_code == 302
    assert Tenant.objects.get(pk=tenant.pk).low_balance_usd_micros == 2_500_000
    assert tenants.low_balance_fault(2**53) is not None
