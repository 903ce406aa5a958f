"""Sends what is due: claim, send, finalize; each pass at most a hundred, woken by this process's commits or 250 ms.

    claim      PENDING -> PROCESSING under a token of this claim; two publishers share the rows (SKIP LOCKED)
    send       ten a request; a failure of the whole request is the queue's, one of an entry is that message's
    finalize   PUBLISHED, or PENDING at a later time, or DEAD with a letter: where the token still holds

What a death leaves: after the claim, rows that the takeover gives back after 120 s (resending.py); after a send, the
same, and a message that comes twice, which the ledger knows. The queue away, or the database: the loop pauses, 0.25 s
doubling to 30 s, what it claimed is PENDING again and no attempt is counted. What the database did not hear is kept
here and said first once it is back.

Rows are found by their state and time, never "after the last id": ids are given at INSERT and seen at COMMIT, in
another order. Claimed rows leave dead entries in the index, which stay while any snapshot is old; to read all of them
at each look would cost more the longer that lasts. So a walk goes on where its last claim ended, and looks between
walks read the last seconds only. A walk from the beginning comes every five seconds, and finds what was committed late.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import connection, connections, transaction

from dpp_project import uuid7
from dpp_project.aws import sqs_sender
from dpp_project.aws.sqs_sender import ContentRefused, Sender, SendFailed
from dpp_project.outbox import letters, messages, metrics, wakeup
from dpp_project.outbox.models import OutboxMessage
from dpp_project.outbox.pauses import Pauses
from dpp_project.outbox.policy import POLICY, RetryPolicy

log = structlog.get_logger("dpp.events")

CLAIMED_MAX: Final = 100
LOOK_SECONDS: Final = 0.25
WALK_SECONDS: Final = 5.0
RESEND_FIRST_SECONDS: Final = 600
RESEND_MAX_SECONDS: Final = 3_600
_ALWAYS: Final = datetime(1970, 1, 1, tzinfo=UTC)

# An array, and a limit that the planner sees: a join would read the whole table as soon as a generic plan is made.
_CLAIM: Final = f"""
UPDATE outbox_message SET status = 'PROCESSING', processing_owner = %s, claimed_at = now()
WHERE outbox_id = ANY (ARRAY (
    SELECT outbox_id FROM outbox_message
    WHERE status = 'PENDING' AND next_retry_at <= now()
        AND next_retry_at >= coalesce(%s, now() - make_interval(secs => %s))
    ORDER BY next_retry_at LIMIT {CLAIMED_MAX} FOR UPDATE SKIP LOCKED))
RETURNING outbox_id, aggregate_type, event_type, tenant_id, payload, retry_count, next_retry_at
"""  # noqa: S608
_CLAIMED: Final = (
    *("outbox_id", "aggregate_type", "event_type", "tenant_id", "payload", "retry_count", "next_retry_at"),
)
# Only what is PROCESSING has an owner. To say so again would let the planner look through the index of claimed rows,
# whose dead entries it does not count.
_SENT: Final = """
UPDATE outbox_message
SET status = 'PUBLISHED', processing_owner = NULL, claimed_at = NULL, retry_count = 0, last_error = '',
    published_at = coalesce(published_at, now()),
    resend_at = now()
        + least(make_interval(secs => %s), make_interval(secs => %s) + now() - coalesce(published_at, now()))
WHERE outbox_id = ANY(%s) AND processing_owner = %s
"""
_BACK: Final = """
UPDATE outbox_message SET status = 'PENDING', processing_owner = NULL, claimed_at = NULL
WHERE outbox_id = ANY(%s) AND processing_owner = %s
"""
_AGAIN: Final = """
UPDATE outbox_message SET status = 'PENDING', processing_owner = NULL, claimed_at = NULL, retry_count = %s,
    next_retry_at = now() + make_interval(secs => %s), last_error = %s
