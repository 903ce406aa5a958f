"""What a run's life writes: bytes of WAL, as it is and with the two indexes that ADR 78 dropped, in turns.

    make bench B=run_writes

A life is accept, reserve, start, claim and commit, without Redis, S3 and a worker. Each turn begins with a checkpoint.
"""

import time

from bench._figures import tell
from bench.worker_throughput import prepare

LIVES, TURNS = 300, 3
REPEATING = {
    "bench_idem": "ON runs (tenant_id, idempotency_key)",
    "bench_leased": "ON runs (lease_expires_at) WHERE finalize_stage IS NULL AND status = 'PROCESSING'",
}


def written(lives: int) -> tuple[float, float]:
    """Bytes of WAL and milliseconds of one life."""
    from django.db import connection

    from tests.gear.builders import runs as gear

    tenant_id = gear.accepted().tenant_id
    with connection.cursor() as cursor:
        cursor.execute("CHECKPOINT")
        cursor.execute("SELECT pg_current_wal_lsn()")
        (before,) = cursor.fetchone()
        began = time.monotonic()
        for _ in range(lives):
            gear.committed(tenant_id=tenant_id)
        took = time.monotonic() - began
        cursor.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), %s)", [before])
        (size,) = cursor.fetchone()
    return float(size) / lives, took / lives * 1_000


def main() -> None:
    prepare()
    from django.db import connection

    found: dict[str, list[tuple[float, float]]] = {"as it is": [], "with two indexes more": []}
    written(LIVES)
    for _ in range(TURNS):
        found["as it is"].append(written(LIVES))
        with connection.cursor() as cursor:
            for name, what in REPEATING.items():
                cursor.execute(f"CREATE INDEX {name} {what}")
        found["with two indexes more"].append(written(LIVES))
        with connection.cursor() as cursor:
            for name in REPEATING:
                cursor.execute(f"DROP INDEX {name}")
    sizes = {}
    for name, turns in found.items():
        sizes[name], took = (sorted(one)[len(turns) // 2] for one in zip(*turns, strict=True))
        tell(f"WAL a life, {name}", sizes[name], "bytes")
        tell(f"a life's statements, {name}", took, "ms")
    tell("WAL as it is / with two indexes more", sizes["as it is"] / sizes["with two indexes more"], "x")


if __name__ == "__main__":
    main()
