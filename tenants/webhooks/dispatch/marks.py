"""What an attempt came to, written down: the delivery, the attempt, the endpoint's health, all in one transaction.

The mark is a compare-and-set on the lease's token. Who lost the lease (it ran out and another sender has it; a person
deleted the endpoint, or sent the delivery anew; the database was restored to before it) marks nothing at all. A death
between answer and mark leaves the lease to run out: the message is sent again under the same webhook-id, and its
receiver tells by it.

The endpoint's row is locked first, as everywhere; where it is locked already the mark comes with the next turn, so that
one locked row holds up nobody else's marks.
"""

import enum
import random
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db import connection, transaction

from tenants.webhooks import messages, metrics, transitions
from tenants.webhooks.dispatch import breaker, schedule
from tenants.webhooks.dispatch.breaker import GivenUp, Health
from tenants.webhooks.dispatch.claims import ClaimedDelivery
from tenants.webhooks.dispatch.delivery import AttemptMade
from tenants.webhooks.models import DeliveryStatus, EndpointStatus, WebhookEndpoint

log = structlog.get_logger("dpp.webhooks")

NO_ATTEMPTS_LEFT: Final = "no attempt was answered with success"
_HEALTH: Final = tuple(Health.__slots__)


class Marked(enum.Enum):
    DONE = "done"
    LOST = "lost"  # the lease is another's, or nobody's; nothing was written
    BUSY = "busy"  # the endpoint's row is locked just now; ask again


_LOOK: Final = f"""
SELECT status, statement_timestamp(), {", ".join(_HEALTH)}
  FROM webhook_endpoint WHERE endpoint_id = %s FOR NO KEY UPDATE SKIP LOCKED
"""  # noqa: S608  of constants
_WRITE: Final = f"""
WITH marked AS (
    UPDATE webhook_delivery
       SET status = %(status)s, attempts = attempts + 1, next_attempt_at = %(next_attempt_at)s, reason = %(reason)s,
           ended_at = %(ended_at)s, lease_token = NULL, lease_until = NULL
     WHERE delivery_id = %(delivery_id)s AND lease_token = %(lease_token)s AND status IN ('PENDING', 'HELD')
    RETURNING delivery_id
), tried AS (
    INSERT INTO webhook_attempt (delivery_id, status_code, ms, error)
    SELECT delivery_id, %(status_code)s, %(ms)s, %(error)s FROM marked
), behaved AS (
    UPDATE webhook_endpoint SET {", ".join(f"{name} = %({name})s" for name in _HEALTH)}
     WHERE endpoint_id = %(endpoint_id)s AND EXISTS (SELECT FROM marked)
)
SELECT count(*) FROM marked
"""  # noqa: S608  of constants


def mark_delivery(claimed: ClaimedDelivery, came: AttemptMade) -> Marked:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOOK, [claimed.endpoint_id])
        row = cursor.fetchone()
        if row is None:
            return Marked.BUSY if WebhookEndpoint.objects.filter(pk=claimed.endpoint_id).exists() else Marked.LOST
        status, now, *health = row
        before = Health(**dict(zip(_HEALTH, health, strict=True)))
        given_up = None if came.is_success else breaker.given_up(before, now=now, status_code=came.status_code)
        is_open = status == EndpointStatus.ENABLED and given_up is None
        ends = _delivery_after(claimed, came, now=now, is_open=is_open)
        values = {
            **ends,
            **asdict(_health_after(before, came, now=now)),
            "delivery_id": claimed.delivery_id,
            "lease_token": claimed.lease_token,
            "endpoint_id": claimed.endpoint_id,
            "status_code": came.status_code,
            "ms": came.ms,
            "error": came.error,
        }
        cursor.execute(_WRITE, values)
        (marked,) = cursor.fetchone()
        if not marked:
            return Marked.LOST
        if given_up is not None:
            _disable(claimed, given_up, now=now)
    return Marked.DONE


def _health_after(before: Health, came: AttemptMade, *, now: datetime) -> Health:
    if came.is_success:
        return breaker.after_success(before, now=now, ms=came.ms)
    return breaker.after_failure(
        before, now=now, status_code=came.status_code, retry_after=came.retry_after, ms=came.ms
    )


def _delivery_after(claimed: ClaimedDelivery, came: AttemptMade, *, now: datetime, is_open: bool) -> dict[str, Any]:
    """The delivery's own columns. At an endpoint that was paused or disabled meanwhile it is held, not given up."""
    over = {"next_attempt_at": None, "reason": "", "ended_at": now}
    if came.is_success:
        return over | {"status": DeliveryStatus.DELIVERED.value}
    if not is_open:
        return {"status": DeliveryStatus.HELD.value, "next_attempt_at": None, "reason": "", "ended_at": None}
    wait = schedule.seconds_until_next(
        claimed.attempts + 1,
        chance=random.random(),  # noqa: S311  it only spreads retries
        retry_after=came.retry_after,
    )
    if wait is None:
        return over | {"status": DeliveryStatus.FAILED.value, "reason": NO_ATTEMPTS_LEFT}
    at = now + timedelta(seconds=wait)
    return {"status": DeliveryStatus.PENDING.value, "next_attempt_at": at, "reason": "", "ended_at": None}


def _disable(claimed: ClaimedDelivery, why: GivenUp, *, now: datetime) -> None:
    """In the mark's transaction: what waits is held, and a message goes to the tenant's other endpoints."""
    if not transitions.disable_endpoint(claimed.endpoint_id, reason=why.value, now=now):
        return  # a person paused it meanwhile; it stays with them
    messages.tell_disabled(claimed.endpoint_id)
    transaction.on_commit(lambda: _disabled(claimed, why))


def _disabled(claimed: ClaimedDelivery, why: GivenUp) -> None:
    metrics.ENDPOINTS_DISABLED.labels(why.name.lower()).inc()
    log.info("webhook disabled", endpoint_id=str(claimed.endpoint_id), tenant_id=claimed.tenant_id, reason=why.value)
