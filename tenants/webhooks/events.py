"""What the process `events` runs for webhooks."""

import threading

from dpp_project.outbox.events import Loop
from tenants.webhooks.dispatch import sending


def _send(stop: threading.Event) -> None:
    sending.WebhookSender(sending.SenderReach.real()).run(stop)


LOOPS = (Loop("webhooks", _send),)
