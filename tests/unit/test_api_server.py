"""The API's host without a network: environ, bodies, streamed answers, refusals on the loop (DPP-02, DPP-03)."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse, StreamingHttpResponse

from dpp_project.api_server import body_rules, wsgi_environ
from dpp_project.api_server.body_rules import MAX_FORM_BYTES, NO_BODY, BodyRule, body_rule_for
from dpp_project.api_server.host import ApiHost, HostLimits
from dpp_project.api_server.request_bodies import BodyLimits, RequestBodies, UnreadBody
from dpp_project.api_server.strangers import StrangerLimits
from dpp_project.api_server.stuck import EXIT_CODE, StuckLimits
from dpp_project.http.parsers import MAX_BODY_BYTES
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("DPP-02", "DPP-03")

ROOT = Path(__file__).resolve().parents[2]
KEY = f"Bearer dpp_AAAAAAAA_{'B' * 43}"


def a_scope(method: str = "GET", path: bytes = b"/v1/x", *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "server": ("127.0.0.1", "8000"),
        "client": ("127.0.0.2", "50000"),
        "raw_path": path,
        "query_string": b"a=%ff&b=\xe9",
        "headers": list(headers),
    }


def test_an_environ_says_what_the_request_said() -> None:
    environ = wsgi_environ.environ_of(
        a_scope(
            "POST",
            b"/v1/%ed%95%9c%zz%2F",
            (b"host", b"h"),
            (b"x-a", b"1"),
            (b"x-a", b"2"),
            (b"cookie", b"a=1"),
            (b"cookie", b"b=2"),
            (b"content-type", b"text/plain"),
            (b"content-type", b"application/json"),
            (b"x-trace-id", "é".encode()),
            (b"x-forwarded-for", b"203.0.113.1"),
            (b"x_forwarded_for", b"9.9.9.9"),
            (b"x_own", b"1"),
        )
    )
    assert "HTTP_X_OWN" not in environ
    wanted = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/v1/한%zz/".encode().decode("latin-1"),
        "QUERY_STRING": "a=%ff&b=\xe9",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "REMOTE_ADDR": "127.0.0.2",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "h",
        "HTTP_X_A": "1,2",
        "HTTP_COOKIE": "a=1;b=2",
        "CONTENT_TYPE": "text/plain",
        "HTTP_X_TRACE_ID": "",
        "HTTP_X_FORWARDED_FOR": "203.0.113.1",
    }
    assert {name: environ[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("method", "path", "header", "rule"),
    [
        ("POST", "/v1/runs", KEY, BodyRule(MAX_BODY_BYTES, needs_key=True)),
        ("PATCH", "/api/tickets", KEY.replace("Bearer", "bearer"), BodyRule(MAX_BODY_BYTES, needs_key=True)),
        ("POST", "/admin/login/", None, BodyRule(MAX_FORM_BYTES)),
        ("POST", "/api/automations/hooks/issues", None, BodyRule(MAX_BODY_BYTES)),
        ("POST", "/api/automations/rules", None, NO_BODY),
        ("POST", "/v1/runs", None, NO_BODY),
        ("POST", "/v1/runs", KEY + "C", NO_BODY),
        ("POST", "/v1/runs", KEY.replace("Bearer", "Basic"), NO_BODY),
        ("POST", "/v1/runs", f"{KEY},{KEY}", NO_BODY),
        ("GET", "/v1/runs", KEY, NO_BODY),
        ("BREW", "/v1/runs", KEY, NO_BODY),
        ("POST", "/healthz", KEY, NO_BODY),
        ("POST", "/docs/", KEY, NO_BODY),
    ],
)
@pytest.mark.contract("DPP-11")
def test_dpp_11_a_body_is_read_where_it_belongs_and_with_the_form_of_a_key(
    method: str, path: str, header: str | None, rule: BodyRule
) -> None:
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path}
    assert body_rule_for(environ if header is None else environ | {"HTTP_AUTHORIZATION": header}) == rule


def test_no_body_is_large_enough_to_be_put_on_a_disk() -> None:
    assert MAX_FORM_BYTES == settings.DATA_UPLOAD_MAX_MEMORY_SIZE == settings.FILE_UPLOAD_MAX_MEMORY_SIZE
    assert all(rule.max_bytes <= MAX_FORM_BYTES for _prefix, rule in body_rules._BY_PREFIX)


def test_a_body_that_was_not_read_cannot_be() -> None:
    with pytest.raises(RequestDataTooBig):
        UnreadBody().read(1)


class Connection:
    """Both ends of one request, as the server would hand them over."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages = list(messages)
        self.sent: list[dict[str, Any]] = []
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if self.messages:
            return self.messages.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(dict(message))

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])


