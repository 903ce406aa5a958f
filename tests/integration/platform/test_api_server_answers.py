"""What goes through our host is what goes through granian's own WSGI server, to the byte (DPP-02, DPP-03)."""

import json
import re
from collections.abc import Callable, Iterator

import pytest

from tests.gear.builders.shop import RUNS, Shop, a_body, a_request_key
from tests.gear.servers.live_api import Api, Received, a_wsgi_api, an_api

pytestmark = [pytest.mark.contract("DPP-02", "DPP-03"), pytest.mark.django_db(transaction=True)]

IDEMPOTENCY = f"Idempotency-Key: {a_request_key()}"

_CHANGING = (
    (re.compile(rb"(?im)^date: .*?\r?$"), b"date: -\r"),
    (re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"), b"UUID"),
    (re.compile(rb"t_[0-9a-f]{32}"), b"TRACE"),
    (re.compile(rb"\d{4}-\d\d-\d\dT[0-9:.]+Z"), b"TIME"),
    (re.compile(rb'csrftoken=\w+|csrfmiddlewaretoken" value="\w+"|expires[=:][^;\r]*'), b"CSRF"),
    (re.compile(rb"(?i)(x-ratelimit-(remaining|reset): |;[rt]=)\d+"), b"RATE"),
)


def plain(received: Received) -> tuple[bytes, bytes]:
    """Without what differs between any two answers."""
    parts = [received.head + b"\r\n", received.body]
    for pattern, replacement in _CHANGING:
        parts = [pattern.sub(replacement, part) for part in parts]
    return parts[0], parts[1]


@pytest.fixture(scope="module")
def hosts(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Api]]:
    """Ours and the reference."""
    folder = tmp_path_factory.mktemp("hosts")
    with an_api(folder) as ours, a_wsgi_api(folder) as reference:
        yield ours, reference


def a_request(line: str, *headers: str, body: bytes = b"", trace: str = "trace-1") -> bytes:
    """With a length where there is a body."""
    fixed = [f"{line} HTTP/1.1", "Host: 127.0.0.1", *([f"X-Trace-Id: {trace}"] if trace else [])]
    length = [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*fixed, *headers, *length, "", ""]).encode("latin-1") + body


WRONG_KEY = f"Authorization: Bearer dpp_AAAAAAAA_{'B' * 43}"
AS_JSON = "Content-Type: application/json"
AS_FORM = "Content-Type: application/x-www-form-urlencoded"
PATHS = (
    *("/healthz", "/v1/whoami", "/v1/runs", "/v1/runs?limit=1", "/v1/packs", "/v1/budget", "/v1/budget/entries"),
    *("/v1/nothing", "/v1/runs/x", "/v1/%ff%fe", "/v1/%ED%95%9C?q=%ff&a=+b", "/v1//whoami", "/v1/a%2Fb", "/%zz"),
    *("/", "/docs/", "/docs/problems/", "/admin", "/admin/", "/admin/login/", "/static/nothing", "/.env"),
    *("/v1/runs?limit=x", "/v1/runs?limit=1&limit=2", "/v1/openapi.json", "/v1/" + "a" * 4_000),
)


def corpus(key: str) -> dict[str, bytes]:
    """Requests that change nothing, by what is odd in them."""
    auth = f"Authorization: Bearer {key}"
    gets = {path: a_request(f"GET {path}", auth) for path in PATHS}
    return gets | odd_lines() | odd_headers(auth) | odd_bodies(auth) | odd_lengths(auth) | forms(auth)


def odd_lines() -> dict[str, bytes]:
    return {
        "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
        "foreign host": b"GET /v1/whoami HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "HTTP/1.0": b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n",
        "whole address": b"GET http://127.0.0.1/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "no HTTP": b"\x16\x03\x01 nonsense\r\n\r\n",
        "HTTP/2 by prior knowledge": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "head of a problem": a_request("HEAD /v1/nothing"),
        "trace by traceparent": a_request(
            "GET /healthz", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", trace=""
        ),
    }


