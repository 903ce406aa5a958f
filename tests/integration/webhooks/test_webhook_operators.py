"""Webhooks for operators: the command, the console, encrypting anew, retention, and what `check --deploy` finds."""

import base64
import io
import json
import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dpp_project import clock as clock_module
from dpp_project import encryption, env, retention
from dpp_project.audit.models import AuditEntry
from dpp_project.clock import FixedClock
from dpp_project.process_env import ENV
from tenants.webhooks import checks, encrypting, reach, services, signing_secrets, transitions
from tenants.webhooks import retention as webhook_retention
from tenants.webhooks.dashboard import webhooks_panel
from tenants.webhooks.encrypting import Reencrypted
from tenants.webhooks.models import (
    DeliveryStatus,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookMessage,
    WebhookSecret,
)
from tests.gear.builders.console import page
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.webhooks import URL, URL_SHOWN, a_delivery, a_message, an_endpoint, registered

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
    assert signing_secrets.live_secrets(made.endpoint.pk, now=clock.now()) == [made.secret]
    secret = command("rotate", name)["secret"]
    assert signing_secrets.live_secrets(made.endpoint.pk, now=clock.now()) == [secret, made.secret]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pause", "none"], "no such webhook"),
        (["show"], "no such webhook"),
        (["redeliver", "none"], "no such delivery"),
        (["redeliver", str(uuid.uuid4())], "no such delivery"),
        (["recover", "ID"], "--since: must be a moment with an offset"),
        (["recover", "ID", "--since", "2026-03-01T00:00:00"], "--since: must be a moment with an offset"),
        (["recover", "ID", "--since", "2001-03-01T00:00:00Z"], "30 days"),
        (["list", "--limit", "0"], "--limit"),
    ],
)
def test_hook_07_a_wrong_command_says_why_and_changes_nothing(arguments: list[str], said: str) -> None:
    endpoint = an_endpoint()
    before = list(WebhookEndpoint.objects.values()), AuditEntry.objects.count()
    words = [str(endpoint.pk) if word == "ID" else word for word in arguments]
    with pytest.raises(CommandError, match=re.escape(said)):
        call_command("webhooks", *words, stdout=io.StringIO(), stderr=io.StringIO())
    assert (list(WebhookEndpoint.objects.values()), AuditEntry.objects.count()) == before


def test_hook_07_no_command_and_no_page_shows_a_secret_or_what_follows_a_urls_host(console: Client) -> None:
    made = registered()
    delivery = a_delivery(made.endpoint, FAILED)
    WebhookAttempt.objects.create(delivery=delivery, status_code=503, ms=41)
    out = io.StringIO()
    for arguments in (["list"], ["show", str(made.endpoint.pk)], ["pause", str(made.endpoint.pk), "--dry-run"]):
        call_command("webhooks", *arguments, stdout=out, stderr=out)
        call_command("webhooks", *arguments, "--json", stdout=out, stderr=out)
    shown = out.getvalue()
    for path in (
        "webhooks/webhookendpoint/",
        f"webhooks/webhookendpoint/{made.endpoint.pk}/change/",
        "webhooks/webhookdelivery/",
        f"webhooks/webhookdelivery/{delivery.pk}/change/",
    ):
        shown += page(console, f"/admin/{path}")
    assert made.secret is not None
    for secret in (made.secret.removeprefix("whsec_"), "hunter2", "whsec_"):
        assert secret not in shown
    assert shown.count(URL_SHOWN) >= 6
    assert ">503<" in shown.replace("\n", "").replace(" ", "")
    for path in ("webhooks/webhooksecret/", "webhooks/webhookmessage/"):
        assert console.get(f"/admin/{path}").status_code == 404


