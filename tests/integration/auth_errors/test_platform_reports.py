"""What fails of ours while a request is authenticated is an auth error of t_operator, and never in a request's way."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from dpp_project import clock
from dpp_project.outbox.models import OutboxMessage
from ops.auth_errors import platform_reports
from ops.auth_errors.models import AuthError
from tenants import authentication, failures
from tenants.failures import AuthFailure, FailureBuffer
from tenants.models import ApiKey
from tests.gear.builders.tenants import a_key, bearer

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey"),
    pytest.mark.contract("AUT-01"),
]


class Timers:
    """Stands for the timer's thread: what was asked for, and when."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, Callable[[], None]]] = []
        self.now = 0.0

    def run_later(self, seconds: float, flush: Callable[[], None]) -> None:
        self.asked.append((seconds, flush))

    def monotonic(self) -> float:
        return self.now


class Taken:
    def __init__(self) -> None:
        self.failures: list[AuthFailure] = []
        self.error: Exception | None = None

    def __call__(self, failures: Sequence[AuthFailure]) -> None:
        if self.error is not None:
            raise self.error
        self.failures += failures


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.fixture
def taken() -> Taken:
    return Taken()


@pytest.fixture
def buffer(timers: Timers, taken: Taken) -> FailureBuffer:
    made = FailureBuffer(run_later=timers.run_later, monotonic=timers.monotonic)
    made.register(taken)
    return made


def raised(kind: type[Exception] = KeyError) -> Exception:
    try:
        raise kind("a secret dpp_abcdefgh_secret")
    except kind as error:
        return error


def note(buffer: FailureBuffer, error: Exception, times: int = 1) -> None:
    for _ in range(times):
        buffer.note(error, http_status=500, path="/v1/runs", method="GET")


def fails_with(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_args: Any) -> Any:
        raise error

    monkeypatch.setattr(ApiKey.objects, "select_related", fail)


@pytest.mark.parametrize(
    ("error", "status"), [(OperationalError("the database is gone"), 503), (ZeroDivisionError("a fault of ours"), 500)]
)
def test_aut_01_a_failure_of_ours_is_recorded_for_the_operators(
    client: Client, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    client.raise_request_exception = False
    headers = bearer(a_key())
    with monkeypatch.context() as patched:
        fails_with(patched, error)
        assert client.get("/v1/whoami", headers=headers).status_code == status
        assert not AuthError.objects.exists(), "the failing request writes nothing"
    authentication.failures.flush()
    recorded = AuthError.objects.get()
    assert (recorded.tenant_id, recorded.http_status, recorded.status) == ("t_operator", status, "NEW")
    assert (recorded.request_uri, recorded.http_method) == ("/v1/whoami", "GET")
    assert recorded.exception_class.endswith(type(error).__name__)
    assert recorded.exception_message is None
    assert str(error) not in recorded.stacktrace
    assert recorded.frames["language"] == "python"
    assert OutboxMessage.objects.count() == 1
    authentication.failures.flush()
    assert AuthError.objects.count() == 1


@pytest.mark.parametrize("header", ["Bearer dpp_short", f"Bearer dpp_abcdefgh_{'x' * 43}"])
def test_aut_01_a_refused_key_is_no_failure_of_ours(client: Client, header: str) -> None:
    assert client.get("/v1/whoami", headers={"Authorization": header}).status_code == 401
    authentication.failures.flush()
    assert not AuthError.objects.exists()


def test_aut_01_handed_over_twice_is_recorded_once() -> None:
    """The taker died after its first statement; all of them come again."""
    failure = AuthFailure("platform-1", clock.now(), 500, "X", "Traceback\nX", "/v1/runs", "GET")
    platform_reports.take_platform_reports([failure])
    platform_reports.take_platform_reports([failure])
    assert AuthError.objects.count() == 1


def test_aut_01_while_the_database_is_away_failures_wait(buffer: FailureBuffer, timers: Timers, taken: Taken) -> None:
    taken.error = OperationalError("gone")
    note(buffer, raised())
    seen = []
    for _ in range(6):
        (asked,) = timers.asked
        timers.asked.clear()
        seen.append(asked[0])
        asked[1]()
    assert seen == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    taken.error = None
    timers.asked.pop()[1]()
    assert ([one.exception_class for one in taken.failures], timers.asked) == (["KeyError"], [])
    timers.now += 11
    note(buffer, raised())
    assert [seconds for seconds, _ in timers.asked] == [1.0]


def test_aut_01_the_same_fault_is_noted_once_in_ten_seconds(
    buffer: FailureBuffer, timers: Timers, taken: Taken
) -> None:
    note(buffer, raised(), times=1_000)
    buffer.flush()
    timers.now = 9.9
    note(buffer, raised())
    buffer.flush()
    assert len(taken.failures) == 1
    timers.now = 10.0
    note(buffer, raised())
    note(buffer, raised(ValueError))
    buffer.flush()
    assert [one.exception_class for one in taken.failures] == ["KeyError", "KeyError", "ValueError"]


def test_aut_01_at_most_64_wait_and_the_rest_is_dropped(buffer: FailureBuffer, timers: Timers, taken: Taken) -> None:
    for _ in range(failures.ROOM + 10):
        timers.now += 10
        note(buffer, raised())
    assert len(timers.asked) == 1
    buffer.flush()
    assert len(taken.failures) == failures.ROOM


def test_aut_01_what_cannot_be_noted_is_in_nobodys_way(
    buffer: FailureBuffer, monkeypatch: pytest.MonkeyPatch, taken: Taken
) -> None:
    def fail(_error: BaseException) -> str:
        raise RecursionError

    monkeypatch.setattr(failures, "stacktrace_of", fail)
    note(buffer, raised())
    buffer.flush()
    assert taken.failures == []


def test_aut_01_a_chain_is_told_from_its_cause_without_messages() -> None:
    try:
        try:
            raise KeyError("a secret dpp_abcdefgh_secret")
        except KeyError as cause:
            raise ValueError("another") from cause
    except ValueError as error:
        text = failures.stacktrace_of(error)
    assert text.index("\nKeyError\n") < text.index("direct cause") < text.index("\nValueError\n")
    assert "test_platform_reports.py" in text
    assert text.count("Traceback (most recent call last):") == 2
