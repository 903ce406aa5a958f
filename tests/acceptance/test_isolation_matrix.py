"""Every address of the API against everyone who must not get through it. The rows come from the URLconf.

An address without an entry fails the suite: whoever adds one says here who may use it, and what a stranger is told.
"""

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.views import APIView

from dpp_project import clock
from dpp_project.http import answers
from tenants import authentication, services
from tenants.models import Tenant
from tenants.permissions import ANY_KEY, requirement_of
from tenants.scopes import OPERATOR_SCOPES, TENANT_SCOPES, Scope
from tests.gear.builders import account, auth_errors
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import RUNS, Shop, a_body, a_shop, messages
from tests.gear.builders.tenants import a_key, a_tenant, an_operator_key, bearer

pytestmark = [pytest.mark.contract("DPP-11", "DPP-22", "DPP-24")]

PUBLIC_ROUTES = {
    *("healthz", "readyz", "metrics", "v1/openapi.json", "docs", "docs/", "docs/problems/"),
    *("docs/reference/", "docs/search.json", "docs/adr/", "docs/<path:name>/", "docs/<path:name>"),
    "api/automations/hooks/<str:source>",  # signed by its source, and no tenant's: test_signed_hooks
    *("", "admin", "admin/"),  # the admin has its own login, and its own tests
    *("admin/login/", "admin/password_change/", "admin/second-factor/", "admin/live/"),
    *account.OPEN,
}


@dataclass(frozen=True)
class Entry:
    """How an address is called, by method. `{id}` in its route stands for a thing of one tenant."""

    methods: dict[str, Any]
    body: Callable[[], dict[str, Any]] | None = None
    headers: Callable[[], dict[str, str]] = dict
    operators_only: bool = False
    operators_too: bool = False
    """Tenants see their own there, operators everybody's, each by a scope of their family."""
    ids: tuple[str, ...] = field(default=())


def _fresh_key() -> dict[str, str]:
    return {"Idempotency-Key": uuid.uuid4().hex}


