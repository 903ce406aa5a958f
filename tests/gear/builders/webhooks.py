"""Endpoints, messages and deliveries for tests. No test asks a name server."""

import asyncio
import socket
import threading
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dpp_project import clock
from tenants.models import Tenant
from tenants.webhooks import services
from tenants.webhooks.models import DeliveryStatus, WebhookDelivery, WebhookEndpoint, WebhookMessage
from tenants.webhooks.services import Registered
from tests.gear.builders.tenants import a_tenant

PUBLIC = "93.184.215.14"
URL = "https://receiver.example/hook?token=hunter2"
URL_SHOWN = "https://receiver.example/"


class NamesOfTests:
    """A network that knows a few names and connects to nothing. A name may answer differently each time."""

    def __init__(self, names: Mapping[str, Sequence[str]] | None = None) -> None:
        self.names = {"receiver.example": [PUBLIC], "other.example": [PUBLIC]} | dict(names or {})
        self.asked: list[tuple[str, str]] = []
        self.let_go = threading.Event()
        """Ends the wait for never.example."""

    async def resolve(self, host: str, *, caller: str) -> list[str]:
        self.asked.append((host, caller))
        if host == "never.example":
            while not self.let_go.is_set():  # noqa: ASYNC110  another thread sets it
                await asyncio.sleep(0.01)
        if host not in self.names:
            raise OSError(socket.EAI_NONAME, "no such name")
        return list(self.names[host])

    async def connect(self, address: str, port: int) -> socket.socket:
        raise AssertionError(f"a registration dialled {address}:{port}")


def registered(
    tenant: Tenant | None = None, *, url: str = URL, events: Sequence[str] = ("run.completed", "run.failed")
) -> Registered:
    tenant = tenant or a_tenant()
    made = services.create_endpoint(tenant_id=tenant.tenant_id, url=url, events=events, actor="test")
    assert isinstance(made, Registered)
    return made


def an_endpoint(tenant: Tenant | None = None, **facts: Any) -> WebhookEndpoint:
    """`facts` are what a sender has written to its row since."""
    endpoint = registered(tenant).endpoint
    if facts:
        WebhookEndpoint.objects.filter(pk=endpoint.pk).update(**facts)
        endpoint.refresh_from_db()
    return endpoint


def a_message(tenant_id: str, *, at: datetime | None = None, event: str = "run.completed") -> WebhookMessage:
    return WebhookMessage.objects.create(
        tenant_id=tenant_id,
        event=event,
        key=f"test:{uuid.uuid4()}",
        payload={"run_id": str(uuid.uuid4())},
        at=at or clock.now(),
        fanned_out_at=at or clock.now(),
    )


def a_delivery(
    endpoint: WebhookEndpoint, status: DeliveryStatus = DeliveryStatus.PENDING, **facts: Any
) -> WebhookDelivery:
    at = facts.pop("at", None) or clock.now()
    ends = {"ended_at": at} if status in {DeliveryStatus.DELIVERED, DeliveryStatus.FAILED} else {}
    due = {"next_attempt_at": at} if status is DeliveryStatus.PENDING else {}
    return WebhookDelivery.objects.create(
        message=a_message(endpoint.tenant_id, at=at), endpoint=endpoint, status=status, **ends | due | facts
    )
