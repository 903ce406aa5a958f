"""An error's analysis again: when, how often at most, and by which event.

The event's key comes from the error's id, so there is one event for all its analyses: its ledger row is set back to
wait, and its outbox row to be sent, both until the retry is due. An event that retention has deleted is written anew.
"""

from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from dpp_project.outbox import writing
from ops.auth_errors import event_types, transitions
from ops.auth_errors.models import AuthError

DELAYS_SECONDS: Final = (10, 60, 600, 600, 600, 600)

_AGAIN: Final = """
WITH event AS (
    UPDATE outbox_message
       SET status = CASE WHEN status IN ('PUBLISHED', 'DEAD') THEN 'PENDING' ELSE status END,
           handled_at = NULL, resend_at = NULL, retry_count = 0, last_error = '', next_retry_at = %s
     WHERE idempotency_key = %s
 RETURNING outbox_id
), waits AS (
    UPDATE processed_message
       SET status = 'RETRY_WAIT', lease_owner = NULL, lease_until = NULL, retry_count = 0, last_error = '',
           next_retry_at = %s
      FROM event WHERE processed_message.outbox_id = event.outbox_id
)
SELECT outbox_id FROM event
"""


def may_retry(error: AuthError) -> bool:
    return error.retry_count < len(DELAYS_SECONDS)


def send_again(error: AuthError, *, now: datetime) -> None:
    """In the caller's transaction, which holds the row's lock and has asked `may_retry`."""
    due = now + timedelta(seconds=DELAYS_SECONDS[error.retry_count])
    moved = transitions.retry(auth_error_id=error.pk, retry_count=error.retry_count + 1, next_retry_at=due)
    if moved is transitions.StepOutcome.LOST:
        raise RuntimeError("an auth error was moved under its lock")
    if not _send(event_types.ANALYSIS_REQUESTED.key(error.pk), due):
        writing.insert(
            event_types.analysis_requested(
                auth_error_id=error.pk,
                request_id=error.dedup_key,
                occurred_at=error.occurred_at,
                requested_at=now,
                tenant_id=error.tenant_id,
            )
        )


def _send(key: str, due: datetime) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_AGAIN, [due, key, due])
        return cursor.fetchone() is not None
