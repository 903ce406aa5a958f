"""An event as it lies in the queue: the payload as body, three attributes as headers, its tenant as group.

Pure but for the types of SQS. What comes out of the queue may be anything: `event_headers` and `event_payload` say what
is wrong.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from dpp_project.aws.sqs_sender import QueueMessage
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef

LetterReason = EventDeadLetter.Reason
OUTBOX_ID: Final = "outboxId"
EVENT_TYPE: Final = "eventType"
AGGREGATE_TYPE: Final = "aggregateType"


class Malformed(Exception):  # noqa: N818  an outcome
    """This message can never be handled: its reason, and what is wrong with it in words."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHeaders:
    outbox_id: UUID
    event_type: str
    aggregate_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    message_id: str
    receipt: str
    body: str
    attributes: dict[str, str]
    receives: int
    sent_at: datetime | None

    @property
    def outbox_id(self) -> UUID | None:
        try:
            return UUID(self.attributes.get(OUTBOX_ID, ""))
        except ValueError:
            return None


def queue_message_of(row: OutboxMessage, *, delay_seconds: int = 0) -> QueueMessage:
    return QueueMessage(
        json.dumps(row.payload, separators=(",", ":")),
        group=row.tenant_id,
        attributes={
            OUTBOX_ID: str(row.outbox_id),
            EVENT_TYPE: row.event_type,
            AGGREGATE_TYPE: row.aggregate_type,
        },
        delay_seconds=delay_seconds,
    )


def received_message(message: "MessageTypeDef") -> Received:
    system: Any = message.get("Attributes", {})
    sent_ms = system.get("SentTimestamp")
    return Received(
        message_id=message["MessageId"],
        receipt=message["ReceiptHandle"],
        body=message["Body"],
        attributes={
            name: value["StringValue"]
            for name, value in message.get("MessageAttributes", {}).items()
            if "StringValue" in value
        },
        receives=int(system.get("ApproximateReceiveCount", 0)),
        sent_at=None if sent_ms is None else datetime.fromtimestamp(int(sent_ms) / 1_000, tz=UTC),
    )


def event_headers(message: Received) -> EventHeaders:
    missing = [name for name in (OUTBOX_ID, EVENT_TYPE, AGGREGATE_TYPE) if not message.attributes.get(name)]
    if missing:
        raise Malformed(LetterReason.HEADER_MISSING, f"without {', '.join(missing)}")
    outbox_id = message.outbox_id
    if outbox_id is None:
        raise Malformed(LetterReason.HEADER_MISSING, f"{OUTBOX_ID} is no id")
    return EventHeaders(
        outbox_id=outbox_id,
        event_type=message.attributes[EVENT_TYPE],
        aggregate_type=message.attributes[AGGREGATE_TYPE],
    )


def event_payload(message: Received) -> dict[str, Any]:
    try:
        found = json.loads(message.body)
    except (ValueError, RecursionError):
        raise Malformed(LetterReason.NOT_JSON, "the body is no JSON") from None
    if not isinstance(found, dict):
        raise Malformed(LetterReason.NOT_JSON, "the body is no JSON object")
    return found
