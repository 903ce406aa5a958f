"""The states of endpoints and deliveries: each edge one conditional UPDATE, inside the caller's transaction.

The caller holds the endpoint's row (`locked_endpoint`), so that of two acts at once one is the first, and no fan-out
decides by a status that has just changed (it reads the row FOR SHARE). Held is what must not be sent now and must not
be lost:

  PENDING -> HELD       pause, disable: but for those in flight. What was in flight and fails is held by the sender.
  HELD -> PENDING       resume: all. recover: those of messages since a moment, with a whole schedule.
  FAILED -> PENDING     recover, redeliver.
  PENDING, HELD -> FAILED   delete.
  DELIVERED -> PENDING  redeliver.

A claim asks for an endpoint that is ENABLED and not deleted; a PENDING delivery of another is not sent. So no act has
to move every row: beyond AT_ONCE, what was PENDING stays so and waits, and what is to be let go is marked on the
endpoint (`release_since`) until releasing.py has let go of it all. A death in between leaves the mark.

A process whose clock is ahead puts nothing off: what is sent is due by the database's clock at the latest.
"""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import DateTimeField, Q, QuerySet, Value
from django.db.models.functions import Least, Now

from tenants.webhooks.models import DeliveryStatus, EndpointStatus, WebhookDelivery, WebhookEndpoint

ENDPOINT_DELETED: Final = "endpoint deleted"
AT_ONCE: Final = 5_000
"""Deliveries that one act or one step moves, in a quarter of a second or so: a million held for a day would take longer
than a statement may, and lock their endpoint for as long. releasing.py does the rest."""
WAITING: Final = (DeliveryStatus.PENDING, DeliveryStatus.HELD)
_EVER: Final = datetime(2000, 1, 1, tzinfo=UTC)
_UNLEASED: Final = {"lease_token": None, "lease_until": None}
_BEHAVES_AS_NEW: Final[dict[str, Any]] = {
    "consecutive_failures": 0,
    "failing_since": None,
    "failed_again_at": None,
    "paused_until": None,
    "last_success_at": None,
    "slow_at": None,
}


def locked_endpoint(endpoint_id: UUID) -> WebhookEndpoint | None:
    """The endpoint's row, under its lock; None for one that is not there or deleted. FOR NO KEY UPDATE: rows that
    refer to it may still be written."""
    rows = WebhookEndpoint.objects.select_for_update(no_key=True)
    return rows.filter(endpoint_id=endpoint_id, deleted_at__isnull=True).first()


def pause_endpoint(endpoint_id: UUID, *, now: datetime) -> bool:
    return _set_aside(endpoint_id, EndpointStatus.PAUSED, "", now=now)


def disable_endpoint(endpoint_id: UUID, *, reason: str, now: datetime) -> bool:
    """By the sender: after 5 days of failing, or when the endpoint answered 410."""
    return _set_aside(endpoint_id, EndpointStatus.DISABLED, reason, now=now)


def _set_aside(endpoint_id: UUID, status: EndpointStatus, reason: str, *, now: datetime) -> bool:
    changed = _endpoint(endpoint_id, EndpointStatus.ENABLED).update(
        status=status, reason=reason, release_since=None, release_failed_until=None, updated_at=Now()
    )
    if not changed:
        return False
    in_flight = Q(lease_token__isnull=False, lease_until__gt=not_ahead(now))
    waiting = WebhookDelivery.objects.filter(~in_flight, endpoint_id=endpoint_id, status=DeliveryStatus.PENDING)
    _some(waiting).update(status=DeliveryStatus.HELD, next_attempt_at=None, **_UNLEASED)
    return True


def resume_endpoint(endpoint_id: UUID, *, now: datetime) -> int | None:
    """How many deliveries go out; None where it was not PAUSED. Its record of failures stays; its pause ends."""
    changed = _endpoint(endpoint_id, EndpointStatus.PAUSED).update(
        status=EndpointStatus.ENABLED, reason="", paused_until=None, release_since=_EVER, updated_at=Now()
    )
    return release_some(endpoint_id, now=now) if changed else None


