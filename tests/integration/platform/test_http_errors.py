"""Whatever is sent, the API answers JSON, names the fault, and never with a 500 for a caller's mistake (DPP-03)."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from dpp_project.observe import logging as dpp_logging
from dpp_project.reasons import REASONS, ReasonCode, type_uri
from tests.gear.servers.urls import CANARY, FAILURES

pytestmark = [pytest.mark.urls("tests.gear.servers.urls"), pytest.mark.contract("DPP-03")]

LOCKED_FIELDS = {"type", "title", "status", "detail", "instance", "reason_code", "trace_id"}
JSON = "application/json"


@pytest.fixture
def browserless() -> Client:
    return Client(raise_request_exception=False, headers={"X-Trace-Id": "trace-1"})


def problem_of(response: Any, *, status: int, reason: ReasonCode, instance: str) -> dict[str, Any]:
    assert response.status_code == status
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.headers["X-Trace-Id"] == "trace-1"
    body: dict[str, Any] = json.loads(response.content)
    assert set(body) >= LOCKED_FIELDS
    assert body["type"] == type_uri(reason)
    assert body["title"] == REASONS[reason].title
    assert body["status"] == status
    assert body["instance"] == instance
    assert body["reason_code"] == reason.value
    assert body["trace_id"] == "trace-1"
    assert CANARY not in response.content.decode()
    return body


UNKNOWN = (
    *("/nothing", "/v1/", "/v1/run/not-a-uuid", "/v1/한글", "/v1/%00", "/v1/%ff%fe", "/admin.php", "/.env"),
    *("/doc", "/healthz/", "/v1/openapi.json/", "/v1//whoami", "/v1/whoami.xml", "/v1/" + "a" * 4_000),
)


@pytest.mark.parametrize("path", UNKNOWN)
def test_dpp_03_an_unknown_address_is_a_problem(browserless: Client, path: str) -> None:
    response: Any = browserless.get(path)
    assert response.status_code == 404
    assert response.headers["Content-Type"] == "application/problem+json"
    assert json.loads(response.content)["reason_code"] == "NOT_FOUND"


@pytest.mark.contract("DPP-22")
def test_dpp_22_unknown_and_malformed_addresses_answer_alike_but_for_the_path(browserless: Client) -> None:
    bodies = []
    for path in ("/v1/runs/0190d8a5-0000-7000-8000-000000000000", "/v1/runs/x", "/v1/runs/%00"):
        body = json.loads(browserless.get(path).content)
        body.pop("instance")
        bodies.append(body)
    assert bodies[0] == bodies[1] == bodies[2]


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/v1/openapi.json", "/v1/whoami"])
def test_dpp_03_a_wrong_method_is_a_problem_that_lists_the_right_ones(
    browserless: Client, path: str, method: str
) -> None:
    response = getattr(browserless, method)(path)
    if path == "/v1/whoami":
        assert response.status_code in {401, 405}
    else:
        problem_of(response, status=405, reason=ReasonCode.METHOD_NOT_ALLOWED, instance=path)
        assert "GET" in response.headers["Allow"]


PROBLEMS: list[tuple[str, int, ReasonCode]] = [
    ("problem", 409, ReasonCode.CONFLICT),
    ("http404", 404, ReasonCode.NOT_FOUND),
    ("denied", 403, ReasonCode.SCOPE_MISSING),
    ("suspicious", 400, ReasonCode.MALFORMED_REQUEST),
    ("toobig", 413, ReasonCode.PAYLOAD_TOO_LARGE),
    ("value", 500, ReasonCode.INTERNAL_ERROR),
    ("recursion", 500, ReasonCode.INTERNAL_ERROR),
    ("database", 503, ReasonCode.SERVICE_UNAVAILABLE),
    ("interface", 503, ReasonCode.SERVICE_UNAVAILABLE),
    ("pool", 503, ReasonCode.SERVICE_UNAVAILABLE),
    ("redis", 503, ReasonCode.SERVICE_UNAVAILABLE),
    ("drf_validation", 422, ReasonCode.VALIDATION_FAILED),
    ("drf_parse", 400, ReasonCode.MALFORMED_REQUEST),
    ("drf_auth", 401, ReasonCode.AUTH_INVALID),
    ("drf_throttled", 429, ReasonCode.RATE_LIMITED),
]


@pytest.mark.parametrize(("kind", "status", "reason"), PROBLEMS)
@pytest.mark.parametrize("where", ["fails", "plain"])
def test_dpp_03_every_exception_has_its_problem(
    browserless: Client, where: str, kind: str, status: int, reason: ReasonCode
) -> None:
    path = f"/v1/tests/{where}/{kind}"
    response: Any = browserless.get(path)
    body = problem_of(response, status=status, reason=reason, instance=path)
    if kind == "problem":
        assert body["run_id"] == "r-1"
        assert response.headers["Retry-After"] == "7"
    if status == 503:
        assert int(response.headers["Retry-After"]) > 0


def test_every_kind_of_failure_is_in_the_table_above() -> None:
    assert {kind for kind, _, _ in PROBLEMS} == set(FAILURES)


BAD_BODIES: list[tuple[bytes, str, int, list[str]]] = [
    (b"{", JSON, 400, []),
    (b'{"name": "a", "name": "b"}', JSON, 400, []),
    (b'{"name": NaN}', JSON, 400, []),
    (b"\xff\xfe", JSON, 400, []),
    (b"[" * 50_000, JSON, 400, []),
    (b"{" + b'"a":{' * 40 + b"}" * 41, JSON, 400, []),
    (b" " * 1_048_577, JSON, 413, []),
    (b"name=a", "application/x-www-form-urlencoded", 415, []),
    (b"<a/>", "application/xml", 415, []),
    (b"{}", "text/plain", 415, []),
    (b"{}", "application/json; charset=utf-16", 415, []),
    (b"{}", "nonsense", 415, []),
    (b"", JSON, 422, ["name"]),
    (b"{}", JSON, 422, ["name"]),
    (b"null", JSON, 422, ["body"]),
    (b"[]", JSON, 422, ["body"]),
    (b'"name"', JSON, 422, ["body"]),
    (b'{"name": 1}', JSON, 422, ["name"]),
    (b'{"name": "longer"}', JSON, 422, ["name"]),
    (b'{"name": "a", "mode": "c"}', JSON, 422, ["mode"]),
    (b'{"name": "a", "extra": 1}', JSON, 422, ["extra"]),
    (b'{"name": "a", "inner": [{"amount": 1}, {"amount": 0, "b": 1}]}', JSON, 422, ["inner[1].amount", "inner[1].b"]),
    (b'{"name": "a\\u0000"}', JSON, 422, ["name"]),
    (b'{"name": "\\ud800"}', JSON, 422, ["name"]),
]


@pytest.mark.parametrize(("body", "content_type", "status", "fields"), BAD_BODIES)
def test_dpp_03_a_bad_body_names_its_fault(
    browserless: Client, body: bytes, content_type: str, status: int, fields: list[str]
) -> None:
    response = browserless.post("/v1/tests/echo", data=body, content_type=content_type)
    reason = {
        400: ReasonCode.MALFORMED_REQUEST,
        413: ReasonCode.PAYLOAD_TOO_LARGE,
        415: ReasonCode.UNSUPPORTED_MEDIA_TYPE,
        422: ReasonCode.VALIDATION_FAILED,
    }[status]
    answer = problem_of(response, status=status, reason=reason, instance="/v1/tests/echo")
    assert [error["field"] for error in answer.get("errors", [])] == fields


def test_a_good_body_is_read(browserless: Client) -> None:
    response = browserless.post(
        "/v1/tests/echo", data=b'{"name": "ok"}', content_type="application/json; charset=UTF-8"
    )
    assert (response.status_code, json.loads(response.content)) == (200, {"name": "ok", "mode": "a", "inner": []})


@pytest.mark.parametrize(
    ("query", "fields"),
    [("limit=x", ["query.limit"]), ("limit=1&limit=2", ["query.limit"]), ("format=xml", ["query.format"])],
)
def test_dpp_03_a_bad_query_names_its_parameter(browserless: Client, query: str, fields: list[str]) -> None:
    response = browserless.get(f"/v1/tests/echo?{query}")
    answer = problem_of(response, status=422, reason=ReasonCode.VALIDATION_FAILED, instance="/v1/tests/echo")
    assert [error["field"] for error in answer["errors"]] == fields


def test_dpp_03_an_accept_header_that_fits_nothing_is_a_problem(browserless: Client) -> None:
    response = browserless.get("/v1/tests/echo", headers={"Accept": "text/csv"})
    problem_of(response, status=406, reason=ReasonCode.NOT_ACCEPTABLE, instance="/v1/tests/echo")


def test_dpp_03_a_foreign_host_name_is_a_problem(browserless: Client) -> None:
    response = browserless.get("/v1/tests/echo", headers={"Host": "evil.example"})
    problem_of(response, status=400, reason=ReasonCode.MALFORMED_REQUEST, instance="/v1/tests/echo")


@pytest.fixture
def log_lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    settings = dpp_logging.logging_configuration(service="api", level="INFO")
    settings["handlers"]["lines"]["stream"] = stream
    logging.config.dictConfig(settings)
    yield stream
    dpp_logging.set_up_logging(service="command", level="INFO")


@pytest.mark.contract("DPP-25", "DPP-73")
def test_dpp_25_a_request_leaves_one_line_with_its_trace_and_nothing_it_sent(log_lines: io.StringIO) -> None:
    client = Client(raise_request_exception=False)
    made = client.post(
        "/v1/tests/echo?secret=canary-query",
        data=b'{"name": "canary-body-too-long"}',
        content_type=JSON,
        headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Cookie": "c=canary-cookie"},
    )
    client.get("/v1/tests/fails/value")
    lines = [json.loads(line) for line in log_lines.getvalue().splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert [line["status"] for line in requests] == [422, 500]
    assert requests[0]["trace_id"] == made.headers["X-Trace-Id"] == "0af7651916cd43dd8448eb211c80319c"
    assert requests[0]["route"] == "v1/tests/echo"
    assert [line["exception"]["type"] for line in lines if line["event"] == "request failed"] == ["builtins.ValueError"]
    assert "canary" not in log_lines.getvalue()