@pytest.mark.contract("HOOK-05")
def test_hook_05_the_console_pauses_resumes_recovers_and_sends_again(console: Client) -> None:
    endpoint = an_endpoint()
    a_delivery(endpoint)
    failed = a_delivery(endpoint, FAILED)

    def press(path: str, **values: str) -> None:
        where = f"/admin/webhooks/{path}/"
        assert console.get(where).status_code == 200
        assert console.post(where, values).status_code == 302

    def states() -> list[str]:
        return sorted(WebhookDelivery.objects.values_list("status", flat=True))

    press(f"webhookendpoint/{endpoint.pk}/pause")
    assert states() == ["FAILED", "HELD"]
    press(f"webhookendpoint/{endpoint.pk}/resume")
    assert states() == ["FAILED", "PENDING"]
    press(f"webhookdelivery/{failed.pk}/send_again")
    assert states() == ["PENDING", "PENDING"]
    assert transitions.disable_endpoint(endpoint.pk, reason="410", now=clock_module.now())
    press(f"webhookendpoint/{endpoint.pk}/recover", hours="24")
    assert states() == ["PENDING", "PENDING"]
    assert WebhookEndpoint.objects.get(pk=endpoint.pk).status == "ENABLED"
    acts = AuditEntry.objects.filter(actor="operator:ada", subject=f"webhook {endpoint.pk}").order_by("pk")
    assert [one.act for one in acts] == [
        "webhook paused",
        "webhook resumed",
        "webhook delivery sent again",
        "webhook recovered",
    ]


def test_hook_07_secrets_move_to_the_first_key_and_the_old_one_may_go(
    monkeypatch: pytest.MonkeyPatch, clock: FixedClock
) -> None:
    made = [registered() for _ in range(3)]
    services.rotate_endpoint_secret(tenant_id=made[0].endpoint.tenant_id, endpoint_id=made[0].endpoint.pk, actor="test")

    def live() -> list[list[str]]:
        return [signing_secrets.live_secrets(one.endpoint.pk, now=clock.now()) for one in made]

    before = live()
    keyed(monkeypatch, NEW, OLD)
    assert live() == before
    assert encrypting.reencrypt_secrets(actor="test", dry_run=True) == Reencrypted(4)
    assert signing_secrets.under_older_keys().count() == 4
    assert encrypting.reencrypt_secrets(actor="test") == Reencrypted(4)
    assert encrypting.reencrypt_secrets(actor="test") == Reencrypted(0)
    assert AuditEntry.objects.filter(act="webhook secrets encrypted anew").count() == 1
    keyed(monkeypatch, NEW)
    assert live() == before


def test_hook_07_a_killed_run_has_done_what_it_did_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        registered()
    keyed(monkeypatch, NEW, OLD)
    real, left = signing_secrets.encrypted_anew, [3]

    def dies(row: WebhookSecret) -> bytes:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return real(row)

    monkeypatch.setattr(encrypting, "AT_ONCE", 2)
    monkeypatch.setattr(signing_secrets, "encrypted_anew", dies)
    with pytest.raises(KeyboardInterrupt):
        encrypting.reencrypt_secrets(actor="test")
    assert signing_secrets.under_older_keys().count() == 2
    left[0] = 99
    assert encrypting.reencrypt_secrets(actor="test") == Reencrypted(2)


def test_hook_07_a_secret_that_was_rotated_meanwhile_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    made = registered()
    keyed(monkeypatch, NEW, OLD)
    real = signing_secrets.encrypted_anew

    def overtaken(row: WebhookSecret) -> bytes:
        WebhookSecret.objects.filter(pk=row.pk).update(ciphertext=b"another")
        return real(row)

    monkeypatch.setattr(signing_secrets, "encrypted_anew", overtaken)
    assert encrypting.reencrypt_secrets(actor="test") == Reencrypted(0)
    assert bytes(WebhookSecret.objects.get(endpoint=made.endpoint).ciphertext) == b"another"


def test_hook_07_a_secret_that_no_key_opens_is_named_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    keyed(monkeypatch, OTHER)
    lost = registered().endpoint
    keyed(monkeypatch, OLD)
    registered()
    keyed(monkeypatch, NEW, OLD)
    assert [one.id for one in checks.signing_secrets_can_be_read(None)] == ["dpp.E015"]
    row = WebhookSecret.objects.get(endpoint=lost)
    assert encrypting.reencrypt_secrets(actor="test") == Reencrypted(1, [str(lost.pk)])
    assert bytes(WebhookSecret.objects.get(pk=row.pk).ciphertext) == bytes(row.ciphertext)
    with pytest.raises(SystemExit) as ended:
        call_command("webhooks", "reencrypt", stdout=io.StringIO(), stderr=io.StringIO())
    assert ended.value.code == 1
    keyed(monkeypatch, OTHER, NEW)
    assert checks.signing_secrets_can_be_read(None) == []
    keyed(monkeypatch)
    assert [one.id for one in checks.signing_secrets_can_be_read(None)] == ["dpp.E015"]
    assert [one.id for one in checks.webhooks_can_be_registered(None)] == ["dpp.W009"]