def odd_headers(auth: str) -> dict[str, bytes]:
    return {
        "csv": a_request("GET /v1/budget/entries", auth, "Accept: text/csv"),
        "head": a_request("HEAD /v1/whoami", auth),
        "options": a_request("OPTIONS /v1/runs", auth),
        "invented method": a_request("BREW /v1/runs", auth),
        "header twice": a_request("GET /healthz", "X-Trace-Id: b", "Accept: a", "Accept: b"),
        "no ASCII in headers": a_request("GET /v1/whoami", "Authorization: Bearer d\xe9", "Cookie: a=\xe9; b=1"),
        "cookies": a_request("GET /admin/login/", "Cookie: a=1", "Cookie: csrftoken=" + "x" * 32),
        "large headers": a_request("GET /healthz", *[f"X-{n}: {'a' * 4_000}" for n in range(20)]),
        "too many headers": a_request("GET /healthz", *[f"X-{n}: a" for n in range(200)]),
        "no key": a_request("GET /v1/runs"),
        "no bearer": a_request("GET /v1/runs", "Authorization: Basic abc"),
        "lower case bearer": a_request("GET /v1/whoami", auth.replace("Bearer", "bearer")),
        "unknown key": a_request("GET /v1/runs", WRONG_KEY),
        "two keys": a_request("GET /v1/runs", auth, auth),
        "foreign origin": a_request("GET /v1/whoami", auth, "Origin: https://evil.example"),
        "get with a body": a_request("GET /v1/whoami", auth, AS_JSON, body=b'{"a": 1}'),
    }


def odd_bodies(auth: str) -> dict[str, bytes]:
    """Each with a key, with an unknown one and with none; the long one keyless would end in a reset."""
    sent = {
        "empty": b"",
        "nothing in it": b"{}",
        "no JSON": b"{",
        "no UTF-8": b"\xff\xfe",
        "wrong fields": json.dumps(a_body(pack_type="none")).encode(),
        "too long": b'"' + b"a" * 1_048_577 + b'"',
    }
    return {
        f"{what}, {who}": a_request(f"POST {RUNS}", header, IDEMPOTENCY, AS_JSON, body=body)
        for what, body in sent.items()
        for who, header in (("a key", auth), ("unknown key", WRONG_KEY), ("no key", "X-None: 1"))
        if not (what == "too long" and who == "no key")
    }


def odd_lengths(auth: str) -> dict[str, bytes]:
    submit = (f"POST {RUNS}", auth, IDEMPOTENCY, AS_JSON)
    chunked = "Transfer-Encoding: chunked"
    return {
        "length of zero": a_request(*submit, "Content-Length: 0"),
        "two lengths": a_request(*submit, "Content-Length: 2", "Content-Length: 3"),
        "no length at all": a_request(*submit),
        "bad length": a_request(*submit, "Content-Length: x"),
        "chunks": a_request(*submit, chunked) + b'1\r\n{\r\n5\r\n"a":1\r\n1\r\n}\r\n0\r\n\r\n',
        "chunks and length": a_request(*submit, "Content-Length: 2", chunked) + b"2\r\n{}\r\n0\r\n\r\n",
        "chunks, no key": a_request(f"POST {RUNS}", AS_JSON, chunked) + b"2\r\n{}\r\n0\r\n\r\n",
        "expects": a_request(*submit, "Expect: 100-continue", body=b"{}"),
        "coding": a_request(*submit, "Content-Encoding: gzip", body=b"{}"),
    }


