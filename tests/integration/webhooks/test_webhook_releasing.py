"""Many deliveries are let go in steps: nothing is lost between two, nothing twice, and a pause ends it."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from dpp_project.clock import FixedClock
from dpp_project.jobs import deadline
from tenants.webhooks import releasing, services, transitions
from tenants.webhooks.models import DeliveryStatus, EndpointStatus, WebhookDelivery, WebhookEndpoint
from tests.gear.builders.webhooks import a_delivery, an_endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.contract("HOOK-05")]
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transitions, "AT_ONCE", 2)


def of(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {"tenant_id": endpoint.tenant_id, "endpoint_id": endpoint.endpoint_id, "actor": "test"}


def states(endpoint: WebhookEndpoint) -> dict[str, int]:
    found: dict[str, int] = {}
    for status in WebhookDelivery.objects.filter(endpoint=endpoint).values_list("status", flat=True):
        found[status] = found.get(status, 0) + 1
    return found


def paused(count: int) -> WebhookEndpoint:
    endpoint = an_endpoint()
    services.change_endpoint(**of(endpoint), status=EndpointStatus.PAUSED)
    for _ in range(count):
        a_delivery(endpoint, DeliveryStatus.HELD, attempts=3)
    return endpoint


def test_hook_05_a_process_whose_clock_is_ahead_puts_nothing_off(clock: FixedClock) -> None:
    endpoint = paused(1)
    clock.advance(seconds=10 * 365 * 86_400)
    services.change_endpoint(**of(endpoint), status=EndpointStatus.ENABLED)
    services.send_test(**of(endpoint))
    with connection.cursor() as cursor:
        cursor.execute("SELECT next_attempt_at <= clock_timestamp() FROM webhook_delivery")
        assert cursor.fetchall() == [(True,), (True,)]


def test_hook_07_what_deleted_webhooks_left_is_found_by_indexes(clock: FixedClock) -> None:
    """Of the whole table it would be asked every 30 s, however large that is."""
    endpoint = an_endpoint(deleted_at=clock.now())
    a_delivery(endpoint, DeliveryStatus.HELD)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    plan = releasing._deleted_with_some_waiting().explain()
    assert [name in plan for name in ("idx_webhook_delivery_due", "idx_webhook_delivery_held")] == [True, True], plan


def is_releasing(endpoint: WebhookEndpoint) -> bool:
    return WebhookEndpoint.objects.get(pk=endpoint.pk).release_since is not None


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_hook_05_a_resume_lets_go_of_the_first_and_the_job_of_the_rest(clock: FixedClock, count: int) -> None:
    endpoint, other = paused(count), paused(1)
    services.change_endpoint(**of(endpoint), status=EndpointStatus.ENABLED)
    assert states(endpoint).get("PENDING", 0) == min(count, 2)
    assert is_releasing(endpoint) is (count >= 2)
    assert releasing.release_held_webhooks(now=clock.now(), limit=1_000).changed == max(0, count - 2)
    assert states(endpoint) == ({"PENDING": count} if count else {})
    assert not is_releasing(endpoint)
    assert set(WebhookDelivery.objects.filter(endpoint=endpoint).values_list("attempts", flat=True)) <= {3}
    assert states(other) == {"HELD": 1}
    assert releasing.release_held_webhooks(now=clock.now(), limit=1_000).changed == 0


def test_hook_05_a_pause_in_between_ends_the_release(clock: FixedClock) -> None:
    endpoint = paused(7)
    services.change_endpoint(**of(endpoint), status=EndpointStatus.ENABLED)
    services.change_endpoint(**of(endpoint), status=EndpointStatus.PAUSED)
    assert not is_releasing(endpoint)
    assert releasing.release_held_webhooks(now=clock.now(), limit=1_000).changed == 0
    assert states(endpoint) == {"HELD": 7}
    services.change_endpoint(**of(endpoint), status=EndpointStatus.ENABLED)
    releasing.release_held_webhooks(now=clock.now(), limit=1_000)
    assert states(endpoint) == {"PENDING": 7}


def test_hook_05_a_recovery_lets_go_once_of_what_had_failed_by_then(clock: FixedClock) -> None:
    endpoint = an_endpoint()
    for at in (9 * DAY, DAY):
        for status in (DeliveryStatus.FAILED, DeliveryStatus.HELD):
            for _ in range(3):
                a_delivery(endpoint, status, at=clock.now() - at, attempts=10)
    answer = services.recover_endpoint(**of(endpoint), since=clock.now() - 2 * DAY)
    assert isinstance(answer, services.Recovered)
    assert answer.deliveries == 2
    first = WebhookDelivery.objects.filter(endpoint=endpoint, status="PENDING")
    clock.advance(seconds=60)
    first.update(status="FAILED", next_attempt_at=None, ended_at=clock.now())
    report = releasing.release_held_webhooks(now=clock.now(), limit=1_000)
    assert report.detail == {"released": 4, "ended": 0}
    assert states(endpoint) == {"FAILED": 5, "HELD": 3, "PENDING": 4}
    assert set(WebhookDelivery.objects.filter(status="PENDING").values_list("attempts", flat=True)) == {0}
    assert not is_releasing(endpoint)


def test_hook_05_a_recovery_during_a_resume_leaves_nothing_behind(clock: FixedClock) -> None:
    endpoint = paused(3)
    WebhookDelivery.objects.all()[0].message.__class__.objects.update(at=clock.now() - 9 * DAY)
    services.change_endpoint(**of(endpoint), status=EndpointStatus.ENABLED)
    services.recover_endpoint(**of(endpoint), since=clock.now() - DAY)
    releasing.release_held_webhooks(now=clock.now(), limit=1_000)
    assert states(endpoint) == {"PENDING": 3}


def test_hook_05_a_webhook_whose_release_fails_keeps_no_other_waiting(
    clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison, other = sorted((paused(3), paused(3)), key=lambda one: one.pk)
    for endpoint in (poison, other):
        services.change_endpoint(**of(endpoint), status=EndpointStatus.ENABLED)
    release_some = transitions.release_some

    def fails(endpoint_id: UUID, *, now: datetime) -> int:
        if endpoint_id == poison.pk:
            raise ValueError(endpoint_id)
        return release_some(endpoint_id, now=now)

    with monkeypatch.context() as patched:
        patched.setattr(transitions, "release_some", fails)
        report = releasing.release_held_webhooks(now=clock.now(), limit=1_000)
    assert (report.changed, report.errors) == (1, 1)
    assert report.detail["skipped"] == {str(poison.pk): "ValueError"}
    assert (states(other), is_releasing(poison)) == ({"PENDING": 3}, True)
    assert releasing.release_held_webhooks(now=clock.now(), limit=1_000).changed == 1


def test_hook_05_a_pass_in_which_each_release_fails_ends_in_time(
    clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may wait ten seconds for a lock."""
    for endpoint in (paused(3), paused(3), paused(3)):
        services.change_endpoint(**of(endpoint), status=EndpointStatus.ENABLED)

    def fails(endpoint_id: UUID, *, now: datetime) -> int:
        raise ValueError(endpoint_id)

    with monkeypatch.context() as patched, deadline.within_deadline(deadline.Pass(seconds=0)):
        patched.setattr(transitions, "release_some", fails)
        report = releasing.release_held_webhooks(now=clock.now(), limit=1_000)
    assert (report.changed, report.errors) == (0, 1)
    assert releasing.release_held_webhooks(now=clock.now(), limit=1_000).changed == 3


def test_hook_07_what_a_deletion_left_is_ended(clock: FixedClock) -> None:
    endpoint = paused(3)
    a_delivery(endpoint)
    services.delete_endpoint(**of(endpoint))
    assert states(endpoint)["FAILED"] == 2
    assert releasing.preview_releasing_webhooks(now=clock.now(), limit=10).changed == 1
    assert releasing.release_held_webhooks(now=clock.now(), limit=1_000).detail == {"released": 0, "ended": 2}
    assert states(endpoint) == {"FAILED": 4}
    assert set(WebhookDelivery.objects.values_list("reason", flat=True)) == {"endpoint deleted"}


def test_hook_05_what_a_pause_did_not_move_waits_and_goes_with_the_resume(clock: FixedClock) -> None:
    endpoint = an_endpoint()
    for _ in range(5):
        a_delivery(endpoint)
    services.change_endpoint(**of(endpoint), status=EndpointStatus.PAUSED)
    assert states(endpoint) == {"HELD": 2, "PENDING": 3}  # no claim takes those of a webhook that is paused
    services.change_endpoint(**of(endpoint), status=EndpointStatus.ENABLED)
    releasing.release_held_webhooks(now=clock.now(), limit=1_000)
    assert states(endpoint) == {"PENDING": 5}
