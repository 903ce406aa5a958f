"""What passes between a caller and a workspace ends with what let the caller in: a key, its tenant, a link."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import pytest

from dpp_project.clock import FixedClock
from ops.workspaces.models import Workspace
from tenants.models import ApiKey, Tenant
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import KEY_ENDS, a_key, bearer, revoke
from tests.gear.builders.workspace_sites import WorkspaceSite, heard
from tests.gear.waiting import wait_until
from tests.integration.workspaces.test_workspace_proxy import cookie_of, module_site, site, workspace
from tests.integration.workspaces.test_workspace_proxy_peers import head, status_of

__all__ = ["module_site", "site", "workspace"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("WSP-12")]

PROMISED_SECONDS: Final = 5.0
BEGUN: Final = b"5\r\nbegun\r\n"


@contextlib.contextmanager
def endless(site: WorkspaceSite, **headers: str) -> Iterator[socket.socket]:
    """A body and its answer have begun, and neither ends by itself."""
    site.server.bounds = replace(site.server.bounds, idle_seconds=600.0)
    lines = [f"POST {site.place}/endless HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    with site.connected("\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]) + BEGUN.decode()) as connection:
        came = b""
        while not came.endswith(BEGUN) and (piece := connection.recv(65_536)):
            came += piece
        assert status_of(came) == 200
        connection.settimeout(PROMISED_SECONDS)
        yield connection


def goes_on(connection: socket.socket) -> bool:
    """Neither a byte nor an end has come."""
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        connection.recv(1)
        return False
    return True


def by_key(_site: WorkspaceSite, shop: Shop, _workspace: Workspace) -> dict[str, str]:
    return {"Host": "x"} | bearer(shop.issued)


@pytest.mark.parametrize("let_in", [by_key, cookie_of], ids=["key", "link"])
@pytest.mark.parametrize("ends", KEY_ENDS, ids=lambda ends: ends.__name__)
def test_an_exchange_is_cut_when_the_key_that_let_it_in_ends(
    shop: Shop,
    site: WorkspaceSite,
    workspace: Workspace,
    let_in: Callable[[WorkspaceSite, Shop, Workspace], dict[str, str]],
    ends: Callable[[ApiKey], None],
) -> None:
    before = site.state(**bearer(a_key(shop.tenant)))["left"]
    with endless(site, **let_in(site, shop, workspace)) as connection:
        ends(shop.issued.key)
        assert heard(connection) == b"", "no last chunk would make it a whole answer"
    Tenant.objects.update(status=Tenant.Status.ACTIVE)
    other = bearer(a_key(shop.tenant))
    wait_until(lambda: site.state(**other)["left"] > before, what="the server inside to hear of it")


def test_an_exchange_is_cut_when_the_time_of_its_link_ends(
    shop: Shop, site: WorkspaceSite, workspace: Workspace, clock: FixedClock
) -> None:
    signed_in = cookie_of(site, shop, workspace, expires_sec=600)
    clock.advance(seconds=599.9)
    with endless(site, **by_key(site, shop, workspace)) as own, endless(site, **signed_in) as linked:
        clock.advance(seconds=0.1)
        assert heard(linked) == b""
        assert goes_on(own), "the key has no end"


def test_an_exchange_outlives_the_end_of_another_key_of_its_tenant(
    shop: Shop, site: WorkspaceSite, workspace: Workspace
) -> None:
    other = a_key(shop.tenant)
    with endless(site, Host="x", **bearer(other)) as theirs, endless(site, **by_key(site, shop, workspace)) as own:
        revoke(shop.issued.key)
        assert heard(own) == b""
        assert goes_on(theirs)


def test_one_that_nothing_answered_yet_is_refused_like_the_next(
    shop: Shop, site: WorkspaceSite, workspace: Workspace
) -> None:
    site.server.bounds = replace(site.server.bounds, idle_seconds=600.0)
    with site.connected(head(site, shop, "/silent")) as connection:
        wait_until(site.server._of_workspace.total, what="it to be let in")
        revoke(shop.issued.key)
        connection.settimeout(PROMISED_SECONDS)
        answer = heard(connection)
    assert (status_of(answer), b'www-authenticate: Bearer realm="dpp"' in answer) == (401, True)
