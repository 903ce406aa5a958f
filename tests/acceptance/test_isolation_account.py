"""Every account page against everyone who must not get through it, as test_isolation_matrix.py has the API (DPP-84)."""

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client

from budget.models import LedgerEntry
from dpp_project.audit.models import AuditEntry
from runs.models import Run
from tenants.models import ApiKey, SpendCap, Tenant
from tenants.permissions import ANY_KEY, requirement_of
from tenants.scopes import TENANT_SCOPES, Scope
from tenants.webhooks.models import WebhookEndpoint
from tests.acceptance.test_isolation_matrix import ROUTES
from tests.gear.builders.account import PAGES, AccountVisitor, a_visitor
from tests.gear.builders.shop import Shop, a_shop
from tests.gear.builders.tenants import a_key
from tests.gear.builders.webhook_sending import an_endpoint

pytestmark = [pytest.mark.contract("DPP-84", "DPP-11", "DPP-22")]

CALLS = [(route, form) for route, page in PAGES.items() for form in (None, *page.posts)]
WITH_AN_ID = [(route, form) for route, form in CALLS if PAGES[route].thing]


@dataclass
class OwnerOfAll:
    """A tenant with one of each thing, and all of it as it was."""

    shop: Shop
    things: dict[str, str]
    before: list[Any]

    def is_untouched(self) -> None:
        assert facts() == self.before


def facts() -> list[Any]:
    tables: tuple[Any, ...] = (Run, LedgerEntry, SpendCap, WebhookEndpoint)
    rows = [list(table.objects.order_by("pk").values()) for table in tables]
    keys = list(ApiKey.objects.order_by("pk").values("pk", "status", "expires_at", "replaced_by_id"))
    return [*rows, keys, list(Tenant.objects.order_by("pk").values())]


@pytest.fixture
def owner(shop: Shop) -> OwnerOfAll:
    run_id = shop.submit().json()["run_id"]
    endpoint = an_endpoint(shop.tenant.tenant_id)
    things = {"run": run_id, "key": str(shop.issued.key.key_id), "webhook": str(endpoint.endpoint_id)}
    return OwnerOfAll(shop, things, facts())


def call(client: Client, route: str, form: dict[str, str] | None, thing: str = "") -> Any:
    path = "/" + re.sub(r"<str:\w+>", thing, route)
    answer = client.get(path) if form is None else client.post(path, form)
    answer.close()
    return answer


def text(answer: Any) -> str:
    return "".join(part.decode() for part in answer) + str(answer.headers)


def test_dpp_84_the_table_has_each_method_of_each_page() -> None:
    for route, page in PAGES.items():
        view = ROUTES[route]
        handled = {name for name in ("get", "post", "put", "patch", "delete") if hasattr(view, name)}
        assert handled == ({"get", "post"} if page.posts else {"get"}), route


def strangers(shop: Shop) -> Iterator[Client]:
    yield Client()
    for cookie in ("", "x", "\x7f" * 32, "0" * 32, shop.issued.plaintext):
        client = Client()
        client.cookies["dpp_account"] = cookie
        client.cookies["sessionid"] = cookie
        yield client
    bearer = Client(headers={"authorization": f"Bearer {shop.issued.plaintext}"})
    yield bearer


def test_dpp_84_without_a_session_every_page_asks_for_a_key(owner: OwnerOfAll, subtests: pytest.Subtests) -> None:
    """A key in a header is no session: another site's script could be made to send neither."""
    for client in strangers(owner.shop):
        for route, form in CALLS:
            with subtests.test(route=route, form=form):
                answer = call(client, route, form, owner.things.get(PAGES[route].thing, ""))
                assert answer.status_code == 302
                assert answer.headers["Location"].startswith("/account/sign-in/")
    owner.is_untouched()
    assert not AuditEntry.objects.filter(actor__startswith="owner:").exists()


def test_dpp_84_without_the_scope_every_page_is_refused(owner: OwnerOfAll, subtests: pytest.Subtests) -> None:
    """The owner's own key with every other scope; the same whether the id exists or not."""
    for route, form in CALLS:
        needed = requirement_of(ROUTES[route], "GET" if form is None else "POST")
        if needed is ANY_KEY:
            continue
        enough = frozenset({needed}) if isinstance(needed, Scope) else needed
        visitor = a_visitor(a_key(owner.shop.tenant, scopes=TENANT_SCOPES - enough))
        owner.before = facts()
        with subtests.test(route=route, form=form):
            for thing in (owner.things.get(PAGES[route].thing, ""), str(uuid.uuid4()), "malformed"):
                assert call(visitor.client, route, form, thing).status_code == 403
            owner.is_untouched()


def test_dpp_84_another_tenants_thing_is_answered_as_none(owner: OwnerOfAll, subtests: pytest.Subtests) -> None:
    """Another's, an unknown and a malformed id: the same page but for the id and the form's token."""
    stranger = a_visitor(a_shop().issued)
    owner.before = facts()
    for route, form in WITH_AN_ID:
        with subtests.test(route=route, form=form):
            shown = set()
            own = owner.things[PAGES[route].thing]
            for thing in (own, str(uuid.uuid4()), "malformed", own.upper()):
                answer = call(stranger.client, route, form, thing)
                assert answer.status_code == 404
                page = re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", answer.content.decode())
                shown.add(page.replace(thing, "ID"))
            assert len(shown) == 1
            owner.is_untouched()


def test_dpp_84_nothing_of_another_tenant_is_on_any_page(owner: OwnerOfAll, subtests: pytest.Subtests) -> None:
    stranger: AccountVisitor = a_visitor(a_shop().issued)
    secrets = [owner.shop.tenant.tenant_id, owner.shop.issued.key.prefix, "receiver.example", *owner.things.values()]
    for route, page in PAGES.items():
        if page.thing:
            continue
        with subtests.test(route=route):
            answer = stranger.client.get(f"/{route}")
            shown = text(answer)
            answer.close()
            assert answer.status_code == 200
            assert [secret for secret in secrets if secret in shown] == []


def test_dpp_84_a_delivery_of_another_tenant_is_not_sent_again(owner: OwnerOfAll) -> None:
    """Its id in a form of one's own webhook."""
    mine = a_shop()
    endpoint = an_endpoint(mine.tenant.tenant_id)
    form = {"act": "redeliver", "delivery": str(uuid.uuid4())}
    answer = call(a_visitor(mine.issued).client, "account/webhooks/<str:webhook_id>/", form, str(endpoint.endpoint_id))
    assert answer.status_code == 404
