"""What API and workers ask of a workspace's host: answered to the key alone, killed when nobody waits any more."""

import asyncio
import contextlib
import json
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from dpp_project.outbound import http_exchange
from ops.workspaces.drivers.base import DriverRefused, DriverUnavailable, ExecEnd, ExecRequest, ExecResult
from ops.workspaces.remote import client, messages, server
from tests.gear.builders.workspace_hosts import WorkspaceHost, a_workspace_host
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("WSP-12")]

Made = TypeVar("Made")
WORKSPACE = ""
"""Of the host that these tests share."""


def asked(*argv: str, seconds: float = 20.0, stdin: bytes = b"") -> ExecRequest:
    return ExecRequest(exec_id=uuid.uuid4().hex, argv=argv, deadline_seconds=seconds, stdin=stdin)


@pytest.fixture(scope="module")
def host() -> Iterator[WorkspaceHost]:
    with a_workspace_host() as made:
        yield made


@pytest.fixture
def address(host: WorkspaceHost, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys.modules[__name__], "WORKSPACE", str(host.workspace_id))
    return host.address


def run_in(address: str, workspace_id: str, request: ExecRequest, *, tenant_id: str = "t_a") -> Awaitable[ExecResult]:
    return client.run_remote_exec(address, workspace_id, request, tenant_id=tenant_id)


def done(call: Callable[[], Awaitable[Made]]) -> Made:
    async def run() -> Made:
        return await call()

    return asyncio.run(run())


def test_a_command_is_run_and_its_end_told_whole(address: str) -> None:
    script = "cat; echo wrong >&2; printf '\\377' ; exit 3"
    result = done(lambda: run_in(address, WORKSPACE, asked("/bin/sh", "-c", script, stdin=b"given\n")))
    assert (result.end, result.exit_code) == (ExecEnd.EXITED, 3)
    assert (result.stdout, result.stderr) == (b"given\n\xff", b"wrong\n")
    assert not result.stdout_cut


def test_its_address_is_told_again_and_again(host: WorkspaceHost) -> None:
    """A word that Postgres did not take, or that another process spoke over, is not the last one."""
    before = len(host.told)
    wait_until(lambda: len(host.told) > before + 1, what="two more words")
    assert set(host.told) == {host.address}


def test_an_id_is_run_once(address: str, tmp_path: Path) -> None:
    request = asked("/bin/sh", "-c", "echo x >>~/once")
    done(lambda: run_in(address, WORKSPACE, request))
    with pytest.raises(DriverRefused) as refused:
        done(lambda: run_in(address, WORKSPACE, request))
    assert refused.value.reason == "ExecRepeated"
    assert done(lambda: run_in(address, WORKSPACE, asked("/bin/cat", "once"))).stdout == b"x\n"


def test_its_own_deadline_ends_it_and_a_word_does(address: str) -> None:
    late = done(lambda: run_in(address, WORKSPACE, asked("/bin/sh", "-c", "echo begun; sleep 60", seconds=2.0)))
    assert (late.end, late.stdout) == (ExecEnd.DEADLINE, b"begun\n")
    request = asked("/bin/sh", "-c", "echo begun; touch ~/begun; sleep 60")

    async def stopped() -> object:
        running = asyncio.ensure_future(run_in(address, WORKSPACE, request))
        while (await run_in(address, WORKSPACE, asked("/usr/bin/test", "-e", "begun"))).exit_code != 0:
            assert not running.done()
        await client.stop_remote_exec(address, request.exec_id)
        return await running

    result = done(stopped)
    assert getattr(result, "end", None) is ExecEnd.KILLED
    assert getattr(result, "stdout", None) == b"begun\n"


def test_a_client_that_leaves_has_its_command_killed(address: str) -> None:
    request = asked("/bin/sh", "-c", "echo $$ >~/pid; exec sleep 60")

    async def leaves() -> None:
        running = asyncio.ensure_future(run_in(address, WORKSPACE, request))
        while (await run_in(address, WORKSPACE, asked("/usr/bin/test", "-s", "pid"))).exit_code != 0:
            assert not running.done()
        running.cancel()
        await asyncio.wait({running})

    done(leaves)
    alive = asked("/bin/sh", "-c", "kill -0 $(cat pid)")
    wait_until(
        lambda: done(lambda: run_in(address, WORKSPACE, replace(alive, exec_id=uuid.uuid4().hex))).exit_code != 0,
        what="its command to be gone",
    )


def test_what_it_may_not_is_refused_and_what_is_not_there_unavailable(address: str) -> None:
    with pytest.raises(DriverRefused) as refused:
        done(lambda: run_in(address, str(uuid.uuid4()), asked("/bin/true")))
    assert refused.value.reason == "NotRunning"
    with pytest.raises(DriverUnavailable):
        done(lambda: run_in("127.0.0.1:1", WORKSPACE, asked("/bin/true")))