ENTRIES: dict[str, Entry] = {
    "v1/whoami": Entry({"GET": None}),
    "v1/audit": Entry({"GET": None}),
    "v1/packs": Entry({"GET": None}),
    "v1/runs": Entry({"GET": None, "POST": a_body}, headers=_fresh_key),
    "v1/runs/estimate": Entry({"POST": lambda: {"pack_type": "probe", "inputs": {}}}),
    "v1/runs/<str:run_id>": Entry({"GET": None}, ids=("run_id",)),
    "v1/runs/<str:run_id>/events": Entry({"GET": None}, ids=("run_id",)),
    "v1/runs/<str:run_id>/artifacts/<str:name>": Entry({"GET": None}, ids=("run_id",)),
    "v1/runs/<str:run_id>/cancel": Entry({"POST": None}, ids=("run_id",)),
    "v1/runs/<str:run_id>/data": Entry({"DELETE": None}, ids=("run_id",)),
    "v1/concurrency/<str:key>": Entry({"GET": None, "PUT": lambda: {"limit": 2}}),
    "mcp": Entry({"POST": lambda: {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}}),
    "v1/uploads": Entry(
        {"POST": lambda: {"filename": "a.png", "content_type": "image/png", "size_bytes": 1}}, headers=dict
    ),
    "v1/webhooks": Entry({"GET": None, "POST": lambda: {"url": "https://203.0.113.1/", "events": ["run.failed"]}}),
    "v1/webhooks/<str:webhook_id>": Entry(
        {"GET": None, "PATCH": lambda: {"status": "PAUSED"}, "DELETE": None}, ids=("webhook_id",)
    ),
    "v1/webhooks/<str:webhook_id>/rotate": Entry({"POST": None}, ids=("webhook_id",)),
    "v1/webhooks/<str:webhook_id>/test": Entry({"POST": None}, ids=("webhook_id",)),
    "v1/webhooks/<str:webhook_id>/deliveries": Entry({"GET": None}, ids=("webhook_id",)),
    "v1/webhooks/<str:webhook_id>/recover": Entry(
        {"POST": lambda: {"since": clock.now().isoformat()}}, ids=("webhook_id",)
    ),
    "v1/webhooks/deliveries/<str:delivery_id>/redeliver": Entry({"POST": None}, ids=("delivery_id",)),
    "v1/budget": Entry({"GET": None, "PATCH": lambda: {"zone": "UTC"}}),
    "v1/budget/caps": Entry({"PUT": lambda: {"day_usd": "1.0000"}}),
    "v1/keys": Entry({"GET": None, "POST": lambda: {"scopes": ["runs:read"]}}),
    "v1/keys/<str:key_id>/caps": Entry({"PUT": lambda: {"day_usd": "1.0000"}}, ids=("key_id",)),
    "v1/keys/<str:key_id>/rotate": Entry({"POST": dict}, ids=("key_id",)),
    "v1/keys/<str:key_id>/revoke": Entry({"POST": None}, ids=("key_id",)),
    "v1/budget/entries": Entry({"GET": None}),
    "v1/usage": Entry({"GET": None}),
    "v1/tenants/<str:tenant_id>/topups": Entry(
        {"POST": lambda: {"amount_usd": "1.0000", "reference": "r", "reason": "x"}}, operators_only=True
    ),
    "v1/workspaces": Entry({"GET": None, "POST": lambda: {"name": "a"}}, operators_too=True),
    "v1/workspaces/<str:workspace_id>": Entry(
        {"GET": None, "PATCH": lambda: {"desired_state": "STANDBY"}, "DELETE": None},
        headers=lambda: {"If-Match": "*"},
        operators_too=True,
        ids=("workspace_id",),
    ),
    "v1/workspaces/<str:workspace_id>/undelete": Entry({"POST": dict}, ids=("workspace_id",)),
    "v1/workspaces/<str:workspace_id>/recover": Entry({"POST": lambda: {"from": "recheck"}}, ids=("workspace_id",)),
    "v1/workspaces/<str:workspace_id>/archives": Entry({"GET": None}, operators_too=True, ids=("workspace_id",)),
    "v1/workspaces/<str:workspace_id>/exec": Entry({"POST": lambda: {"argv": ["true"]}}, ids=("workspace_id",)),
    "v1/workspaces/<str:workspace_id>/logs": Entry({"GET": None}, operators_too=True, ids=("workspace_id",)),
    "v1/workspaces/<str:workspace_id>/links": Entry({"POST": lambda: {"port": 8080}}, ids=("workspace_id",)),
    "v1/workspaces/<str:workspace_id>/events": Entry({"GET": None}, operators_too=True, ids=("workspace_id",)),
    "api/tickets": Entry(
        {"GET": None, "POST": lambda: {"request_type": "EXECUTION_ENABLE", "payload": {"tenant_id": "t_x"}}},
        operators_only=True,
    ),
    "api/tickets/<str:request_id>": Entry({"GET": None}, operators_only=True),
    "api/tickets/reaper/latest": Entry({"GET": None}, operators_only=True),
    "api/tickets/reaper/run": Entry({"POST": dict}, operators_only=True),
    "api/auth-errors": Entry({"GET": None, "POST": auth_errors.a_report}, operators_too=True),
    "api/auth-errors/<str:auth_error_id>": Entry({"GET": None}, operators_too=True, ids=("auth_error_id",)),
    "api/auth-errors/<str:auth_error_id>/decisions": Entry(
        {"POST": lambda: {"decision": "IGNORE"}}, operators_only=True
    ),
    "api/auth-errors/clusters": Entry({"GET": None}, operators_only=True),
    "api/auth-errors/clusters/<str:cluster_id>": Entry({"GET": None}, operators_only=True),
    "api/auth-errors/clusters/<str:cluster_id>/decisions": Entry(
        {"POST": lambda: {"decision": "IGNORE"}}, operators_only=True
    ),
    "api/auth-errors/clusters/<str:cluster_id>/merge": Entry(
        {"POST": lambda: {"into": str(uuid.uuid4())}}, operators_only=True
    ),
    "api/auth-errors/clusters/<str:cluster_id>/unmerge": Entry({"POST": None}, operators_only=True),
    "api/automations/rules": Entry({"GET": None, "POST": lambda: {"name": "a"}}, operators_only=True),
    "api/automations/rules/try": Entry({"POST": lambda: {"source": "a", "event": {}}}, operators_only=True),
    "api/automations/rules/<str:rule_id>": Entry(
        {"GET": None, "PATCH": lambda: {"enabled": False}, "DELETE": None}, operators_only=True
    ),
    "api/automations/sources": Entry({"GET": None, "POST": lambda: {"name": "a", "kind": "HOOK"}}, operators_only=True),
    "api/automations/sources/<str:source>": Entry(
        {"GET": None, "PATCH": lambda: {"settings": {}}}, operators_only=True
    ),
    "api/automations/sources/<str:source>/rotate": Entry({"POST": dict}, operators_only=True),
    "api/automations/sources/<str:source>/pause": Entry({"POST": None}, operators_only=True),
    "api/automations/sources/<str:source>/resume": Entry({"POST": None}, operators_only=True),
    "api/automations/sources/<str:source>/look": Entry({"POST": None}, operators_only=True),
    "api/automations/events": Entry({"GET": None}, operators_only=True),
    "api/automations/events/<str:event>/again": Entry({"POST": None}, operators_only=True),
    "api/automations/tasks": Entry({"GET": None}, operators_only=True),
    "api/automations/tasks/<str:task>": Entry({"GET": None}, operators_only=True),
    "api/automations/messages": Entry({"GET": None}, operators_only=True),
}


