"""The proxy between callers and servers that are slow, silent, broken or sly."""

import contextlib
import socket
import threading
from dataclasses import replace
from functools import partial

import pytest

from ops.workspaces.proxy import carrying, heads
from ops.workspaces.proxy import side as sides
from ops.workspaces.proxy.heads import Head
from ops.workspaces.proxy.server import OPENERS_OF_ONE
from ops.workspaces.proxy.staying import Admitted
from tests.gear.builders.shop import Shop, a_shop
from tests.gear.builders.tenants import bearer
from tests.gear.builders.workspace_sites import WorkspaceSite, heard
from tests.gear.waiting import wait_until
from tests.integration.workspaces.test_workspace_proxy import module_site, site, workspace

__all__ = ["module_site", "site", "workspace"]
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.contract("WSP-12"),
    pytest.mark.usefixtures("workspace"),
]


def head(site: WorkspaceSite, shop: Shop, path: str, method: str = "GET", *more: str) -> bytes:
    key = bearer(shop.issued)["Authorization"]
    return "\r\n".join(
        [f"{method} {site.place}{path} HTTP/1.1", "Host: x", f"Authorization: {key}", *more, "", ""]
    ).encode()


def admitted_as_another(shop: Shop, asked: Head, _peer: str) -> Admitted:
    """Each key as one of a tenant of its own, which this workspace has not."""
    return Admitted(str(asked.authorization), shop.issued.key.key_id)


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize(
    ("request_line", "headers", "status"),
    [
        ("POST {} HTTP/1.1", ["Content-Length: 3", "Transfer-Encoding: chunked"], 400),
        ("POST {} HTTP/1.1", ["Content-Length: 3", "Content-Length: 4"], 400),
        ("POST {} HTTP/1.1", ["Content-Length: -3"], 400),
        ("POST {} HTTP/1.1", ["Transfer-Encoding: gzip, chunked"], 501),
        ("POST {} HTTP/1.1", ["Transfer-Encoding : chunked"], 400),
        ("POST {} HTTP/1.0", ["Transfer-Encoding: chunked"], 400),
        ("POST {} HTTP/1.1", [f"Content-Length: {heads.BODY_BYTES_MAX + 1}"], 413),
        ("GET http://elsewhere{} HTTP/1.1", [], 400),
        ("GET /{} HTTP/1.1", [], 404),
        ("CONNECT elsewhere:443 HTTP/1.1", [], 501),
        ("OPTIONS * HTTP/1.1", [], 400),
        ("TRACE {} HTTP/1.1", [], 501),
        ("GET {} HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket"], 501),
        ("GET {} HTTP/1.1", ["Authorization: Bearer other"], 400),
        ("GET {} HTTP/1.1", ["X: " + "x" * 70_000], 431),
        ("GET {} HTTP/1.1", ["no header"], 400),
    ],
)
def test_what_might_be_taken_for_something_else_is_refused(
    site: WorkspaceSite, shop: Shop, request_line: str, headers: list[str], status: int
) -> None:
    key = bearer(shop.issued)["Authorization"]
    sent = "\r\n".join([request_line.format(f"{site.place}/"), "Host: x", f"Authorization: {key}", *headers, "", ""])
    assert status_of(site.say(sent)) == status


def test_a_broken_body_is_refused_and_nothing_follows_a_request(site: WorkspaceSite, shop: Shop) -> None:
    chunked = head(site, shop, "/", "POST", "Transfer-Encoding: chunked")
    for broken in (b"3\r\nabcX\r\n0\r\n\r\n", b"zz\r\nabc\r\n", b"-1\r\n"):
        assert status_of(site.say(chunked + broken)) == 400
    answer = site.say(head(site, shop, "/first") + head(site, shop, "/second"))
    assert (answer.count(b"HTTP/1.1"), b"second" in answer) == (1, False)


def test_a_body_is_bounded_whatever_it_says_of_its_length(
    site: WorkspaceSite, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying, "BODY_BYTES_MAX", 1_000)
    monkeypatch.setattr(sides, "PIECES_MAX", 100)
    chunked = head(site, shop, "/", "POST", "Transfer-Encoding: chunked")
    assert status_of(site.say(chunked + b"3e9\r\n" + b"x" * 1_001 + b"\r\n0\r\n\r\n")) == 413
    assert status_of(site.say(chunked + b"1\r\nx\r\n" * 150 + b"0\r\n\r\n")) == 400
    assert not site.say(head(site, shop, "/ones")).endswith(b"0\r\n\r\n"), "its end would say that it is whole"


@pytest.mark.parametrize(
    ("path", "status"),
    [("garbage", 502), ("nothing", 502), ("switch", 502), ("two", 502), ("head", 502), ("silent", 504)],
)
def test_a_server_that_gives_no_answer_is_said_to_be_it(
    site: WorkspaceSite, shop: Shop, path: str, status: int
) -> None:
    answer = site.ask(f"/{path}", **bearer(shop.issued))
    assert (answer.status, "server in the workspace" in answer.document()["detail"]) == (status, True)


def test_an_answer_that_breaks_off_is_not_whole(site: WorkspaceSite, shop: Shop) -> None:
    answer = site.say(head(site, shop, "/cut"))
    assert b"content-length: 100" in answer
    assert len(answer.partition(b"\r\n\r\n")[2]) < 100