WHERE outbox_id = %s AND processing_owner = %s
"""
_DEAD: Final = """
UPDATE outbox_message SET status = 'DEAD', processing_owner = NULL, claimed_at = NULL, last_error = %s
WHERE outbox_id = %s AND processing_owner = %s
"""


@dataclass
class PublisherClaim:
    """What one claim holds, and what became of each: the database hears of it at the end."""

    token: UUID
    rows: Sequence[OutboxMessage]
    sent: list[UUID] = field(default_factory=list)
    failed: list[tuple[OutboxMessage, SendFailed]] = field(default_factory=list)
    queue_is_away: SendFailed | None = None

    def unsent(self) -> list[UUID]:
        """Not tried: the queue went away, or a stop came."""
        tried = {*self.sent, *(row.outbox_id for row, _ in self.failed)}
        return [row.outbox_id for row in self.rows if row.outbox_id not in tried]


class Publisher:
    """One thread's. `publish_once` raises what says that the queue or the database is away; `run` pauses for it."""

    def __init__(self, *, sender: Callable[[], Sender], policy: RetryPolicy = POLICY) -> None:
        self._sender = sender
        self._policy = policy
        self._unsaid: PublisherClaim | None = None
        self._walk_at = float("-inf")
        self._from: datetime | None = _ALWAYS
        """Where the next look begins; None: WALK_SECONDS ago."""

    def run(self, stop: threading.Event) -> None:
        pauses = Pauses()
        while not stop.is_set():
            wakeup.publisher_bell().clear()
            try:
                claimed = self.publish_once(stop)
            except Exception as error:  # the loop must go on: without it no event is sent
                pause = pauses.next_seconds(error)
                log.warning("events wait, the queue or the database is away", pause_seconds=pause, exc_info=error)
                connections.close_all()
                stop.wait(pause)
            else:
                pauses.over()
                if claimed < CLAIMED_MAX:
                    connections.close_all()  # back to the pool
                    wakeup.publisher_bell().wait(LOOK_SECONDS)

    def publish_once(self, stop: threading.Event | None = None) -> int:
        """How many were claimed: a full hundred means that there may be more. A stop gives back what is not sent."""
        if self._unsaid is not None:
            self._finalize(self._unsaid)
        claim = self._claim()
        if not claim.rows:
            return 0
        self._unsaid = claim
        self._send(claim, stop or threading.Event())
        self._finalize(claim)
        if claim.queue_is_away is not None:
            raise claim.queue_is_away
        return len(claim.rows)

    def _claim(self) -> PublisherClaim:
        if time.monotonic() - self._walk_at >= WALK_SECONDS:
            self._walk_at, self._from = time.monotonic(), _ALWAYS
        token = uuid7.new_uuid7()
        with connection.cursor() as cursor:
            cursor.execute(_CLAIM, [token, self._from, WALK_SECONDS])
            rows = sorted(
                (_claimed_outbox_message(found) for found in cursor.fetchall()), key=lambda row: row.next_retry_at
            )
        self._from = rows[-1].next_retry_at if len(rows) == CLAIMED_MAX else None
        return PublisherClaim(token, rows)

    def _send(self, claim: PublisherClaim, stop: threading.Event) -> None:
        for start in range(0, len(claim.rows), sqs_sender.BATCH):
            if stop.is_set():
                return
            some = claim.rows[start : start + sqs_sender.BATCH]
            try:
                self._send_some(claim, some)
            except SendFailed as error:
                claim.queue_is_away = error
                return

    def _send_some(self, claim: PublisherClaim, some: Sequence[OutboxMessage]) -> None:
        try:
            failed = self._sender().send_batch([messages.queue_message_of(row) for row in some])
        except ContentRefused as error:
            if len(some) == 1:
                claim.failed.append((some[0], error))
                return
            for row in some:  # too long together, or one of them alone
                self._send_some(claim, [row])
            return
        for at, row in enumerate(some):
            if at in failed:
                claim.failed.append((row, failed[at]))
            else:
                claim.sent.append(row.outbox_id)

    def _finalize(self, claim: PublisherClaim) -> None:
        """In one transaction; steps of a claim that was taken over change nothing."""
        with transaction.atomic(), connection.cursor() as cursor:
            if claim.sent:
                cursor.execute(_SENT, [RESEND_MAX_SECONDS, RESEND_FIRST_SECONDS, claim.sent, claim.token])
            for row, error in claim.failed:
                self._failed(cursor, claim.token, row, error)
            if unsent := claim.unsent():
                cursor.execute(_BACK, [unsent, claim.token])
        self._unsaid = None
        metrics.PUBLISHED.labels(outcome="sent").inc(len(claim.sent))

    def _failed(self, cursor: Any, token: UUID, row: OutboxMessage, error: SendFailed) -> None:
        retry = None if isinstance(error, ContentRefused) else self._policy.after_failure(row.retry_count)
        if retry is not None:
            cursor.execute(_AGAIN, [retry.count, retry.delay_seconds, str(error), row.outbox_id, token])
            metrics.PUBLISHED.labels(outcome="failed").inc()
            return
        cursor.execute(_DEAD, [str(error), row.outbox_id, token])
        if cursor.rowcount:
            letters.record_unsendable_event(row, token=token, detail=str(error))
            metrics.PUBLISHED.labels(outcome="dead").inc()


def _claimed_outbox_message(found: Sequence[Any]) -> OutboxMessage:
    values = dict(zip(_CLAIMED, found, strict=True))
    return OutboxMessage(**values | {"payload": json.loads(values["payload"])})
