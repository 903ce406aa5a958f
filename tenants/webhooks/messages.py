"""What happened, written as a message by the statement or transaction that made it so.

For runs it is a CTE of their own statement, and no statement besides. It inserts one message where an undeleted
endpoint of the tenant wants its event, whatever that endpoint's status: what happens while it is paused is held for it.
Nothing in it can fail or wait: the table has neither checks nor foreign keys, a key that is there is left alone, and
reading endpoints waits for no lock of a row. Without such an endpoint it costs one look into an index.
"""

import uuid
from typing import Final

from django.db import connection

WANTED: Final = """EXISTS (
          SELECT FROM webhook_endpoint
           WHERE webhook_endpoint.tenant_id = told.tenant_id AND deleted_at IS NULL AND told.event = ANY (events))"""

_OF_RUNS: Final = """
    webhook AS (
        INSERT INTO webhook_message (tenant_id, event, key, payload)
        SELECT tenant_id, event, 'run:' || event || ':' || run_id || ':' || version,
               jsonb_build_object(
                 'run_id', run_id, 'version', version, 'pack_type', pack_type, 'status', status,
                 'money_state', money_state, 'reason_code', reason,
                 'cost', jsonb_build_object(
                   'used', trunc(used_micros::numeric / 1000000, 4)::text, 'used_usd_micros', used_micros,
                   'refunded', trunc(refunded_micros::numeric / 1000000, 4)::text,
                   'refunded_usd_micros', refunded_micros),
                 'href', '/v1/runs/' || run_id, 'trace_id', trace_id)
          FROM (SELECT {rows}.*, {event} AS event, ({refunded})::bigint AS refunded_micros FROM {rows}) AS told
         WHERE event IS NOT NULL AND {wanted}
        ON CONFLICT DO NOTHING
    )"""


def of_runs(*, rows: str, event: str, refunded: str) -> str:
    """The CTE `webhook`, for a statement with a CTE of this name that RETURNS the runs which it moved.

    Their columns: tenant_id, run_id, version, pack_type, status, money_state, reason,
    used_micros and trace_id. `event` and
    `refunded` (micros) are expressions over them; where the event is NULL it writes nothing.
    """
    return _OF_RUNS.format(rows=rows, event=event, refunded=refunded, wanted=WANTED)


_DISABLED: Final = """
INSERT INTO webhook_message (tenant_id, event, key, payload)
SELECT tenant_id, event, 'endpoint_disabled:' || endpoint_id || ':' || extract(epoch FROM updated_at),
       jsonb_build_object('endpoint_id', endpoint_id, 'reason', reason, 'failing_since', failing_since,
                          'disabled_at', updated_at, 'href', '/v1/webhooks/' || endpoint_id)
  FROM (SELECT *, 'endpoint.disabled' AS event FROM webhook_endpoint WHERE endpoint_id = %s) AS told
 WHERE EXISTS (
       SELECT FROM webhook_endpoint other
        WHERE other.tenant_id = told.tenant_id AND other.endpoint_id <> told.endpoint_id AND other.deleted_at IS NULL
          AND told.event = ANY (other.events))
ON CONFLICT DO NOTHING
"""


def tell_disabled(endpoint_id: uuid.UUID) -> None:
    """In the transaction that disabled it. To the tenant's other endpoints: the fan-out leaves it out."""
    with connection.cursor() as cursor:
        cursor.execute(_DISABLED, [endpoint_id])
