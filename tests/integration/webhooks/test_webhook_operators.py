"""Webhooks for operators: the command, the console, encrypting anew, retention, and what `check --deploy` finds."""

import base64
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from dpp_project import encryption, env, retention
from dpp_project.clock import FixedClock
from dpp_project.process_env import ENV
from tenants.webhooks import checks, reach, services, signing_secrets
from tenants.webhooks import retention as webhook_retention
from tenants.webhooks.models import (
    DeliveryStatus,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookMessage,
)
from tests.gear.builders.console import page
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.webhooks import URL, a_delivery, a_message, an_endpoint, registered

pytestmark = [pytest.mark.django_db, pytest.mark.contract("HOOK-07")]

OLD = ENV.DPP_ENCRYPTION_KEYS[0]
NEW = base64.b64encode(b"n" * env.ENCRYPTION_KEY_BYTES).decode()
OTHER = base64.b64encode(b"o" * env.ENCRYPTION_KEY_BYTES).decode()
DAY = timedelta(days=1)
HELD, FAILED = DeliveryStatus.HELD, DeliveryStatus.FAILED


def keyed(monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    monkeypatch.setattr(encryption, "ENV", ENV.model_copy(update={"DPP_ENCRYPTION_KEYS": [*keys]}))


def command(*arguments: str) -> Any:
    out = io.StringIO()
    call_command("webhooks", *arguments, "--json", stdout=out, stderr=io.StringIO())
    return json.loads(out.getvalue())


def test_hook_07_the_command_does_what_the_api_does(clock: FixedClock) -> None:
    made = registered()
    name = str(made.endpoint.pk)
    failed = a_delivery(made.endpoint, FAILED)
    assert [one["webhook_id"] for one in command("list", "--tenant", made.endpoint.tenant_id)["webhooks"]] == [name]
    assert command("list", "--tenant", "t_none")["webhooks"] == []
    assert command("pause", name)["status"] == "PAUSED"
    assert command("resume", name, "--dry-run")["status"] == "ENABLED"
    assert command("show", name)["status"] == "PAUSED"
    assert command("resume", name)["status"] == "ENABLED"
    assert command("redeliver", str(failed.pk))["status"] == "PENDING"
    WebhookDelivery.objects.filter(pk=failed.pk).update(status=HELD, next_attempt_at=None)
    recovered = command("recover", name, "--since", (clock.now() - DAY).isoformat())
    assert (recovered["status"], recovered["deliveries"]) == ("ENABLED", 1)
    assert [one["delivery_id"] for one in command("show", name)["deliveries"]] == [str(failed.pk)]
    assert command("rotate", name, "--dry-run")["secret"] is None
    assert signing_secrets.live(made.endpoint.pk, now=clock.now()) == [made.secret]
    secret = command("rotate", name)["secret"]
    assert signing_secrets.live(made.endpoint.pk, now=clock.now()) == [secret, made.secret]


@pytest.mark.parametrize(
    ("hosts", "https", "found"), [(None, "on", 0), ("a=127.0.0.1:1", "off", 0), ("a=127.0.0.1:1", "on", 1)]
)
def test_hook_06_private_places_in_production_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, hosts: str | None, https: str, found: int
) -> None:
    changed = ENV.model_copy(update={"DPP_WEBHOOK_PRIVATE_HOSTS": hosts, "DPP_HTTPS": https == "on"})
    monkeypatch.setattr(checks, "ENV", changed)
    assert [one.id for one in checks.webhooks_reach_public_places_alone(None)] == ["dpp.W008"] * found


@pytest.mark.contract("HOOK-06")
def test_hook_06_an_exception_that_cannot_be_read_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "ENV", ENV.model_copy(update={"DPP_WEBHOOK_PRIVATE_HOSTS": "a=here:1"}))
    reach.rules.cache_clear()
    with pytest.raises(env.EnvironmentInvalid, match="DPP_WEBHOOK_PRIVATE_HOSTS: 'a=here:1' is not name=address:port"):
        checks.refuse_wrong_hosts()
    reach.rules.cache_clear()


