"""What a stranger may take from the others: threads, connections, memory (HRD-10, HRD-12)."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from dpp_project.pages import openapi
from tests.gear.builders.shop import RUNS, Shop
from tests.gear.builders.tenants import a_key
from tests.gear.servers.live_api import Api, Client, Received, an_api
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("HRD-10", "HRD-12"), pytest.mark.django_db(transaction=True)]

BURST = 20
PAUSE = 0.2
LIMITS = {
    "strangers": {"burst": BURST, "per_second": 2.0},
    "connections": {"per_address": 30, "look_every_seconds": 0.1, "window_seconds": 0.5},
    "pause_seconds": PAUSE,
    "most_waiting_of_address": 4,
}
PROXY = "127.0.0.2"
WRONG_KEY = f"dpp_AAAAAAAA_{'B' * 43}"


@pytest.fixture(scope="module")
def api(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    environ = {"DPP_TRUSTED_PROXIES": PROXY}
    with an_api(tmp_path_factory.mktemp("api"), limits=LIMITS, environ=environ) as api:
        yield api


def a_request(path: str = "/v1/whoami", *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]).encode()


def with_key(key: str) -> str:
    return f"Authorization: Bearer {key}"


def from_address(api: Api, source: str) -> Client:
    """Loopback has sixteen million addresses."""
    return Client(socket.create_connection(("127.0.0.1", api.port), timeout=30, source_address=(source, 0)))


def asked(api: Api, source: str, *requests: bytes) -> list[Received]:
    with from_address(api, source) as client:
        found = []
        for request in requests:
            client.send(request)
            found.append(client.receive())
        return found


@pytest.mark.parametrize(("source", "header"), [("127.1.0.1", "X-None: 1"), ("127.1.0.2", with_key(WRONG_KEY[:-1]))])
def test_hrd_12_an_address_without_a_valid_key_is_slowed_on_the_loop_and_no_other_is(
    api: Api, shop: Shop, source: str, header: str
) -> None:
    good = with_key(shop.issued.plaintext)
    assert asked(api, source, a_request("/v1/whoami", good))[0].status == 200
    found = asked(api, source, *[a_request("/v1/whoami", header)] * BURST)
    assert [one.status for one in found] == [401] * BURST
    started = time.monotonic()
    refused = asked(api, source, a_request(RUNS, header, "X-Trace-Id: flood", "Content-Length: 9", method="POST"))[0]
    assert time.monotonic() - started >= PAUSE
    problem = json.loads(refused.body)
    assert (refused.status, problem["reason_code"], problem["instance"]) == (429, "RATE_LIMITED", RUNS)
    assert problem["trace_id"] == refused.header("x-trace-id") == "flood"
    assert (refused.header("retry-after"), refused.header("x-ratelimit-limit")) == ("1", "120")
    assert refused.header("x-ratelimit-remaining") == "0"
    assert refused.header("ratelimit") == '"address";r=0;t=1'
    line = wait_until(lambda: [one for one in api.log_lines("request") if one.get("trace_id") == "flood"])[0]
    assert (line["status"], line["method"], line["path"]) == (429, "POST", RUNS)
    assert asked(api, source, a_request("/v1/whoami", good))[0].status == 200  # its key is known
    assert asked(api, f"{source}0", a_request("/v1/whoami"))[0].status == 401
    shop.nothing_happened()


def test_hrd_12_a_valid_key_that_is_new_here_pays_nothing(api: Api, shop: Shop) -> None:
    for _ in range(BURST + 5):
        request = a_request("/v1/whoami", with_key(a_key(shop.tenant).plaintext))
        assert asked(api, "127.1.0.3", request)[0].status == 200
    keyless = asked(api, "127.1.0.3", *[a_request("/v1/whoami")] * BURST)
    assert [one.status for one in keyless] == [401] * BURST


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/openapi.json", "/docs/", "/admin/login/"])
def test_hrd_12_a_valid_key_pays_by_address_where_nothing_meters_its_tenant(path: str, api: Api, shop: Shop) -> None:
    source, key = f"127.1.1.{len(path)}", with_key(shop.issued.plaintext)
    assert asked(api, source, a_request("/v1/whoami", key))[0].status == 200
    asked(api, source, *[a_request(path, key)] * BURST)
    assert asked(api, source, a_request("/v1/whoami"))[0].status == 429
    assert asked(api, source, a_request("/v1/whoami", key))[0].status == 200
    with ExitStack() as stack:
        crowd = [stack.enter_context(from_address(api, source)) for _ in range(8)]
        for client in [*crowd, *crowd]:
            client.send(a_request(path, key))
        assert 429 in {client.receive().status for client in [*crowd, *crowd]}
    assert asked(api, source, a_request("/v1/whoami", key))[0].status == 200


def test_hrd_12_beside_a_flood_a_valid_key_that_is_new_here_waits_and_is_served(api: Api, shop: Shop) -> None:
    wrong = a_request("/v1/whoami", with_key(WRONG_KEY))
    assert {one.status for one in asked(api, "127.1.0.9", *[wrong] * (BURST + 2))} == {401}
    good = a_request("/v1/whoami", with_key(shop.issued.plaintext))
    with ExitStack() as stack:
        crowd = [stack.enter_context(from_address(api, "127.1.0.9")) for _ in range(6)]
        for client in crowd:
            client.send(wrong)
        assert max(client.receive().status for client in crowd) == 429, "no more than four wait at once"
    assert [one.status for one in asked(api, "127.1.0.9", good, good)] == [200, 200]


def test_hrd_10_who_asks_without_end_whether_the_process_lives_waits_for_it(api: Api) -> None:
    """It is said on the loop, whose time is everybody's: a probe too many is answered, and later."""
    probe, source = a_request("/healthz"), "127.1.0.8"
    assert [one.status for one in asked(api, source, *[probe] * BURST)] == [200] * BURST
    started = time.monotonic()
    assert [one.status for one in asked(api, source, *[probe] * 10)] == [200] * 10
    assert time.monotonic() - started >= 5 * PAUSE  # some find a token that has come since
    assert asked(api, source, a_request("/v1/whoami"))[0].status == 401  # probes take nothing of the rest


