"""Writes an event by the statement that makes its fact: both or neither, wherever the writer dies.

    sql, values = writing.outbox_clause(event, fact="made")
    cursor.execute(f"WITH made AS (INSERT INTO … RETURNING 1), event AS ({sql}) SELECT …", [*fact_values, *values])

The same key again with the same content writes nothing, and with another content raises IntegrityError: the trigger
refuses the change. Nothing here sends a NOTIFY: it would take one lock for the whole database at each commit. The
publisher looks every 250 ms, and is woken at once where it runs in the writer's process.
"""

import json
from typing import Any, Final

from django.db import connection, transaction

from dpp_project import uuid7
from dpp_project.outbox import wakeup
from dpp_project.outbox.descriptors import NewEvent

_COLUMNS: Final = "outbox_id, aggregate_type, aggregate_id, event_type, idempotency_key, tenant_id, payload"
_PLACES: Final = "%s::uuid, %s::text, %s::text, %s::text, %s::text, %s::text, %s::jsonb"
_SAME: Final = (
    " ON CONFLICT (idempotency_key) DO UPDATE SET payload = excluded.payload, event_type = excluded.event_type,"
    " aggregate_type = excluded.aggregate_type, aggregate_id = excluded.aggregate_id, tenant_id = excluded.tenant_id"
    " WHERE (kept.payload, kept.event_type, kept.aggregate_type, kept.aggregate_id, kept.tenant_id) IS DISTINCT FROM"
    " (excluded.payload, excluded.event_type, excluded.aggregate_type, excluded.aggregate_id, excluded.tenant_id)"
)


def outbox_clause(event: NewEvent, *, fact: str) -> tuple[str, list[Any]]:
    """An INSERT for a WITH clause, and its values. It writes once for each row of the clause named `fact`: none, none.

    `fact` is a name in the caller's own text, never something that came from outside.
    """
    values = _outbox_row_values(event)
    return f"INSERT INTO outbox_message AS kept ({_COLUMNS}) SELECT {_PLACES} FROM {fact}{_SAME}", values  # noqa: S608


def insert_event(event: NewEvent) -> None:
    """In the caller's transaction: for a handler, whose event is the follow-up of its own effect."""
    values = _outbox_row_values(event)
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO outbox_message AS kept ({_COLUMNS}) VALUES ({_PLACES}){_SAME}", values)  # noqa: S608
    transaction.on_commit(wakeup.ring_publisher)


def _outbox_row_values(event: NewEvent) -> list[Any]:
    descriptor = event.descriptor
    return [
        uuid7.new_uuid7(),
        descriptor.aggregate_type,
        event.aggregate_id,
        descriptor.event_type,
        descriptor.key(event.aggregate_id),
        event.tenant_id,
        json.dumps(dict(event.payload), allow_nan=False),
    ]