def forms(auth: str) -> dict[str, bytes]:
    token = "x" * 32
    login = f"username=a&password=b&csrfmiddlewaretoken={token}".encode()
    return {
        "two types": a_request(f"POST {RUNS}", auth, "Content-Type: text/plain", AS_JSON, body=b"{}"),
        "form": a_request(f"POST {RUNS}", auth, AS_FORM, body=b"a=1"),
        "form without a token": a_request("POST /admin/login/", AS_FORM, body=b"username=a&password=b"),
        "login": a_request("POST /admin/login/", AS_FORM, f"Cookie: csrftoken={token}", body=login),
        "wrong method": a_request("POST /healthz", AS_JSON, body=b"{}"),
        "wrong method with a key": a_request("DELETE /v1/whoami", auth, AS_JSON, body=b"{}"),
        "unknown address": a_request("POST /v1/nothing", auth, AS_JSON, body=b"{}"),
    }


# A connection whose request was not read to its end is closed, and whether that is known in time for the head depends
# on what has arrived; ours reads nothing of a body that it refuses, the other one as much as it takes.
_CLOSE = b"connection: close\r\n"


def answers_of(api: Api, request: bytes) -> list[tuple[bytes, bytes]]:
    """Every answer up to the last, or how the connection ended."""
    found: list[tuple[bytes, bytes]] = []
    with api.connect() as client:
        client.send(request)
        while not found or found[-1][0].startswith(b"HTTP/1.1 1"):
            try:
                received = client.receive(without_body=request.startswith(b"HEAD"))
            except ConnectionError as error:
                return [*found, (type(error).__name__.encode(), b"")]
            found.append(plain(received))
    return found


def test_dpp_03_every_answer_is_the_same_to_the_byte(hosts: tuple[Api, Api], shop: Shop) -> None:
    ours, reference = hosts
    different = {}
    for name, request in corpus(shop.issued.plaintext).items():
        mine, theirs = answers_of(ours, request), answers_of(reference, request)
        if name.startswith("too long"):
            mine, theirs = ([(head.replace(_CLOSE, b""), body) for head, body in one] for one in (mine, theirs))
        if mine != theirs:
            different[name] = f"{name}:\n  ours   {mine}\n  theirs {theirs}"
    assert not different, "\n".join(different.values())
    shop.nothing_happened()


def test_dpp_02_a_body_whose_chunks_break_off_is_not_taken_for_a_whole_one(hosts: tuple[Api, Api], shop: Shop) -> None:
    request = a_request(
        f"POST {RUNS}",
        f"Authorization: Bearer {shop.issued.plaintext}",
        f"Idempotency-Key: {a_request_key()}",
        "Content-Type: application/json",
        "Transfer-Encoding: chunked",
    )
    body = json.dumps(a_body()).encode()
    received = hosts[0].ask(request + b"%x\r\n%b\r\nzz\r\n" % (len(body), body))
    assert (received.status, json.loads(received.body)["reason_code"]) == (400, "MALFORMED_REQUEST")
    assert json.loads(received.body)["detail"] == "The body broke off before its end."
    shop.nothing_happened()


SUBMITS: dict[str, Callable[[bytes], tuple[list[str], bytes]]] = {
    "whole": lambda body: ([f"Content-Length: {len(body)}"], body),
    "in chunks": lambda body: (["Transfer-Encoding: chunked"], b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)),
    "expecting": lambda body: ([f"Content-Length: {len(body)}", "Expect: 100-continue"], body),
}


@pytest.mark.parametrize("how", SUBMITS)
def test_dpp_02_a_submit_is_answered_the_same_to_the_byte(hosts: tuple[Api, Api], shop: Shop, how: str) -> None:
    headers, body = SUBMITS[how](json.dumps(a_body()).encode())
    found = [
        answers_of(
            api,
            a_request(
                f"POST {RUNS}",
                f"Authorization: Bearer {shop.issued.plaintext}",
                f"Idempotency-Key: {a_request_key()}",
                "Content-Type: application/json",
                *headers,
            )
            + body,
        )
        for api in hosts
    ]
    balance = re.compile(rb"(?i)x-dpp-budget-remaining(-usd-micros)?: [0-9.]+")
    mine, theirs = ([(balance.sub(b"", head), body) for head, body in one] for one in found)
    assert mine == theirs
    assert mine[-1][0].startswith(b"HTTP/1.1 202")
    assert len(shop.runs()) == 2
