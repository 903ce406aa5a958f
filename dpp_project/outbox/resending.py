"""Makes events go out again: claims of dead publishers, events of which nothing was heard, and what a person asks for.

Nothing is sent here. An event becomes PENDING by one statement, and the publisher sends it like any other: so there is
no moment between the decision and the send in which a death could lose it.
"""

from typing import Final
from uuid import UUID

from django.db import connection, transaction

TAKEOVER_SECONDS: Final = 120

_TAKE_OVER: Final = """
UPDATE outbox_message SET status = 'PENDING', processing_owner = NULL, claimed_at = NULL
WHERE outbox_id = ANY (ARRAY (
    SELECT outbox_id FROM outbox_message
    WHERE status = 'PROCESSING' AND claimed_at < now() - make_interval(secs => %s)
    ORDER BY claimed_at LIMIT %s FOR UPDATE SKIP LOCKED))
"""
_OVERDUE: Final = """
UPDATE outbox_message SET status = 'PENDING', next_retry_at = now(), resend_at = NULL
WHERE outbox_id = ANY (ARRAY (
    SELECT outbox_id FROM outbox_message
    WHERE status = 'PUBLISHED' AND handled_at IS NULL AND resend_at <= now()
    ORDER BY resend_at LIMIT %s FOR UPDATE SKIP LOCKED))
"""
_COUNT: Final = """
SELECT count(*) FROM (
    SELECT 1 FROM outbox_message
    WHERE status = 'PROCESSING' AND claimed_at < now() - make_interval(secs => %s)
        OR status = 'PUBLISHED' AND handled_at IS NULL AND resend_at <= now()
    LIMIT %s) AS due
"""
_LEDGER_ANEW: Final = """
UPDATE processed_message
SET status = CASE WHEN %(after)s > 0 THEN 'RETRY_WAIT' ELSE 'PENDING' END, retry_count = 0, last_error = '',
    next_retry_at = CASE WHEN %(after)s > 0 THEN now() + make_interval(secs => %(after)s) END
WHERE outbox_id = %(id)s AND status <> 'PROCESSING'
"""
_OUTBOX_ANEW: Final = """
UPDATE outbox_message
SET status = CASE WHEN status = 'PROCESSING' THEN status ELSE 'PENDING' END,
    next_retry_at = now() + make_interval(secs => %(after)s), retry_count = 0, resend_at = NULL, handled_at = NULL
WHERE outbox_id = %(id)s
"""


def take_over(*, limit: int) -> int:
    """By elapsed time alone: a publisher that lives and is so late finds its claim gone, and says nothing."""
    return _outbox_rows_changed_by(_TAKE_OVER, TAKEOVER_SECONDS, limit)


def send_overdue(*, limit: int) -> int:
    """Whatever the ledger says. The publisher sets the next time: 10 min after the first send, doubling to an hour."""
    return _outbox_rows_changed_by(_OVERDUE, limit)


def count_due(*, limit: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [TAKEOVER_SECONDS, limit])
        return int(cursor.fetchone()[0])


@transaction.atomic
def handle_anew(outbox_id: UUID, *, after_seconds: float = 0) -> bool:
    """The event is to be handled as if it had never been. False, and nothing changed: it is unknown, or at work now.

    Its message may reach a consumer before `after_seconds`; the ledger's row knows when it is due.
    """
    given: dict[str, UUID | float] = {"id": outbox_id, "after": after_seconds}
    with connection.cursor() as cursor:
        cursor.execute("SELECT status FROM processed_message WHERE outbox_id = %(id)s FOR UPDATE", given)
        if (found := cursor.fetchone()) and found[0] == "PROCESSING":
            return False
        cursor.execute(_LEDGER_ANEW, given)
        cursor.execute(_OUTBOX_ANEW, given)
        changed: int = cursor.rowcount
    return changed == 1


def _outbox_rows_changed_by(sql: str, *values: float) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        changed: int = cursor.rowcount
    return changed
