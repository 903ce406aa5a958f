"""Empties the dead-letter queue: every letter is stored, then its run is seen to, then the message is deleted (DPP-45).

    store    one row for each run; a message met again, and another of the same run, find it
    decide   in one transaction with the row's outcome:
               first letter of a run still queued    mark the run: the requeuer keeps off, unless it is    REQUEUED
                                                     kept back and woken later
               another, sent after that mark         claim by compare-and-set: everything goes back        REFUNDED
               another, sent before it               nothing: it says nothing about the requeue            as it was
               run started, ended or unknown         nothing                                               KEPT
    act      send the run's message, or finish the claim
    delete   from the queue

A death before the deletion brings the message back: its stored outcome says what was decided, a requeue is sent again
(a message too many does nothing), and an unfinished claim is the reconciler's. Two consumers share the queue; what both
met by chance is decided once, by the row that the first one stored.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db import transaction

from dpp_project.aws import clients, queue_depth, receipt_handles
from dpp_project.jobs.registry import PassReport
from dpp_project.process_env import ENV
from dpp_project.reasons import ReasonCode
from reaper import message_parser, metrics
from reaper.models import RAW_BYTES_MAX, DeadLetter
from reaper.tally import Tally
from runs import transitions
from runs.claims import LOST, Claim
from runs.finish import finalization
from runs.finish.finalization import Committed
from runs.intents import Intent
from runs.models import Run
from runs.submit import wake_worker
from runs.submit.wake_worker import Wakeup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mypy_boto3_sqs.type_defs import MessageTypeDef

ACTOR: Final = "dead-letters"
BATCH: Final = 10
WAIT_SECONDS: Final = 1
"""A receive that does not wait asks some of the queue's servers only, and may find nothing where there is something."""
VISIBILITY_SECONDS: Final = 60
CLOCKS_DIFFER: Final = timedelta(seconds=60)
"""At most, the queue's clock and the database's; what dies of three receives was sent longer before."""


def consume_dead_letters(*, now: datetime, limit: int) -> PassReport:
    del now
    tally = Tally(ACTOR, limit=limit)
    while tally.goes_on():
        messages = _received_dead_letters(tally.room(BATCH), wait_seconds=0 if tally.seen else WAIT_SECONDS)
        if not messages:
            break
        done = []
        for message in messages:
            with tally.each(message["MessageId"]):
                outcome = _see_to(tally, message)
                metrics.DEAD_LETTERS.labels(outcome=outcome).inc()
                tally.noted[outcome.lower()] += 1
                tally.changed += 1
                done.append(message["ReceiptHandle"])
        receipt_handles.delete_receipts(ENV.DPP_DLQ_URL, done)
    return tally.report()


def preview_consuming_dead_letters(*, now: datetime, limit: int) -> PassReport:
    """How many there are; to look at one is to receive it, which is a change."""
    del now
    visible, _ = queue_depth.queue_depth_of(ENV.DPP_DLQ_URL)
    waiting = min(limit, visible)
    return PassReport(seen=waiting, changed=waiting)


def _received_dead_letters(count: int, *, wait_seconds: int) -> "Sequence[MessageTypeDef]":
    answer = clients.sqs_client().receive_message(
        QueueUrl=ENV.DPP_DLQ_URL,
        MaxNumberOfMessages=count,
        WaitTimeSeconds=wait_seconds,
        VisibilityTimeout=VISIBILITY_SECONDS,
        MessageSystemAttributeNames=["All"],
    )
    return answer.get("Messages", [])


def _see_to(tally: Tally, message: "MessageTypeDef") -> str:
    body = message["Body"]
    letter = message_parser.parse_message(body)
    if letter is None:
        _store(message, DeadLetter.Outcome.POISON, raw=body.encode("utf-8", "surrogatepass")[:RAW_BYTES_MAX])
        return DeadLetter.Outcome.POISON
    run = Run.objects.filter(run_id=letter.run_id).first()
    stored, claim = _dead_letter_and_claim(message, letter, run)
    if stored.outcome == DeadLetter.Outcome.REQUEUED and run is not None and run.waits_for_worker:
        wake_worker.send_wakeup(Wakeup.of(run))
    if claim is not None:
        finished = finalization.finish_claim(claim)
        if not isinstance(finished, Committed):
            tally.noted[finished.value] += 1
    return stored.outcome


@transaction.atomic
def _dead_letter_and_claim(
    message: "MessageTypeDef", letter: message_parser.Letter, run: Run | None
) -> tuple[DeadLetter, Claim | None]:
    """Row of the letter and step of the run together: a death leaves both or neither."""
    stored, is_new = _store(message, DeadLetter.Outcome.KEPT, letter=letter)
    if not is_new or run is None or not run.waits_for_worker:
        return stored, None
    claim = None
    if run.dead_lettered_at is None:
        if transitions.mark_dead_lettered(run_id=run.run_id) is not LOST:
            stored.outcome = DeadLetter.Outcome.REQUEUED
    elif _is_of_the_requeue(stored, run) and (claim := _claim_of_dead_lettered_run(run)) is not None:
        stored.outcome = DeadLetter.Outcome.REFUNDED
    stored.save(update_fields=["outcome"])
    return stored, claim


def _is_of_the_requeue(stored: DeadLetter, run: Run) -> bool:
    """A run may have had two messages before either died: the second must not end it while its one requeue waits."""
    if stored.sent_at is None or run.dead_lettered_at is None:
        return True
    return stored.sent_at > run.dead_lettered_at - CLOCKS_DIFFER


def _claim_of_dead_lettered_run(run: Run) -> Claim | None:
    intent = Intent.full_refund(
        reason=ReasonCode.DEAD_LETTERED, detail="The run's message failed repeatedly, and so did its one requeue."
    )
    claimed = transitions.claim_dead_lettered(run=run, intent=intent, actor=ACTOR)
    return None if claimed is LOST else claimed.claim


def _store(
    message: "MessageTypeDef", outcome: str, *, letter: message_parser.Letter | None = None, raw: bytes | None = None
) -> tuple[DeadLetter, bool]:
    content = message["Body"].encode("utf-8", "surrogatepass")
    attributes: Mapping[Any, Any] = message.get("Attributes", {})
    values: dict[str, Any] = {
        "outcome": outcome,
        "raw": raw,
        "size_bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "receives": int(attributes.get("ApproximateReceiveCount", 0)),
        "sent_at": _instant(attributes.get("SentTimestamp")),
    }
    message_id = message["MessageId"]
    if letter is None:
        return DeadLetter.objects.get_or_create(message_id=message_id, defaults=values)
    values |= {
        "run_id": letter.run_id,
        "tenant_id": letter.kwargs["tenant_id"],
        "task": letter.task,
        "trace_id": letter.trace_id,
        "kwargs": letter.kwargs,
        "message_id": message_id,
    }
    met = DeadLetter.objects.filter(message_id=message_id, of_run__isnull=True).first()
    if met is not None:
        return met, False  # stored by version 0.1.0, which died before it deleted the message
    # Its lock lets the letters of one run take turns.
    rows = DeadLetter.objects.select_for_update()
    stored, is_new = rows.get_or_create(of_run=letter.run_id, defaults=values)
    if is_new or stored.message_id == message_id:
        return stored, is_new
    del values["outcome"]
    for name, value in (values | {"letters": stored.letters + 1}).items():
        setattr(stored, name, value)
    stored.save(update_fields=[*values, "letters"])
    return stored, True


def _instant(milliseconds: str | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(int(milliseconds) / 1_000, tz=UTC)
