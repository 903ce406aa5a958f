"""A tenant with money, a key and a client: what it takes to submit a run over HTTP and to look at every effect."""

import base64
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import Client
from redis import Redis

from budget import entries
from budget.redis import keys as money_keys
from dpp_project.aws import clients
from dpp_project.settings import ENV
from dpp_project.stores import redis
from runs.models import Run, RunInputs
from tenants.models import Tenant
from tenants.scopes import TENANT_SCOPES
from tenants.services import IssuedKey
from tests.gear.builders import recovery
from tests.gear.builders.tenants import ReadyRows, bearer

RUNS = "/v1/runs"
PRICE = "0.2500"
PRICE_MICROS = 250_000


def a_body(**changes: Any) -> dict[str, Any]:
    return {"pack_type": "probe", "inputs": {"sleep_ms": 1}, "reservation": {"max_cost_usd": PRICE}} | changes


def a_request_key() -> str:
    return f"key-{secrets.token_hex(8)}"


@dataclass
class Shop:
    """One tenant's view of the platform, and the truth behind it."""

    tenant: Tenant
    issued: IssuedKey
    client: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def submit(self, body: Any = None, *, key: str | None = None, headers: dict[str, str] | None = None) -> Any:
        sent = {"Idempotency-Key": a_request_key() if key is None else key}
        return self.client.post(
            RUNS,
            data=json.dumps(a_body() if body is None else body),
            content_type="application/json",
            headers=bearer(self.issued) | sent | (headers or {}),
        )

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(path, headers=bearer(self.issued) | headers)

    def cancel(self, run_id: str) -> Any:
        return self.client.post(f"{RUNS}/{run_id}/cancel", headers=bearer(self.issued))

    # The truth.

    def runs(self) -> list[Run]:
        return list(Run.objects.filter(tenant=self.tenant).order_by("created_at"))

    def inputs(self) -> int:
        return RunInputs.objects.filter(run__tenant=self.tenant).count()

    def balance_micros(self) -> int:
        return recovery.balance_micros(self.tenant)

    def holds(self) -> dict[str, int]:
        return recovery.held_micros(self.tenant)

    def redis_keys(self, pattern: str) -> list[str]:
        return sorted(str(key) for key in redis.redis_client().keys(pattern))

    def nothing_happened(self) -> None:
        """No row, no inputs, no hold, no money moved, no message, no mapping, no lock."""
        assert self.runs() == []
        assert self.inputs() == 0
        assert self.holds() == {}
        assert self.balance_micros() == recovery.FUNDS_MICROS
        assert messages() == []
        assert self.redis_keys("idem*") == []


def a_shop(*, submit_rate_per_minute: int = 60_000, poll_rate_per_minute: int = 60_000, opens: bool = False) -> Shop:
    """Its money is there to be held: FUNDS_MICROS of it."""
    rows = ReadyRows()
    tenant_id = rows.tenant(submit_rate_per_minute=submit_rate_per_minute, poll_rate_per_minute=poll_rate_per_minute)
    first = rows.top_up(tenant_id, recovery.FUNDS_MICROS)
    new = rows.key(tenant_id, scopes=TENANT_SCOPES)
    written = recovery.stored_with_money(rows, first, opens=opens)
    return Shop(tenant=written.tenant, issued=IssuedKey(written.key, new.plaintext))


def top_up(tenant: Tenant, micros: int) -> None:
    entered = entries.top_up(
        tenant_id=tenant.tenant_id, amount_micros=micros, reference=secrets.token_hex(8), reason="", actor="test"
    )
    assert isinstance(entered, entries.Entered)
    assert entered.balance_micros is not None


def take_balance_to(tenant: Tenant, micros: int) -> None:
    """What is left to hold, by an adjustment of the difference."""
    entered = entries.adjust_balance(
        tenant_id=tenant.tenant_id,
        amount_micros=micros - recovery.balance_micros(tenant),
        reference=secrets.token_hex(8),
        reason="a test needs it so",
        actor="test",
    )
    assert isinstance(entered, entries.Entered)
    assert entered.balance_micros == micros


def close_money() -> None:
    """As a rebuild does at its beginning, and as a flush leaves it."""
    redis.redis_client().delete(money_keys.EPOCH)


def messages() -> list[dict[str, Any]]:
    """The kwargs of every message in the queue; they are taken out of it."""
    found: list[dict[str, Any]] = []
    queue = clients.sqs_client()
    while some := queue.receive_message(
        QueueUrl=ENV.DPP_QUEUE_URL, MaxNumberOfMessages=10, WaitTimeSeconds=0, VisibilityTimeout=60
    ).get("Messages", []):
        for message in some:
            queue.delete_message(QueueUrl=ENV.DPP_QUEUE_URL, ReceiptHandle=message["ReceiptHandle"])
            document = json.loads(base64.b64decode(message["Body"]))
            found.append(json.loads(base64.b64decode(document["body"]))[1])
    return found


@pytest.fixture
def shop(valkey: Redis, aws: str, transactional_db: None) -> Shop:
    """Open, with money, and with an empty queue."""
    recovery.empty_queues()
    return a_shop(opens=True)


@pytest.fixture
def rich_shop(shop: Shop) -> Shop:
    """For tests that buy in it again and again."""
    top_up(shop.tenant, 10**12)
    return shop