@pytest.mark.contract("HOOK-05")
def test_hook_05_retention_keeps_what_may_still_be_sent_and_lets_the_rest_go(clock: FixedClock) -> None:
    now, old = clock.now(), clock.now() - 30 * DAY - timedelta(seconds=1)
    endpoint = an_endpoint()
    ages = {"old": old, "young": now - 29 * DAY, "very old": now - 36 * DAY}
    rows = {}
    for name, at in ages.items():
        for status in DeliveryStatus:
            rows[name, status] = made = a_delivery(endpoint, status, at=at)
            WebhookDelivery.objects.filter(pk=made.pk).update(created_at=at)
            WebhookAttempt.objects.create(delivery=made, status_code=500, ms=1)
    unwanted, fresh = a_message("t_a", at=old), a_message("t_a", at=now)
    due = webhook_retention.preview(now=now, limit=1_000)
    report = webhook_retention.run_once(now=now, limit=1_000)
    assert report.detail == {"secrets": 0, "deliveries": 7, "messages": 8, "webhooks": 0}
    assert (due.changed, report.changed) == (8, 15)  # the messages are free when their deliveries have gone
    kept = {("old", DeliveryStatus.PENDING), *(("young", status) for status in DeliveryStatus)}
    assert {name for name, row in rows.items() if WebhookDelivery.objects.filter(pk=row.pk).exists()} == kept
    assert {name for name, row in rows.items() if WebhookMessage.objects.filter(pk=row.message_id).exists()} == kept
    assert WebhookAttempt.objects.count() == len(kept)
    assert not WebhookMessage.objects.filter(pk=unwanted.pk).exists()
    assert WebhookMessage.objects.filter(pk=fresh.pk).exists()
    assert webhook_retention.run_once(now=now, limit=1_000).changed == 0


def test_hook_07_deleted_webhooks_and_ended_secrets_go_and_live_ones_stay(clock: FixedClock) -> None:
    tenant = a_tenant()
    lives, gone = registered(tenant), registered(tenant)
    ids: dict[str, Any] = {"tenant_id": tenant.tenant_id, "actor": "test"}
    second = services.rotate(**ids, endpoint_id=lives.endpoint.pk)
    assert isinstance(second, services.Registered)
    services.delete(**ids, endpoint_id=gone.endpoint.pk)
    clock.advance(seconds=DAY.total_seconds())
    report = webhook_retention.run_once(now=clock.now(), limit=1_000)
    assert report.detail == {"secrets": 1, "deliveries": 0, "messages": 0, "webhooks": 0}
    assert signing_secrets.live(lives.endpoint.pk, now=clock.now()) == [second.secret]
    clock.advance(seconds=(29 * DAY).total_seconds() + 1)
    report = webhook_retention.run_once(now=clock.now(), limit=1_000)
    assert report.detail["webhooks"] == 1
    assert list(WebhookEndpoint.objects.values_list("pk", flat=True)) == [lives.endpoint.pk]


def test_hook_07_retention_goes_no_further_than_it_may(clock: FixedClock) -> None:
    endpoint = an_endpoint()
    for _ in range(5):
        WebhookDelivery.objects.filter(pk=a_delivery(endpoint, FAILED, at=clock.now() - 31 * DAY).pk).update(
            created_at=clock.now() - 31 * DAY
        )
    assert webhook_retention.run_once(now=clock.now(), limit=3).changed == 3
    assert WebhookDelivery.objects.count() == 2
    assert retention.periods()["webhook_deliveries"].days == retention.periods()["deleted_webhooks"].days == 30


def test_hook_07_a_url_of_the_console_is_searched_by_its_host(console: Client) -> None:
    made = registered(url=URL)
    assert str(made.endpoint.pk) in page(console, "/admin/webhooks/webhookendpoint/?q=receiver.example")
    assert str(made.endpoint.pk) not in page(console, "/admin/webhooks/webhookendpoint/?q=other.example")
