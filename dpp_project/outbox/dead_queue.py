"""Empties the queue behind the events': messages that a hundred receives did not finish, which is a net only.

    store    the letter, and in the same transaction the ledger row DEAD, where its last consumer left it PROCESSING
    delete   from the queue

A death in between brings the message back, which finds its letter. One that fails is skipped, and comes back too, when
its minute of invisibility is over: no other waits behind it. A handler that kills its process each time ends here. An
event that waits, or that nobody has begun, comes here by its copies or by an outage (a full disk: Postgres answers, and
no row can be claimed), which is none of its own fault: it goes on by the resend.
"""

from typing import TYPE_CHECKING, Final

from dpp_project import uuid7
from dpp_project.aws import clients, receipt_handles
from dpp_project.jobs import deadline
from dpp_project.jobs.skipped_rows import SkippedRows
from dpp_project.outbox import ledger, letters, messages
from dpp_project.outbox.ledger import Standing
from dpp_project.outbox.messages import LetterReason, Received
from dpp_project.outbox.models import OutboxMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_sqs.type_defs import MessageTypeDef

BATCH: Final = 10
WAIT_SECONDS: Final = 1
"""A receive that does not wait asks some of the queue's servers only, and may find nothing where there is something."""
VISIBILITY_SECONDS: Final = 60
DETAIL: Final = "a hundred receives did not finish it"


def drain_dead_queue(url: str, *, limit: int, skipped: SkippedRows) -> tuple[int, int]:
    """How many were seen, and how many of their events were given up by it. What is skipped stays in the queue."""
    seen = ended = 0
    while seen < limit and not (seen and deadline.is_over()):
        found = _messages_of_dead_queue(url, min(BATCH, limit - seen), wait_seconds=0 if seen else WAIT_SECONDS)
        if not found:
            break
        done = []
        for message in found:
            with skipped.each(message["MessageId"]):
                ended += _see_to(messages.received_message(message))
                done.append(message["ReceiptHandle"])
        receipt_handles.delete_receipts(url, done)
        seen += len(found)
    return seen, ended


def _messages_of_dead_queue(url: str, count: int, *, wait_seconds: int) -> "Sequence[MessageTypeDef]":
    return (
        clients.sqs_client()
        .receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=count,
            WaitTimeSeconds=wait_seconds,
            VisibilityTimeout=VISIBILITY_SECONDS,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
        )
        .get("Messages", [])
    )


def _see_to(message: Received) -> bool:
    outbox_id, token = message.outbox_id, uuid7.new_uuid7()
    claimed = None
    if outbox_id is not None and OutboxMessage.objects.filter(pk=outbox_id).exists():
        ledger.ensure_row_exists(outbox_id)
        standing = ledger.claim(outbox_id, token=token, only_abandoned=True)
        if not isinstance(standing, Standing):
            claimed = token
        elif standing.has_ended:
            return False  # a copy that came late: there is nothing to do for it
    letters.give_up(message, reason=LetterReason.RECEIVED_TOO_OFTEN, detail=DETAIL, token=claimed)
    return claimed is not None
