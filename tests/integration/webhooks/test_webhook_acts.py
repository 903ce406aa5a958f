"""What people do with webhooks: what each act leaves, what it refuses, and that a refusal changes nothing."""

import logging
import uuid
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from dpp_project import encryption
from dpp_project.audit.models import AuditEntry
from dpp_project.clock import FixedClock
from dpp_project.process_env import ENV
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants.webhooks import services, signing_secrets, transitions
from tenants.webhooks.event_names import SUBSCRIBABLE
from tenants.webhooks.models import (
    DeliveryStatus,
    EndpointStatus,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookMessage,
    WebhookSecret,
)
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.webhooks import URL, URL_SHOWN, a_delivery, an_endpoint, registered

pytestmark = [pytest.mark.django_db, pytest.mark.contract("HOOK-07")]

PENDING, HELD = DeliveryStatus.PENDING, DeliveryStatus.HELD
DELIVERED, FAILED = DeliveryStatus.DELIVERED, DeliveryStatus.FAILED


def bad_record(clock: FixedClock) -> dict[str, Any]:
    now = clock.now()
    return {
        "consecutive_failures": 7,
        "failing_since": now - timedelta(days=5),
        "failed_again_at": now - timedelta(days=4),
        "paused_until": now + timedelta(hours=1),
        "last_success_at": now - timedelta(days=6),
        "slow_at": now - timedelta(days=6),
    }


def everything() -> tuple[Any, ...]:
    tables = (WebhookEndpoint, WebhookSecret, WebhookMessage, WebhookDelivery, AuditEntry)
    return tuple(list(table.objects.order_by("pk").values()) for table in tables)


def refused(answer: object, reason: ReasonCode, said: str) -> None:
    assert isinstance(answer, Refusal), answer
    assert (answer.reason, said in answer.detail) == (reason, True), answer


