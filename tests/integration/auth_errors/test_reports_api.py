"""POST /api/auth-errors: what is taken, what is refused, and that a report is recorded once with its event."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from django.db import OperationalError, connection
from django.test import Client

from dpp_project.api_server import body_rules
from dpp_project.outbox.models import OutboxMessage
from ops.auth_errors import recording
from ops.auth_errors.models import AuthError
from tenants.models import Tenant
from tenants.scopes import Scope
from tests.gear.builders.auth_errors import ADDRESS, a_report, sent
from tests.gear.builders.tenants import a_key, a_tenant, an_operator_key, bearer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]

AN_HOUR: Final = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)


def nothing_was_recorded() -> None:
    assert not AuthError.objects.exists()
    assert not OutboxMessage.objects.exists()


@pytest.mark.contract("AUT-01", "AUT-09")
def test_aut_01_a_report_is_recorded_with_its_event(client: Client) -> None:
    key = a_key(scopes=[Scope.ERRORS_WRITE])
    body = a_report(
        exceptionMessage="  expired\r\nat noon  ",
        requestUri="/api/orders",
        httpMethod="GET",
        sessionId="s-12345678",
        userAgent="   ",
    )
    answer = sent(client, key, body)
    assert answer.status_code == 201
    error = AuthError.objects.get()
    assert answer.json() == {
        "auth_error_id": str(error.pk),
        "status": "NEW",
        "recorded_at": error.recorded_at.isoformat().replace("+00:00", "Z"),
    }
    assert (error.tenant_id, error.dedup_key, error.http_status) == (key.key.tenant_id, body["requestId"], 401)
    assert error.occurred_at.isoformat() == "2026-03-01T03:00:00+00:00"
    assert (error.exception_message, error.user_agent, error.request_uri) == ("expired\nat noon", None, "/api/orders")
    assert str(error.session_hash).startswith("hmac:")
    assert error.frames["exceptions"]
    assert not error.truncated
    event = OutboxMessage.objects.get()
    assert (event.event_type, event.idempotency_key, event.tenant_id) == (
        "auth.error.recorded.v1",
        f"auth_error:recorded:{error.pk}",
        error.tenant_id,
    )
    assert event.payload == {
        "authErrorId": str(error.pk),
        "requestId": body["requestId"],
        "occurredAt": "2026-03-01T03:00:00+00:00",
    }


MOMENTS: list[Any] = [
    *("2026-03-01T12:00:00", "2026-03-01", "1772334000", 1_772_334_000, None, "", "1969-12-31T23:59:59Z"),
    *("2026-02-30T12:00:00Z", "0001-01-01T00:00:00+14:00", "2026-03-01T12:00:00+25:00", "2026-03-01 12:00:00Z"),
]
WRONG_VALUES: dict[str, list[Any]] = {
    "requestId": [None, "", 7, "x" * 201],
    "occurredAt": MOMENTS,
    "httpStatus": [99, 600, "401", 401.5, True, None],
    "exceptionClass": [None, "", "  ", 7],
    "stacktrace": [None, "", " \n ", []],
    "userId": [7, {}],
    "sent_at": ["x"],
}
WRONG = [(field, value) for field, values in WRONG_VALUES.items() for value in values]


@pytest.mark.contract("AUT-01")
@pytest.mark.parametrize(("field", "value"), WRONG, ids=lambda part: ascii(part)[:30])
def test_aut_01_a_wrong_field_is_named_and_nothing_is_recorded(client: Client, field: str, value: Any) -> None:
    answer = sent(client, a_key(), a_report(**{field: value}))
    assert (answer.status_code, [one["field"] for one in answer.json()["errors"]]) == (422, [field])
    nothing_was_recorded()


@pytest.mark.contract("AUT-01")
@pytest.mark.parametrize("field", ["requestId", "occurredAt", "httpStatus", "exceptionClass", "stacktrace"])
def test_aut_01_a_required_field_that_is_missing_is_named(client: Client, field: str) -> None:
    body = a_report()
    del body[field]
    answer = sent(client, a_key(), body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
    nothing_was_recorded()


@pytest.mark.contract("AUT-01")
@pytest.mark.parametrize(
    ("sent_as", "kept"),
    [
        ("2026-03-01T12:00+09:00", "2026-03-01T03:00:00+00:00"),
        ("2026-03-01T12:00:00.123456789Z", "2026-03-01T12:00:00.123456+00:00"),
        ("2026-03-01t12:00:00z", "2026-03-01T12:00:00+00:00"),
    ],
)
def test_aut_01_moments_as_java_writes_them_are_read(client: Client, sent_as: str, kept: str) -> None:
    assert sent(client, a_key(), a_report(occurredAt=sent_as)).status_code == 201
    assert AuthError.objects.get().occurred_at.isoformat() == kept


@pytest.mark.contract("AUT-01")
def test_aut_01_what_cannot_be_stored_is_removed_and_secrets_are_masked(client: Client) -> None:
    body = json.dumps(a_report(stacktrace="X: a\x00b \ud800 Bearer abcdefghijklmnopqrstuvwxyz\n\tat a.B.c(B.java:1)"))
    answer = client.post(ADDRESS, body, content_type="application/json", headers=bearer(a_key()))
    assert answer.status_code == 201
    kept = AuthError.objects.get().stacktrace
    assert "ab " in kept
    assert not {"\x00", "\ud800"} & set(kept)
    assert "abcdefghijklmnopqrstuvwxyz" not in kept


@pytest.mark.contract("AUT-01")
def test_aut_01_long_texts_are_cut_after_their_frames_were_taken(client: Client) -> None:
    frames = "".join(f"\n\tat com.acme.auth.Deep.f{number}(Deep.java:{number})" for number in range(400))
    trace = f"com.acme.A: a{frames}\nCaused by: com.acme.B: b\n\tat com.acme.Cause.here(Cause.java:1)"
    assert len(trace) > 8_000
    body = a_report(stacktrace=trace, exceptionMessage="m" * 2_000, requestUri="/" + "u" * 5_000, userAgent="a" * 900)
    assert sent(client, a_key(), body).status_code == 201
    error = AuthError.objects.get()
    assert (len(error.stacktrace) <= 8_000, len(str(error.exception_message))) == (True, 1_000)
    assert (len(str(error.request_uri)), len(str(error.user_agent)), error.truncated) == (2_000, 500, True)
    assert "com.acme.Cause" in json.dumps(error.frames)


@pytest.mark.contract("AUT-01")
def test_aut_01_a_body_takes_256_kib_at_most(client: Client) -> None:
    key = a_key()
    room = 262_144 - len(json.dumps(a_report(exceptionMessage="")))
    assert sent(client, key, a_report(exceptionMessage="x" * (room - 20))).status_code == 201
    answer = sent(client, key, a_report(exceptionMessage="x" * (room + 20)))
    assert (answer.status_code, answer.json()["reason_code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert AuthError.objects.count() == 1


@pytest.mark.contract("AUT-01")
def test_aut_01_the_server_reads_no_more_of_a_report_than_it_takes() -> None:
    def most(path: str) -> int:
        header = f"Bearer dpp_abcdefgh_{'x' * 43}"
        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": path, "HTTP_AUTHORIZATION": header}
        return body_rules.body_rule_for(environ).max_bytes

    assert (most("/api/auth-errors"), most("/api/tickets")) == (262_144, 1_048_576)


@pytest.mark.contract("AUT-02")
def test_aut_02_the_same_request_id_answers_the_first_whatever_else_it_says(client: Client) -> None:
    key, body = a_key(), a_report()
    first = sent(client, key, body)
    again = sent(client, key, body | {"httpStatus": 403, "stacktrace": "another"})
    assert (again.status_code, again.json(), again.headers["Idempotent-Replayed"]) == (200, first.json(), "true")
    assert "Idempotent-Replayed" not in first.headers
    assert AuthError.objects.get().http_status == 401
    assert OutboxMessage.objects.count() == 1


@pytest.mark.contract("AUT-02")
def test_aut_02_a_request_id_is_each_tenants_own(client: Client) -> None:
    body = a_report()
    answers = [sent(client, a_key(), body) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert AuthError.objects.values("tenant_id").distinct().count() == 2


@pytest.mark.contract("AUT-02")
def test_aut_02_fifty_at_once_make_one() -> None:
    report = recording.cleaned_report(
        {name: value for name, value in a_report().items() if isinstance(value, str)},
        occurred_at=AN_HOUR,
        http_status=401,
    )

    def once(_number: int) -> tuple[Any, bool]:
        try:
            recorded = recording.record_auth_error(tenant_id="t_acme", report=report)
            return recorded.auth_error_id, recorded.is_new
        finally:
            connection.close()

    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(once, range(50)))
    assert {auth_error_id for auth_error_id, _ in found} == {AuthError.objects.get().pk}
    assert sum(is_new for _, is_new in found) == 1
    assert OutboxMessage.objects.count() == 1


@pytest.mark.contract("AUT-03")
def test_aut_03_an_error_without_its_event_cannot_be(client: Client) -> None:
    """The outbox refuses; the report is not recorded either. Both are one statement."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE outbox_message ADD CONSTRAINT refuse CHECK (event_type = '') NOT VALID")
    try:
        client.raise_request_exception = False
        assert sent(client, a_key(), a_report()).status_code == 500
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE outbox_message DROP CONSTRAINT refuse")
    nothing_was_recorded()