@pytest.mark.contract("HOOK-06")
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
    reach.webhook_rules.cache_clear()
    with pytest.raises(env.EnvironmentInvalid, match="DPP_WEBHOOK_PRIVATE_HOSTS: 'a=here:1' is not name=address:port"):
        checks.refuse_wrong_hosts()
    reach.webhook_rules.cache_clear()


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
    due = webhook_retention.preview_forgetting_webhooks(now=now, limit=1_000)
    report = webhook_retention.forget_old_webhooks(now=now, limit=1_000)
    assert report.detail == {"secrets": 0, "deliveries": 7, "messages": 8, "webhooks": 0}
    assert (due.changed, report.changed) == (8, 15)  # the messages are free when their deliveries have gone
    kept = {("old", DeliveryStatus.PENDING), *(("young", status) for status in DeliveryStatus)}
    assert {name for name, row in rows.items() if WebhookDelivery.objects.filter(pk=row.pk).exists()} == kept
    assert {name for name, row in rows.items() if WebhookMessage.objects.filter(pk=row.message_id).exists()} == kept
    assert WebhookAttempt.objects.count() == len(kept)
    assert not WebhookMessage.objects.filter(pk=unwanted.pk).exists()
    assert WebhookMessage.objects.filter(pk=fresh.pk).exists()
    assert webhook_retention.forget_old_webhooks(now=now, limit=1_000).changed == 0


def test_hook_07_deleted_webhooks_and_ended_secrets_go_and_live_ones_stay(clock: FixedClock) -> None:
    tenant = a_tenant()
    lives, gone = registered(tenant), registered(tenant)
    ids: dict[str, Any] = {"tenant_id": tenant.tenant_id, "actor": "test"}
    second = services.rotate_endpoint_secret(**ids, endpoint_id=lives.endpoint.pk)
    assert isinstance(second, services.Registered)
    services.delete_endpoint(**ids, endpoint_id=gone.endpoint.pk)
    clock.advance(seconds=DAY.total_seconds())
    report = webhook_retention.forget_old_webhooks(now=clock.now(), limit=1_000)
    assert report.detail == {"secrets": 1, "deliveries": 0, "messages": 0, "webhooks": 0}
    assert signing_secrets.live_secrets(lives.endpoint.pk, now=clock.now()) == [second.secret]
    clock.advance(seconds=(29 * DAY).total_seconds() + 1)
    report = webhook_retention.forget_old_webhooks(now=clock.now(), limit=1_000)
    assert report.detail["webhooks"] == 1
    assert list(WebhookEndpoint.objects.values_list("pk", flat=True)) == [lives.endpoint.pk]


@pytest.mark.contract("HOOK-05")
def test_hook_05_a_host_whose_clock_is_ahead_deletes_nothing_young() -> None:
    """Of a webhook's secret, its deliveries and what was said there is no other copy."""
    tenant = a_tenant()
    lives, gone = registered(tenant), registered(tenant)
    ids: dict[str, Any] = {"tenant_id": tenant.tenant_id, "actor": "test"}
    assert isinstance(services.rotate_endpoint_secret(**ids, endpoint_id=lives.endpoint.pk), services.Registered)
    services.delete_endpoint(**ids, endpoint_id=gone.endpoint.pk)
    for status in (HELD, DeliveryStatus.PENDING):
        a_delivery(lives.endpoint, status)
    a_message(tenant.tenant_id)
    with clock_module.use_clock(FixedClock(clock_module.now() + 40 * DAY)) as ahead:
        assert webhook_retention.preview_forgetting_webhooks(now=ahead.now(), limit=1_000).changed == 0
        assert webhook_retention.forget_old_webhooks(now=ahead.now(), limit=1_000).changed == 0
    found = (WebhookSecret, WebhookDelivery, WebhookMessage, WebhookEndpoint)
    assert [table.objects.count() for table in found] == [2, 2, 3, 2]


