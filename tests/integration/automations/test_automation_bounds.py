"""What bounds a rule, however long something waits, and what a person stops or changes meanwhile."""

import dataclasses
from collections.abc import Callable
from typing import Final

import pytest
from django.db import connection, transaction

from dpp_project import uuid7
from ops.automations.models import AutomationEvent, AutomationRule, AutomationTask
from ops.automations.rules import rules
from ops.automations.rules.rule_values import RuleChange
from ops.automations.tasks import bounds, dispatching
from runs.models import Run
from runs.packs import registry
from tenants import services
from tenants.models import Tenant
from tests.gear.builders import automations as gear
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop, begun_ago, due_again
from tests.gear.builders.recovery import tenant
from tests.gear.builders.tenants import an_operator_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-12")]
__all__ = ["tenant"]


@pytest.fixture
def shop(tenant: Tenant) -> AutomationShop:
    return an_automation_shop(tenant)


def two_events_each_hour(shop: AutomationShop, hours: int) -> None:
    for number in range(2 * hours):
        shop.event(f"e-{number}")
        if number % 2:
            shop.buy()
            begun_ago(61)
            due_again()


def test_lif_12_events_wait_where_a_person_has_stopped_the_submits(shop: AutomationShop) -> None:
    an_operator_key()
    rule = shop.rule(runs_per_hour=2)
    services.enable_submits(tenant_id=rule.tenant_id, enabled=False, actor="ada")
    two_events_each_hour(shop, 3)
    waiting = AutomationEvent.objects.filter(status="PENDING", waits_for="execution_disabled")
    assert (waiting.count(), AutomationTask.objects.count()) == (6, 0)
    assert shop.bodies() == [f"triage: new runs are turned off by an operator for {rule.tenant_id}; events wait"]
    services.enable_submits(tenant_id=rule.tenant_id, enabled=True, actor="ada")
    for _ in range(2):
        due_again()
        shop.buy()
    assert Run.objects.count() == 2
    services.stop_all_submits(stopped=True, actor="ada", reason="a drill")
    begun_ago(61)
    due_again()
    shop.buy()
    assert (waiting.count(), Run.objects.count()) == (4, 2)


def test_lif_12_attempts_that_waited_for_hours_are_no_more_runs_than_an_hour_has(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rule(runs_per_hour=2)
    lacks = dataclasses.replace(registry.pack_named("probe"), missing=lambda: ["words for the probe"])
    with monkeypatch.context() as away:
        without = dict(registry.packs_for_sale()) | {"probe": lacks}
        away.setattr(registry, "packs_for_sale", lambda: without)
        two_events_each_hour(shop, 3)
        assert [status for _, status, _ in shop.attempts()] == ["OPEN"] * 2
    for _ in range(3):
        shop.buy()
        due_again()
    assert Run.objects.count() == 2, "they began hours ago, and count for an hour from now"
    begun_ago(61)
    shop.buy()
    assert Run.objects.count() == 4


def test_lif_12_an_hour_is_counted_without_the_days_before_it() -> None:
    """Of a rule that buys a thousand runs an hour a week is kept, and counted under its lock."""
    rule_id = uuid7.new_uuid7()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            "INSERT INTO automation_attempt (task_id, attempt, rule_id, status, reserved_usd_micros, run_id, began_at,"
            " accepted_at) SELECT gen_random_uuid(), 1, %s, 'SUCCEEDED', 1, gen_random_uuid(), at, at"
            " FROM generate_series(now() - interval '7 days', now(), interval '1 minute') AS at",
            [rule_id],
        )
        cursor.execute("ANALYZE automation_attempt")
        plan = bounds.attempts_that_count(rule_id).explain()
        assert bounds.attempts_that_count(rule_id).count() == 60
    for index in ("rule", "bought", "open"):
        assert f"Bitmap Index Scan on idx_automation_attempt_{index} " in plan


OTHERWISE: Final = RuleChange(filter='event.action == "closed"', max_cost_usd="0.5000")
MEANWHILE: Final[dict[str, Callable[[AutomationRule], object]]] = {
    "disabled": lambda rule: rules.enable_rule(rule_id=rule.pk, enabled=False, actor="ada"),
    "changed": lambda rule: rules.change_rule(rule_id=rule.pk, asked=OTHERWISE, actor="ada"),
    "ended": lambda rule: rules.end_automation_rule(rule_id=rule.pk, actor="ada"),
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_lif_12_a_rule_that_is_no_more_what_its_filter_was_buys_nothing_by_it(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """An operator was told that it is disabled: what is decided afterwards buys nothing, however long it was judged."""
    shop.rule(filter='event.action == "opened"')
    event = shop.event()

    def acts(rule: AutomationRule) -> None:
        monkeypatch.undo()
        assert isinstance(MEANWHILE[what](rule), AutomationRule)

    monkeypatch.setattr(bounds, "money_fault", acts)
    dispatching.dispatch_due(limit=10)
    event.refresh_from_db()
    assert (event.status, event.waits_for, AutomationTask.objects.count()) == ("PENDING", "", 0)
    dispatching.dispatch_due(limit=10)
    event.refresh_from_db()
    assert (event.outcome, AutomationTask.objects.count()) == ("NO_RULE", 0)


def test_lif_12_where_a_rule_ends_meanwhile_the_next_that_matches_has_the_event(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rule(name="first", position=1)
    shop.rule(name="second", position=2)
    shop.event()

    def ends(rule: AutomationRule) -> None:
        monkeypatch.undo()
        MEANWHILE["ended"](rule)

    monkeypatch.setattr(bounds, "money_fault", ends)
    for _ in range(2):
        dispatching.dispatch_due(limit=10)
    assert shop.only_task().rule.name == "second"


def test_lif_12_new_events_take_turns_by_source(shop: AutomationShop) -> None:
    for number in range(200):
        shop.event(f"e-{number}")
    late = gear.event(gear.source("quiet"), "late")
    assert dispatching.dispatch_due(limit=50) == 50
    late.refresh_from_db()
    assert late.outcome == "NO_RULE"
    looked_at = AutomationEvent.objects.filter(source=shop.source, outcome="NO_RULE").order_by("event_pk")
    assert list(looked_at.values_list("event_id", flat=True)) == [f"e-{number}" for number in range(49)]


def test_lif_12_new_events_are_found_by_their_index_however_many_there_are() -> None:
    """Of a hundred thousand that one source brought at once a turn reads as many as it takes."""
    with transaction.atomic(), connection.cursor() as cursor:
        for name in ("flooded", "quiet"):
            gear.source(name)
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            "INSERT INTO automation_event (event_pk, source_id, event_id, payload, occurred_at, next_try_at)"
            " SELECT gen_random_uuid(), source_id, number::text, '{}', now(), now() - interval '1 hour'"
            " FROM automation_source, generate_series(1, 20000) AS number WHERE name = 'flooded'"
        )
        cursor.execute("ANALYZE automation_source, automation_event")
        cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {dispatching._NEW}", [50, 50])
        plan = "\n".join(line for (line,) in cursor.fetchall())
        transaction.set_rollback(True)
    assert "using idx_automation_event_new on automation_event" in plan, plan
    assert "Rows Removed" not in plan, plan
