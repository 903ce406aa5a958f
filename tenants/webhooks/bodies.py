"""What a receiver reads: the same bytes at every attempt, since they are signed and stored as jsonb keeps no order."""

import json
from datetime import UTC

from tenants.webhooks.models import WebhookMessage


def webhook_body_of(message: WebhookMessage) -> bytes:
    """`{"type", "timestamp", "data"}`, as Standard Webhooks has it; `data` is the message's payload."""
    document = {
        "type": message.event,
        "timestamp": message.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "data": message.payload,
    }
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def webhook_id(message: WebhookMessage) -> str:
    """The `webhook-id` header: the message's own, the same at every attempt and endpoint; a receiver's dedup key."""
    return f"msg_{message.message_id.hex}"
