"""Two at one webhook, or fifty at one tenant: ten are made, two secrets live, and what is held is sent or held."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection

from dpp_project import clock
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants.webhooks import reach, registration, services, signing_secrets
from tenants.webhooks.models import (
    DeliveryStatus,
    EndpointStatus,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookSecret,
)
from tenants.webhooks.services import Registered
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.webhooks import URL, NamesOfTests, a_delivery, an_endpoint, registered
from tests.gear.faults.rivals import one_after_the_other

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("HOOK-07")]


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked up by each as if in a process of its own: within one, a tenant's lookups wait for each other."""
    monkeypatch.setattr(reach, "webhook_network", NamesOfTests)
    monkeypatch.setattr(registration, "_webhook_url_checked_alone", registration._in_turn)
    monkeypatch.setattr(registration, "_turns", threading.BoundedSemaphore(50))


def at_once(count: int, call: Any) -> list[Any]:
    def on_its_own_connection(number: int) -> Any:
        try:
            return call(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(on_its_own_connection, range(count)))


def test_hook_07_fifty_creations_at_once_make_ten() -> None:
    tenant = a_tenant()
    ask = partial(services.create_endpoint, tenant_id=tenant.tenant_id, url=URL, events=["run.failed"], actor="test")
    answers = at_once(50, lambda _number: ask())
    assert sum(isinstance(answer, Registered) for answer in answers) == 10
    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    assert {answer.reason for answer in refused} == {ReasonCode.CONFLICT}
    assert WebhookEndpoint.objects.filter(tenant=tenant).count() == WebhookSecret.objects.count() == 10


def test_hook_07_fifty_creations_under_one_key_make_one() -> None:
    tenant = a_tenant()
    ask = partial(services.create_endpoint, tenant_id=tenant.tenant_id, url=URL, events=["run.failed"], actor="test")
    answers = at_once(50, lambda _number: ask(idempotency_key="the-same-key"))
    assert len({answer.endpoint.pk for answer in answers}) == 1
    assert [answer.is_new for answer in answers].count(True) == 1
    assert [answer.secret for answer in answers].count(None) == 49


def test_hook_07_of_two_rotations_at_once_one_gets_a_secret() -> None:
    made = registered()
    rotate = partial(
        services.rotate_endpoint_secret,
        tenant_id=made.endpoint.tenant_id,
        endpoint_id=made.endpoint.endpoint_id,
        actor="test",
    )
    first, second = one_after_the_other(rotate, rotate)
    assert isinstance(first, Registered)
    assert isinstance(second, Refusal)
    assert signing_secrets.live_secrets(made.endpoint.endpoint_id, now=clock.now()) == [
        first.secret,
        made.secret,
    ]


@pytest.mark.contract("HOOK-05")
def test_hook_05_a_fan_out_that_read_paused_is_waited_for_by_the_resume() -> None:
    """It reads the endpoint FOR SHARE, as transitions.py says: no event is held at a webhook that is enabled."""
    endpoint = an_endpoint()
    ids: dict[str, Any] = {
        "tenant_id": endpoint.tenant_id,
        "endpoint_id": endpoint.endpoint_id,
        "actor": "test",
    }
    services.change_endpoint(**ids, status=EndpointStatus.PAUSED)

    def fan_out() -> WebhookDelivery:
        with connection.cursor() as cursor:
            cursor.execute("SELECT status FROM webhook_endpoint WHERE endpoint_id = %s FOR SHARE", [endpoint.pk])
            assert cursor.fetchone() == ("PAUSED",)
        return a_delivery(endpoint, DeliveryStatus.HELD)

    held, resumed = one_after_the_other(
        fan_out, partial(services.change_endpoint, **ids, status=EndpointStatus.ENABLED)
    )
    assert isinstance(resumed, WebhookEndpoint)
    assert WebhookDelivery.objects.get(pk=held.pk).status == DeliveryStatus.PENDING


@pytest.mark.contract("HOOK-05")
@pytest.mark.parametrize("act", ["pause", "delete", "recover"])
def test_hook_05_an_act_and_a_resume_at_once_come_one_after_the_other(act: str) -> None:
    endpoint = an_endpoint()
    ids: dict[str, Any] = {
        "tenant_id": endpoint.tenant_id,
        "endpoint_id": endpoint.endpoint_id,
        "actor": "test",
    }
    services.change_endpoint(**ids, status=EndpointStatus.PAUSED)
    a_delivery(endpoint, DeliveryStatus.HELD)
    acts: dict[str, Any] = {
        "pause": partial(services.change_endpoint, **ids, status=EndpointStatus.PAUSED),
        "delete": partial(services.delete_endpoint, **ids),
        "recover": partial(services.recover_endpoint, **ids, since=clock.now() - timedelta(days=1)),
    }
    _, answer = one_after_the_other(partial(services.change_endpoint, **ids, status=EndpointStatus.ENABLED), acts[act])
    assert not isinstance(answer, Refusal)
    left = {"pause": "HELD", "delete": "FAILED", "recover": "PENDING"}
    assert list(WebhookDelivery.objects.values_list("status", flat=True)) == [left[act]]
