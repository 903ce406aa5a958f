"""Closing sums by day (UTC), so that a balance is one sum and a day of entries however old the tenant is.

What its runs of a date came to is kept with them, so that caps and usage cost the same.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import OperationalError, connection, transaction
from psycopg import errors

from budget import ports
from dpp_project.stores import advisory_lock

SETTLED_AFTER: Final = timedelta(hours=1)

_ONE_AT_A_TIME: Final = (int.from_bytes(b"days"), 0)

_WRITE: Final = """
WITH days AS (
    SELECT least(%(through)s::timestamptz, date_trunc('day', now() - interval '1 hour', 'UTC')) AS through
),
due AS (
    SELECT tenants.tenant_id, days.through,
           coalesce(summed.through, '-infinity') AS since,
           coalesce(summed.total_usd_micros, 0) AS total,
           coalesce(summed.credited_usd_micros, 0) AS credited,
           coalesce((SELECT max(through) FROM balance_snapshots
                      WHERE tenant_id = tenants.tenant_id AND has_spend_days), '-infinity') AS spent_since
      FROM days CROSS JOIN tenants
      LEFT JOIN LATERAL (
            SELECT through, total_usd_micros, credited_usd_micros FROM balance_snapshots
             WHERE tenant_id = tenants.tenant_id ORDER BY through DESC LIMIT 1
           ) summed ON true
     WHERE coalesce(summed.through, '-infinity') < days.through
),
written AS (
    INSERT INTO balance_snapshots (tenant_id, through, total_usd_micros, credited_usd_micros, has_spend_days)
    SELECT due.tenant_id, due.through, due.total + since.total, due.credited + coalesce(since.credited, 0), true
      FROM due
      JOIN LATERAL (
            SELECT sum(amount_usd_micros) AS total, sum(amount_usd_micros) FILTER (WHERE kind <> 'CHARGE') AS credited
              FROM ledger_entries
             WHERE tenant_id = due.tenant_id AND created_at >= due.since AND created_at < due.through
           ) since ON since.total IS NOT NULL
     LIMIT %(limit)s
    ON CONFLICT DO NOTHING
    RETURNING tenant_id
),
spent AS (
    INSERT INTO spend_days (tenant_id, spend_day, lineage_id, pack_type, reason,
                            charged_usd_micros, credited_usd_micros, runs, tokens)
    SELECT due.tenant_id, entries.spend_day, entries.lineage_id,
           coalesce(sold.pack_type, ''), coalesce(sold.reason, ''),
           coalesce(-sum(amount_usd_micros) FILTER (WHERE kind = 'CHARGE'), 0),
           coalesce(sum(amount_usd_micros) FILTER (WHERE kind = 'ADJUST'), 0),
           count(*) FILTER (WHERE kind = 'CHARGE'),
           coalesce(sum(sold.tokens) FILTER (WHERE kind = 'CHARGE'), 0)
      FROM written
      JOIN due USING (tenant_id)
      JOIN ledger_entries entries ON entries.tenant_id = due.tenant_id
           AND entries.created_at >= due.spent_since AND entries.created_at < due.through
      LEFT JOIN ({sold}) sold ON sold.run_id = entries.run_id
     WHERE entries.spend_day IS NOT NULL
     GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (tenant_id, spend_day, lineage_id, pack_type, reason) DO UPDATE SET
           charged_usd_micros = spend_days.charged_usd_micros + EXCLUDED.charged_usd_micros,
           credited_usd_micros = spend_days.credited_usd_micros + EXCLUDED.credited_usd_micros,
           runs = spend_days.runs + EXCLUDED.runs,
           tokens = spend_days.tokens + EXCLUDED.tokens
)
SELECT count(*) FROM written
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
    statement = _WRITE.format(sold=ports.committed_runs().sold())
    with transaction.atomic(), connection.cursor() as cursor:
        advisory_lock.lock_until_commit(_ONE_AT_A_TIME)
        cursor.execute(statement, {"through": through, "limit": limit})
        (written,) = cursor.fetchone()
    return int(written)


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
