"""Receives events and handles each once by effect: claim, effect, done; then the message is deleted.

    read       three headers, a JSON object, and the row that it came from; else a dead letter at once
    claim      the ledger's row, made where it is missing, under a token and a lease of 60 s (keeping.py renews it)
    effect     the handler, its follow-up events, DONE where the token still holds, and the event's `handled_at`:
               one transaction. No row: all is rolled back, another consumer has the event
    failure    RETRY_WAIT at a later time, or DEAD with a letter
    delete     the message; a retry first sends a new one, delayed until its time (the ladder)

What a death leaves: before the claim, the message, which comes again; after it, a row PROCESSING until its lease is
over, and the message, or the resend where the message is gone; after the commit, a message whose row is DONE, which
the next consumer deletes. Only the row's `next_retry_at` decides: a message that comes early is made invisible for what
is left and counts nothing, and a ladder's message that was lost is made up for by the resend. So is a row whose message
nobody has. A consumer that loses a claim deletes the message only for DONE and DEAD.

The database away: nothing is received until it answers, no attempt is counted. The queue away: the loop pauses.
"""

import math
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

import structlog
from django.db import connection, connections, transaction

from dpp_project import uuid7
from dpp_project.aws import receipt_handles
from dpp_project.aws.sqs_sender import Sender, SendFailed
from dpp_project.outbox import ledger, letters, messages, metrics, queue
from dpp_project.outbox.descriptors import Event, Handler, NotRetryable
from dpp_project.outbox.keeping import EventLeaseKeeper
from dpp_project.outbox.ledger import Standing
from dpp_project.outbox.letters import LeaseLost
from dpp_project.outbox.messages import LetterReason, Malformed, Received
from dpp_project.outbox.models import OutboxMessage
from dpp_project.outbox.pauses import Pauses
from dpp_project.outbox.policy import POLICY, RetryPolicy
from dpp_project.process_env import ENV
from dpp_project.stores import postgres

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger("dpp.events")

RECEIVED_MAX: Final = 10
VISIBILITY_SECONDS: Final = 30
"""For what is received and waits its turn; a consumer that died keeps a message from the others no longer."""
VISIBILITY_SECONDS_MAX: Final = 43_000
"""SQS takes twelve hours at most."""
TURN_SECONDS: Final = 10
"""What has waited so long behind a slow one is given back, for another consumer."""


