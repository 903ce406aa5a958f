from datetime import datetime

from django.db.models import Q, QuerySet

from dpp_project import uuid7
from dpp_project.constants import RETENTION_DAYS
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage
from dpp_project.retention import DAILY, Clearing, DataKind


def _ended_events(cutoff: datetime) -> QuerySet[OutboxMessage]:
    """One of which nothing was heard stays. An id holds the time of its writing: the primary key finds the old."""
    handled = Q(status=OutboxMessage.Status.PUBLISHED, handled_at__lt=cutoff)
    never_sent = Q(status=OutboxMessage.Status.DEAD)
    return OutboxMessage.objects.filter(handled | never_sent, outbox_id__lt=uuid7.first_at(cutoff))


KINDS = (
    DataKind(
        name="events",
        tables=("outbox_message", "processed_message"),
        states="outbox: PENDING, PROCESSING, PUBLISHED, DEAD; ledger: PENDING, PROCESSING, RETRY_WAIT, DONE, DEAD",
        made_by="the statement that makes an event's fact; the ledger's row by the consumer",
        read_by="publisher, consumer, console",
        days=RETENTION_DAYS,
        until="after it was handled, or of one that was never sent after it was written",
        why="After handling; SQS keeps a message for 14, so that one that comes late still finds its ledger row.",
        deleted_by=DAILY,
        clearing=Clearing(rows=_ended_events, order=("outbox_id",), along=("processed_message.outbox_id",)),
    ),
    DataKind(
        name="event_dead_letters",
        tables=("event_dead_letter",),
        states="stored, sent again",
        made_by="consumer, publisher, the job `events_dead_letters`",
        read_by="operators, in the console and by `manage.py events`",
        days=RETENTION_DAYS,
        until="after it was stored",
        why="As long as the event they were for; after that there is nothing left to send again.",
        deleted_by=DAILY,
        clearing=Clearing(
            rows=lambda cutoff: EventDeadLetter.objects.filter(stored_at__lt=cutoff), order=("stored_at", "id")
        ),
    ),
    DataKind(
        name="event_messages",
        queues=("DPP_EVENTS_QUEUE_URL", "DPP_EVENTS_DLQ_URL"),
        states="waiting, received, given up after 100 receives",
        made_by="publisher",
        read_by="consumer, the job `events_dead_letters`",
        days=14,
        until="after it was sent",
        why="As long as SQS keeps any message. The outbox has the event.",
        deleted_by="the consumer once it was handled; SQS itself",
    ),
)
