"""Closing sums by day (UTC), so that a balance is one sum and a day of entries however old the tenant is."""

from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import OperationalError, connection, transaction
from psycopg import errors

SETTLED_AFTER: Final = timedelta(hours=1)

_WRITE: Final = """
WITH days AS (
    SELECT least(%(through)s::timestamptz, date_trunc('day', now() - interval '1 hour', 'UTC')) AS through
)
INSERT INTO balance_snapshots (tenant_id, through, total_usd_micros, credited_usd_micros)
SELECT tenants.tenant_id, days.through,
       coalesce(summed.total_usd_micros, 0) + since.total,
       coalesce(summed.credited_usd_micros, 0) + coalesce(since.credited, 0)
  FROM days CROSS JOIN tenants
  LEFT JOIN LATERAL (
        SELECT through, total_usd_micros, credited_usd_micros FROM balance_snapshots
         WHERE tenant_id = tenants.tenant_id ORDER BY through DESC LIMIT 1
       ) summed ON true
  JOIN LATERAL (
        SELECT sum(amount_usd_micros) AS total, sum(amount_usd_micros) FILTER (WHERE kind <> 'CHARGE') AS credited
          FROM ledger_entries
         WHERE tenant_id = tenants.tenant_id
           AND created_at >= coalesce(summed.through, '-infinity') AND created_at < days.through
       ) since ON since.total IS NOT NULL
 WHERE coalesce(summed.through, '-infinity') < days.through
 LIMIT %(limit)s
ON CONFLICT DO NOTHING
"""


def sum_up(*, now: datetime, limit: int) -> int:
    """Write the sums up to the last midnight for tenants that had entries since; how many were written.

    The database's clock has the last word: a day it has not ended is not summed up, whatever this machine believes.
    Entries carry the moment they were written, so once every writer that is at it now has ended, nothing can appear
    before midnight any more. Taking the table's SHARE lock and letting go waits for exactly that; a writer that takes
    more than a second is left alone, and the next run comes in an hour. The trigger on the ledger refuses the rest.
    """
    through = (now.astimezone(UTC) - SETTLED_AFTER).replace(hour=0, minute=0, second=0, microsecond=0)
    if not _writers_have_ended():
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_WRITE, {"through": through, "limit": limit})
        return int(cursor.rowcount)


def _writers_have_ended() -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '1s'")
            cursor.execute("LOCK TABLE ledger_entries IN SHARE MODE")
    except OperationalError as error:
        if isinstance(error.__cause__, errors.LockNotAvailable):
            return False
        raise
    return True