class EventConsumer:
    """One thread's. `consume_once` raises what says that the queue or the database is away; `run` pauses for it."""

    def __init__(
        self,
        *,
        url: str,
        sender: "Callable[[], Sender]",
        handlers: Mapping[str, Handler],
        policy: RetryPolicy = POLICY,
        wait_seconds: int = ENV.DPP_SQS_WAIT_SECONDS,
    ) -> None:
        self._url = url
        self._sender = sender
        self._handlers = handlers
        self._policy = policy
        self._wait_seconds = wait_seconds
        self._keeper = EventLeaseKeeper(url)

    def run(self, stop: threading.Event) -> None:
        pauses = Pauses()
        with self._keeper.working(stop):
            while not stop.is_set():
                try:
                    self.consume_once(stop)
                except Exception as error:  # the loop must go on: without it no event is handled
                    pause = pauses.next_seconds(error)
                    log.warning("events wait, the queue or the database is away", pause_seconds=pause, exc_info=error)
                    connections.close_all()
                    stop.wait(pause)
                else:
                    pauses.over()
                    connections.close_all()  # back to the pool, while the queue is asked

    def consume_once(self, stop: threading.Event | None = None) -> int:
        """How many messages were received."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")  # without a database nothing is received, which would count
        connections.close_all()
        waiting = self._received()
        count, began = len(waiting), time.monotonic()
        finished: list[str] = []
        try:
            while waiting and time.monotonic() - began < TURN_SECONDS and not (stop is not None and stop.is_set()):
                message = waiting.pop(0)
                if self._see_to(message):
                    finished.append(message.receipt)
        finally:
            receipt_handles.delete_receipts(self._url, finished)
            receipt_handles.release_receipts(self._url, [message.receipt for message in waiting])
        return count

    def _received(self) -> "list[Received]":
        answer = queue.event_poller().receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=RECEIVED_MAX,
            WaitTimeSeconds=self._wait_seconds,
            VisibilityTimeout=VISIBILITY_SECONDS,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
        )
        return [messages.received_message(message) for message in answer.get("Messages", [])]

    def _see_to(self, message: Received) -> bool:
        """Whether the message is finished, and is to be deleted."""
        try:
            row = _outbox_event_as_written(message)
        except Malformed as wrong:
            return self._refuse(message, wrong)
        token = uuid7.new_uuid7()
        ledger.ensure_row_exists(row.outbox_id)
        retries = ledger.claim(row.outbox_id, token=token)
        if isinstance(retries, Standing):
            return self._not_ours(message, retries)
        with self._keeper.keeping(row.outbox_id, token=token, receipt=message.receipt):
            try:
                return self._handle(message, row, token=token, retries=retries)
            except LeaseLost:
                return self._not_ours(message, ledger.standing(row.outbox_id))

    def _refuse(self, message: Received, wrong: Malformed) -> bool:
        """A row that another consumer works on, or that has ended, is left as it is: this message alone is wrong."""
        token, outbox_id = uuid7.new_uuid7(), message.outbox_id
        if outbox_id is None or not OutboxMessage.objects.filter(pk=outbox_id).exists():
            claimed = None
        else:
            ledger.ensure_row_exists(outbox_id)
            claimed = None if isinstance(ledger.claim(outbox_id, token=token), Standing) else token
        try:
            letters.give_up(message, reason=wrong.reason, detail=str(wrong), token=claimed)
        except LeaseLost:  # this consumer froze for a minute: the message comes again, and finds how the event stands
            return False
        metrics.DELIVERED.labels(outcome="dead").inc()
        return True

    def _not_ours(self, message: Received, standing: Standing) -> bool:
        if standing.has_ended:
            metrics.DELIVERED.labels(outcome="ended").inc()
            return True
        metrics.DELIVERED.labels(outcome="early").inc()
        seconds = min(math.ceil(standing.seconds_left) + 1, VISIBILITY_SECONDS_MAX)
        receipt_handles.keep_receipts(self._url, [message.receipt], seconds=seconds)
        return False

    def _handle(self, message: Received, row: OutboxMessage, *, token: UUID, retries: int) -> bool:
        try:
            age_seconds = self._effect(row, token)
        except LeaseLost:
            raise
        except NotRetryable as refused:
            letters.give_up(message, reason=LetterReason.NOT_RETRYABLE, detail=str(refused), token=token)
            metrics.DELIVERED.labels(outcome="dead").inc()
            return True
        except Exception as error:  # whatever a handler raises is its event's alone
            log.warning("event not handled", outbox_id=str(row.outbox_id), event_type=row.event_type, exc_info=error)
            if postgres.is_away(error):
                return self._hand_back(message, row, token)
            return self._failed(message, row, token=token, retries=retries, error=type(error).__name__)
        metrics.DELIVERED.labels(outcome="done").inc()
        metrics.HANDLED.observe(age_seconds)
        return True

    @transaction.atomic
    def _effect(self, row: OutboxMessage, token: UUID) -> float:
        handler = self._handlers.get(row.event_type)
        if handler is None:  # retried: while releases change, another process may have one
            raise NoHandler(row.event_type)
        handler.handle(
            Event(
                outbox_id=row.outbox_id,
                aggregate_id=row.aggregate_id,
                event_type=row.event_type,
                payload=row.payload,
                tenant_id=row.tenant_id,
            )
        )
        age_seconds = ledger.done(row.outbox_id, token=token)
        if age_seconds is None:
            raise LeaseLost
        return age_seconds

    def _hand_back(self, message: Received, row: OutboxMessage, token: UUID) -> bool:
        """Over a new connection; where there is none either, the row is another's once its lease is over."""
        connection.close()
        ledger.hand_back(row.outbox_id, token=token)
        metrics.DELIVERED.labels(outcome="handed back").inc()
        receipt_handles.keep_receipts(self._url, [message.receipt], seconds=1)
        return False

    def _failed(self, message: Received, row: OutboxMessage, *, token: UUID, retries: int, error: str) -> bool:
        retry = self._policy.after_failure(retries)
        if retry is None:
            letters.give_up(message, reason=LetterReason.RETRIES_EXCEEDED, detail=error, token=token)
            metrics.DELIVERED.labels(outcome="dead").inc()
            return True
        if not ledger.wait(
            row.outbox_id, token=token, retry_count=retry.count, delay_seconds=retry.delay_seconds, error=error
        ):
            raise LeaseLost
        metrics.DELIVERED.labels(outcome="failed").inc()
        try:
            self._sender().send(messages.queue_message_of(row, delay_seconds=retry.delay_seconds))
        except SendFailed as away:
            log.warning("a retry waits in its old message", outbox_id=str(row.outbox_id), exc_info=away)
            receipt_handles.keep_receipts(self._url, [message.receipt], seconds=retry.delay_seconds + 1)
            return False
        return True


class NoHandler(LookupError):  # noqa: N818  named for the finding
    """No app of this release handles the event."""


def _outbox_event_as_written(message: Received) -> OutboxMessage:
    """The event as it was written. What the queue delivered must say the same."""
    headers = messages.event_headers(message)
    payload = messages.event_payload(message)
    row = OutboxMessage.objects.filter(pk=headers.outbox_id).first()
    if row is None:
        raise Malformed(LetterReason.UNKNOWN_EVENT, "the outbox has no such event")
    said = (headers.event_type, headers.aggregate_type, payload)
    if said != (row.event_type, row.aggregate_type, row.payload):
        raise Malformed(LetterReason.NOT_AS_WRITTEN, "headers or body differ from the outbox")
    return row
