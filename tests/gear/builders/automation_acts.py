"""What a person may do to automations' rules and events, each once refused and once done (see acts.py)."""

import json
import uuid
from typing import Any, Final

from ops.automations import transitions
from ops.automations.models import AutomationEvent, AutomationRule
from ops.automations.rules import rules
from ops.automations.states import EventOutcome
from tests.gear.builders.acts import Act, Case, Scene
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop, rule_values
from tests.gear.builders.tenants import bearer

CASES: dict[str, Case] = {}
ENTRIES: Final = dict.fromkeys(("api POST api/automations/rules", "command automations add"), 4) | dict.fromkeys(
    (
        "api DELETE api/automations/rules/<str:rule_id>",
        "command automations end",
        *(f"console automations.automationrule {do}" for do in ("add", "end")),
    ),
    2,
)
"""A rule has a key of its own, made and revoked with it, and one made enabled has its cap set: an entry each."""
NO_RULE: Final = "nothing-of-this-name"
BY: Final = ("--by", "ada")


def shop_of(it: Scene) -> AutomationShop:
    return an_automation_shop(it.shop.tenant)


def failed_event(shop: AutomationShop) -> AutomationEvent:
    event = shop.event()
    transitions.complete_event(event_pk=event.pk, version=event.version, outcome=EventOutcome.FAILED)
    return event


def document(shop: AutomationShop, **changes: Any) -> dict[str, Any]:
    said: dict[str, Any] = rule_values(shop.tenant, **changes).model_dump(mode="json")
    return said


def file_with(it: Scene, said: dict[str, Any]) -> str:
    path = it.folder / f"{uuid.uuid4().hex}.json"
    path.write_text(json.dumps(said), encoding="utf-8")
    return str(path)


def _api_add(it: Scene) -> tuple[Act, Act]:
    shop = shop_of(it)
    path = "/api/automations/rules"
    return (
        lambda: it.call(path, document(shop) | {"source": "nobody"}),
        lambda: it.call(path, document(shop)),
    )


def _api_change(method: str) -> Case:
    def made(it: Scene) -> tuple[Act, Act]:
        rule = shop_of(it).rule()
        send = getattr(it.console, method)

        def ask(rule_id: object) -> None:
            answer = send(
                f"/api/automations/rules/{rule_id}",
                json.dumps({"runs_per_hour": 3}) if method == "patch" else "",
                content_type="application/json",
                headers=bearer(it.operator),
            )
            assert answer.status_code < 500

        return lambda: ask(uuid.uuid4()), lambda: ask(rule.pk)

    return made


def _api_again(it: Scene) -> tuple[Act, Act]:
    event = failed_event(shop_of(it))
    path = "/api/automations/events/{}/again"
    return lambda: it.call(path.format(uuid.uuid4()), {}), lambda: it.call(path.format(event.pk), {})


CASES |= {
    "api POST api/automations/rules": _api_add,
    "api PATCH api/automations/rules/<str:rule_id>": _api_change("patch"),
    "api DELETE api/automations/rules/<str:rule_id>": _api_change("delete"),
    "api POST api/automations/events/<str:event>/again": _api_again,
}


def _turned_off(rule: AutomationRule) -> None:
    rules.enable_rule(rule_id=rule.pk, enabled=False, actor="test")


def _rule_by_command(do: str) -> Case:
    def made(it: Scene) -> tuple[Act, Act]:
        shop = shop_of(it)
        rule = shop.rule()
        if do == "enable":
            _turned_off(rule)
        more = ("--file", file_with(it, {"runs_per_hour": 3})) if do == "change" else ()
        return (
            lambda: it.command("automations", do, NO_RULE, *more, *BY),
            lambda: it.command("automations", do, rule.name, *more, *BY),
        )

    return made


def _add_by_command(it: Scene) -> tuple[Act, Act]:
    shop = shop_of(it)
    wrong, right = (file_with(it, document(shop) | more) for more in ({"source": "nobody"}, {}))
    return (
        lambda: it.command("automations", "add", "--file", wrong, *BY),
        lambda: it.command("automations", "add", "--file", right, *BY),
    )


def _event_by_command(do: str) -> Case:
    def made(it: Scene) -> tuple[Act, Act]:
        shop = shop_of(it)
        event = failed_event(shop)
        subject = str(event.pk)
        if do == "forget":
            subject = event.event_id
            AutomationEvent.objects.all().delete()
        more = ("--source", shop.source.name, "--reason", "mended", *BY)
        return (
            lambda: it.command("automations", do, str(uuid.uuid4()), *more),
            lambda: it.command("automations", do, subject, *more),
        )

    return made


def _tenant_by_command(it: Scene) -> tuple[Act, Act]:
    return (
        lambda: it.command("automations", "tenant", "t_unknown", *BY),
        lambda: it.command("automations", "tenant", it.tenant_id, *BY),
    )


CASES |= {f"command automations {do}": _rule_by_command(do) for do in ("change", "enable", "disable", "end")}
CASES |= {f"command automations {do}": _event_by_command(do) for do in ("again", "forget")}
CASES |= {"command automations add": _add_by_command, "command automations tenant": _tenant_by_command}


def _rule_at_the_console(do: str) -> Case:
    def made(it: Scene) -> tuple[Act, Act]:
        rule = shop_of(it).rule()
        if do == "enable":
            _turned_off(rule)
        values = {"change": '{"runs_per_hour": 3}'} if do == "change_it" else {}
        page = "automations/automationrule/{}/" + do + "/"
        return lambda: it.post(page.format(uuid.uuid4()), **values), lambda: it.post(page.format(rule.pk), **values)

    return made


def _add_at_the_console(it: Scene) -> tuple[Act, Act]:
    shop = shop_of(it)
    page = "automations/automationrule/add/"
    return (
        lambda: it.post(page, rule=json.dumps(document(shop) | {"source": "nobody"})),
        lambda: it.post(page, rule=json.dumps(document(shop, enabled=False))),
    )


def _again_at_the_console(it: Scene) -> tuple[Act, Act]:
    event = failed_event(shop_of(it))
    page = "automations/automationevent/{}/again/"
    return lambda: it.post(page.format(uuid.uuid4()), reason="x"), lambda: it.post(page.format(event.pk), reason="x")


CASES |= {
    f"console automations.automationrule {do}": _rule_at_the_console(do)
    for do in ("change_it", "enable", "disable", "end")
}
CASES |= {
    "console automations.automationrule add": _add_at_the_console,
    "console automations.automationevent again": _again_at_the_console,
}