def all_routes(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            if route == "admin/":
                yield route, None
            else:
                yield from all_routes(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route, getattr(pattern.callback, "view_class", None) or getattr(pattern.callback, "cls", None)


ROUTES = dict(all_routes(get_resolver().url_patterns))
CASES = [(route, method) for route, entry in ENTRIES.items() for method in entry.methods]
WITH_AN_ID = [case for case in CASES if ENTRIES[case[0]].ids]
OF_ONE_TENANT = [case for case in CASES if not ENTRIES[case[0]].operators_only]
WITH_A_SCOPE = [case for case in CASES if requirement_of(ROUTES[case[0]], case[1]) is not ANY_KEY]
OF_ONE_FAMILY = [case for case in WITH_A_SCOPE if not (ENTRIES[case[0]].operators_too and case[1] == "GET")]


def test_isolation_every_address_has_an_entry() -> None:
    assert set(ROUTES) == set(ENTRIES) | set(account.PAGES) | PUBLIC_ROUTES  # test_isolation_account.py has the pages


def test_isolation_every_method_of_every_address_has_an_entry() -> None:
    for route, entry in ENTRIES.items():
        view = ROUTES[route]
        assert issubclass(view, APIView)
        handled = {name.upper() for name in view.http_method_names if hasattr(view, name)} - {"OPTIONS", "HEAD"}
        assert handled == set(entry.methods), route


@dataclass
class Victim:
    """A tenant with a run, and a stranger who knows its id."""

    shop: Shop
    run_id: uuid.UUID
    before: dict[str, Any]

    def is_untouched(self) -> None:
        assert gear.everything(self.run_id) == self.before
        assert len(self.shop.runs()) == 1
        assert [message["run_id"] for message in messages()] == []


@pytest.fixture
def victim(shop: Shop) -> Victim:
    run_id = uuid.UUID(shop.submit().json()["run_id"])
    messages()
    return Victim(shop, run_id, gear.everything(run_id))


def call(route: str, method: str, headers: dict[str, str], *, thing: str, tenant_id: str) -> Any:
    entry = ENTRIES[route]
    path = "/" + route.replace("<str:run_id>", thing).replace("<str:tenant_id>", tenant_id)
    path = path.replace("<str:name>", "text.md").replace("<str:key>", "a-key")
    for name in ("request_id", "webhook_id", "delivery_id", "auth_error_id", "cluster_id", "key_id", "workspace_id"):
        path = path.replace(f"<str:{name}>", thing)
    make = entry.methods[method]
    client: Any = Client(raise_request_exception=False)
    response = client.generic(
        method,
        path,
        data="" if make is None else json.dumps(make()),
        content_type="application/json",
        headers=headers | entry.headers(),
    )
    assert not route.startswith("v1/") or set(answers.COSTS_UNKNOWN) <= set(response.headers)  # DPP-24
    return response


def told(response: Any) -> tuple[int, str]:
    assert response.headers["Content-Type"] == "application/problem+json", response.content
    return response.status_code, response.json()["reason_code"]


def revoked(shop: Shop) -> dict[str, str]:
    issued = a_key(shop.tenant)
    services.revoke_key(key_id=issued.key.key_id, actor="test")
    return bearer(issued)


def expired(shop: Shop) -> dict[str, str]:
    issued = a_key(shop.tenant, expires_at=clock.now() + timedelta(hours=1))
    type(issued.key).objects.filter(pk=issued.key.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    return bearer(issued)


def suspended(_shop: Shop) -> dict[str, str]:
    tenant = a_tenant()
    issued = a_key(tenant)
    services.suspend_tenant(tenant_id=tenant.tenant_id, actor="test")
    return bearer(issued)


def no_limit_of_rates() -> None:
    """One key asks at every address here, and a refusal for want of patience would hide the one looked for."""
    Tenant.objects.update(submit_rate_per_minute=60_000, poll_rate_per_minute=60_000)
    authentication.memory.forget()


KEYLESS: dict[str, Callable[[Shop], dict[str, str]]] = {
    "no key": lambda _shop: {},
    "no bearer": lambda shop: {"Authorization": f"Basic {shop.issued.plaintext}"},
    "malformed": lambda _shop: {"Authorization": "Bearer dpp_short"},
    "unknown": lambda _shop: {"Authorization": f"Bearer dpp_abcdefgh_{'x' * 43}"},
    "wrong secret": lambda shop: {"Authorization": f"Bearer {shop.issued.plaintext[:-1]}~"},
    "revoked": revoked,
    "expired": expired,
    "suspended": suspended,
}


def test_isolation_without_a_valid_key_it_is_401_and_nothing_happens(victim: Victim, subtests: pytest.Subtests) -> None:
    """With each kind of no key, one after the other: none of them leaves a trace that the next could meet."""
    keyless = {kind: headers_of(victim.shop) for kind, headers_of in KEYLESS.items()}
    tenant_id = victim.shop.tenant.tenant_id
    for route, method in CASES:
        with subtests.test(route=route, method=method):
            for kind, headers in keyless.items():
                authentication.memory.forget()
                response = call(route, method, headers, thing=str(victim.run_id), tenant_id=tenant_id)
                assert told(response) == (401, "AUTH_INVALID"), kind
                shown = response.content.decode().replace(response.json()["instance"], "")
                assert str(victim.run_id) not in shown, kind
            victim.is_untouched()


def test_isolation_without_the_scope_it_is_403_and_nothing_happens(victim: Victim, subtests: pytest.Subtests) -> None:
    """A key of the owner itself with every other scope; and the same whether the id exists or not."""

    @cache
    def headers_without(enough: frozenset[Scope], *, is_operators: bool) -> dict[str, str]:
        make = an_operator_key if is_operators else (lambda scopes: a_key(victim.shop.tenant, scopes=scopes))
        return bearer(make(scopes=(OPERATOR_SCOPES if is_operators else TENANT_SCOPES) - enough))

    tenant_id = victim.shop.tenant.tenant_id
    for route, method in WITH_A_SCOPE:
        with subtests.test(route=route, method=method):
            needed = requirement_of(ROUTES[route], method)
            enough = frozenset({needed}) if isinstance(needed, Scope) else needed
            is_operators = ENTRIES[route].operators_only
            family = OPERATOR_SCOPES if is_operators else TENANT_SCOPES
            assert enough <= (frozenset(Scope) if ENTRIES[route].operators_too else family)
            headers = headers_without(enough, is_operators=is_operators)
            no_limit_of_rates()
            seen = [
                told(call(route, method, headers, thing=thing, tenant_id=tenant_id))
                for thing in (str(victim.run_id), str(uuid.uuid4()), "malformed")
            ]
            assert set(seen) == {(403, "SCOPE_MISSING")}
            victim.is_untouched()


def test_isolation_operators_and_tenants_do_not_open_each_others_doors(
    victim: Victim, subtests: pytest.Subtests
) -> None:
    operator, tenants_own = bearer(an_operator_key()), bearer(victim.shop.issued)
    no_limit_of_rates()
    for route, method in OF_ONE_FAMILY:
        with subtests.test(route=route, method=method):
            stranger = tenants_own if ENTRIES[route].operators_only else operator
            for tenant_id in (victim.shop.tenant.tenant_id, "t_unheard_of"):
                for thing in (str(victim.run_id), str(uuid.uuid4()), "malformed"):
                    seen = told(call(route, method, stranger, thing=thing, tenant_id=tenant_id))
                    assert seen == (403, "SCOPE_MISSING")
            victim.is_untouched()


def test_isolation_another_tenants_thing_is_answered_as_none(victim: Victim, subtests: pytest.Subtests) -> None:
    """Another's, an unknown and a malformed id: the same bytes and headers but for the id and the trace."""
    stranger = bearer(a_shop().issued) | {"X-Trace-Id": "same"}
    for route, method in WITH_AN_ID:
        with subtests.test(route=route, method=method):
            seen = []
            for thing in (str(victim.run_id), str(uuid.uuid4()), "malformed", "none-such", str(victim.run_id).upper()):
                response = call(route, method, stranger, thing=thing, tenant_id="t_x")
                assert told(response) == (404, "NOT_FOUND")
                headers = {
                    name: value
                    for name, value in response.headers.items()
                    if "ratelimit" not in name.lower() and name != "Content-Length"
                }
                seen.append((response.content.decode().replace(thing, "ID"), headers))
            assert all(answer == seen[0] for answer in seen)
            victim.is_untouched()


def test_isolation_nothing_of_another_tenant_is_in_any_answer(victim: Victim, subtests: pytest.Subtests) -> None:
    """Operators see every tenant; all others see their own."""
    stranger = a_shop()
    for route, method in OF_ONE_TENANT:
        with subtests.test(route=route, method=method):
            response = call(route, method, bearer(stranger.issued), thing=str(victim.run_id), tenant_id="t_x")
            shown = response.content.decode() + str(response.headers)
            told_back = response.json().get("instance", "") if response.content else ""
            shown = shown.replace(told_back, "") if told_back else shown
            for secret in (victim.shop.tenant.tenant_id, str(victim.run_id), victim.shop.issued.key.prefix):
                assert secret not in shown
            assert gear.everything(victim.run_id) == victim.before
            assert len(victim.shop.runs()) == 1


def test_isolation_a_key_of_one_tenant_does_not_replay_for_another(victim: Victim) -> None:
    stranger, key = a_shop(), uuid.uuid4().hex
    mine = victim.shop.submit(key=key).json()["run_id"]
    theirs = stranger.submit(key=key).json()["run_id"]
    assert mine != theirs
    assert stranger.get(f"{RUNS}/{mine}").status_code == 404