def test_hrd_10_the_client_behind_a_proxy_of_ours_is_whom_it_names(api: Api) -> None:
    for _ in range(BURST):
        assert asked(api, PROXY, a_request("/v1/whoami", "X-Forwarded-For: 9.9.9.9, 203.0.113.1"))[0].status == 401
    assert asked(api, PROXY, a_request("/v1/whoami", "X-Forwarded-For: 203.0.113.1"))[0].status == 429
    assert asked(api, PROXY, a_request("/v1/whoami", "X-Forwarded-For: 203.0.113.2"))[0].status == 401


def test_hrd_10_a_client_behind_a_proxy_of_ours_names_itself_by_no_spelling(api: Api) -> None:
    """A proxy adds to the header that it knows, and many pass on one with `_`, which WSGI calls the same."""
    for number in range(BURST + 1):
        sent = ("X-Forwarded-For: 203.0.113.9", f"X_Forwarded_For: 9.9.9.{number}")
        answer = asked(api, PROXY, a_request("/v1/whoami", *sent))[0]
        assert answer.status == (401 if number < BURST else 429)


def test_hrd_10_a_header_of_a_stranger_names_nobody(api: Api) -> None:
    for number in range(BURST):
        assert asked(api, "127.1.0.4", a_request("/v1/whoami", f"X-Forwarded-For: 9.9.9.{number}"))[0].status == 401
    assert asked(api, "127.1.0.4", a_request("/v1/whoami", "X-Forwarded-For: 9.9.9.99"))[0].status == 429


def test_hrd_10_connections_of_one_address_are_bounded_and_the_silent_ones_go(api: Api, shop: Shop) -> None:
    good = a_request("/v1/whoami", with_key(shop.issued.plaintext))
    with ExitStack() as stack:
        many = [stack.enter_context(from_address(api, "127.1.0.5")) for _ in range(60)]
        other = stack.enter_context(from_address(api, "127.1.0.6"))
        busy = many[0]
        wait_until(lambda: sum(client.is_waiting() for client in many) <= 30)
        assert other.is_waiting()
        if busy.is_waiting():
            busy.send(good)
            assert busy.receive().status == 200
        assert asked(api, "127.1.0.6", good)[0].status == 200
    with ExitStack() as stack:
        proxied = [stack.enter_context(from_address(api, PROXY)) for _ in range(60)]
        other = stack.enter_context(from_address(api, "127.1.0.5"))
        crowd = [stack.enter_context(from_address(api, "127.1.0.5")) for _ in range(60)]
        wait_until(lambda: sum(client.is_waiting() for client in crowd) <= 30)
        assert all(client.is_waiting() for client in proxied)


def test_hrd_10_an_answer_that_its_client_does_not_take_ends_its_connection(api: Api) -> None:
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.settimeout(30)
        slow.bind(("127.1.0.7", 0))
        slow.connect(("127.0.0.1", api.port))
        slow.sendall(a_request("/v1/openapi.json"))
        line = wait_until(lambda: api.log_lines("answer not taken, connection closed"), seconds=30)[0]
        assert line["client"] == "127.1.0.7"
        taken = 0
        with suppress(ConnectionResetError):
            while data := slow.recv(65_536):
                taken += len(data)
        assert 0 < taken < len(openapi.openapi_document())


def test_hrd_10_looking_at_connections_leaves_no_descriptor_behind(api: Api) -> None:
    workers = Path(f"/proc/{api.process.pid}/task/{api.process.pid}/children").read_text(encoding="ascii").split()
    folder = next(Path(f"/proc/{pid}/fd") for pid in workers if b"granian" in Path(f"/proc/{pid}/cmdline").read_bytes())
    before = len(list(folder.iterdir()))
    for _ in range(10):
        assert asked(api, "127.1.0.8", a_request("/healthz"))[0].status == 200
        wait_until(lambda: len(list(folder.iterdir())) <= before + 3)