def of(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {"tenant_id": endpoint.tenant_id, "endpoint_id": endpoint.endpoint_id, "actor": "test"}


def states(endpoint: WebhookEndpoint) -> list[str]:
    return sorted(WebhookDelivery.objects.filter(endpoint=endpoint).values_list("status", flat=True))


def test_hook_07_a_secret_is_shown_once_and_lies_encrypted_bound_to_its_endpoint(clock: FixedClock) -> None:
    made, other = registered(), registered()
    assert made.secret is not None
    assert made.secret.startswith("whsec_")
    assert signing_secrets.live_secrets(made.endpoint.endpoint_id, now=clock.now()) == [made.secret]
    row = WebhookSecret.objects.get(endpoint=made.endpoint)
    assert made.secret.removeprefix("whsec_").encode() not in bytes(row.ciphertext)
    WebhookSecret.objects.filter(endpoint=other.endpoint).update(ciphertext=row.ciphertext)
    with pytest.raises(encryption.Unreadable):
        signing_secrets.live_secrets(other.endpoint.endpoint_id, now=clock.now())


def test_hook_07_a_secret_and_the_urls_token_stand_in_no_log_trail_or_repr(
    caplog: pytest.LogCaptureFixture, django_capture_on_commit_callbacks: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    with capture_logs() as said, django_capture_on_commit_callbacks(execute=True):
        made = registered()
        ids: dict[str, Any] = {
            "tenant_id": made.endpoint.tenant_id,
            "endpoint_id": made.endpoint.endpoint_id,
            "actor": "test",
        }
        rotated = services.rotate_endpoint_secret(**ids)
        services.change_endpoint(**ids, url=URL + "2")
    assert isinstance(rotated, services.Registered)
    assert len(said) == 3
    shown = f"{said} {caplog.text} {made!r} {rotated!r} {list(AuditEntry.objects.values())}"
    shown += "".join(f"{row!r} {row}" for table in (WebhookSecret, WebhookEndpoint) for row in table.objects.all())
    for secret in (made.secret, rotated.secret, "hunter2"):
        assert secret is not None
        assert secret.removeprefix("whsec_") not in shown
    assert URL_SHOWN in shown


def test_hook_07_each_act_is_entered_into_the_trail_of_its_tenant(clock: FixedClock) -> None:
    endpoint = registered().endpoint
    ids: dict[str, Any] = {
        "tenant_id": endpoint.tenant_id,
        "endpoint_id": endpoint.endpoint_id,
        "actor": "owner:dpp_abcdefgh",
    }
    ended = a_delivery(endpoint, FAILED)
    services.change_endpoint(**ids, events=["run.upheld"])
    services.change_endpoint(**ids, status=EndpointStatus.PAUSED)
    services.change_endpoint(**ids, status=EndpointStatus.ENABLED)
    services.rotate_endpoint_secret(**ids)
    services.send_test(**ids)
    services.redeliver_webhook(tenant_id=endpoint.tenant_id, delivery_id=ended.delivery_id, actor=ids["actor"])
    services.recover_endpoint(**ids, since=clock.now() - timedelta(days=1))
    services.delete_endpoint(**ids)
    entries = AuditEntry.objects.filter(subject=f"webhook {endpoint.endpoint_id}", tenant_id=endpoint.tenant_id)
    assert [entry.act for entry in entries.order_by("pk")] == [
        "webhook created",
        "webhook changed",
        "webhook paused",
        "webhook resumed",
        "webhook secret rotated",
        "webhook test sent",
        "webhook delivery sent again",
        "webhook recovered",
        "webhook deleted",
    ]
    changed = entries.get(act="webhook changed")
    assert (changed.before, changed.after) == (
        {"events": ["run.completed", "run.failed"]},
        {"events": ["run.upheld"]},
    )
    assert entries.get(act="webhook created").after == {
        "url": URL_SHOWN,
        "events": ["run.completed", "run.failed"],
    }


def test_hook_07_what_stands_so_already_is_left_so_and_entered_nowhere() -> None:
    endpoint = registered().endpoint
    before = everything()
    same = services.change_endpoint(
        tenant_id=endpoint.tenant_id,
        endpoint_id=endpoint.endpoint_id,
        actor="test",
        url=URL,
        events=["run.failed", "run.completed", "run.failed"],
        status=EndpointStatus.ENABLED,
    )
    assert isinstance(same, WebhookEndpoint)
    assert everything() == before


@pytest.mark.parametrize(
    ("events", "said"),
    [([], "at least one"), (["run.begun"], "no event"), (["endpoint.test"], "no event"), (["*"], "no event")],
)
def test_hook_07_events_that_are_none_are_refused(events: list[str], said: str) -> None:
    endpoint = registered().endpoint
    before = everything()
    answers = (
        services.create_endpoint(tenant_id=endpoint.tenant_id, url=URL, events=events, actor="test"),
        services.change_endpoint(
            tenant_id=endpoint.tenant_id, endpoint_id=endpoint.endpoint_id, actor="test", events=events
        ),
    )
    for answer in answers:
        refused(answer, ReasonCode.VALIDATION_FAILED, said)
        assert isinstance(answer, Refusal)
        assert answer.field == "events"
    assert everything() == before
    assert registered(events=SUBSCRIBABLE).endpoint.events == sorted(SUBSCRIBABLE)


def test_hook_07_a_tenant_has_ten_and_a_deleted_one_makes_room() -> None:
    tenant = a_tenant()
    made = [registered(tenant) for _ in range(services.ENDPOINTS_MAX)]
    before = everything()
    one_more: dict[str, Any] = {"tenant_id": tenant.tenant_id, "url": URL, "events": ["run.failed"], "actor": "test"}
    refused(services.create_endpoint(**one_more), ReasonCode.CONFLICT, "at most 10")
    assert everything() == before
    services.delete_endpoint(tenant_id=tenant.tenant_id, endpoint_id=made[3].endpoint.endpoint_id, actor="test")
    assert isinstance(services.create_endpoint(**one_more), services.Registered)
    assert isinstance(services.create_endpoint(**one_more | {"tenant_id": a_tenant().tenant_id}), services.Registered)


def test_hook_07_operators_and_unknown_tenants_have_none() -> None:
    for tenant_id, reason in (("t_operator", ReasonCode.VALIDATION_FAILED), ("t_unheard_of", ReasonCode.NOT_FOUND)):
        answer = services.create_endpoint(tenant_id=tenant_id, url=URL, events=["run.failed"], actor="test")
        refused(answer, reason, tenant_id)
    assert not WebhookEndpoint.objects.exists()


def test_hook_07_the_same_key_is_the_same_webhook_whatever_became_of_it() -> None:
    tenant_id = a_tenant().tenant_id
    asked: dict[str, Any] = {
        "tenant_id": tenant_id,
        "url": URL,
        "events": ["run.failed"],
        "actor": "test",
        "idempotency_key": "k" * 8,
    }
    first = services.create_endpoint(**asked)
    assert isinstance(first, services.Registered)
    ids: dict[str, Any] = {"tenant_id": tenant_id, "endpoint_id": first.endpoint.endpoint_id, "actor": "test"}
    services.change_endpoint(**ids, events=["run.upheld"])
    before = everything()
    again = services.create_endpoint(**asked)
    assert isinstance(again, services.Registered)
    assert (again.endpoint.pk, again.secret, again.is_new) == (first.endpoint.pk, None, False)
    refused(services.create_endpoint(**asked | {"events": ["run.upheld"]}), ReasonCode.IDEMPOTENCY_CONFLICT, "another")
    assert everything() == before
    other = services.create_endpoint(**asked | {"tenant_id": a_tenant().tenant_id})
    assert isinstance(other, services.Registered)
    assert other.is_new
    services.delete_endpoint(**ids)
    before = everything()
    refused(services.create_endpoint(**asked), ReasonCode.CONFLICT, "is deleted")
    assert everything() == before


def test_hook_07_without_encryption_keys_nothing_is_registered_or_rotated(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = registered().endpoint
    monkeypatch.setattr(encryption, "ENV", ENV.model_copy(update={"DPP_ENCRYPTION_KEYS": []}))
    before = everything()
    ids: dict[str, Any] = {"tenant_id": endpoint.tenant_id, "actor": "test"}
    for answer in (
        services.create_endpoint(**ids, url=URL, events=["run.failed"]),
        services.rotate_endpoint_secret(**ids, endpoint_id=endpoint.endpoint_id),
    ):
        refused(answer, ReasonCode.SERVICE_UNAVAILABLE, "not set up")
    assert everything() == before


def test_hook_07_a_rotation_leaves_two_live_for_a_day_and_no_third(clock: FixedClock) -> None:
    made = registered()
    ids: dict[str, Any] = {
        "tenant_id": made.endpoint.tenant_id,
        "endpoint_id": made.endpoint.endpoint_id,
        "actor": "test",
    }
    second = services.rotate_endpoint_secret(**ids)
    assert isinstance(second, services.Registered)
    assert second.secret != made.secret

    def live() -> list[str]:
        return signing_secrets.live_secrets(made.endpoint.endpoint_id, now=clock.now())

    assert live() == [second.secret, made.secret]
    before = everything()
    clock.advance(seconds=timedelta(hours=23, minutes=59, seconds=59).total_seconds())
    refused(services.rotate_endpoint_secret(**ids), ReasonCode.CONFLICT, "until 2026-03-02T12:00:00Z")
    assert everything() == before
    assert live() == [second.secret, made.secret]
    clock.advance(seconds=timedelta(seconds=1).total_seconds())
    assert live() == [second.secret]
    third = services.rotate_endpoint_secret(**ids)
    assert isinstance(third, services.Registered)
    assert live() == [third.secret, second.secret]
    assert WebhookSecret.objects.count() == 2


@pytest.mark.contract("HOOK-05")
def test_hook_05_a_pause_holds_what_waits_and_a_resume_sends_it(clock: FixedClock) -> None:
    endpoint = an_endpoint()
    ids = of(endpoint)
    waits = a_delivery(endpoint, attempts=3)
    dead = a_delivery(endpoint, lease_token=uuid.uuid4(), lease_until=clock.now() - timedelta(seconds=1))
    in_flight = a_delivery(endpoint, lease_token=uuid.uuid4(), lease_until=clock.now() + timedelta(seconds=30))
    a_delivery(endpoint, DELIVERED)
    a_delivery(endpoint, FAILED)
    stranger = a_delivery(an_endpoint())
    paused = services.change_endpoint(**ids, status=EndpointStatus.PAUSED)
    assert isinstance(paused, WebhookEndpoint)
    assert paused.status == EndpointStatus.PAUSED
    assert states(endpoint) == ["DELIVERED", "FAILED", "HELD", "HELD", "PENDING"]
    assert WebhookDelivery.objects.get(pk=in_flight.pk).lease_token == in_flight.lease_token
    assert WebhookDelivery.objects.get(pk=dead.pk).lease_token is None
    a_delivery(endpoint, HELD)  # as the fan-out leaves one
    clock.advance(seconds=timedelta(days=1).total_seconds())
    services.change_endpoint(**ids, status=EndpointStatus.ENABLED)
    assert states(endpoint) == ["DELIVERED", "FAILED", "PENDING", "PENDING", "PENDING", "PENDING"]
    sent = WebhookDelivery.objects.get(pk=waits.pk)
    assert (sent.next_attempt_at, sent.attempts) == (clock.now(), 3)
    assert WebhookDelivery.objects.get(pk=stranger.pk).status == PENDING


@pytest.mark.contract("HOOK-05")
def test_hook_05_a_disabled_one_is_recovered_with_what_it_missed_since(clock: FixedClock) -> None:
    endpoint = an_endpoint(**bad_record(clock))
    assert transitions.locked_endpoint(endpoint.endpoint_id) is not None
    a_delivery(endpoint, at=clock.now() - timedelta(hours=2))
    assert transitions.disable_endpoint(endpoint.endpoint_id, reason="5 days of failing", now=clock.now())
    at = {name: clock.now() - timedelta(days=days) for name, days in (("old", 9), ("edge", 3), ("new", 1))}
    missed = {
        (name, status): a_delivery(endpoint, status, at=at[name], attempts=10)
        for name in at
        for status in (HELD, FAILED, DELIVERED)
    }
    ids = of(endpoint)
    for turn in (EndpointStatus.ENABLED, EndpointStatus.PAUSED):
        before = everything()
        refused(services.change_endpoint(**ids, status=turn, events=["run.upheld"]), ReasonCode.CONFLICT, "recover it")
        assert everything() == before
    answer = services.recover_endpoint(**ids, since=at["edge"])
    assert isinstance(answer, services.Recovered)
    assert answer.deliveries == 5
    row = answer.endpoint
    assert (row.status, row.reason, row.consecutive_failures) == (EndpointStatus.ENABLED, "", 0)
    assert [row.failing_since, row.failed_again_at, row.paused_until, row.last_success_at, row.slow_at] == [None] * 5
    for (name, status), delivery in missed.items():
        delivery.refresh_from_db()
        anew = name != "old" and status != DELIVERED
        assert delivery.status == (PENDING if anew else status), (name, status)
        assert delivery.attempts == (0 if anew else 10)
        assert delivery.next_attempt_at == (clock.now() if anew else None)
    earlier = services.recover_endpoint(**ids, since=at["old"])
    assert isinstance(earlier, services.Recovered)
    assert earlier.deliveries == 2


@pytest.mark.contract("HOOK-05")
def test_hook_05_a_recovery_looks_back_thirty_days_and_not_ahead(clock: FixedClock) -> None:
    endpoint = an_endpoint()
    a_delivery(endpoint, FAILED, at=clock.now() - timedelta(days=30))
    ids = of(endpoint)
    before = everything()
    for wrong in (clock.now() - timedelta(days=30, microseconds=1), clock.now() + timedelta(microseconds=1)):
        answer = services.recover_endpoint(**ids, since=wrong)
        refused(answer, ReasonCode.VALIDATION_FAILED, "30 days")
    assert everything() == before
    services.change_endpoint(**ids, status=EndpointStatus.PAUSED)
    before = everything()
    refused(services.recover_endpoint(**ids, since=clock.now()), ReasonCode.CONFLICT, "resume it first")
    assert everything() == before
    services.change_endpoint(**ids, status=EndpointStatus.ENABLED)
    answer = services.recover_endpoint(**ids, since=clock.now() - timedelta(days=30))
    assert isinstance(answer, services.Recovered)
    assert answer.deliveries == 1


def test_hook_07_another_url_begins_with_a_clean_record_and_the_same_secret(clock: FixedClock) -> None:
    made = registered()
    WebhookEndpoint.objects.filter(pk=made.endpoint.pk).update(**bad_record(clock))
    waits = a_delivery(made.endpoint)
    moved = services.change_endpoint(
        tenant_id=made.endpoint.tenant_id,
        endpoint_id=made.endpoint.endpoint_id,
        actor="test",
        url="https://other.example/hook",
    )
    assert isinstance(moved, WebhookEndpoint)
    assert (moved.url, moved.consecutive_failures, moved.paused_until) == ("https://other.example/hook", 0, None)
    assert (moved.failing_since, moved.failed_again_at, moved.last_success_at, moved.slow_at) == (None,) * 4
    assert signing_secrets.live_secrets(moved.endpoint_id, now=clock.now()) == [made.secret]
    assert WebhookDelivery.objects.get(pk=waits.pk).status == PENDING


def test_hook_07_a_resume_keeps_the_record_and_ends_the_breakers_pause(clock: FixedClock) -> None:
    endpoint = an_endpoint(**bad_record(clock))
    ids = of(endpoint)
    services.change_endpoint(**ids, status=EndpointStatus.PAUSED)
    resumed = services.change_endpoint(**ids, status=EndpointStatus.ENABLED)
    assert isinstance(resumed, WebhookEndpoint)
    assert (resumed.paused_until, resumed.consecutive_failures) == (None, 7)
    assert resumed.failing_since == endpoint.failing_since


def test_hook_07_deleted_means_gone_for_its_owner_and_ended_for_the_sender(clock: FixedClock) -> None:
    endpoint = an_endpoint()
    in_flight = a_delivery(endpoint, lease_token=uuid.uuid4(), lease_until=clock.now() + timedelta(seconds=30))
    held, done = a_delivery(endpoint, HELD), a_delivery(endpoint, DELIVERED)
    ids = of(endpoint)
    assert isinstance(services.delete_endpoint(**ids), WebhookEndpoint)
    for delivery in (in_flight, held):
        delivery.refresh_from_db()
        assert (delivery.status, delivery.reason, delivery.ended_at) == (FAILED, "endpoint deleted", clock.now())
        assert delivery.lease_token is None
    assert WebhookDelivery.objects.get(pk=done.pk).status == DELIVERED
    assert not WebhookSecret.objects.filter(endpoint=endpoint).exists()
    assert signing_secrets.live_secrets(endpoint.endpoint_id, now=clock.now()) == []
    before = everything()
    for answer in (
        services.delete_endpoint(**ids),
        services.change_endpoint(**ids, status=EndpointStatus.PAUSED),
        services.rotate_endpoint_secret(**ids),
        services.send_test(**ids),
        services.recover_endpoint(**ids, since=clock.now()),
        services.redeliver_webhook(tenant_id=endpoint.tenant_id, delivery_id=done.delivery_id, actor="test"),
    ):
        assert isinstance(answer, Refusal)
        assert answer.reason is ReasonCode.NOT_FOUND
    assert everything() == before


def test_hook_07_another_tenants_webhook_is_none(clock: FixedClock) -> None:
    endpoint, stranger = an_endpoint(), a_tenant()
    delivery = a_delivery(endpoint, FAILED)
    ids: dict[str, Any] = {"tenant_id": stranger.tenant_id, "endpoint_id": endpoint.endpoint_id, "actor": "test"}
    before = everything()
    for answer in (
        services.delete_endpoint(**ids),
        services.change_endpoint(**ids, url=URL),
        services.rotate_endpoint_secret(**ids),
        services.send_test(**ids),
        services.recover_endpoint(**ids, since=clock.now()),
        services.redeliver_webhook(tenant_id=stranger.tenant_id, delivery_id=delivery.delivery_id, actor="test"),
    ):
        assert isinstance(answer, Refusal)
        assert answer.reason is ReasonCode.NOT_FOUND
    assert everything() == before


def test_hook_07_a_test_goes_to_its_own_endpoint_on_the_way_of_all_events(clock: FixedClock) -> None:
    tenant = a_tenant()
    endpoint, _beside = an_endpoint(tenant), an_endpoint(tenant)
    ids: dict[str, Any] = {"tenant_id": tenant.tenant_id, "endpoint_id": endpoint.endpoint_id, "actor": "test"}
    sent = services.send_test(**ids)
    assert isinstance(sent, WebhookDelivery)
    (row,) = WebhookDelivery.objects.all()
    assert (row.endpoint_id, row.status, row.next_attempt_at) == (endpoint.endpoint_id, PENDING, clock.now())
    assert (row.message.event, row.message.fanned_out_at) == ("endpoint.test", clock.now())
    services.change_endpoint(**ids, status=EndpointStatus.PAUSED)
    before = everything()
    refused(services.send_test(**ids), ReasonCode.CONFLICT, "resume it first")
    assert everything() == before


@pytest.mark.parametrize("status", [DELIVERED, FAILED])
def test_hook_07_what_has_ended_is_sent_again_under_its_own_id(clock: FixedClock, status: DeliveryStatus) -> None:
    endpoint = an_endpoint()
    ended = a_delivery(endpoint, status, attempts=10)
    clock.advance(seconds=timedelta(hours=1).total_seconds())
    again = services.redeliver_webhook(tenant_id=endpoint.tenant_id, delivery_id=ended.delivery_id, actor="test")
    assert isinstance(again, WebhookDelivery)
    assert (again.pk, again.message_id, again.status, again.attempts) == (ended.pk, ended.message_id, PENDING, 0)
    assert (again.next_attempt_at, again.ended_at, again.reason) == (clock.now(), None, "")
    before = everything()
    on_its_way = services.redeliver_webhook(tenant_id=endpoint.tenant_id, delivery_id=ended.delivery_id, actor="test")
    refused(on_its_way, ReasonCode.CONFLICT, "on its way")
    assert everything() == before


def test_hook_07_nothing_is_sent_again_to_a_webhook_that_is_paused() -> None:
    endpoint = an_endpoint()
    ended = a_delivery(endpoint, FAILED)
    services.change_endpoint(
        tenant_id=endpoint.tenant_id,
        endpoint_id=endpoint.endpoint_id,
        actor="test",
        status=EndpointStatus.PAUSED,
    )
    before = everything()
    answer = services.redeliver_webhook(tenant_id=endpoint.tenant_id, delivery_id=ended.delivery_id, actor="test")
    refused(answer, ReasonCode.CONFLICT, "resume it first")
    assert everything() == before