def recover_deliveries(endpoint_id: UUID, *, since: datetime, now: datetime) -> int | None:
    """What was held or failed since then goes out anew, with a whole schedule; None where the endpoint is PAUSED.

    A disabled one is enabled, and treated as a new one until it has answered. What was held before `since` stays held.
    """
    changed = _endpoint(endpoint_id, EndpointStatus.ENABLED, EndpointStatus.DISABLED).update(
        status=EndpointStatus.ENABLED,
        reason="",
        release_since=Least("release_since", Value(since)),  # a resume may not be through yet
        release_failed_until=now,
        updated_at=Now(),
        **_BEHAVES_AS_NEW,
    )
    return release_some(endpoint_id, now=now) if changed else None


def release_some(endpoint_id: UUID, *, now: datetime) -> int:
    """The next of what a resume or a recovery lets go, AT_ONCE at most; with the last of it the mark goes.

    Only what had failed by then: a delivery that fails anew is not let go by the same recovery again.
    """
    endpoint = _endpoint(endpoint_id, EndpointStatus.ENABLED).filter(release_since__isnull=False).first()
    if endpoint is None:
        return 0
    wanted, anew = Q(status=DeliveryStatus.HELD), {}
    if endpoint.release_failed_until is not None:
        wanted |= Q(status=DeliveryStatus.FAILED, ended_at__lte=endpoint.release_failed_until)
        anew = {"attempts": 0}
    waiting = WebhookDelivery.objects.filter(wanted, endpoint_id=endpoint_id, message__at__gte=endpoint.release_since)
    released = _send_anew(_some(waiting), now=now, **anew)
    if released < AT_ONCE:
        _endpoint(endpoint_id, EndpointStatus.ENABLED).update(release_since=None, release_failed_until=None)
    return released


def redeliver_delivery(delivery_id: UUID, *, now: datetime) -> bool:
    """One that has ended, whichever way; False for one that is still to be sent."""
    ended = [DeliveryStatus.DELIVERED, DeliveryStatus.FAILED]
    found = WebhookDelivery.objects.filter(delivery_id=delivery_id, status__in=ended)
    return _send_anew(found, now=now, attempts=0) == 1


def point_elsewhere(endpoint_id: UUID, *, url: str) -> None:
    """What another URL did says nothing of this one."""
    WebhookEndpoint.objects.filter(endpoint_id=endpoint_id).update(url=url, updated_at=Now(), **_BEHAVES_AS_NEW)


def mark_endpoint_deleted(endpoint_id: UUID, *, now: datetime) -> int:
    """Mark it, and end what was on its way. What is in flight is ended too: its sender finds no row to mark."""
    WebhookEndpoint.objects.filter(endpoint_id=endpoint_id).update(deleted_at=now, updated_at=Now())
    return end_some(endpoint_id, now=now)


def end_some(endpoint_id: UUID, *, now: datetime) -> int:
    """The next of what waits at an endpoint that is deleted, AT_ONCE at most. None of it is sent meanwhile."""
    waiting = WebhookDelivery.objects.filter(
        endpoint_id=endpoint_id, endpoint__deleted_at__isnull=False, status__in=WAITING
    )
    return _some(waiting).update(
        status=DeliveryStatus.FAILED, reason=ENDPOINT_DELETED, next_attempt_at=None, ended_at=now, **_UNLEASED
    )


def _some(deliveries: QuerySet[WebhookDelivery]) -> QuerySet[WebhookDelivery]:
    return WebhookDelivery.objects.filter(pk__in=deliveries.order_by().values("pk")[:AT_ONCE])


def _endpoint(endpoint_id: UUID, *statuses: EndpointStatus) -> QuerySet[WebhookEndpoint]:
    return WebhookEndpoint.objects.filter(endpoint_id=endpoint_id, status__in=statuses, deleted_at__isnull=True)


def _send_anew(deliveries: QuerySet[WebhookDelivery], *, now: datetime, **anew: int) -> int:
    return deliveries.update(
        status=DeliveryStatus.PENDING, next_attempt_at=not_ahead(now), ended_at=None, reason="", **_UNLEASED, **anew
    )


def not_ahead(now: datetime) -> Least:
    return Least(Value(now), Now(), output_field=DateTimeField())
