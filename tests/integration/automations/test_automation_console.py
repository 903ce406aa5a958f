"""The console's pages of automations: without rows and with them; rules made, tried and ended; a failed event again."""

import importlib
import json
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.test import Client

from ops.automations.models import AutomationEvent, AutomationMessage, AutomationRule, AutomationTask
from ops.automations.states import EventOutcome
from ops.automations.transitions import complete_event
from runs.box.box import Box
from runs.models import Run
from tenants.models import Tenant
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop, rule_values
from tests.gear.builders.console import page

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-12")]

PLACE = "/admin/automations/automation"


@pytest.fixture
def shop(tenant: Tenant, worker_here: Box) -> AutomationShop:
    return an_automation_shop(tenant)


def post(console: Client, path: str, **values: Any) -> str:
    response = console.post(path, values, follow=True)
    assert response.status_code == 200, path
    return response.content.decode()


def test_pages_without_a_row_are_pages(console: Client) -> None:
    for name in ("rule", "event", "task", "message", "source"):
        assert page(console, f"{PLACE}{name}/")
    assert "Automations" in page(console, "/admin/")
    assert page(console, f"{PLACE}rule/add/")


def test_forms_for_documents_begin_empty(console: Client, shop: AutomationShop) -> None:
    """`null` stood in them, which nobody asks for."""
    pk = shop.rule().pk
    for path in ("add/", f"{pk}/change_it/", f"{pk}/try_it/"):
        answer = console.get(f"/admin/automations/automationrule/{path}")
        assert answer.status_code == 200, path
        assert "null</textarea>" not in answer.content.decode(), path


def test_every_row_has_a_page_that_leads_to_the_others(console: Client, shop: AutomationShop) -> None:
    rule = shop.rule()
    event = shop.event(payload={"action": "<b>opened</b>"})
    shop.turn()
    task, message = AutomationTask.objects.get(), AutomationMessage.objects.get()
    assert "triage" in page(console, f"{PLACE}rule/{rule.pk}/change/")
    shown = page(console, f"{PLACE}event/{event.pk}/change/")
    assert task.number in shown
    assert "&lt;b&gt;opened&lt;/b&gt;" in shown
    assert "<b>opened</b>" not in shown
    of_task = page(console, f"{PLACE}task/{task.pk}/change/")
    assert str(Run.objects.get().pk) in of_task
    assert "0.050000 of 0.2500 USD" in of_task
    assert message.number in page(console, f"{PLACE}message/")
    assert task.number in page(console, f"{PLACE}message/{message.pk}/change/")
    assert "hooks" in page(console, f"{PLACE}source/")
    for name in ("event", "task", "message"):
        assert page(console, f"{PLACE}{name}/")


@pytest.mark.parametrize(("role", "may"), [("viewer", False), ("finance", False), ("operator", True)])
def test_what_a_run_answered_is_read_by_who_may_act_on_it(shop: AutomationShop, role: str, may: bool) -> None:  # noqa: FBT001
    importlib.import_module("dpp_project.signin.migrations.0002_roles").make_roles(apps)
    person = User.objects.create_user(f"bob-{role}", is_staff=True)
    person.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(person)
    shop.rule()
    shop.event()
    shop.turn()
    task, message = AutomationTask.objects.get(), AutomationMessage.objects.get()
    for path in (f"task/{task.pk}", f"message/{message.pk}"):
        shown = page(client, f"{PLACE}{path}/change/")
        assert task.number in shown
        assert ("slept_ms" in shown) is may


def test_a_rule_is_made_tried_disabled_and_ended(console: Client, shop: AutomationShop) -> None:
    asked = rule_values(shop.tenant).model_dump(mode="json")
    wrong = post(console, f"{PLACE}rule/add/", rule=json.dumps(asked | {"filter": "event.x =="}))
    assert "filter: " in wrong
    assert not AutomationRule.objects.exists()
    post(console, f"{PLACE}rule/add/", rule=json.dumps(asked))
    rule = AutomationRule.objects.get()
    assert (rule.name, rule.enabled) == ("triage", True)
    tried = post(console, f"{PLACE}rule/{rule.pk}/try_it/", event=json.dumps({"cost": "0.0100"}))
    assert "matches and buys a run for 0.0100 to 0.0100 USD, at most 0.2500" in tried
    assert not AutomationEvent.objects.exists()
    post(console, f"{PLACE}rule/{rule.pk}/change_it/", change=json.dumps({"runs_per_hour": 3}))
    post(console, f"{PLACE}rule/{rule.pk}/disable/")
    rule.refresh_from_db()
    assert (rule.runs_per_hour, rule.enabled) == (3, False)
    assert "Nothing was changed" not in post(console, f"{PLACE}rule/{rule.pk}/end/")
    rule.refresh_from_db()
    assert rule.ended_at is not None


def test_a_failed_event_is_emitted_again_in_two_clicks(console: Client, shop: AutomationShop) -> None:
    event = shop.event()
    complete_event(event_pk=event.pk, version=event.version, outcome=EventOutcome.FAILED)
    assert "Emit again" in page(console, f"{PLACE}event/{event.pk}/change/")
    post(console, f"{PLACE}event/{event.pk}/again/")
    assert AutomationEvent.objects.get(status="PENDING").emission == 2
