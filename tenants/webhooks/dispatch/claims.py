"""Which deliveries go out now, under a lease: where the room is shared out, over all processes.

A lease is live until `lease_until`. In flight are as many as there are live leases:

    at an endpoint       1 where it is new, failing or slow (doubtful), else 4
    of a tenant          8, of them 4 at doubtful endpoints
    at all               64, of them 32 at doubtful endpoints

So whatever hangs has half the room at most, and of it one tenant an eighth. Room that becomes free goes to the tenant
that has the least in flight. An endpoint that becomes doubtful keeps what is in flight there, and gets no more.

The sums are over endpoints, which no endpoint's row lock can guard: claims take turns by an advisory lock of their
transaction. The rows of the chosen endpoints are locked beside it, so that no pause falls between look and lease; one
that is locked already is left for the next turn.

A death after the claim leaves the lease to run out: the same message is sent again then, under the same webhook-id.
"""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import connection, transaction

from dpp_project.stores import advisory_lock
from tenants.webhooks.models import WebhookMessage

AT_ENDPOINT_MAX: Final = 4
AT_DOUBTFUL_MAX: Final = 1
OF_TENANT_MAX: Final = 8
OF_TENANT_DOUBTFUL_MAX: Final = 4
ALL_MAX: Final = 64
ALL_DOUBTFUL_MAX: Final = 32
LEASE_SECONDS: Final = 30
"""Twice what a delivery may take: a sender whose lease has run out is not at work on it any more."""
_TURNS: Final = (0x686F6F6B, 0)  # "hook"

_DOUBTFUL: Final = "(last_success_at IS NULL OR consecutive_failures > 0 OR slow_at IS NOT NULL)"
_OPEN: Final = (
    "status = 'ENABLED' AND deleted_at IS NULL AND coalesce(paused_until, '-infinity') <= statement_timestamp()"
)