Django = Callable[[dict[str, Any], Callable[..., Any]], Any]


def answering(make: Callable[[dict[str, Any]], HttpResponse | StreamingHttpResponse]) -> Django:
    def django(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        response = make(environ)
        start_response(f"{response.status_code} -", list(response.items()))
        return response

    return django


async def through(host: ApiHost, connection: Connection, **scope: Any) -> None:
    await host(a_scope() | scope, connection.receive, connection.send)


def test_an_answer_comes_with_its_length_or_in_chunks_as_django_said() -> None:
    async def run() -> None:
        host = ApiHost(answering(lambda _environ: HttpResponse(b"abc", headers={"Content-Length": "3"})), threads=1)
        await through(host, measured := Connection())
        assert measured.sent[1:] == [{"type": "http.response.body", "body": b"abc"}]
        host = ApiHost(answering(lambda _environ: HttpResponse(b"abc")), threads=1)
        await through(host, unmeasured := Connection())
        assert [message.get("more_body", False) for message in unmeasured.sent[1:]] == [True, False]
        assert unmeasured.body == b"abc"

    asyncio.run(run())


def test_a_streamed_answer_is_made_in_one_thread_and_stops_when_its_client_leaves() -> None:
    made: list[tuple[int, int]] = []
    closed: list[int] = []

    async def run() -> None:
        connection = Connection()
        loop = asyncio.get_running_loop()

        def rows() -> Iterator[bytes]:
            try:
                for number in range(1_000):
                    made.append((number, threading.get_ident()))
                    if number == 3:
                        loop.call_soon_threadsafe(connection.left.set)
                    yield b"x" * 65_536
            finally:
                closed.append(threading.get_ident())

        await through(ApiHost(answering(lambda _environ: StreamingHttpResponse(rows())), threads=1), connection)
        assert connection.sent[-1] == {"type": "http.response.body", "body": b""}

    asyncio.run(run())
    assert 4 <= len(made) < 1_000
    wait_until(lambda: closed, what="the rows' generator is closed")
    assert {thread for _number, thread in made} == set(closed) != {threading.get_ident()}


def test_rows_of_a_streamed_answer_go_out_together() -> None:
    async def run() -> None:
        connection = Connection()
        rows = answering(lambda _environ: StreamingHttpResponse(b"row\n" for _ in range(20_000)))
        await through(ApiHost(rows, threads=1), connection)
        assert connection.body == b"row\n" * 20_000
        assert len(connection.sent) == 4  # the head, two blocks, the end

    asyncio.run(run())


@pytest.mark.parametrize("fault", [MemoryError, SystemExit, StopIteration])
def test_a_fault_outside_of_django_is_a_problem_too(fault: type[BaseException]) -> None:
    def broken(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if "dpp.refused" in environ:
            return WSGIHandler()(environ, start_response)
        raise fault

    async def run() -> None:
        host = ApiHost(broken, threads=1)
        for _ in range(2):  # the one thread outlives it
            await through(host, connection := Connection(), headers=[(b"host", b"127.0.0.1")])
            assert connection.status == 500
            assert json.loads(connection.body)["reason_code"] == "INTERNAL_ERROR"

    asyncio.run(run())


def test_a_refusal_needs_no_thread() -> None:
    """The one thread is taken; a body that does not come is answered all the same."""
    taken, free = threading.Event(), threading.Event()
    handler = WSGIHandler()

    def django(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if "dpp.refused" in environ:
            return handler(environ, start_response)
        taken.set()
        assert free.wait(30)
        return answering(lambda _environ: HttpResponse(b"late"))(environ, start_response)

    async def run() -> None:
        host = ApiHost(django, threads=1, limits=HostLimits(bodies=BodyLimits(seconds=0.0)))
        waiting = asyncio.ensure_future(through(host, first := Connection()))
        assert await asyncio.to_thread(taken.wait, 30)
        headers = [(b"host", b"127.0.0.1"), (b"authorization", KEY.encode()), (b"content-length", b"5")]
        await through(host, second := Connection(), method="POST", headers=headers)
        assert (second.status, json.loads(second.body)["reason_code"]) == (408, "REQUEST_TIMEOUT")
        assert host.bodies.held == 0
        free.set()
        await waiting
        assert first.body == b"late"

    asyncio.run(run())


@pytest.mark.contract("HRD-10")
def test_hrd_10_that_a_process_lives_is_said_without_a_thread_and_not_when_it_is_stuck() -> None:
    taken, free = threading.Event(), threading.Event()
    handler = WSGIHandler()

    def django(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ["PATH_INFO"] == "/healthz":
            return handler(environ, start_response)
        taken.set()
        assert free.wait(30)
        return answering(lambda _environ: HttpResponse(b"late"))(environ, start_response)

    async def run() -> None:
        host = ApiHost(django, threads=1, limits=HostLimits(stuck=StuckLimits(unhealthy_seconds=3_600.0)))
        waiting = asyncio.ensure_future(through(host, first := Connection()))
        assert await asyncio.to_thread(taken.wait, 30)
        asks = {"raw_path": b"/healthz", "headers": [(b"host", b"127.0.0.1")]}
        await through(host, alive := Connection(), **asks)
        assert (alive.status, json.loads(alive.body)) == (200, {"status": "alive"})
        host._limits = HostLimits(stuck=StuckLimits(unhealthy_seconds=0.0))
        await through(host, stuck := Connection(), **asks)
        assert (stuck.status, json.loads(stuck.body)["reason_code"]) == (503, "SERVICE_UNAVAILABLE")
        free.set()
        await waiting
        assert first.body == b"late"

    asyncio.run(run())


@pytest.mark.contract("HRD-10")
def test_hrd_10_a_process_whose_threads_all_hang_ends_and_says_where_they_do() -> None:
    script = (
        "from dpp_project.api_server.stuck import EndWhenStuck, StuckLimits; import threading, time;"
        "began = time.monotonic();"
        "EndWhenStuck(lambda: time.monotonic() - began, StuckLimits(end_seconds=0.2, look_every_seconds=0.05)).start();"
        "threading.Event().wait(30)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_CODE
    assert "the process ends" in done.stdout
    assert "threading.py" in done.stdout


def test_what_bodies_hold_is_given_back_with_the_answer() -> None:
    async def run() -> None:
        held: list[int] = []
        host: ApiHost

        def make(environ: dict[str, Any]) -> HttpResponse:
            held.append(host.bodies.held)
            return HttpResponse(environ["wsgi.input"].read())

        host = ApiHost(answering(make), threads=1)
        headers = [(b"authorization", KEY.encode()), (b"content-length", b"5")]
        parts = [
            {"type": "http.request", "body": b"ab", "more_body": True},
            {"type": "http.request", "body": b"cde", "more_body": True},
        ]
        await through(host, connection := Connection(*parts), method="POST", headers=headers)
        assert (connection.body, held, host.bodies.held) == (b"abcde", [5], 0)

    asyncio.run(run())


def test_what_bodies_hold_is_given_back_where_they_are_refused() -> None:
    async def run() -> None:
        host = ApiHost(answering(lambda _environ: HttpResponse(b"refused")), threads=1)
        headers = [(b"authorization", KEY.encode()), (b"transfer-encoding", b"chunked")]
        chunk = {"type": "http.request", "body": b"a" * (MAX_BODY_BYTES + 1), "more_body": True}
        await through(host, connection := Connection(chunk), method="POST", headers=headers)
        assert (connection.body, host.bodies.held) == (b"refused", 0)

    asyncio.run(run())


@pytest.mark.contract("HRD-12")
def test_hrd_12_where_no_more_may_be_held_back_a_flood_of_key_forms_gets_no_thread() -> None:
    """What has the form of a key may wait beyond its address's share; it must not pass where it cannot wait."""
    asked: list[str] = []
    handler = WSGIHandler()

    def django(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if "dpp.refused" in environ:
            return handler(environ, start_response)
        asked.append(environ["PATH_INFO"])
        return answering(lambda _environ: HttpResponse(b"", status=401))(environ, start_response)

    async def run() -> None:
        limits = HostLimits(strangers=StrangerLimits(burst=1, per_second=0.001), most_pausing=0)
        host = ApiHost(django, threads=1, limits=limits)
        found = []
        headers = [(b"host", b"127.0.0.1"), (b"authorization", KEY.encode())]
        for _ in range(3):
            await through(host, one := Connection(), headers=headers)
            found.append(one.status)
        assert (found, len(asked)) == ([401, 429, 429], 1)

    asyncio.run(run())


@pytest.mark.contract("HRD-12")
def test_hrd_12_what_one_source_has_waiting_leaves_room_for_the_bodies_of_others() -> None:
    """Whole bodies that wait for a thread cannot be cut as those that are being read can."""
    free = threading.Event()
    handler = WSGIHandler()

    def django(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if "dpp.refused" in environ:
            return handler(environ, start_response)
        assert free.wait(30)
        return answering(lambda _environ: HttpResponse(b"done"))(environ, start_response)

    def a_body(site: str, size: int) -> dict[str, Any]:
        headers = [(b"host", b"127.0.0.1"), (b"authorization", KEY.encode()), (b"content-length", b"%d" % size)]
        return {"method": "POST", "client": (site, "50000"), "headers": headers}

    def whole(size: int) -> Connection:
        return Connection({"type": "http.request", "body": b"a" * size, "more_body": False})

    async def run() -> None:
        bodies = BodyLimits(held_bytes=1_000, held_bytes_of_source=400)
        host = ApiHost(django, threads=1, limits=HostLimits(bodies=bodies, pause_seconds=0.0))
        greedy = [whole(200) for _ in range(5)]
        asking = [asyncio.ensure_future(through(host, one, **a_body("127.0.0.3", 200))) for one in greedy]
        await asyncio.wait(asking, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        await through(host, last := whole(200), **a_body("127.0.0.3", 200))
        assert (last.status, json.loads(last.body)["reason_code"]) == (429, "RATE_LIMITED")
        honest = asyncio.ensure_future(through(host, theirs := whole(400), **a_body("127.0.0.4", 400)))
        await asyncio.to_thread(wait_until, lambda: host.bodies.held == 800)
        free.set()
        await asyncio.gather(honest, *asking)
        assert theirs.status == 200
        assert sorted(one.status for one in greedy) == [200, 200, 429, 429, 429]
        assert host.bodies.held == 0

    asyncio.run(run())


@pytest.mark.contract("HRD-12")
def test_hrd_12_an_answer_that_is_held_back_holds_no_body() -> None:
    async def run() -> None:
        begun = threading.Event()

        def refused(_environ: dict[str, Any]) -> HttpResponse:
            begun.set()
            return HttpResponse(b"slow down", status=429)

        host = ApiHost(answering(refused), threads=1, limits=HostLimits(pause_seconds=30.0))
        headers = [(b"authorization", KEY.encode()), (b"content-length", b"5")]
        connection = Connection({"type": "http.request", "body": b"abcde", "more_body": False})
        asking = asyncio.ensure_future(through(host, connection, method="POST", headers=headers))
        assert await asyncio.to_thread(begun.wait, 30)
        await asyncio.to_thread(wait_until, lambda: not host.bodies.held)
        assert connection.sent == []
        asking.cancel()

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_stop_gives_no_body_more_time_than_it_had() -> None:
    async def run() -> None:
        bodies = RequestBodies(BodyLimits(seconds=0.05, seconds_when_stopping=30.0))
        reading = asyncio.ensure_future(bodies.read({"CONTENT_LENGTH": "5"}, Connection().receive, BodyRule(10), "a"))
        await asyncio.sleep(0)  # it waits for the body by now
        bodies.stop()
        with pytest.raises(Problem) as caught:
            await asyncio.wait_for(reading, 10)
        assert caught.value.reason is ReasonCode.REQUEST_TIMEOUT

    asyncio.run(run())


def test_dpp_03_a_body_that_makes_room_is_not_followed_by_the_next() -> None:
    """What comes between its being called off and its end, in one turn of the loop, costs nobody else's body."""

    async def both() -> tuple[object, object]:
        bodies = RequestBodies(BodyLimits(held_bytes=1_500))
        kept = asyncio.Event()
        parts = iter([{"type": "http.request", "body": b"a" * 900, "more_body": True}])

        async def stuck() -> dict[str, Any]:
            for part in parts:
                return part
            await kept.wait()
            raise AssertionError("it was called off")

        quick = iter([b"b" * 900, b"b" * 50, b"b" * 50])

        async def at_once() -> dict[str, Any]:
            return {"type": "http.request", "body": next(quick), "more_body": True}

        def read(receive: Any) -> Any:
            return bodies.read({"CONTENT_LENGTH": "1000"}, receive, BodyRule(2_000), "one")

        first = asyncio.ensure_future(read(stuck))
        await asyncio.sleep(0)
        found = await asyncio.gather(first, read(at_once), return_exceptions=True)
        return found[0], found[1]

    called_off, held = asyncio.run(both())
    assert isinstance(called_off, Problem)
    assert (called_off.status, held) == (503, 1_000)


def test_the_api_may_open_as_many_files_as_it_takes_connections() -> None:
    script = (
        "import resource as r; from dpp_project import serve;"
        "r.setrlimit(r.RLIMIT_NOFILE, (64, r.getrlimit(r.RLIMIT_NOFILE)[1]));"
        "serve._allow_open_files(100); print(r.getrlimit(r.RLIMIT_NOFILE)[0]);"
        "serve._allow_open_files(50); print(r.getrlimit(r.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["100", "100"]
