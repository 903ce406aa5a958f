"""What people do with webhooks, by API, console and command alike.

Each act is one transaction under the endpoint's row lock (a creation: under its tenant's), entered into the audit trail
with it. A death before the commit leaves nothing, one after it everything; what is on its way is the sender's, which
finds it in the rows. The names of URLs are looked up before the transaction: no lock waits for a name server.

A secret leaves this module once, in the answer to who made it. URLs stand in trail and log without what follows the
host, which may hold a token.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import structlog
from django.db import transaction

from dpp_project import clock, encryption
from dpp_project.audit import trail
from dpp_project.constants import RETENTION_DAYS
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from tenants.models import Tenant
from tenants.scopes import OPERATOR_TENANT_ID
from tenants.webhooks import registration, selectors, signing_secrets, transitions
from tenants.webhooks.event_names import SUBSCRIBABLE, EventName
from tenants.webhooks.models import (
    DeliveryStatus,
    EndpointStatus,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookMessage,
    WebhookSecret,
)

log = structlog.get_logger("dpp.webhooks")

ENDPOINTS_MAX: Final = 10
LOOK_BACK: Final = timedelta(days=RETENTION_DAYS)
ENDPOINT: Final = "endpoint_id"
DELIVERY: Final = "delivery_id"


@dataclass(frozen=True, slots=True)
class Registered:
    """`secret` is shown to its owner now and never again; None where the endpoint stood already."""

    endpoint: WebhookEndpoint
    secret: str | None = field(repr=False)
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class Recovered:
    endpoint: WebhookEndpoint
    deliveries: int


def create_endpoint(
    *, tenant_id: str, url: str, events: Sequence[str], actor: str, idempotency_key: str | None = None
) -> Registered | Refusal:
    """A new endpoint, ENABLED, with its first secret. Under a key that stands already, the endpoint it made.

    A death between commit and answer leaves an endpoint whose secret nobody has seen: the same request again finds it
    by its key, and a rotation makes a secret that its owner sees.
    """
    asked = {"url": url, "events": sorted(set(events))}
    answer = _creation_fault(tenant_id, events) or _made_before(tenant_id, idempotency_key, asked)
    if answer is not None:
        return answer
    checked = registration.checked_url(url, tenant_id=tenant_id)
    if isinstance(checked, Refusal):
        return checked
    with transaction.atomic():
        if Tenant.objects.select_for_update(no_key=True).filter(tenant_id=tenant_id).first() is None:
            return Refusal(ReasonCode.NOT_FOUND, f"there is no tenant {tenant_id}; see list_tenants", "tenant_id")
        if (before := _made_before(tenant_id, idempotency_key, asked)) is not None:
            return before
        if len(selectors.endpoints_of(tenant_id)) >= ENDPOINTS_MAX:
            detail = f"a tenant has at most {ENDPOINTS_MAX} webhooks; delete one, or have one take more events"
            return Refusal(ReasonCode.CONFLICT, detail, "tenant_id")
        endpoint = WebhookEndpoint.objects.create(
            tenant_id=tenant_id,
            url=checked,
            events=asked["events"],
            idempotency_key=idempotency_key,
            asked_for=asked,
        )
        secret = _store_secret(endpoint.endpoint_id)
        _record_webhook_change("webhook created", endpoint, actor, after={"url": checked, "events": asked["events"]})
    return Registered(endpoint, secret)


def _creation_fault(tenant_id: str, events: Sequence[str]) -> Refusal | None:
    if tenant_id == OPERATOR_TENANT_ID:
        return invalid("tenant_id", f"{tenant_id} has no runs to hear of")
    return _events_fault(events) or _keys_fault()


def _made_before(tenant_id: str, key: str | None, asked: dict[str, Any]) -> Registered | Refusal | None:
    if key is None:
        return None
    found = WebhookEndpoint.objects.filter(tenant_id=tenant_id, idempotency_key=key).first()
    if found is None:
        return None
    if found.asked_for != asked:
        return Refusal(ReasonCode.IDEMPOTENCY_CONFLICT, "it stands for another webhook", "idempotency_key")
    if found.deleted_at is not None:
        return Refusal(ReasonCode.CONFLICT, "the webhook that this Idempotency-Key made is deleted; use another key")
    return Registered(found, None, is_new=False)


def change_endpoint(
    *,
    tenant_id: str,
    endpoint_id: uuid.UUID,
    actor: str,
    url: str | None = None,
    events: Sequence[str] | None = None,
    status: EndpointStatus | None = None,
) -> WebhookEndpoint | Refusal:
    """Another URL, other events, paused or resumed. Safe to repeat: what stands so already is left so.

    Another URL begins with a clean record, and with the same secrets. Events that are on their way stay so.
    """
    if events is not None and (fault := _events_fault(events)) is not None:
        return fault
    checked = None if url is None else registration.checked_url(url, tenant_id=tenant_id)
    if isinstance(checked, Refusal):
        return checked
    with transaction.atomic():
        endpoint = _locked_of(tenant_id, endpoint_id)
        if endpoint is None:
            return _no_endpoint()
        wanted: dict[str, Any] = {}
        if checked is not None:
            wanted["url"] = checked
        if events is not None:
            wanted["events"] = sorted(set(events))
        before, after = trail.differing_values({name: getattr(endpoint, name) for name in wanted}, wanted)
        if status is not None and (fault := _turn(endpoint, status, actor)) is not None:
            transaction.set_rollback(True)
            return fault
        if "url" in after:
            transitions.point_elsewhere(endpoint_id, url=after["url"])
        if "events" in after:
            WebhookEndpoint.objects.filter(endpoint_id=endpoint_id).update(events=after["events"])
        if after:
            _record_webhook_change("webhook changed", endpoint, actor, before=before, after=after)
        return WebhookEndpoint.objects.get(endpoint_id=endpoint_id)


def _turn(endpoint: WebhookEndpoint, status: EndpointStatus, actor: str) -> Refusal | None:
    """Pause or resume it. A disabled one is recovered, which asks since when."""
    if status == endpoint.status:
        return None
    if endpoint.status == EndpointStatus.DISABLED:
        detail = "it is DISABLED; recover it, and say since when what it missed is sent"
        return Refusal(ReasonCode.CONFLICT, detail, "status")
    if status == EndpointStatus.PAUSED:
        transitions.pause_endpoint(endpoint.endpoint_id, now=clock.now())
    else:
        transitions.resume_endpoint(endpoint.endpoint_id, now=clock.now())
    act = "webhook paused" if status == EndpointStatus.PAUSED else "webhook resumed"
    _record_webhook_change(act, endpoint, actor, before={"status": endpoint.status}, after={"status": status})
    return None


def delete_endpoint(*, tenant_id: str, endpoint_id: uuid.UUID, actor: str) -> WebhookEndpoint | Refusal:
    """No event goes to it from now on, and what was on its way ends; its secrets are gone."""
    with transaction.atomic():
        endpoint = _locked_of(tenant_id, endpoint_id)
        if endpoint is None:
            return _no_endpoint()
        transitions.mark_endpoint_deleted(endpoint_id, now=clock.now())
        WebhookSecret.objects.filter(endpoint_id=endpoint_id).delete()
        _record_webhook_change(
            "webhook deleted", endpoint, actor, before={"url": endpoint.url, "status": endpoint.status}
        )
    return endpoint


def rotate_endpoint_secret(*, tenant_id: str, endpoint_id: uuid.UUID, actor: str) -> Registered | Refusal:
    """A new secret; the one before it signs beside it for 24 hours. Within those there is no third."""
    if (fault := _keys_fault()) is not None:
        return fault
    with transaction.atomic():
        endpoint = _locked_of(tenant_id, endpoint_id)
        if endpoint is None:
            return _no_endpoint()
        now = clock.now()
        ending = WebhookSecret.objects.filter(endpoint_id=endpoint_id, expires_at__isnull=False)
        if (other := ending.filter(expires_at__gt=now).first()) is not None:
            until = f"{other.expires_at:%Y-%m-%dT%H:%M:%SZ}"
            detail = f"the secret before this one signs until {until}; rotate after that"
            return Refusal(ReasonCode.CONFLICT, detail, ENDPOINT)
        ending.delete()
        ends_at = now + signing_secrets.GRACE
        WebhookSecret.objects.filter(endpoint_id=endpoint_id).update(expires_at=ends_at)
        secret = _store_secret(endpoint_id)
        _record_webhook_change("webhook secret rotated", endpoint, actor, after={"secret_before_ends_at": ends_at})
    return Registered(endpoint, secret)


def send_test(*, tenant_id: str, endpoint_id: uuid.UUID, actor: str) -> WebhookDelivery | Refusal:
    """An `endpoint.test` event for this endpoint alone, on the way that all events go."""
    with transaction.atomic():
        endpoint = _locked_of(tenant_id, endpoint_id)
        if endpoint is None:
            return _no_endpoint()
        if endpoint.status != EndpointStatus.ENABLED:
            return _not_enabled(endpoint)
        now = clock.now()
        message = WebhookMessage.objects.create(
            tenant_id=tenant_id,
            event=EventName.ENDPOINT_TEST,
            key=f"test:{uuid.uuid4()}",
            payload={"endpoint_id": str(endpoint_id), "href": f"/v1/webhooks/{endpoint_id}"},
            at=now,
            fanned_out_at=now,
        )
        delivery = WebhookDelivery.objects.create(
            message=message,
            endpoint=endpoint,
            status=DeliveryStatus.PENDING,
            next_attempt_at=transitions.not_ahead(now),
        )
        delivery.refresh_from_db(fields=["next_attempt_at"])  # of Postgres's clock
        _record_webhook_change("webhook test sent", endpoint, actor, after={"delivery_id": delivery.delivery_id})
    return delivery


def redeliver_webhook(*, tenant_id: str, delivery_id: uuid.UUID, actor: str) -> WebhookDelivery | Refusal:
    """One that has ended, delivered or failed, is sent anew: the same webhook-id, a whole schedule."""
    with transaction.atomic():
        delivery = selectors.delivery_of(tenant_id, delivery_id)
        endpoint = None if delivery is None else transitions.locked_endpoint(delivery.endpoint_id)
        if delivery is None or endpoint is None:
            return Refusal(ReasonCode.NOT_FOUND, "there is no such delivery", DELIVERY)
        if endpoint.status != EndpointStatus.ENABLED:
            return _not_enabled(endpoint)
        if not transitions.redeliver_delivery(delivery_id, now=clock.now()):
            detail = "it is on its way already; only one that is DELIVERED or FAILED is sent again"
            return Refusal(ReasonCode.CONFLICT, detail, DELIVERY)
        after = {"delivery_id": delivery_id, "event": delivery.message.event}
        _record_webhook_change("webhook delivery sent again", endpoint, actor, after=after)
    return selectors.delivery_of(tenant_id, delivery_id) or delivery


def recover_endpoint(*, tenant_id: str, endpoint_id: uuid.UUID, since: datetime, actor: str) -> Recovered | Refusal:
    """All that was held or failed of what happened since then is sent; a disabled endpoint is enabled."""
    now = clock.now()
    if not now - LOOK_BACK <= since <= now:
        return invalid("since", f"must lie in the {LOOK_BACK.days} days before now, as long as events are kept")
    with transaction.atomic():
        endpoint = _locked_of(tenant_id, endpoint_id)
        if endpoint is None:
            return _no_endpoint()
        sent = transitions.recover_deliveries(endpoint_id, since=since, now=now)
        if sent is None:
            return Refusal(ReasonCode.CONFLICT, "it is PAUSED; resume it first, which sends what is held", "status")
        before, after = trail.differing_values({"status": endpoint.status}, {"status": EndpointStatus.ENABLED.value})
        after |= {"since": since, "deliveries": sent}
        _record_webhook_change("webhook recovered", endpoint, actor, before=before, after=after)
    return Recovered(WebhookEndpoint.objects.get(endpoint_id=endpoint_id), sent)


def find_endpoint(endpoint_id: str) -> WebhookEndpoint | Refusal:
    """Of any tenant, for operators."""
    try:
        wanted = uuid.UUID(endpoint_id)
    except ValueError:
        return _no_endpoint()
    return WebhookEndpoint.objects.filter(endpoint_id=wanted, deleted_at__isnull=True).first() or _no_endpoint()


def _locked_of(tenant_id: str, endpoint_id: uuid.UUID) -> WebhookEndpoint | None:
    endpoint = transitions.locked_endpoint(endpoint_id)
    return endpoint if endpoint is not None and endpoint.tenant_id == tenant_id else None


def _store_secret(endpoint_id: uuid.UUID) -> str:
    new = signing_secrets.make_signing_secret(endpoint_id)
    WebhookSecret.objects.create(endpoint_id=endpoint_id, ciphertext=new.ciphertext)
    return new.plaintext


def _events_fault(events: Sequence[str]) -> Refusal | None:
    names = ", ".join(SUBSCRIBABLE)
    if not events:
        return invalid("events", f"at least one is needed, of: {names}")
    wrong = next((event for event in events if event not in SUBSCRIBABLE), None)
    return None if wrong is None else invalid("events", f"{wrong[:64]!r} is no event; choose of: {names}")


def _keys_fault() -> Refusal | None:
    if encryption.is_possible():
        return None
    return Refusal(ReasonCode.SERVICE_UNAVAILABLE, "webhooks are not set up here; ask your operator")


def _no_endpoint() -> Refusal:
    return Refusal(ReasonCode.NOT_FOUND, "there is no such webhook", ENDPOINT)


def _not_enabled(endpoint: WebhookEndpoint) -> Refusal:
    way = "resume" if endpoint.status == EndpointStatus.PAUSED else "recover"
    return Refusal(
        ReasonCode.CONFLICT, f"the webhook is {endpoint.status}, nothing is sent to it; {way} it first", ENDPOINT
    )


def _record_webhook_change(
    act: str,
    endpoint: WebhookEndpoint,
    actor: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    facts = [None if some is None else _without_tokens(some) for some in (before, after)]
    trail.record_in_trail(
        act,
        actor=actor,
        subject=f"webhook {endpoint.endpoint_id}",
        tenant_id=endpoint.tenant_id,
        before=facts[0],
        after=facts[1],
    )
    said = {name: str(value) for name, value in (facts[1] or {}).items()}
    transaction.on_commit(
        partial(log.info, act, actor=actor, tenant_id=endpoint.tenant_id, webhook=str(endpoint.endpoint_id), facts=said)
    )


def _without_tokens(facts: dict[str, Any]) -> dict[str, Any]:
    return facts | ({"url": registration.endpoint_origin(facts["url"])} if "url" in facts else {})
