"""Records a report: the auth error and its outbox row are one statement, so that a death leaves both or neither.

Key: (tenant, requestId). The same key again finds the first report, whatever the second one says; of fifty at once
one is inserted, the others wait for its commit and then find it. Nothing is published here: the publisher finds the
row, and is woken early where it runs in this process.
"""

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction

from dpp_project import uuid7
from dpp_project.outbox import wakeup, writing
from ops.auth_errors import event_types, metrics
from ops.auth_errors.models import AuthError
from ops.auth_errors.reports.cleaning import CleanReport, clean_report, cut_text

CLASS_LENGTH_MAX: Final = 300
_LENGTHS: Final = {"request_uri": 2_000, "user_agent": 500, "user_id": 200, "http_method": 20, "client_ip": 100}
"""Of what is neither refused for its length nor cut with messages and stack."""

_COLUMNS: Final = (
    *("auth_error_id", "tenant_id", "dedup_key", "occurred_at", "http_status", "exception_class", "exception_message"),
    *("root_cause_class", "root_cause_message", "stacktrace", "frames", "truncated", "request_uri", "http_method"),
    *("client_ip", "user_agent", "session_hash", "user_id"),
)
_INSERT: Final = (
    f"WITH made AS (INSERT INTO auth_error ({', '.join(_COLUMNS)})"  # noqa: S608  our own names
    f" VALUES ({', '.join(['%s'] * len(_COLUMNS))})"
    " ON CONFLICT (tenant_id, dedup_key) DO NOTHING RETURNING auth_error_id, status, recorded_at)"
)
_TRIES: Final = 3
"""Retention may delete the first report between the conflict and the look at it."""


@dataclass(frozen=True, slots=True)
class AuthReport:
    """What happened and when, its texts as they may be stored."""

    occurred_at: datetime
    http_status: int
    texts: CleanReport


@dataclass(frozen=True, slots=True)
class Recorded:
    auth_error_id: uuid.UUID
    status: str
    recorded_at: datetime
    is_new: bool


def cleaned_report(fields: Mapping[str, str | None], *, occurred_at: datetime, http_status: int) -> AuthReport:
    """Raises BlankField. `fields` by the names of the body."""
    return AuthReport(occurred_at, http_status, clean_report(fields, key=_hash_key()))


def record_auth_error(*, tenant_id: str, report: AuthReport) -> Recorded:
    """The error that stands for this report."""
    for _ in range(_TRIES):
        made = _insert(tenant_id=tenant_id, report=report)
        found = made or _first(tenant_id=tenant_id, request_id=report.texts.request_id)
        if found is not None:
            is_new = made is not None
            metrics.RECORDED.labels("new" if is_new else "repeated").inc()
            return Recorded(*found, is_new)
    raise RuntimeError("a report that was found recorded is gone each time it is looked at")


def _insert(*, tenant_id: str, report: AuthReport) -> tuple[uuid.UUID, str, datetime] | None:
    auth_error_id = uuid7.new_uuid7()
    event = event_types.recorded_event(
        auth_error_id=auth_error_id,
        request_id=report.texts.request_id,
        occurred_at=report.occurred_at,
        tenant_id=tenant_id,
    )
    sql, values = writing.outbox_clause(event, fact="made")
    with connection.cursor() as cursor:
        cursor.execute(
            f"{_INSERT}, event AS ({sql}) SELECT auth_error_id, status, recorded_at FROM made",  # noqa: S608
            [*_auth_error_row_values(auth_error_id, tenant_id, report), *values],
        )
        row: tuple[uuid.UUID, str, datetime] | None = cursor.fetchone()
    if row is not None:
        transaction.on_commit(wakeup.ring_publisher)
    return row


def _first(*, tenant_id: str, request_id: str) -> tuple[uuid.UUID, str, datetime] | None:
    stands = AuthError.objects.filter(tenant_id=tenant_id, dedup_key=request_id)
    return stands.values_list("auth_error_id", "status", "recorded_at").first()


def _auth_error_row_values(auth_error_id: uuid.UUID, tenant_id: str, report: AuthReport) -> list[Any]:
    texts = report.texts
    short = {name: _auth_error_text_at_most(getattr(texts, name), length) for name, length in _LENGTHS.items()}
    exception_class = cut_text(texts.exception_class, CLASS_LENGTH_MAX)
    root_cause_class = _auth_error_text_at_most(texts.root_cause_class, CLASS_LENGTH_MAX)
    is_cut = (exception_class, root_cause_class) != (texts.exception_class, texts.root_cause_class) or any(
        value != getattr(texts, name) for name, value in short.items()
    )
    return [
        *(auth_error_id, tenant_id, texts.request_id, report.occurred_at, report.http_status),
        *(exception_class, texts.exception_message, root_cause_class, texts.root_cause_message, texts.stacktrace),
        *(json.dumps(texts.frames), texts.truncated or is_cut),
        *(short["request_uri"], short["http_method"], short["client_ip"], short["user_agent"]),
        *(texts.session_id, short["user_id"]),
    ]


def _auth_error_text_at_most(text: str | None, length: int) -> str | None:
    return None if text is None else cut_text(text, length)


def _hash_key() -> bytes:
    """Of its own, so that a hash that leaks tells nothing about what else DPP_SECRET_KEY signs."""
    return hashlib.sha256(b"auth errors: ids in reports:" + settings.SECRET_KEY.encode()).digest()
