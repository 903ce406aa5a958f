"""Ports of workspaces over HTTP: who is let in, what is woken, and what passes in either direction."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dpp_project.clock import FixedClock
from dpp_project.process_env import ENV
from ops.workspaces import offer
from ops.workspaces.models import Workspace, WorkspaceAccess
from ops.workspaces.offer import Offer
from ops.workspaces.proxy import links, server
from ops.workspaces.proxy.answers import WAITS_MAX
from ops.workspaces.specs import SpecDocument
from ops.workspaces.states import DesiredState, Phase, Writer
from tenants.models import ApiKey
from tenants.scopes import Scope
from tests.gear.builders.shop import Shop, a_shop
from tests.gear.builders.tenants import a_key, bearer
from tests.gear.builders.workspace_rows import a_driver, a_workspace, seen, worked_on, written
from tests.gear.builders.workspace_sites import CLOSED_PORT, PORT, Answered, WorkspaceSite, a_workspace_site
from tests.gear.waiting import wait_until
from tests.integration.workspaces.test_workspaces_api import HERE, errors, send, told

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("WSP-12")]
LONG_AGO = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def module_site() -> Iterator[WorkspaceSite]:
    with a_workspace_site() as made:
        yield made


@pytest.fixture
def site(module_site: WorkspaceSite) -> Iterator[WorkspaceSite]:
    bounds = module_site.server.bounds
    module_site.server._used_at.clear()
    yield module_site
    module_site.server.bounds = bounds


@pytest.fixture
def workspace(shop: Shop, site: WorkspaceSite, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """It runs and serves, as the loops would say, and was not used for long."""
    with monkeypatch.context() as patch:
        patch.setattr(offer, "current_workspace_offer", lambda: Offer("process"))
        patch.setattr("dpp_project.uuid7.new_uuid7", lambda: site.host.workspace_id)
        made = a_workspace(shop.tenant, spec=SpecDocument(ports=[PORT, CLOSED_PORT]))
    monkeypatch.setattr(links, "ENV", ENV.model_copy(update={"DPP_WORKSPACES_URL": "https://apps.example"}))
    worked_on(made)
    WorkspaceAccess.objects.update(last_access_at=LONG_AGO)
    return seen(made, Phase.RUNNING)


def own_host(workspace: Workspace) -> str:
    return f"{workspace.pk}.apps.example"


def asleep(workspace: Workspace) -> Workspace:
    return seen(written(workspace, Writer.API, desired_state=DesiredState.STANDBY), Phase.STANDBY)


def is_used() -> bool:
    return WorkspaceAccess.objects.get().last_access_at.isoformat() != "2026-01-01T00:00:00+00:00"


def a_link(shop: Shop, workspace: Workspace, **body: Any) -> Any:
    return send(shop, "POST", f"{HERE}/{workspace.pk}/links", {"port": PORT} | body)


def opened(site: WorkspaceSite, url: str, **headers: str) -> Answered:
    host, path = url.removeprefix("https://").split("/", 1)
    return site.ask("", place=f"/{path}", **({"Host": host} | headers))


def cookie_of(site: WorkspaceSite, shop: Shop, workspace: Workspace, **body: Any) -> dict[str, str]:
    answer = opened(site, a_link(shop, workspace, **body).json()["url"])
    assert answer.status == 303
    return {"Host": own_host(workspace), "Cookie": answer.headers["set-cookie"].split(";")[0]}


def test_a_request_arrives_without_what_proves_its_caller(
    shop: Shop, site: WorkspaceSite, workspace: Workspace
) -> None:
    answer = site.ask(
        "/a/../b?c=%2F",
        method="POST",
        body=b"given",
        Cookie="sessionid=operators; dpp_workspace=1.a.b",
        Connection="x-hop, close",
        X_Hop="1",
        X_Forwarded_For="6.6.6.6",
        Forwarded="for=6.6.6.6",
        Proxy_Authorization="Basic x",
        X_Kept="1",
        **bearer(shop.issued),
    )
    assert answer.status == 200
    inside = answer.document()
    assert (inside["method"], inside["target"], inside["body"]) == ("POST", "/a/../b?c=%2F", "given")
    assert answer.inner_headers() == {
        "host": f"localhost:{PORT}",
        "connection": "close",
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-host": f"127.0.0.1:{site.port}",
        "x-forwarded-proto": "http",
        "x-forwarded-prefix": site.place,
        "accept-encoding": "identity",
        "content-length": "5",
        "x-kept": "1",
    }
    chunked = site.ask("/", method="PUT", body=iter([b"in ", b"pieces"]), **bearer(shop.issued))
    assert chunked.document()["body"] == "in pieces"
    assert site.ask("", **bearer(shop.issued)).headers["location"] == f"{site.place}/"


def test_an_answer_speaks_for_its_workspace_alone(shop: Shop, site: WorkspaceSite, workspace: Workspace) -> None:
    answer = site.ask("/much", **bearer(shop.issued))
    assert (answer.status, dict(answer.headers)) == (
        302,
        {
            "x-kept": "1",
            "location": f"{site.place}/next?a=b",
            "content-length": "0",
            "cache-control": "private",
            "connection": "close",
        },
    )
    assert site.ask("/old", **bearer(shop.issued)).content == b"to its end"
    assert site.ask("/", method="HEAD", **bearer(shop.issued)).content == b""


def test_who_is_not_let_in_wakes_nothing(shop: Shop, site: WorkspaceSite, workspace: Workspace) -> None:
    rests = asleep(workspace)
    reader = a_key(shop.tenant, scopes={Scope.WORKSPACES_READ})
    stranger, key = bearer(a_shop().issued), bearer(shop.issued)
    not_mine = f"/w/{uuid.uuid4()}/{PORT}"
    unknown = site.ask(place=not_mine, **key)
    nobody = site.ask()
    assert (nobody.status, nobody.headers["www-authenticate"]) == (401, 'Bearer realm="dpp"')
    assert site.ask(Authorization="Bearer dpp_aaaaaaaa_" + "a" * 43).status == 401
    assert site.ask(place=not_mine).status == 401
    assert site.ask(**bearer(reader)).status == 403
    assert (unknown.status, site.ask(**stranger).content) == (404, unknown.content)
    for place in (f"/w/{workspace.pk}/9090", "/w/x/8080", "/", f"/w/{workspace.pk}/0{PORT}"):
        assert site.ask(place=place, **key).status == 404
    a_driver("other")
    written(rests, Writer.RECONCILER, driver_id="other")
    elsewhere = site.ask(**key)
    assert (elsewhere.status, "held elsewhere, by other" in elsewhere.document()["detail"]) == (421, True)
    now = Workspace.objects.get(pk=workspace.pk)
    assert (now.desired_state, now.generation, is_used()) == (DesiredState.STANDBY, rests.generation, False)


def test_one_that_rests_is_woken_and_a_page_waits_for_it(shop: Shop, site: WorkspaceSite, workspace: Workspace) -> None:
    rests = asleep(workspace)
    answer = site.ask(**bearer(shop.issued))
    assert (answer.status, answer.headers["retry-after"], answer.headers["content-type"]) == (
        503,
        "1",
        "application/problem+json",
    )
    woken = Workspace.objects.get()
    assert (woken.desired_state, woken.generation) == (DesiredState.RUNNING, rests.generation + 1)
    WorkspaceAccess.objects.update(last_access_at=LONG_AGO)
    page = site.ask(Accept="text/html", **bearer(shop.issued))
    assert (page.status, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert b'http-equiv="refresh" content="1"' in page.content
    assert page.headers["set-cookie"].startswith(f"dpp_waits=1; Max-Age=60; Path={site.place}/;")
    last = site.ask(Accept="text/html", Cookie=f"dpp_waits={WAITS_MAX}", **bearer(shop.issued))
    assert (last.status, b"refresh" in last.content, b"reload this page" in last.content) == (503, False, True)
    now = Workspace.objects.get()
    assert (now.generation, is_used()) == (woken.generation, False), "to wait is no use"
    seen(now, Phase.ERROR)
    assert site.ask(**bearer(shop.issued)).status == 409


def test_bytes_are_use_and_a_look_that_fails_is_none(
    shop: Shop, site: WorkspaceSite, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = f"/w/{workspace.pk}/{CLOSED_PORT}"
    monkeypatch.setattr(server, "WARM_FOR", timedelta(days=1))
    warming = site.ask(place=closed, **bearer(shop.issued))
    assert (warming.status, warming.headers["retry-after"]) == (503, "1")
    monkeypatch.setattr(server, "WARM_FOR", timedelta())
    assert site.ask(place=closed, **bearer(shop.issued)).status == 502
    assert site.ask("/garbage", **bearer(shop.issued)).status == 502
    assert site.server._used_at == {}
    assert not is_used()
    assert site.ask(**bearer(shop.issued)).status == 200
    wait_until(is_used, what="its use written down")


def test_a_link_signs_a_browser_in_to_one_port(
    shop: Shop, site: WorkspaceSite, workspace: Workspace, clock: FixedClock
) -> None:
    response = a_link(shop, workspace, expires_sec=600)
    assert (response.status_code, response.json()["expires_at"]) == (201, "2026-03-01T12:10:00Z")
    url, place = response.json()["url"], site.place
    assert url.startswith(f"https://{own_host(workspace)}{place}/.dpp/sign-in?token=")
    answer = opened(site, url)
    assert (answer.status, answer.headers["location"]) == (303, f"{place}/")
    cookie, _, rest = answer.headers["set-cookie"].partition(";")
    assert rest == f" Path={place}/; Max-Age=600; HttpOnly; SameSite=Lax; Secure"
    signed_in = {"Host": own_host(workspace), "Cookie": f"other=1; {cookie}"}
    inside = site.ask(**signed_in)
    assert (inside.status, "cookie" in inside.inner_headers()) == (200, False)
    assert inside.inner_headers()["x-forwarded-host"] == own_host(workspace)
    for wrong in (
        {"Host": own_host(workspace), "Cookie": cookie[:-1] + ("0" if cookie[-1] != "0" else "1")},
        {"Host": f"{uuid.uuid4()}.apps.example", "Cookie": cookie},
        {"Host": "apps.example", "Cookie": cookie},
        {"Host": own_host(workspace), "Cookie": "dpp_workspace=" + url.rpartition("=")[2]},
    ):
        assert site.ask(**wrong).status == 401, wrong
    assert site.ask(place=f"/w/{workspace.pk}/{CLOSED_PORT}", **signed_in).status == 401
    assert opened(site, url, Host=f"{uuid.uuid4()}.apps.example").status == 401
    assert opened(site, url.replace(f"/{PORT}/", f"/{CLOSED_PORT}/")).status == 401
    clock.advance(seconds=600)
    assert (site.ask(**signed_in).status, opened(site, url).status) == (401, 401)


def test_another_sites_page_does_not_act_with_a_persons_cookie(
    shop: Shop, site: WorkspaceSite, workspace: Workspace
) -> None:
    signed_in = cookie_of(site, shop, workspace)
    follows = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert site.ask(**signed_in, **{"Sec-Fetch-Site": "same-site"} | follows).status == 200
    assert site.ask(**signed_in, Origin=f"https://{own_host(workspace)}").status == 200
    for wrong in (
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Origin": f"https://{uuid.uuid4()}.apps.example"},
        {"Origin": "null"},
    ):
        assert site.ask(**signed_in, **wrong).status == 403, wrong
    posted = site.ask(method="POST", body=b"", **signed_in, **{"Sec-Fetch-Site": "cross-site"} | follows)
    assert posted.status == 403


def test_a_cookie_ends_with_the_key_that_made_its_link(shop: Shop, site: WorkspaceSite, workspace: Workspace) -> None:
    signed_in = cookie_of(site, shop, workspace)
    row = ApiKey.objects.filter(prefix=shop.issued.key.prefix)
    assert site.ask(**signed_in).status == 200
    row.update(scopes=[Scope.WORKSPACES_READ.value])
    assert site.ask(**signed_in).status == 401
    row.update(scopes=[Scope.WORKSPACES_WRITE.value], expires_at=LONG_AGO)
    assert site.ask(**signed_in).status == 401


def test_a_link_that_cannot_be_is_refused(shop: Shop, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not in spec.ports" in errors(a_link(shop, workspace, port=9090))["port"]
    assert "3600" in errors(a_link(shop, workspace, expires_sec=3601))["expires_sec"]
    assert told(a_link(a_shop(), workspace)) == (404, "NOT_FOUND")
    reader = Shop(shop.tenant, a_key(shop.tenant, scopes={Scope.WORKSPACES_READ}))
    assert told(a_link(reader, workspace)) == (403, "SCOPE_MISSING")
    monkeypatch.setattr(links, "ENV", ENV.model_copy(update={"DPP_WORKSPACES_URL": None}))
    assert told(a_link(shop, workspace)) == (409, "CONFLICT")


def test_one_workspace_and_all_together_take_only_so_much(
    shop: Shop, site: WorkspaceSite, workspace: Workspace
) -> None:
    key = bearer(shop.issued)
    site.server.bounds = replace(site.server.bounds, of_one=1, idle_seconds=30.0)
    with site.connected(
        f"GET {site.place}/silent HTTP/1.1\r\nHost: x\r\nAuthorization: {key['Authorization']}\r\n\r\n"
    ):
        wait_until(lambda: site.server._of_workspace[workspace.pk], what="the first to be let in")
        assert site.ask(**key).status == 429
        site.server.bounds = replace(site.server.bounds, connections=1)
        assert (site.ask(**key).status, site.ask(**key).headers["retry-after"]) == (503, "1")
    wait_until(lambda: site.server._connections == 0, what="the first to be let go")
    assert site.ask(**key).status == 200