def test_an_answer_before_the_end_of_its_request_is_passed_on(site: WorkspaceSite, shop: Shop) -> None:
    with site.connected(head(site, shop, "/early", "POST", "Content-Length: 1000")) as connection:
        assert heard(connection).endswith(b"\r\n\r\nno")
    waits = head(site, shop, "/", "POST", "Content-Length: 5", "Expect: 100-continue")
    with site.connected(waits) as connection:
        assert connection.recv(100) == b"HTTP/1.1 100 \r\n\r\n"
        connection.sendall(b"given")
        assert b'"body": "given"' in heard(connection)


def test_slow_callers_are_cut(site: WorkspaceSite, shop: Shop) -> None:
    assert site.say(b"GET /w/") == b"", "its head never comes"
    assert status_of(site.say(head(site, shop, "/", "POST", "Content-Length: 9") + b"slow")) in (408, 504)
    before = site.state(**bearer(shop.issued))
    with site.connected(head(site, shop, "/flood")):
        wait_until(lambda: site.state(**bearer(shop.issued))["left"] > before["left"], what="the reader to be cut")
    written = site.state(**bearer(shop.issued))["bytes"] - before["bytes"]
    assert 0 < written < 32 * 1_048_576, "what is not read is not taken in"


def test_what_lasts_too_long_is_cut(site: WorkspaceSite, shop: Shop) -> None:
    site.server.bounds = replace(site.server.bounds, idle_seconds=600.0, total_seconds=0.5)
    assert site.say(head(site, shop, "/silent")) == b""


def test_a_caller_that_leaves_frees_its_workspace(site: WorkspaceSite, shop: Shop) -> None:
    site.server.bounds = replace(site.server.bounds, idle_seconds=600.0)
    before = site.state(**bearer(shop.issued))["left"]
    with site.connected(head(site, shop, "/silent")):
        wait_until(site.server._of_workspace.total, what="it to be let in")
    wait_until(lambda: site.state(**bearer(shop.issued))["left"] > before, what="the server to hear of it")


def test_who_fills_the_port_without_a_key_shuts_out_nobody(site: WorkspaceSite, shop: Shop) -> None:
    site.server.bounds = replace(site.server.bounds, connections=3, idle_seconds=600.0, head_seconds=600.0)
    with site.connected(head(site, shop, "/silent")) as let_in:
        wait_until(site.server._of_workspace.total, what="the one with a key to be let in")
        with contextlib.ExitStack() as stack:
            strangers = [stack.enter_context(site.connected(b"GET /w/")) for _ in range(9)]
            assert site.ask(**bearer(shop.issued)).status == 200
            assert heard(strangers[0]) == b"", "the oldest goes first"
            let_in.setblocking(False)
            with pytest.raises(BlockingIOError):  # neither an answer nor an end
                let_in.recv(1)
    wait_until(lambda: site.server._connections == 0, what="all to be let go")


def test_one_tenant_leaves_as_many_connections_as_it_has(
    site: WorkspaceSite, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.server.bounds = replace(site.server.bounds, connections=4, idle_seconds=600.0)
    monkeypatch.setattr(site.server, "_admit", partial(admitted_as_another, shop))
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(site.connected(head(site, shop, "/silent")))
        wait_until(lambda: site.server._of_workspace.total() == 2, what="both to be let in")
        refused = site.ask(**bearer(shop.issued))
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert site.ask(**bearer(a_shop().issued)).status == 200
    wait_until(lambda: site.server._connections == 0, what="all to be let go")
    assert site.ask(**bearer(shop.issued)).status == 200


def test_who_does_not_take_its_answer_keeps_its_place(
    site: WorkspaceSite, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.server.bounds = replace(site.server.bounds, connections=2)
    monkeypatch.setattr(sides, "LINGER_SECONDS", 60.0)
    with site.connected(head(site, shop, "/")) as connection:
        assert status_of(heard(connection)) == 200
        assert site.server._of_workspace.total() == 0, "its exchange is over"
        assert site.ask(**bearer(shop.issued)).status == 429
    wait_until(lambda: site.server._connections == 0, what="both to be let go")
    assert site.ask(**bearer(shop.issued)).status == 200


def test_an_init_that_does_not_answer_keeps_no_other_tenant_waiting(
    site: WorkspaceSite, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.server.bounds = replace(site.server.bounds, idle_seconds=600.0)
    begun, goes_on = threading.Semaphore(0), threading.Event()
    plain = site.server._connection
    other = a_shop()

    def opened(asked: Head) -> socket.socket:
        if asked.authorization != bearer(other.issued)["Authorization"]:
            begun.release()
            goes_on.wait(30)
        return plain(asked)

    monkeypatch.setattr(site.server, "_connection", opened)
    monkeypatch.setattr(site.server, "_admit", partial(admitted_as_another, shop))
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(site.connected(head(site, shop, "/"))) for _ in range(12)]
        for _ in range(OPENERS_OF_ONE):
            assert begun.acquire(timeout=20)
        wait_until(lambda: site.server._of_workspace.total() == len(waiting), what="all to be let in")
        assert site.ask(**bearer(other.issued)).status == 200
        assert not begun.acquire(blocking=False), "one tenant has no more than its share"
        goes_on.set()
        assert [status_of(heard(one)) for one in waiting] == [200] * len(waiting)
