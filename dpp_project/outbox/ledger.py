"""The only writer of `processed_message`: one function for each step, each one statement. Ages by the database's clock.

A row is made by `ensure_row_exists` alone. A claim is a token and a lease of 60 s; each step after it names the token,
and finds no row once another consumer has claimed it.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import connection

LEASE_SECONDS: Final = 60

_ENSURE: Final = """
INSERT INTO processed_message (outbox_id, status, retry_count, last_error) VALUES (%s, 'PENDING', 0, '')
ON CONFLICT (outbox_id) DO NOTHING
"""
_CLAIM: Final = """
UPDATE processed_message
SET status = 'PROCESSING', lease_owner = %s, lease_until = now() + make_interval(secs => %s), next_retry_at = NULL
WHERE outbox_id = %s AND (
    status = 'PENDING'
    OR status = 'RETRY_WAIT' AND next_retry_at <= now()
    OR status = 'PROCESSING' AND lease_until < now())
RETURNING retry_count
"""
_CLAIM_ABANDONED: Final = """
UPDATE processed_message SET lease_owner = %s, lease_until = now() + make_interval(secs => %s)
WHERE outbox_id = %s AND status = 'PROCESSING' AND lease_until < now()
RETURNING retry_count
"""
_STANDING: Final = """
SELECT status, coalesce(greatest(0, extract(epoch FROM coalesce(lease_until, next_retry_at) - now())), 0)
FROM processed_message WHERE outbox_id = %s
"""
_MINE: Final = "outbox_id = %s AND lease_owner = %s AND status = 'PROCESSING'"
_RENEW: Final = f"UPDATE processed_message SET lease_until = now() + make_interval(secs => %s) WHERE {_MINE}"  # noqa: S608
_WAIT: Final = f"""
UPDATE processed_message
SET status = 'RETRY_WAIT', lease_owner = NULL, lease_until = NULL, retry_count = %s,
    next_retry_at = now() + make_interval(secs => %s), last_error = %s
WHERE {_MINE}
"""  # noqa: S608
_HAND_BACK: Final = f"""
UPDATE processed_message SET status = 'PENDING', lease_owner = NULL, lease_until = NULL WHERE {_MINE}
"""  # noqa: S608
_END: Final = f"""
WITH ended AS (
    UPDATE processed_message SET status = %s, lease_owner = NULL, lease_until = NULL, last_error = %s
    WHERE {_MINE} RETURNING outbox_id)
UPDATE outbox_message SET handled_at = clock_timestamp() FROM ended WHERE outbox_message.outbox_id = ended.outbox_id
RETURNING extract(epoch FROM clock_timestamp() - created_at)
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Standing:
    """A row that cannot be claimed now: it has ended, or is another's or not due for so long."""

    status: str
    seconds_left: float

    @property
    def has_ended(self) -> bool:
        return self.status in {"DONE", "DEAD"}


def ensure_row_exists(outbox_id: UUID) -> None:
    _rows(_ENSURE, outbox_id)


def claim(outbox_id: UUID, *, token: UUID, only_abandoned: bool = False) -> int | Standing:
    """How often it was retried, where the row is now ours. Abandoned: its consumer died, or lost its database."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_ABANDONED if only_abandoned else _CLAIM, [token, LEASE_SECONDS, outbox_id])
        won = cursor.fetchone()
    return standing(outbox_id) if won is None else int(won[0])


def standing(outbox_id: UUID) -> Standing:
    with connection.cursor() as cursor:
        cursor.execute(_STANDING, [outbox_id])
        status, left = cursor.fetchone()
    return Standing(status, float(left))


def renew(outbox_id: UUID, *, token: UUID) -> bool:
    return _rows(_RENEW, LEASE_SECONDS, outbox_id, token) == 1


def wait(outbox_id: UUID, *, token: UUID, retry_count: int, delay_seconds: float, error: str) -> bool:
    return _rows(_WAIT, retry_count, delay_seconds, error, outbox_id, token) == 1


def hand_back(outbox_id: UUID, *, token: UUID) -> bool:
    """Nothing was tried: no attempt is counted."""
    return _rows(_HAND_BACK, outbox_id, token) == 1


def done(outbox_id: UUID, *, token: UUID) -> float | None:
    """In the transaction of the effect: how old the event is. None: the lease was lost, all must be rolled back."""
    return _end_outbox_ledger_row("DONE", "", outbox_id, token)


def dead(outbox_id: UUID, *, token: UUID, error: str) -> bool:
    """In the transaction of its letter."""
    return _end_outbox_ledger_row("DEAD", error, outbox_id, token) is not None


def _end_outbox_ledger_row(status: str, error: str, outbox_id: UUID, token: UUID) -> float | None:
    with connection.cursor() as cursor:
        cursor.execute(_END, [status, error, outbox_id, token])
        found = cursor.fetchone()
    return None if found is None else float(found[0])


def _rows(sql: str, *values: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        changed: int = cursor.rowcount
    return changed