def test_one_workspace_takes_not_all_of_a_host(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def both() -> None:
        first = asyncio.ensure_future(run_in(address, WORKSPACE, asked("/bin/sh", "-c", "touch ~/first; sleep 60")))
        while (await run_in(address, WORKSPACE, asked("/usr/bin/test", "-e", "first"))).exit_code != 0:
            assert not first.done()
        monkeypatch.setattr(server, "EXECS_OF_ONE_MAX", 1)
        with pytest.raises(DriverRefused) as refused:
            await run_in(address, WORKSPACE, asked("/bin/true"))
        assert refused.value.reason == "TooManyExecs"
        first.cancel()
        await asyncio.wait({first})

    done(both)


def test_one_tenant_takes_not_all_of_a_host(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it, where it is alone; and what is left is left to others."""
    monkeypatch.setattr(server, "EXECS_MAX", 6)
    held: list[asyncio.Future[ExecResult]] = []

    async def begins(mark: str) -> bool:
        script = asked("/bin/sh", "-c", f"touch ~/{mark}; sleep 60")
        held.append(asyncio.ensure_future(run_in(address, WORKSPACE, script, tenant_id="t_greedy")))
        there = ("/usr/bin/test", "-e", mark)
        while (await run_in(address, WORKSPACE, asked(*there), tenant_id="t_other")).exit_code != 0:
            if held[-1].done():
                return False
        return True

    async def greedy() -> None:
        begun = [await begins(f"greedy-{number}") for number in range(4)].count(True)
        assert 1 <= begun <= 3
        with pytest.raises(DriverRefused, match="Too many commands"):
            await held[3]
        for one in held:
            one.cancel()
        await asyncio.wait(held)

    done(greedy)


def test_who_fills_the_port_without_the_key_shuts_out_nobody(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STRANGERS_MAX", 4)

    async def filled() -> None:
        strangers = [await client._connected(address) for _ in range(12)]
        try:
            assert (await run_in(address, WORKSPACE, asked("/bin/true"))).exit_code == 0
            loop = asyncio.get_running_loop()
            with contextlib.suppress(ConnectionResetError):
                assert await loop.sock_recv(strangers[0], 1) == b"", "the oldest goes first"
        finally:
            for stranger in strangers:
                stranger.close()

    done(filled)


def test_of_a_stranger_no_body_is_read(address: str) -> None:
    async def refused() -> bytes:
        loop = asyncio.get_running_loop()
        with await client._connected(address) as stranger:
            await loop.sock_sendall(stranger, b"POST /exec HTTP/1.1\r\nHost: here\r\nContent-Length: 1000000\r\n\r\n")
            return await loop.sock_recv(stranger, 12)

    assert done(refused) == b"HTTP/1.1 403"


def test_a_command_that_lasts_says_that_its_workspace_is_in_use(
    host: WorkspaceHost, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "USE_SECONDS", 0.1)
    monkeypatch.setattr(server, "WAIT_SECONDS", 0.1)
    host.used.clear()
    done(lambda: run_in(address, WORKSPACE, asked("/bin/sleep", "1")))
    assert host.used
    assert set(host.used) == {host.workspace_id}


def test_the_log_of_its_command_is_read_from_where_one_was(address: str) -> None:
    wait_until(
        lambda: done(lambda: client.read_logs(address, WORKSPACE, offset=0, bytes_max=1_000)).content, what="a log"
    )
    page = done(lambda: client.read_logs(address, WORKSPACE, offset=0, bytes_max=1_000))
    assert page.content == b"it began\n"
    rest = done(lambda: client.read_logs(address, WORKSPACE, offset=page.next_offset, bytes_max=1_000))
    assert (rest.content, rest.next_offset) == (b"", page.next_offset)


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, 200),
        ({"seal": "0" * 64}, 403),
        ({"seal": ""}, 403),
        ({"at": time.time() - 3_600}, 403),
        ({"at": "soon"}, 403),
        ({"sealed_path": "/stop"}, 403),
        ({"sealed_body": b"{}"}, 403),
        ({"path": "/other", "sealed_path": "/other"}, 404),
        ({"body": b"[]", "sealed_body": b"[]"}, 400),
        ({"body": b"{}", "sealed_body": b"{}"}, 400),
        ({"body": b"{" * 100, "sealed_body": b"{" * 100}, 400),
    ],
)
def test_a_request_is_believed_by_its_seal_alone(
    address: str, changed: dict[str, object], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(changed.get("path", "/logs"))
    plain = json.dumps({"workspace_id": WORKSPACE, "offset": 0, "bytes_max": 10}).encode()
    body = changed.get("body", plain)
    sealed_body = changed.get("sealed_body", plain)
    assert isinstance(body, bytes)
    assert isinstance(sealed_body, bytes)
    with monkeypatch.context() as patch:
        if isinstance(at := changed.get("at"), float):
            patch.setattr(time, "time", lambda: at)
        headers = dict(messages.sealed_headers(str(changed.get("sealed_path", path)), sealed_body))
    if changed.get("at") == "soon":
        headers[messages.TIME_HEADER] = "soon"
    headers[messages.SEAL_HEADER] = str(changed.get("seal", headers[messages.SEAL_HEADER]))

    async def told() -> int:
        talk = await http_exchange.exchange_plainly(await client._connected(address))
        try:
            all_headers = [("host", "here"), ("content-length", str(len(body))), *headers.items()]
            return (await talk.send("POST", path, all_headers, body)).status
        finally:
            talk.close()

    assert done(told) == status
