"""One message to an address of a hook source, by Standard Webhooks: signed, and sent as tenants' webhooks are.

`webhook-id` is the message's own at every attempt, so a receiver tells a repetition from a second message. What may
have arrived is therefore sent again, as the standard has it.
"""

import asyncio
import json
from datetime import UTC
from typing import Any

from ops.automations.messages.outcomes import Arrived, NotSent, RefusedForGood, SendOutcome, Unclear
from ops.automations.models import AutomationMessage
from ops.automations.notify.messaging import SAID, thread_at_webhook
from ops.automations.reach import Outside
from tenants.webhooks.dispatch import delivery
from tenants.webhooks.dispatch.delivery import SealedLetter

GONE = 410


def webhook_id(message: AutomationMessage) -> str:
    return f"msg_{message.pk.hex}"


def body_of(message: AutomationMessage) -> bytes:
    """The same bytes at every attempt."""
    data: dict[str, Any] = {
        "message": message.number,
        "kind": message.kind,
        "task": None if message.task_id is None else str(message.task_id),
        "thread": thread_at_webhook(message),
        "text": message.body,
        "awaits_answer": message.awaits_answer,
    }
    document = {
        "type": SAID,
        "timestamp": message.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "data": data,
    }
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def send_webhook_message(
    message: AutomationMessage, *, url: str, secrets: tuple[str, ...], outside: Outside, caller: str
) -> SendOutcome:
    letter = SealedLetter(
        url=url,
        webhook_id=webhook_id(message),
        body=body_of(message),
        secrets=secrets,
        tenant_id=caller,
    )
    attempt = delivery.attempt_delivery(letter, rules=outside.rules, network=outside.network, tls=outside.tls)
    made = asyncio.run(attempt)
    if made.is_success:
        return Arrived(letter.webhook_id, thread_at_webhook(message))
    if made.status_code == GONE:
        return RefusedForGood(str(GONE))
    if made.status_code is None:
        return Unclear(made.error)
    return NotSent(str(made.status_code), after_seconds=made.retry_after)
