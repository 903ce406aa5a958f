"""Random or time-ordered run ids: rate and WAL of inserts into a table that is already large.

make bench B=run_keys
"""

import os
import time
import uuid
from collections.abc import Callable

import django
from django.db import connection

ROWS = int(os.environ.get("BENCH_ROWS", "500000"))
MORE = 20_000
BATCH = 100

INSERT = """
INSERT INTO {table} (run_id, tenant_id, pack_type, status, money_state, idempotency_key, payload_hash,
                     reservation_max_cost_usd_micros, minimum_fee_usd_micros, retention_until, last_actor)
SELECT id, 't_' || n % 100, 'decision', 'QUEUED', 'NONE', id::text, repeat('a', 64), 250000, 5000, now(), 'bench'
  FROM unnest(%s::uuid[]) WITH ORDINALITY AS made (id, n)
"""


def insert(table: str, make: Callable[[], uuid.UUID], rows: int) -> None:
    statement = INSERT.replace("{table}", table).replace("n % 100", "n %% 100")
    with connection.cursor() as cursor:
        for _ in range(rows // BATCH):
            cursor.execute(statement, [[make() for _ in range(BATCH)]])


def wal_bytes() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
        return int(cursor.fetchone()[0])


def measure(name: str, make: Callable[[], uuid.UUID]) -> tuple[float, float]:
    """Rows a second, and bytes of WAL a row, after a checkpoint: then each page touched is written whole once."""
    table = f"bench_runs_{name}"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {table}")
        cursor.execute(f"CREATE TABLE {table} (LIKE runs INCLUDING ALL)")
    try:
        insert(table, make, ROWS)
        with connection.cursor() as cursor:
            cursor.execute("CHECKPOINT")
        before, begun = wal_bytes(), time.monotonic()
        insert(table, make, MORE)
        return MORE / (time.monotonic() - begun), (wal_bytes() - before) / MORE
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE {table}")


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
    django.setup()
    from runs import run_ids  # needs Django's settings

    found = {"uuid4": measure("uuid4", uuid.uuid4), "uuid7": measure("uuid7", run_ids.new_run_id)}
    for name, (rate, size) in found.items():
        print(f"{name}: {rate:8.0f} rows/s {size:8.0f} bytes of WAL a row (on {ROWS} rows)")
    (rate4, size4), (rate7, size7) = found["uuid4"], found["uuid7"]
    print(f"uuid7 / uuid4: rate {rate7 / rate4:.2f}, WAL {size7 / size4:.2f}")


if __name__ == "__main__":
    main()
