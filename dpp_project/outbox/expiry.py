"""Deletes events with their ledger rows, and dead letters, past their period.

An event goes 30 days after its ledger row has ended, one that the queue never took 30 days after it was written, and
one of which nothing was heard never. Its id holds the time of its writing, so that the primary key finds the old ones.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from dpp_project import retention, uuid7
from dpp_project.outbox.models import EventDeadLetter

_OLD: Final = """
SELECT outbox_id FROM outbox_message
WHERE outbox_id < %s AND (handled_at < %s AND status = 'PUBLISHED' OR status = 'DEAD')
ORDER BY outbox_id LIMIT %s
"""
_DELETE: Final = f"""
WITH old AS ({_OLD} FOR UPDATE SKIP LOCKED),
    known AS (DELETE FROM processed_message USING old WHERE processed_message.outbox_id = old.outbox_id)
DELETE FROM outbox_message USING old WHERE outbox_message.outbox_id = old.outbox_id
"""  # noqa: S608
_COUNT: Final = f"SELECT count(*) FROM ({_OLD}) AS old"  # noqa: S608


def delete_events(*, now: datetime, limit: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_DELETE, _given(now, limit))
        changed: int = cursor.rowcount
    return changed


def old_events(*, now: datetime, limit: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, _given(now, limit))
        return int(cursor.fetchone()[0])


def delete_letters(*, now: datetime, limit: int) -> int:
    keys = list(old_letters(now=now).values_list("pk", flat=True)[:limit])
    deleted, _ = EventDeadLetter.objects.filter(pk__in=keys).delete()
    return deleted


def old_letters(*, now: datetime) -> QuerySet[EventDeadLetter]:
    old = EventDeadLetter.objects.filter(stored_at__lt=retention.cutoff("event_dead_letters", now=now))
    return old.order_by("stored_at", "pk")


def _given(now: datetime, limit: int) -> tuple[UUID, datetime, int]:
    cutoff = retention.cutoff("events", now=now)
    return uuid7.first_at(cutoff), cutoff, limit
