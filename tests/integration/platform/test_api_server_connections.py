"""What a client may do with a connection, and what that may not do to the others (DPP-02, DPP-03)."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dpp_project.http.parsers import MAX_BODY_BYTES
from tests.gear.builders.shop import RUNS, Shop, a_body, a_request_key
from tests.gear.servers.live_api import Api, Received, an_api
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("DPP-02", "DPP-03"), pytest.mark.django_db(transaction=True)]

ONE_ADDRESS: dict[str, dict[str, float]] = {"connections": {"per_address": 5_000}, "strangers": {"burst": 5_000}}
"""Tests have one address for all their clients."""
PATIENT = ONE_ADDRESS | {"bodies": {"seconds": 600.0, "held_bytes": 1_500_000}}
HASTY = ONE_ADDRESS | {"bodies": {"seconds": 0.5, "bytes_per_further_second": 1 << 30, "seconds_when_stopping": 0.5}}
THREADS = 2


@pytest.fixture(scope="module")
def patient(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with an_api(tmp_path_factory.mktemp("patient"), threads=THREADS, limits=PATIENT) as api:
        yield api


@pytest.fixture(scope="module")
def hasty(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with an_api(tmp_path_factory.mktemp("hasty"), threads=THREADS, limits=HASTY) as api:
        yield api


def a_submit(shop: Shop, *headers: str, body: bytes | None = None, length: int | None = None) -> bytes:
    """The head of a submit and as much of its body as is given."""
    body = b"" if body is None else body
    return (
        "\r\n".join(
            [
                f"POST {RUNS} HTTP/1.1",
                "Host: 127.0.0.1",
                f"Authorization: Bearer {shop.issued.plaintext}",
                f"Idempotency-Key: {a_request_key()}",
                "Content-Type: application/json",
                *([] if length is None else [f"Content-Length: {length}"]),
                *headers,
                "",
                "",
            ]
        ).encode()
        + body
    )


def whole_submit(shop: Shop) -> bytes:
    body = json.dumps(a_body()).encode()
    return a_submit(shop, body=body, length=len(body))


def half_submit(shop: Shop) -> tuple[bytes, bytes]:
    body = json.dumps(a_body()).encode()
    return a_submit(shop, body=body[:10], length=len(body)), body[10:]


def told(received: Received) -> tuple[int, str, str]:
    """Status, reason and trace id of a problem, which stands in header and body alike."""
    assert received.header("content-type") == "application/problem+json"
    problem = json.loads(received.body)
    assert problem["trace_id"] == received.header("x-trace-id") != ""
    assert problem["instance"] == RUNS
    assert problem["status"] == received.status
    return received.status, problem["reason_code"], problem["trace_id"]


def test_dpp_02_slow_bodies_and_silent_connections_hold_no_thread(patient: Api, shop: Shop) -> None:
    """Ten slow bodies and three silent connections to two threads: under them, an honest client is answered."""
    with ExitStack() as stack:
        slow = [stack.enter_context(patient.connect()) for _ in range(10)]
        rests = []
        for client in slow:
            begin, rest = half_submit(shop)
            client.send(begin)
            rests.append(rest)
        for _ in range(3):
            stack.enter_context(patient.connect())
        assert [patient.ask(whole_submit(shop)).status for _ in range(5)] == [202] * 5
        assert all(client.is_waiting() for client in slow)
        assert len(shop.runs()) == 5
        for client, rest in zip(slow, rests, strict=True):
            client.send(rest)
        assert [client.receive().status for client in slow] == [202] * 10
    assert len(shop.runs()) == 15


def test_dpp_02_more_connections_than_a_usual_backlog_leave_room_for_one_more(patient: Api, shop: Shop) -> None:
    begin, _rest = half_submit(shop)
    with ExitStack() as stack:
        held = [stack.enter_context(patient.connect()) for _ in range(1_100)]
        for client in held:
            client.send(begin)
        assert patient.ask(whole_submit(shop)).status == 202
        assert all(client.is_waiting() for client in held)


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "in chunks"])
def test_dpp_03_a_body_that_does_not_come_is_answered_408_like_any_problem(
    hasty: Api, shop: Shop, *, chunked: bool
) -> None:
    begin = a_submit(shop, "Transfer-Encoding: chunked", body=b"5\r\n{") if chunked else half_submit(shop)[0]
    with hasty.connect() as client:
        client.send(begin)
        received = client.receive()
        status, reason, trace_id = told(received)
        assert (status, reason) == (408, "REQUEST_TIMEOUT")
        assert received.header("x-dpp-cost-used") == "0.0000"
        assert received.header("x-content-type-options") == "nosniff"
        assert received.header("cache-control") == "no-store"
        with pytest.raises(ConnectionError):
            client.receive()
    line = wait_until(lambda: [one for one in hasty.log_lines("request") if one.get("trace_id") == trace_id])[0]
    assert (line["status"], line["method"], line["path"], line["service"]) == (408, "POST", RUNS, "api")
    page = hasty.ask(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").body.decode()
    assert 'dpp_http_request_seconds_count{method="POST",route="unmatched",status="4xx"}' in page
    shop.nothing_happened()


@pytest.mark.parametrize("expect", [[], ["Expect: 100-continue"]], ids=["plain", "expecting"])
def test_dpp_02_an_announced_length_that_is_too_much_is_refused_before_a_byte_of_it(
    patient: Api, shop: Shop, expect: list[str]
) -> None:
    received = patient.ask(a_submit(shop, *expect, length=MAX_BODY_BYTES + 1))
    assert told(received)[:2] == (413, "PAYLOAD_TOO_LARGE")
    shop.nothing_happened()


def test_dpp_02_chunks_are_read_no_further_than_their_limit(patient: Api, shop: Shop) -> None:
    chunk = b"%x\r\n%b\r\n" % (65_536, b"a" * 65_536)
    received = patient.ask(a_submit(shop, "Transfer-Encoding: chunked", body=chunk * 17))  # and no last one
    assert told(received)[:2] == (413, "PAYLOAD_TOO_LARGE")
    shop.nothing_happened()


@pytest.mark.parametrize("header", ["X-None: 1", "Authorization: Bearer dpp_short", "Authorization: Basic abc"])
@pytest.mark.contract("DPP-11")
def test_dpp_11_without_the_form_of_a_key_no_body_is_waited_for(patient: Api, shop: Shop, header: str) -> None:
    head = f"POST {RUNS} HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}\r\nContent-Length: 1000\r\n\r\n"
    assert told(patient.ask(head.encode()))[:2] == (401, "AUTH_INVALID")
    shop.nothing_happened()


def test_dpp_02_a_client_that_leaves_before_its_body_is_whole_has_submitted_nothing(patient: Api, shop: Shop) -> None:
    begin, _rest = half_submit(shop)
    begin = begin.replace(b"\r\n\r\n", b"\r\nX-Trace-Id: left-early\r\n\r\n", 1)
    with patient.connect() as client:
        client.send(begin)
    line = wait_until(lambda: [one for one in patient.log_lines("request") if one.get("trace_id") == "left-early"])[0]
    assert line["status"] == 400
    shop.nothing_happened()


def test_dpp_03_requests_in_one_packet_are_answered_in_their_order(patient: Api, shop: Shop) -> None:
    get = "GET /v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nX-Trace-Id: {}\r\n\r\n"
    with patient.connect() as client:
        client.send(whole_submit(shop) + b"".join(get.format(shop.issued.plaintext, n).encode() for n in range(3)))
        assert client.receive().status == 202
        assert [client.receive().header("x-trace-id") for _ in range(3)] == ["0", "1", "2"]


def test_dpp_03_http_2_is_not_spoken(patient: Api) -> None:
    with patient.connect() as client:
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        assert client.until_closed() == b""


def test_dpp_03_when_bodies_hold_too_much_the_one_longest_on_its_way_makes_room(patient: Api, shop: Shop) -> None:
    part = b" " * 900_000
    with patient.connect() as first, patient.connect() as second:
        first.send(a_submit(shop, body=part, length=1_000_000))
        assert patient.ask(whole_submit(shop)).status == 202  # so that the first is being read
        second.send(a_submit(shop, body=part, length=1_000_000))
        received = first.receive()
        assert told(received)[:2] == (503, "SERVICE_UNAVAILABLE")
        assert received.header("retry-after") == "2"
        assert second.is_waiting()
        assert patient.ask(whole_submit(shop)).status == 202
        second.send(b" " * 99_998 + b"{}")
        assert second.receive().status == 422
    assert len(shop.runs()) == 2


def test_dpp_03_a_server_that_stops_answers_what_it_still_reads_and_ends(tmp_path: Path, shop: Shop) -> None:
    limits = PATIENT | {"bodies": PATIENT["bodies"] | {"seconds_when_stopping": 1.0}}
    with an_api(tmp_path, threads=THREADS, limits=limits) as api, ExitStack() as stack:
        quick, stuck, silent = (stack.enter_context(api.connect()) for _ in range(3))
        (begin, rest), (other, _rest) = half_submit(shop), half_submit(shop)
        quick.send(begin)
        stuck.send(other)
        assert api.ask(whole_submit(shop)).status == 202  # so that the two above are being read
        api.stop()
        quick.send(rest)
        assert quick.receive().status == 202
        received = stuck.receive()
        assert told(received)[:2] == (503, "SERVICE_UNAVAILABLE")
        assert int(received.header("retry-after") or 0) > 0
        assert api.process.wait(10) == 0
        assert not silent.is_waiting()
    assert len(shop.runs()) == 2


def test_dpp_03_headers_without_an_end_are_cut_off_and_the_others_go_on(patient: Api, shop: Shop) -> None:
    with patient.connect() as client:
        client.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        with pytest.raises(ConnectionError):
            client.send(b"a" * 13_000_000)
    assert patient.ask(whole_submit(shop)).status == 202