_CLAIM: Final = f"""
WITH RECURSIVE leased AS (
    SELECT endpoint_id, count(*) AS live FROM webhook_delivery
     WHERE lease_token IS NOT NULL AND lease_until > statement_timestamp() GROUP BY endpoint_id
), at_work AS (
    SELECT tenant_id, {_DOUBTFUL} AS doubtful, sum(live) AS live
      FROM leased JOIN webhook_endpoint USING (endpoint_id) GROUP BY 1, 2
), waiting (endpoint_id) AS (
    (SELECT endpoint_id FROM webhook_delivery WHERE status = 'PENDING' ORDER BY endpoint_id LIMIT 1)
    UNION ALL
    SELECT (SELECT endpoint_id FROM webhook_delivery
             WHERE status = 'PENDING' AND endpoint_id > waiting.endpoint_id ORDER BY endpoint_id LIMIT 1)
      FROM waiting WHERE waiting.endpoint_id IS NOT NULL
), ready AS (
    SELECT endpoint_id, tenant_id, {_DOUBTFUL} AS doubtful, coalesce(live, 0) AS live
      FROM waiting JOIN webhook_endpoint USING (endpoint_id) LEFT JOIN leased USING (endpoint_id)
     WHERE {_OPEN}
), fits_endpoint AS (
    SELECT ready.*, due.delivery_id, due.next_attempt_at, live + row_number() OVER (
             PARTITION BY endpoint_id ORDER BY due.next_attempt_at, due.delivery_id) AS at_endpoint
      FROM ready
     CROSS JOIN LATERAL (
           SELECT delivery_id, next_attempt_at FROM webhook_delivery
            WHERE webhook_delivery.endpoint_id = ready.endpoint_id AND status = 'PENDING'
              AND next_attempt_at <= statement_timestamp()
              AND (lease_token IS NULL OR lease_until <= statement_timestamp())
            ORDER BY next_attempt_at
            LIMIT greatest(0, CASE WHEN doubtful THEN {AT_DOUBTFUL_MAX} ELSE {AT_ENDPOINT_MAX} END - live)
           ) due
), of_tenants_class AS (
    SELECT *, row_number() OVER (PARTITION BY tenant_id, doubtful ORDER BY at_endpoint, next_attempt_at, delivery_id)
           + coalesce((SELECT live FROM at_work WHERE at_work.tenant_id = fits_endpoint.tenant_id
                          AND at_work.doubtful = fits_endpoint.doubtful), 0) AS place
      FROM fits_endpoint
), of_tenant AS (
    SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY at_endpoint, next_attempt_at, delivery_id)
           + coalesce((SELECT sum(live) FROM at_work WHERE at_work.tenant_id = of_tenants_class.tenant_id), 0)
             AS for_tenant
      FROM of_tenants_class WHERE NOT doubtful OR place <= {OF_TENANT_DOUBTFUL_MAX}
), of_class AS (
    SELECT *, row_number() OVER (PARTITION BY doubtful ORDER BY for_tenant, next_attempt_at, delivery_id)
           + coalesce((SELECT sum(live) FROM at_work WHERE at_work.doubtful = of_tenant.doubtful), 0) AS in_class
      FROM of_tenant WHERE for_tenant <= {OF_TENANT_MAX}
), of_all AS (
    SELECT *, row_number() OVER (ORDER BY for_tenant, next_attempt_at, delivery_id)
           + coalesce((SELECT sum(live) FROM at_work), 0) AS in_all
      FROM of_class WHERE NOT doubtful OR in_class <= {ALL_DOUBTFUL_MAX}
), chosen AS (
    SELECT delivery_id, endpoint_id, doubtful FROM of_all WHERE in_all <= {ALL_MAX}
), locked AS (
    SELECT endpoint_id, tenant_id, url FROM webhook_endpoint
     WHERE endpoint_id IN (SELECT endpoint_id FROM chosen) AND {_OPEN}
       AND (NOT {_DOUBTFUL} OR endpoint_id IN (SELECT endpoint_id FROM chosen WHERE doubtful))
       FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE webhook_delivery
   SET lease_token = gen_random_uuid(), lease_until = statement_timestamp() + make_interval(secs => {LEASE_SECONDS})
  FROM chosen JOIN locked USING (endpoint_id), webhook_message message
 WHERE webhook_delivery.delivery_id = chosen.delivery_id AND webhook_delivery.status = 'PENDING'
   AND (webhook_delivery.lease_token IS NULL OR webhook_delivery.lease_until <= statement_timestamp())
   AND message.message_id = webhook_delivery.message_id
RETURNING webhook_delivery.delivery_id, lease_token, attempts, chosen.doubtful, locked.endpoint_id, locked.tenant_id,
          locked.url, message.message_id, message.event, message.at, message.payload::text,
          webhook_delivery.next_attempt_at
"""  # noqa: S608  of constants


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedDelivery:
    """What its sender needs, and the lease that lets it mark what came of it."""

    delivery_id: uuid.UUID
    lease_token: uuid.UUID
    attempts: int
    """Before this one."""
    doubtful: bool
    endpoint_id: uuid.UUID
    tenant_id: str
    url: str
    message_id: uuid.UUID
    event: str
    at: datetime
    payload: str
    """As JSON."""
    due_at: datetime

    def message(self) -> WebhookMessage:
        told = json.loads(self.payload)
        return WebhookMessage(message_id=self.message_id, event=self.event, at=self.at, payload=told)


_FIELDS: Final = tuple(ClaimedDelivery.__slots__)


def claim_deliveries() -> list[ClaimedDelivery]:
    """Those that are due and have room, each under a lease of its own."""
    with transaction.atomic():
        advisory_lock.lock_until_commit(_TURNS)
        with connection.cursor() as cursor:
            cursor.execute(_CLAIM)
            return [ClaimedDelivery(**dict(zip(_FIELDS, row, strict=True))) for row in cursor.fetchall()]


_GIVE_BACK: Final = """
UPDATE webhook_delivery SET lease_token = NULL, lease_until = NULL
 WHERE delivery_id = ANY (%s) AND lease_token = ANY (%s)
"""


def give_back(claimed: Sequence[ClaimedDelivery]) -> int:
    """Not sent, or cut off by our own end: due as before, and no attempt is counted. How many were still ours."""
    values = [[one.delivery_id for one in claimed], [one.lease_token for one in claimed]]
    with connection.cursor() as cursor:
        cursor.execute(_GIVE_BACK, values)
        return int(cursor.rowcount)
