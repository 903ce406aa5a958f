"""Sources over the API: what the commands do, in the shape of rules; secrets are shown once, tokens never."""

import json
from typing import Any, Final

import pytest
from django.test import Client

from dpp_project import encryption
from dpp_project.audit.models import AuditEntry
from ops.automations.models import AutomationSource
from ops.automations.sources import credentials
from tenants.scopes import Scope
from tests.gear.builders.automation_world import a_github, a_hook, a_schedule, row
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import a_key, an_operator_key, bearer

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.contract("LIF-06"),
    pytest.mark.usefixtures("valkey"),
]
PATH: Final = "/api/automations/sources"
HOOK: Final = {"name": "issues", "kind": "HOOK", "settings": {"form": "github"}}


@pytest.fixture
def operator(client: Client) -> "Operator":
    return Operator(client, bearer(an_operator_key()))


class Operator:
    def __init__(self, client: Client, headers: dict[str, str]) -> None:
        self._client, self._headers = client, headers

    def __call__(self, method: str, path: str = "", body: Any = None) -> tuple[int, dict[str, Any]]:
        content = "" if body is None else json.dumps(body)
        answer = getattr(self._client, method)(
            PATH + path, content, content_type="application/json", headers=self._headers
        )
        return answer.status_code, answer.json()


def live(name: str) -> list[str]:
    source = AutomationSource.objects.get(name=name)
    return [one.secret for one in credentials.credentials_of(source).signing]


def test_lif_06_a_hook_is_made_and_its_secret_is_shown_once(operator: Operator) -> None:
    status, made = operator("post", "", HOOK)
    assert (status, made["name"], made["has_secrets"], made["enabled"]) == (201, "issues", True, True)
    assert made["secret"] == live("issues")[0]
    assert made["secret"].startswith("whsec_")
    shown = {name: value for name, value in made.items() if name != "secret"}
    assert operator("get", "/issues") == (200, shown)
    assert operator("get") == (200, {"sources": [shown]})
    assert made["secret"] not in str(list(AuditEntry.objects.values()))
    assert AuditEntry.objects.filter(act="automation source made").count() == 1


def test_lif_06_what_was_given_is_never_shown(operator: Operator) -> None:
    said = {"name": "github", "kind": "GITHUB", "token": "ghp_not_to_be_seen"}
    status, made = operator("post", "", said)
    assert (status, made["secret"], made["has_secrets"]) == (201, None, True)
    status, rotated = operator("post", "/github/rotate", {"token": "ghp_neither_this_one"})
    assert (status, rotated["secret"]) == (200, None)
    assert credentials.credentials_of(AutomationSource.objects.get()).token == "ghp_neither_this_one"
    told = json.dumps([made, rotated, operator("get", "/github")]) + str(list(AuditEntry.objects.values()))
    assert "ghp_" not in told


def test_lif_06_a_rotation_keeps_the_former_for_a_day(operator: Operator) -> None:
    _, made = operator("post", "", HOOK)
    status, rotated = operator("post", "/issues/rotate", {})
    assert (status, live("issues")) == (200, [rotated["secret"], made["secret"]])
    status, third = operator("post", "/issues/rotate", {"signing_secret": "another one"})
    assert (status, third["reason_code"]) == (409, "CONFLICT")
    assert live("issues") == [rotated["secret"], made["secret"]]


def test_lif_06_a_source_is_changed_paused_resumed_and_looked_at(operator: Operator) -> None:
    source = a_schedule()
    status, changed = operator("patch", "/nightly", {"settings": {"at": "10:00", "zone": "UTC"}})
    assert (status, changed["settings"]) == (200, {"at": "10:00", "zone": "UTC"})
    for do, enabled in (("pause", False), ("pause", False), ("resume", True), ("look", True)):
        status, said = operator("post", f"/nightly/{do}")
        assert (status, said["enabled"], row(source).enabled) == (200, enabled, enabled)
    found = AuditEntry.objects.filter(subject="automation source nightly").exclude(act="automation source made")
    acts = list(found.order_by("pk").values_list("act", flat=True))
    assert acts == [
        "automation source changed",
        "automation source paused",
        "automation source resumed",
        "automation source looked at by hand",
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (HOOK | {"settings": {"form": "gitlab"}}, "settings.form"),
        (HOOK | {"settings": {"form": "github", "colour": 1}}, "settings.colour"),
        (HOOK | {"name": "Not a name"}, "name"),
        (HOOK | {"kind": "GITLAB"}, "kind"),
        (HOOK | {"colour": 1}, "colour"),
        ({"name": "g", "kind": "GITHUB"}, "token"),
        ({"name": "g", "kind": "GITHUB", "token": "github_pat_11"}, "token"),
        ({"name": "g", "kind": "GITHUB", "token": "t" * 4_097}, "token"),
        ({"name": "g", "kind": "GITHUB", "settings": {"token_env": "DPP_SECRET_KEY"}}, "settings.token_env"),
    ],
)
def test_lif_06_a_wrong_source_names_its_field_and_makes_nothing(
    operator: Operator, body: dict[str, Any], field: str
) -> None:
    status, refused = operator("post", "", body)
    assert (status, refused["reason_code"]) == (422, "VALIDATION_FAILED")
    assert [error["field"] for error in refused["errors"]] == [field]
    assert str(body.get("token")) not in json.dumps(refused)
    assert AutomationSource.objects.count() == 0


def test_lif_06_what_is_not_there_or_not_possible_says_so(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    a_hook()
    for do in ("", "/rotate", "/pause", "/resume", "/look"):
        assert operator("get" if do == "" else "post", f"/nobody{do}", None if do == "" else {})[0] == 404
    assert operator("post", "/hook/look")[1]["reason_code"] == "CONFLICT"
    assert operator("post", "", HOOK | {"name": "hook"})[0] == 409
    assert operator("post", "/hook/rotate", {"token": "a", "signing_secret": "b"})[0] == 422
    monkeypatch.setattr(encryption, "is_possible", lambda: False)
    assert operator("post", "", HOOK)[0] == 503
    assert AutomationSource.objects.count() == 1


def test_lif_06_only_operators_have_sources(client: Client, shop: Shop) -> None:
    a_github()
    for issued in (shop.issued, a_key(shop.tenant, scopes=[Scope.KEYS_WRITE])):
        assert client.get(PATH, headers=bearer(issued)).status_code == 403
    reader = an_operator_key(scopes=[Scope.OPERATOR_READ])
    assert client.get(PATH, headers=bearer(reader)).status_code == 200
    assert client.post(f"{PATH}/github/pause", headers=bearer(reader)).status_code == 403
    assert AutomationSource.objects.get().enabled is True