@pytest.mark.contract("AUT-03")
def test_aut_03_the_error_and_its_event_are_one_statement(
    client: Client, django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of any transaction: killed anywhere, Postgres has both or neither."""
    report = recording.cleaned_report(
        {name: value for name, value in a_report().items() if isinstance(value, str)},
        occurred_at=AN_HOUR,
        http_status=401,
    )
    with django_assert_num_queries(1) as seen:
        recording.record_auth_error(tenant_id="t_acme", report=report)
    (statement,) = [one["sql"] for one in seen.captured_queries]
    assert "INSERT INTO auth_error" in statement
    assert "INSERT INTO outbox_message" in statement


@pytest.mark.contract("AUT-01")
def test_aut_01_a_tenants_key_needs_the_scope_and_an_operator_reports_nothing(client: Client) -> None:
    others = a_key(scopes=[Scope.RUNS_WRITE, Scope.RUNS_READ])
    for key in (others, an_operator_key()):
        answer = sent(client, key, a_report())
        assert (answer.status_code, answer.json()["reason_code"]) == (403, "SCOPE_MISSING")
    nothing_was_recorded()


@pytest.mark.contract("AUT-01")
def test_aut_01_a_storm_of_reports_is_limited_and_keeps_no_run_out(client: Client) -> None:
    tenant = a_tenant(submit_rate_per_minute=3)
    key = a_key(tenant)
    statuses = [sent(client, key, a_report()).status_code for _ in range(5)]
    assert statuses == [201, 201, 201, 429, 429]
    assert AuthError.objects.count() == 3
    estimate = {"pack_type": "probe", "inputs": {}}
    answer = client.post("/v1/runs/estimate", estimate, content_type="application/json", headers=bearer(key))
    assert answer.status_code == 200
    assert Tenant.objects.filter(pk=tenant.pk).exists()


@pytest.mark.contract("AUT-03")
def test_aut_03_a_lost_answer_is_found_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement committed and its answer was lost: the client asks again and is answered the first."""
    key, body = a_key(), a_report()
    real = recording._insert

    def lost(**values: Any) -> Any:
        real(**values)
        raise OperationalError("the connection is gone")

    client.raise_request_exception = False
    with monkeypatch.context() as patched:
        patched.setattr(recording, "_insert", lost)
        assert sent(client, key, body).status_code == 503
    assert sent(client, key, body).status_code == 200
    assert (AuthError.objects.count(), OutboxMessage.objects.count()) == (1, 1)
