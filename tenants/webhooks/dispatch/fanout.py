"""From a message to its deliveries: one for each endpoint that wants it, all of them and the mark in one transaction.

Tenant by tenant, fifty messages of each at most: one with thousands holds up nobody's. Endpoints are read FOR SHARE, so
that none is resumed between the look at its status and the commit: its delivery would be HELD for ever. One whose row
is locked just now is not waited for; its tenant's messages come with the next turn.

A death before the commit leaves the messages as they were. Two at once take different messages.
"""

from dataclasses import dataclass
from typing import Final

from django.db import connection, transaction

OF_ONE_TENANT_MAX: Final = 50
AT_ONCE_MAX: Final = 500

_FAN_OUT: Final = """
WITH RECURSIVE teller (tenant_id) AS (
    (SELECT tenant_id FROM webhook_message WHERE fanned_out_at IS NULL ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT tenant_id FROM webhook_message
             WHERE fanned_out_at IS NULL AND tenant_id > teller.tenant_id ORDER BY tenant_id LIMIT 1)
      FROM teller WHERE teller.tenant_id IS NOT NULL
), found AS (
    SELECT oldest.message_id
      FROM teller
     CROSS JOIN LATERAL (
           SELECT message_id, row_number() OVER (ORDER BY at) AS place
             FROM webhook_message WHERE tenant_id = teller.tenant_id AND fanned_out_at IS NULL
            ORDER BY at LIMIT %(of_one_tenant)s
           ) oldest
     ORDER BY oldest.place LIMIT %(at_once)s
), taken AS (
    SELECT message_id, tenant_id, event, payload FROM webhook_message
     WHERE message_id IN (SELECT message_id FROM found) AND fanned_out_at IS NULL
       FOR NO KEY UPDATE SKIP LOCKED
), seen AS (
    SELECT endpoint_id, tenant_id, events, status FROM webhook_endpoint
     WHERE tenant_id IN (SELECT tenant_id FROM taken) AND deleted_at IS NULL
       FOR SHARE SKIP LOCKED
), whole AS (
    SELECT tenant_id FROM (SELECT DISTINCT tenant_id FROM taken) AS tellers
     WHERE (SELECT count(*) FROM seen WHERE seen.tenant_id = tellers.tenant_id)
         = (SELECT count(*) FROM webhook_endpoint of_tenant
             WHERE of_tenant.tenant_id = tellers.tenant_id AND deleted_at IS NULL)
), made AS (
    INSERT INTO webhook_delivery (message_id, endpoint_id, status, next_attempt_at)
    SELECT message_id, endpoint_id,
           CASE WHEN status = 'ENABLED' THEN 'PENDING' ELSE 'HELD' END, CASE WHEN status = 'ENABLED' THEN now() END
      FROM taken JOIN whole USING (tenant_id) JOIN seen USING (tenant_id)
     WHERE event = ANY (events)
       -- The others hear that an endpoint was disabled, not the one itself, which cannot.
       AND NOT (event = 'endpoint.disabled' AND payload ->> 'endpoint_id' = endpoint_id::text)
    ON CONFLICT DO NOTHING
    RETURNING 1
), done AS (
    UPDATE webhook_message SET fanned_out_at = now()
      FROM taken JOIN whole USING (tenant_id) WHERE webhook_message.message_id = taken.message_id
    RETURNING 1
)
SELECT (SELECT count(*) FROM found), (SELECT count(*) FROM done), (SELECT count(*) FROM made)
"""


@dataclass(frozen=True, slots=True)
class FannedOut:
    messages: int
    deliveries: int
    is_all: bool
    """No more were waiting than could be taken at once."""


def fan_out() -> FannedOut:
    values = {"of_one_tenant": OF_ONE_TENANT_MAX, "at_once": AT_ONCE_MAX}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_FAN_OUT, values)
        found, messages, deliveries = cursor.fetchone()
    # A tenant's fifty may be the last of one or the first of thousands: the next turn tells, and costs little.
    return FannedOut(messages, deliveries, is_all=found < OF_ONE_TENANT_MAX or not messages)