def test_hook_07_retention_goes_no_further_than_it_may(clock: FixedClock) -> None:
    endpoint = an_endpoint()
    for _ in range(5):
        WebhookDelivery.objects.filter(pk=a_delivery(endpoint, FAILED, at=clock.now() - 31 * DAY).pk).update(
            created_at=clock.now() - 31 * DAY
        )
    assert webhook_retention.forget_old_webhooks(now=clock.now(), limit=3).changed == 3
    assert WebhookDelivery.objects.count() == 2
    assert retention.days_of("webhook_deliveries") == retention.days_of("deleted_webhooks") == 30


def test_hook_07_a_url_of_the_console_is_searched_by_its_host(console: Client) -> None:
    made = registered(url=URL)
    assert str(made.endpoint.pk) in page(console, "/admin/webhooks/webhookendpoint/?q=receiver.example")
    assert str(made.endpoint.pk) not in page(console, "/admin/webhooks/webhookendpoint/?q=other.example")


@pytest.mark.contract("HOOK-05")
def test_hook_05_the_consoles_first_page_names_those_in_trouble(console: Client, clock: FixedClock) -> None:
    well, disabled = an_endpoint(), an_endpoint()
    failing = an_endpoint(consecutive_failures=3, failing_since=clock.now() - DAY)
    for _ in range(2):
        a_delivery(disabled)
    assert transitions.disable_endpoint(disabled.pk, reason="it answered 410 Gone", now=clock.now())
    panel = webhooks_panel()
    assert {one.label: one.value for one in panel.figures} == {
        "Webhooks": "3",
        "Disabled": "1",
        "Paused": "0",
        "Failing": "1",
        "Held": "2",
        "On their way": "0",
    }
    assert [one.label for one in panel.figures if one.is_bad] == ["Disabled"]
    assert [row[1:] for row in panel.rows] == [
        [failing.tenant_id, "enabled", "for 1 d, 3 in a row"],
        [disabled.tenant_id, "disabled", ""],
    ]
    shown = page(console, "/admin/")
    assert str(disabled.pk) in shown
    assert str(well.pk) not in shown
    (link,) = [one.link for one in panel.figures if one.label == "Failing"]
    listed = page(console, link)
    assert str(failing.pk) in listed
    assert str(disabled.pk) not in listed


def test_hook_07_the_console_finds_deliveries_by_each_of_their_ids(console: Client) -> None:
    found, other = a_delivery(an_endpoint()), a_delivery(an_endpoint())
    terms = (found.pk, found.endpoint_id, found.message_id, f"msg_{found.message_id.hex}", found.endpoint.tenant_id)
    for term in terms:
        shown = page(console, f"/admin/webhooks/webhookdelivery/?q={term}")
        assert str(found.pk) in shown, term
        assert str(other.pk) not in shown, term
    assert str(found.pk) not in page(console, "/admin/webhooks/webhookdelivery/?q=t_none")


def test_hook_07_the_console_shows_the_tries_of_a_delivery_by_the_page(console: Client) -> None:
    """Its owner can have it sent again for weeks; all of it at once would be the process's memory."""
    found = a_delivery(registered().endpoint)
    WebhookAttempt.objects.bulk_create(
        WebhookAttempt(delivery=found, status_code=500, ms=70_000 + number) for number in range(120)
    )
    where = f"/admin/webhooks/webhookdelivery/{found.pk}/change/"
    text = page(console, where)
    shown = [number for number in range(120) if str(70_000 + number) in text]
    assert shown == list(range(70, 120))


def test_hook_07_the_tries_of_a_delivery_go_in_batches_too(clock: FixedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_retention, "TRIES_AT_ONCE", 3)
    endpoint = an_endpoint()
    for tries in (0, 8, 2):
        found = a_delivery(endpoint, FAILED)
        WebhookAttempt.objects.bulk_create(WebhookAttempt(delivery=found, status_code=500, ms=1) for _ in range(tries))
    WebhookDelivery.objects.update(created_at=clock.now() - timedelta(days=31))
    assert webhook_retention._delete_deliveries(clock.now(), 10) == 3
    assert WebhookAttempt.objects.count() == 7
    assert WebhookDelivery.objects.exists()
    webhook_retention.forget_old_webhooks(now=clock.now(), limit=100)
    assert not WebhookAttempt.objects.exists()
    assert not WebhookDelivery.objects.exists()
