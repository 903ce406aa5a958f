"""Rules as people make them: each wrong field is named, each rule has a key of its own under its own cap."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from budget.caps import setting
from dpp_project.audit.models import AuditEntry
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.automations import rehearsing
from ops.automations.models import AutomationEvent, AutomationRule, AutomationSource, AutomationTask
from ops.automations.rules import rules
from ops.automations.rules.rule_values import RuleChange
from ops.automations.states import EventOutcome
from ops.automations.transitions import complete_event
from runs.models import Run
from tenants.models import ApiKey, SpendCap, Tenant
from tests.gear.builders import recovery
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop, rule_values
from tests.gear.builders.recovery import tenant
from tests.gear.builders.tenants import an_operator_key, bearer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-12")]
__all__ = ["tenant"]


@pytest.fixture
def shop(tenant: Tenant) -> AutomationShop:
    return an_automation_shop(tenant)


def everything() -> list[Any]:
    return [list(table.objects.order_by("pk").values()) for table in (AutomationRule, ApiKey, SpendCap)]


def test_lif_12_a_rule_has_a_key_of_its_own_with_its_day_cap(shop: AutomationShop) -> None:
    rule = shop.rule()
    key = ApiKey.objects.get(pk=rule.key_id)
    cap = SpendCap.objects.get(lineage_id=rule.lineage_id)
    assert (rule.enabled, key.tenant_id, key.scopes, key.label) == (
        True,
        shop.tenant.tenant_id,
        ["runs:write"],
        "automation triage",
    )
    assert (cap.day_usd_micros, cap.total_usd_micros) == (5_000_000, None)
    assert AuditEntry.objects.filter(act="automation rule made", tenant_id=shop.tenant.tenant_id).count() == 1


def test_lif_12_a_rule_whose_cap_cannot_be_set_is_not_enabled(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = shop.rule()
    rules.enable_rule(rule_id=rule.pk, enabled=False, actor="an operator")
    refused = Refusal(ReasonCode.ENGINE_UNAVAILABLE, "the money is closed")
    monkeypatch.setattr(setting, "set_caps", lambda **_asked: refused)
    before = everything()
    assert rules.enable_rule(rule_id=rule.pk, enabled=True, actor="an operator") == refused
    assert everything() == before
    assert not AutomationRule.objects.get().enabled


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("source", {"source": "nowhere"}),
        ("name", {"name": "Not a name"}),
        ("tenant", {"tenant": "t_nobody"}),
        ("tenant", {"tenant": "t_operator"}),
        ("pack_type", {"pack_type": "nothing"}),
        ("inputs.a", {"inputs": {"a": {"$": "secrets.x"}}}),
        ("filter", {"filter": "event.x =="}),
        ("filter", {"filter": '"no bool"'}),
        ("workspace_id", {"workspace_id": "0198c0de-0000-7000-8000-000000000000"}),
        ("context_file", {"context_file": "Be brief."}),
        ("notify.target", {"notify": {"channel": "slack", "target": "#general"}}),
        ("notify.target", {"notify": {"channel": "slack", "target": "nobody/C0123456789"}}),
        ("notify.target", {"notify": {"channel": "webhook", "target": "https://crm.example/messages"}}),
        ("notify.target", {"notify": {"channel": "webhook", "target": "hooks"}}),
    ],
)
def test_lif_12_a_wrong_field_is_named_and_changes_nothing(
    shop: AutomationShop, field: str, changes: dict[str, Any]
) -> None:
    before = everything()
    refused = rules.create_rule(asked=rule_values(shop.tenant, **changes), actor="ada")
    assert isinstance(refused, Refusal)
    assert refused.field == field
    assert everything() == before


def test_lif_12_only_tenants_that_enabled_them_have_rules(shop: AutomationShop) -> None:
    Tenant.objects.update(automations_enabled=False)
    before = everything()
    refused = rules.create_rule(asked=rule_values(shop.tenant), actor="ada")
    assert isinstance(refused, Refusal)
    assert (refused.field, everything()) == ("tenant", before)


def test_a_second_rule_of_a_name_is_refused_and_makes_no_key(shop: AutomationShop) -> None:
    shop.rule()
    before = everything()
    refused = rules.create_rule(asked=rule_values(shop.tenant), actor="ada")
    assert isinstance(refused, Refusal)
    assert (refused.field, everything()) == ("name", before)


def test_a_change_moves_what_it_names_and_its_cap(shop: AutomationShop) -> None:
    rule = shop.rule()
    changed = rules.change_rule(
        rule_id=rule.pk, asked=RuleChange.model_validate({"usd_per_day": "1.0000", "retries": 0}), actor="ada"
    )
    assert isinstance(changed, AutomationRule)
    assert (changed.usd_per_day_micros, changed.retries, changed.runs_per_hour) == (1_000_000, 0, 100)
    assert SpendCap.objects.get(lineage_id=rule.lineage_id).day_usd_micros == 1_000_000
    again = rules.change_rule(
        rule_id=rule.pk, asked=RuleChange.model_validate({"retries": 0, "usd_per_day": "1.0000"}), actor="ada"
    )
    assert isinstance(again, AutomationRule)
    assert again.version == changed.version


def test_lif_12_of_two_acts_at_once_the_cap_follows_the_row_that_stands(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, set_caps = shop.rule(), setting.set_caps
    rivals = [RuleChange.model_validate({"usd_per_day": "1.0000"})]

    def after_a_rival(**asked: Any) -> Any:
        if rivals:
            rules.change_rule(rule_id=rule.pk, asked=rivals.pop(), actor="bob")
        return set_caps(**asked)

    monkeypatch.setattr(setting, "set_caps", after_a_rival)
    assert isinstance(rules.enable_rule(rule_id=rule.pk, enabled=True, actor="ada"), AutomationRule)
    rule.refresh_from_db()
    assert (rule.usd_per_day_micros, SpendCap.objects.get().day_usd_micros) == (1_000_000, 1_000_000)


@pytest.mark.parametrize("usd_per_day", ["1.0000", "9.0000"])
def test_lif_12_a_death_within_a_change_leaves_no_cap_above_the_rules(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch, usd_per_day: str
) -> None:
    rule, asked = shop.rule(), RuleChange.model_validate({"usd_per_day": usd_per_day})

    def dies(*_: object, **__: object) -> None:
        raise recovery.Died

    monkeypatch.setattr(rules, "_record_automation_rule_act", dies)
    with pytest.raises(recovery.Died):
        rules.change_rule(rule_id=rule.pk, asked=asked, actor="ada")
    monkeypatch.undo()
    cap_micros = SpendCap.objects.get().day_usd_micros
    assert cap_micros is not None
    rule.refresh_from_db()
    assert cap_micros <= rule.usd_per_day_micros == 5_000_000
    changed = rules.change_rule(rule_id=rule.pk, asked=asked, actor="ada")
    assert isinstance(changed, AutomationRule)
    assert SpendCap.objects.get().day_usd_micros == changed.usd_per_day_micros == asked.columns()["usd_per_day_micros"]


def test_lif_11_a_place_for_messages_is_one_that_there_is(shop: AutomationShop) -> None:
    """Or what a rule says is put off for a day, and then lost; a rule whose place has gone is changed all the same."""
    place = {"notify": {"channel": "webhook", "target": "hooks"}}
    refused = rules.create_rule(asked=rule_values(shop.tenant, **place), actor="ada")
    assert isinstance(refused, Refusal)
    assert "has no `url`" in refused.detail
    AutomationSource.objects.filter(pk=shop.source.pk).update(settings={"url": "https://crm.example/messages"})
    rule = shop.rule(**place)
    assert (rule.notify_channel, rule.notify_target) == ("webhook", "hooks")
    AutomationSource.objects.filter(pk=shop.source.pk).update(settings={})
    for changes, field in (({"retries": 0}, None), (place, "notify.target"), ({"notify": None}, None)):
        changed = rules.change_rule(rule_id=rule.pk, asked=RuleChange.model_validate(changes), actor="ada")
        assert (changed.field if isinstance(changed, Refusal) else None) == field


def test_an_ended_rule_frees_its_name_and_revokes_its_key(shop: AutomationShop) -> None:
    rule = shop.rule()
    for _ in range(2):
        ended = rules.end_automation_rule(rule_id=rule.pk, actor="ada")
        assert isinstance(ended, AutomationRule)
        assert (ended.enabled, ended.ended_at is not None) == (False, True)
    assert ApiKey.objects.get(pk=rule.key_id).status == "REVOKED"
    assert shop.rule().pk != rule.pk


def test_a_trial_says_what_it_would_cost_and_stores_nothing(shop: AutomationShop) -> None:
    shop.rule(filter="event.cost != ''", position=1)
    shop.rule(name="other", inputs={"cost_usd": {"$": "event.price"}}, position=2)
    first, second = rehearsing.try_event(source=shop.source, payload={"cost": "0.1000"})
    assert (first.matches, first.is_chosen, first.faults) == (True, True, [])
    assert (first.least_usd, first.most_usd, first.ceiling_usd) == ("0.1000", "0.1000", "0.2500")
    assert first.inputs == {"cost_usd": "0.1000", "fail": False}
    assert (second.matches, second.is_chosen, second.least_usd) == (True, False, None)
    assert second.faults == ["the template names event.price, which the event lacks"]
    lacking, _ = rehearsing.try_event(source=shop.source, payload={})
    assert (lacking.matches, lacking.filter_said) == (False, "NOT_FOUND")
    (bad, _) = rehearsing.try_event(source=shop.source, payload={"cost": "much"})
    assert bad.faults[0].startswith("inputs.cost_usd: ")
    assert not Run.objects.exists()
    assert not AutomationEvent.objects.exists()


def test_operators_do_all_of_it_over_http(shop: AutomationShop) -> None:
    client, headers = Client(), bearer(an_operator_key())
    asked = rule_values(shop.tenant).model_dump(mode="json")

    def call(method: str, path: str, body: Any = None) -> Any:
        data = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
        return getattr(client, method)(f"/api/automations/{path}", headers=headers, **data)

    made = call("post", "rules", asked)
    assert made.status_code == 201, made.content
    rule_id = made.json()["rule_id"]
    assert call("get", f"rules/{rule_id}").json() == made.json()
    assert [one["name"] for one in call("get", "rules").json()["rules"]] == ["triage"]
    wrong = call("post", "rules", asked | {"name": "two", "filter": "event.x =="})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "filter")
    assert call("patch", f"rules/{rule_id}", {"enabled": False}).json()["enabled"] is False
    assert call("patch", f"rules/{rule_id}", {"enabled": True, "retries": 3}).json()["retries"] == 3
    trial = call("post", "rules/try", {"source": "hooks", "event": {"cost": "0.0100"}}).json()["rules"]
    assert [(one["rule"], one["is_chosen"], one["most_usd"]) for one in trial] == [("triage", True, "0.0100")]
    event = shop.event()
    complete_event(event_pk=event.pk, version=event.version, outcome=EventOutcome.FAILED, reason="broken")
    (shown,) = call("get", "events?status=COMPLETED").json()["events"]
    assert (shown["event"], shown["outcome"], shown["reason"]) == (str(event.pk), "FAILED", "broken")
    again = call("post", f"events/{event.pk}/again")
    assert (again.status_code, again.json()["emission"], again.json()["status"]) == (201, 2, "PENDING")
    assert call("post", f"events/{event.pk}/again").status_code == 409
    page = call("get", "events?limit=1").json()
    rest = call("get", f"events?limit=1&cursor={page['next_cursor']}").json()
    assert [page["events"][0]["emission"], rest["events"][0]["emission"], rest["next_cursor"]] == [2, 1, None]
    shop.buy()
    (task,) = call("get", "tasks").json()["tasks"]
    whole = call("get", f"tasks/{task['task']}").json()
    assert (whole["number"], whole["inputs"]["fail"], whole["tries"][0]["status"]) == (task["number"], False, "RUNNING")
    assert call("get", "messages").json() == {"messages": [], "next_cursor": None}
    assert call("delete", f"rules/{rule_id}").json()["ended_at"] is not None
    assert call("get", "rules").json() == {"rules": []}


def test_the_command_does_all_of_it(shop: AutomationShop, tmp_path: Path) -> None:
    def run(*words: str) -> Any:
        out = StringIO()
        call_command("automations", *words, "--json", stdout=out)
        return json.loads(out.getvalue())

    file = tmp_path / "rule.json"
    file.write_text(json.dumps(rule_values(shop.tenant).model_dump(mode="json")))
    assert run("add", "--file", str(file), "--by", "ada", "--dry-run")["dry_run"] is True
    assert not AutomationRule.objects.exists()
    assert run("add", "--file", str(file), "--by", "ada")["name"] == "triage"
    assert [one["name"] for one in run("rules")["rules"]] == ["triage"]
    assert run("disable", "triage", "--by", "ada")["enabled"] is False
    assert run("enable", "triage", "--by", "ada")["enabled"] is True
    file.write_text(json.dumps({"cost": "0.0100"}))
    assert run("try", "--source", "hooks", "--file", str(file))["rules"][0]["is_chosen"] is True
    shop.event()
    shop.buy()
    number = AutomationTask.objects.get().number
    assert run("show", number)["tries"][0]["status"] == "RUNNING"
    assert [one["number"] for one in run("tasks", "--status", "IN_PROGRESS")["tasks"]] == [number]
    assert [one["name"] for one in run("source", "list")["sources"]] == ["hooks", "people"]
    assert run("tenant", shop.tenant.tenant_id, "--off", "--by", "ada")["enabled"] is False
    assert not Tenant.objects.get(pk=shop.tenant.pk).automations_enabled
    assert run("end", "triage", "--by", "ada")["ended_at"] is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show",), "subject: give a rule's name or a task's number"),
        (("add", "--by", "ada", "--file", "half.json"), "--file: is no JSON; line 1 column 12: Expecting value"),
        (("add", "--by", "ada", "--file", "latin.json"), "--file: is not UTF-8"),
        (("add", "--by", "ada", "--file", "none.json"), "--file: cannot be read: No such file or directory"),
    ],
)
def test_the_command_says_what_to_give_instead(
    shop: AutomationShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("half.json").write_text('{"source": ')
    Path("latin.json").write_bytes(b'{"source": "\xe9"}')
    with pytest.raises(CommandError) as refused:
        call_command("automations", *words)
    assert str(refused.value).startswith(said)
    assert not AutomationRule.objects.exists()


def test_lif_12_a_rule_whose_cap_is_not_in_force_buys_nothing(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(**_: object) -> None:
        raise recovery.Died

    monkeypatch.setattr(setting, "set_caps", dies)
    with pytest.raises(recovery.Died):
        shop.rule()
    monkeypatch.undo()
    rule = AutomationRule.objects.get()
    assert not rule.enabled
    event = shop.event()
    shop.buy()
    event.refresh_from_db()
    assert (event.outcome, SpendCap.objects.exists()) == ("NO_RULE", False)
    enabled = rules.enable_rule(rule_id=rule.pk, enabled=True, actor="ada")
    assert isinstance(enabled, AutomationRule)
    assert (enabled.enabled, SpendCap.objects.get().day_usd_micros) == (True, 5_000_000)
