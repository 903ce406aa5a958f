"""Auth errors for tests: reported as a tenant reports them, and brought to each status by their own handlers."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.test import Client

from dpp_project import clock
from dpp_project.outbox.events import Event
from dpp_project.outbox.models import OutboxMessage
from ops.auth_errors import events, recording
from ops.auth_errors.event_types import ANALYSIS_REQUESTED, RECORDED
from ops.auth_errors.models import AuthError
from tenants.services import IssuedKey
from tests.gear.builders.tenants import bearer

ADDRESS: Final = "/api/auth-errors"
TRACE: Final = (
    "com.acme.auth.TokenExpired: token of session 7 has expired\n"
    "\tat com.acme.auth.Tokens.verify(Tokens.java:41)\n"
    "\tat com.acme.auth.Filter.doFilter(Filter.java:88)"
)


def a_report(**values: Any) -> dict[str, Any]:
    """A body; a fresh request id each time."""
    return {
        "requestId": f"req-{uuid.uuid4().hex}",
        "occurredAt": "2026-03-01T12:00:00+09:00",
        "httpStatus": 401,
        "exceptionClass": "com.acme.auth.TokenExpired",
        "stacktrace": TRACE,
    } | values


def trace_of(name: str) -> str:
    """Another fault for each name."""
    return f"com.acme.auth.{name}: gone\n\tat com.acme.auth.{name}.verify({name}.java:41)"


def sent(client: Client, key: IssuedKey, body: dict[str, Any]) -> Any:
    return client.post(ADDRESS, body, content_type="application/json", headers=bearer(key))


def recorded(*, tenant_id: str = "t_acme", name: str | None = None, **values: Any) -> AuthError:
    """NEW, with its outbox row."""
    named = {} if name is None else {"exceptionClass": f"com.acme.auth.{name}", "stacktrace": trace_of(name)}
    body = a_report(**named | values)
    texts = {key: value for key, value in body.items() if key not in {"occurredAt", "httpStatus"}}
    occurred_at = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
    report = recording.cleaned_report(texts, occurred_at=occurred_at, http_status=body["httpStatus"])
    return row(recording.record_auth_error(tenant_id=tenant_id, report=report).auth_error_id)


def requested(**values: Any) -> AuthError:
    """ANALYSIS_REQUESTED."""
    error = recorded(**values)
    handle_recorded(error)
    return row(error.pk)


def analyzed(**values: Any) -> AuthError:
    """ANALYSIS_COMPLETED, a member of its cluster."""
    error = requested(**values)
    handle_analysis(error)
    return row(error.pk)


def handle_recorded(error: AuthError) -> None:
    _handle(RECORDED.key(error.pk))


def handle_analysis(error: AuthError) -> None:
    _handle(ANALYSIS_REQUESTED.key(error.pk))


def _handle(key: str) -> None:

    message = OutboxMessage.objects.get(idempotency_key=key)
    (handler,) = (one for one in events.HANDLERS if one.event_type == message.event_type)
    with transaction.atomic():
        handler.handle(
            Event(
                outbox_id=message.outbox_id,
                aggregate_id=message.aggregate_id,
                event_type=message.event_type,
                payload=message.payload,
                tenant_id=message.tenant_id,
            )
        )


def row(auth_error_id: uuid.UUID) -> AuthError:
    return AuthError.objects.get(pk=auth_error_id)


@contextmanager
def later(*, seconds: int) -> Iterator[None]:
    """So much time has passed for this process."""
    with clock.use_clock(clock.SystemClock(timedelta(seconds=seconds))):
        yield
