"""Every way in which a person can change something leaves one entry in the audit trail, and none when it is refused.

The ways are found by rule: what the console's pages allow, the commands that change something, the addresses that ask
for an operator's scope. One without a case here fails the suite.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.management import get_commands, load_command_class
from django.test import Client, RequestFactory
from django.urls import get_resolver

from dpp_project.audit.models import AuditEntry
from dpp_project.management.base import OpsCommand
from dpp_project.signin.sign_in import SIGNED_IN
from tenants.permissions import requirement_of
from tenants.scopes import OPERATOR_SCOPES
from tests.acceptance.test_isolation_matrix import all_routes
from tests.gear.builders import (
    acts,
    auth_error_acts,
    automation_acts,
    automation_source_acts,
    webhook_acts,
    workspace_acts,
)
from tests.gear.builders.acts import OURS, Scene
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import an_operator_key

pytestmark = [pytest.mark.contract("DPP-97", "HRD-28")]

CASES = acts.CASES | auth_error_acts.CASES | webhook_acts.CASES | workspace_acts.CASES
CASES |= automation_acts.CASES | automation_source_acts.CASES
READS = {
    "console budget.account prove",
    "console budget.account statement",
    *("command ticket list", "command ticket show", "command dlq list", "command dlq show"),
    *("command auth_errors list", "command auth_errors show"),
    *("command events list", "command events show"),
    *("command emergency_stop status", "command submits status"),
    "command caps show",
    *("command webhooks list", "command webhooks show"),
    *("command workspace list", "command workspace show", "command workspace logs", "command workspace drivers"),
    "console workspaces.workspace board",
    *(f"command automations {do}" for do in ("rules", "events", "tasks", "messages", "show", "try")),
    "command automations source",  # acts of its own, each with its case in test_source_acts
    *("api POST api/automations/rules/try", "console automations.automationrule try_it"),
    *("command data list", "command data due", "command data disk"),
}
"""Found by the rule, and they only read."""


def console_ways() -> Iterator[str]:
    request: Any = RequestFactory().get("/admin/")
    request.user = User(username="ada", is_superuser=True, is_staff=True, is_active=True)
    for model, page in admin.site._registry.items():
        name = f"console {model._meta.label_lower}"
        yield from (f"{name} {what}" for what in ("add", "change", "delete") if _may(page, what, request))
        yield from (
            f"{name} {one}" for one in (*getattr(page, "actions_detail", ()), *getattr(page, "actions_list", ()))
        )
        yield from (f"{name} {one}" for one in page.get_actions(request))


def _may(page: Any, what: str, request: Any) -> bool:
    return bool(getattr(page, f"has_{what}_permission")(request))


def command_ways() -> Iterator[str]:
    for name, app in get_commands().items():
        if not str(app).startswith(OURS):
            continue
        command = load_command_class(str(app), name)
        if not isinstance(command, OpsCommand) or not command.changes:
            continue
        parser = command.create_parser("manage.py", name)
        choices = next((one.choices for one in parser._actions if one.dest in {"do", "what"} and one.choices), None)
        yield from (f"command {name} {choice}" for choice in choices) if choices else [f"command {name}"]


def api_ways() -> Iterator[str]:
    for route, view in all_routes(get_resolver().url_patterns):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            if hasattr(view, method.lower()):
                asked = requirement_of(view, method)
                if asked in OPERATOR_SCOPES or (isinstance(asked, frozenset) and asked & OPERATOR_SCOPES):
                    yield f"api {method} {route}"


WAYS = {*console_ways(), *command_ways(), *api_ways()} - READS


def test_dpp_97_every_way_to_change_something_has_a_case() -> None:
    assert set(CASES) == WAYS


@pytest.fixture
def scene(shop: Shop, console: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Scene:
    return Scene(shop, console, an_operator_key(), monkeypatch, tmp_path)


@pytest.mark.parametrize("way", sorted(WAYS))
def test_dpp_97_an_act_leaves_one_entry_and_a_refused_one_none(scene: Scene, way: str) -> None:
    refused, done = CASES[way](scene)
    assert not AuditEntry.objects.filter(act=SIGNED_IN).exists()
    before = list(AuditEntry.objects.values_list("pk", flat=True))
    refused()
    assert list(AuditEntry.objects.exclude(act=SIGNED_IN).values_list("pk", flat=True)) == before
    done()
    found = list(AuditEntry.objects.exclude(pk__in=before).exclude(act=SIGNED_IN))
    assert len(found) == automation_acts.ENTRIES.get(way, 1), [entry.act for entry in found]
    who = {"console": "operator:ada", "api": f"key:dpp_{scene.operator.key.prefix}"}
    for entry in found:
        assert entry.source == way.partition(" ")[0]
        assert entry.place
        assert entry.actor == who.get(entry.source, entry.actor)
