"""What Postgres itself refuses of endpoints, secrets, messages and deliveries, whoever writes."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from dpp_project import clock
from tenants.webhooks.models import (
    DeliveryStatus,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookMessage,
    WebhookSecret,
)
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.webhooks import a_delivery, a_message, an_endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.contract("HOOK-07")]
NOW = clock.now()


@pytest.mark.parametrize(
    ("facts", "constraint"),
    [
        ({"url": "http://receiver.example/"}, "webhook_endpoint_url_https"),
        ({"url": "https://" + "a" * 2_041}, "webhook_endpoint_url_bounded"),
        ({"url": "https://"}, "webhook_endpoint_url_https"),
        ({"url": "https://receiver.example/a b"}, "webhook_endpoint_url_https"),
        ({"url": "https://receiver.example/\n"}, "webhook_endpoint_url_https"),
        ({"events": []}, "webhook_endpoint_events_known"),
        ({"events": ["run.begun"]}, "webhook_endpoint_events_known"),
        ({"events": ["endpoint.test"]}, "webhook_endpoint_events_known"),
        ({"status": "GONE"}, "webhook_endpoint_status_known"),
        ({"consecutive_failures": 1}, "webhook_endpoint_failing_agrees"),
        ({"failing_since": NOW}, "webhook_endpoint_failing_agrees"),
    ],
)
def test_hook_07_a_malformed_endpoint_is_refused(facts: dict[str, Any], constraint: str) -> None:
    endpoint = an_endpoint()
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        WebhookEndpoint.objects.filter(pk=endpoint.pk).update(**facts)


@pytest.mark.parametrize(
    ("status", "facts", "constraint"),
    [
        ("SENT", {"next_attempt_at": None}, "webhook_delivery_status_known|end_has_a_time"),
        ("PENDING", {"next_attempt_at": None}, "webhook_delivery_pending_is_due"),
        ("HELD", {"next_attempt_at": NOW}, "webhook_delivery_pending_is_due"),
        ("FAILED", {"next_attempt_at": None}, "webhook_delivery_end_has_a_time"),
        ("PENDING", {"ended_at": NOW}, "webhook_delivery_end_has_a_time"),
        ("PENDING", {"lease_until": NOW}, "webhook_delivery_lease_whole"),
    ],
)
def test_hook_07_a_malformed_delivery_is_refused(status: str, facts: dict[str, Any], constraint: str) -> None:
    delivery = a_delivery(an_endpoint())
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        WebhookDelivery.objects.filter(pk=delivery.pk).update(status=status, **facts)


def test_hook_07_a_message_comes_once_and_to_an_endpoint_once() -> None:
    delivery = a_delivery(an_endpoint())
    with pytest.raises(IntegrityError, match="webhook_delivery_once"), transaction.atomic():
        WebhookDelivery.objects.create(message=delivery.message, endpoint=delivery.endpoint, status=DeliveryStatus.HELD)
    with pytest.raises(IntegrityError, match="webhook_message_key_unique"), transaction.atomic():
        WebhookMessage.objects.create(tenant_id="t_a", event="run.failed", key=delivery.message.key, payload={})


def test_hook_07_a_message_needs_no_row_of_any_other_table() -> None:
    """No foreign key and no check: nothing about a webhook can fail the statement of a commit."""
    assert a_message("t_never_was", event="no.such").pk is not None
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT contype FROM pg_constraint WHERE conrelid = 'webhook_message'::regclass AND contype <> 'n'"
        )
        assert sorted(kind for (kind,) in cursor.fetchall()) == ["p", "u"]


def test_hook_07_an_endpoint_has_one_secret_in_use_and_one_that_ends() -> None:
    endpoint = an_endpoint()
    WebhookSecret.objects.create(endpoint=endpoint, ciphertext=b"x", expires_at=NOW)
    for ends_at, constraint in ((None, "webhook_secret_one_in_use"), (NOW, "webhook_secret_one_ends")):
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            WebhookSecret.objects.create(endpoint=endpoint, ciphertext=b"x", expires_at=ends_at)
    assert WebhookSecret.objects.filter(endpoint=endpoint).count() == 2


def test_hook_07_an_attempt_came_to_something() -> None:
    with pytest.raises(IntegrityError, match="webhook_attempt_came_to_something"), transaction.atomic():
        WebhookAttempt.objects.create(delivery=a_delivery(an_endpoint()), ms=3)


def test_hook_07_ids_made_by_the_database_are_of_version_7_and_in_order_of_time() -> None:
    before = clock.now()
    ids = [a_message("t_a").message_id for _ in range(3)]
    assert {one.version for one in ids} == {7}
    assert {one.variant for one in ids} == {"specified in RFC 4122"}
    made = [one.int >> 80 for one in ids]
    assert made == sorted(made)
    assert abs(made[0] - before.timestamp() * 1_000) < 60_000


def test_hook_07_a_tenant_with_webhooks_is_kept() -> None:
    tenant = a_tenant()
    an_endpoint(tenant)
    with pytest.raises(Exception, match="protected"), transaction.atomic():
        tenant.delete()
