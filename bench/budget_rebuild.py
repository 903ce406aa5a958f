"""Rebuild and proof at size: 1,000,000 ledger entries, 100,000 open holds. Limits: rebuild 60 s, money_verify 30 s.

    make bench B=budget_rebuild

It makes a database and a Valkey of its own and drops them. Half of the entries and holds are one large tenant's, the
rest is spread over 200. `summed` is the same after the days were summed up.

One run on two cores:

    rebuild of all                        3.58 s   of 60 s allowed
    money_verify of all                   4.89 s   of 30 s allowed
    rebuild of the large tenant           2.95 s   of 60 s allowed
    rebuild of all, summed                1.65 s   of 60 s allowed
    money_verify of all, summed           2.35 s   of 30 s allowed
    rebuild of the large tenant, summed   2.43 s   of 60 s allowed
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

ENTRIES = 1_000_000
HOLDS = 100_000
TENANTS = 200
LARGE = "t_large"

_FILL = """
INSERT INTO tenants (tenant_id, display_name) SELECT 't_' || n, 't_' || n FROM generate_series(1, %(tenants)s) n;
INSERT INTO tenants (tenant_id, display_name) VALUES ('t_large', 'large');
ALTER TABLE ledger_entries DISABLE TRIGGER USER;
INSERT INTO ledger_entries (entry_id, tenant_id, kind, amount_usd_micros, reference, actor, created_at)
SELECT gen_random_uuid(), tenant_id, 'TOPUP', 1000000000000, 'first', 'bench', now() - interval '40 days' FROM tenants;
INSERT INTO ledger_entries (entry_id, tenant_id, run_id, kind, amount_usd_micros, actor, created_at)
SELECT gen_random_uuid(), CASE WHEN n %% 2 = 0 THEN 't_large' ELSE 't_' || (n %% %(tenants)s + 1) END,
       gen_random_uuid(), 'CHARGE', -(n %% 1000 + 1), 'bench', now() - interval '30 days' * (n::numeric / %(entries)s)
  FROM generate_series(1, %(entries)s) n;
ALTER TABLE ledger_entries ENABLE TRIGGER USER;
INSERT INTO money_test_runs (run_id, tenant_id, reserved, version, money)
SELECT gen_random_uuid(), CASE WHEN n %% 2 = 0 THEN 't_large' ELSE 't_' || (n %% %(tenants)s + 1) END,
       n %% 1000 + 1, 1, 'RESERVED'
  FROM generate_series(1, %(holds)s) n;
ANALYZE
"""


@contextlib.contextmanager
def own_services() -> Iterator[None]:
    """A database beside the one that is named, and a Valkey; both are gone afterwards."""
    from dpp_project.devstack import valkey

    named = urlsplit(os.environ["DATABASE_URL"])
    name = f"dpp_bench_{os.getpid()}"
    with tempfile.TemporaryDirectory() as folder, valkey.running(Path(folder)) as server:
        with psycopg.connect(urlunsplit(named), autocommit=True) as postgres:
            postgres.execute(f'CREATE DATABASE "{name}"')
        os.environ |= {"DATABASE_URL": urlunsplit(named._replace(path=f"/{name}")), "REDIS_URL": server.url}
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
        try:
            yield
        finally:
            from django.db import connection, connections

            connections.close_all()
            connection.close_pool()  # type: ignore[attr-defined]  # psycopg's alone
            with psycopg.connect(urlunsplit(named), autocommit=True) as postgres:
                postgres.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def timed(name: str, what: Callable[[], object], *, limit_seconds: int) -> object:
    began = time.perf_counter()
    found = what()
    seconds = time.perf_counter() - began
    print(f"{name:34s} {seconds:7.2f} s   of {limit_seconds} s allowed")
    return found


def measure() -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from budget import daily_snapshots, ports, verify
    from budget.rebuild import rebuild
    from budget.redis import scripts
    from budget.verify import Verdict
    from dpp_project import clock
    from tenants.models import Tenant
    from tests.gear.builders.open_runs import RunsTable

    call_command("migrate", verbosity=0)
    runs = RunsTable()
    runs.create()
    ports.register(runs)
    began = time.perf_counter()
    with connection.cursor() as cursor:
        for statement in _FILL.split(";\n"):
            cursor.execute(
                statement, {"tenants": TENANTS, "entries": ENTRIES, "holds": HOLDS} if "%" in statement else None
            )
    print(f"{'filling':34s} {time.perf_counter() - began:7.2f} s")

    def prove() -> None:
        proofs = [verify.verify(tenant_id) for tenant_id in Tenant.objects.values_list("tenant_id", flat=True)]
        assert {proof.verdict for proof in proofs} == {Verdict.PROVED}

    for when in ("", ", summed"):
        timed(f"rebuild of all{when}", rebuild.rebuild_all, limit_seconds=60)
        timed(f"money_verify of all{when}", prove, limit_seconds=30)
        timed(f"rebuild of the large tenant{when}", lambda: rebuild.rebuild_tenant(LARGE), limit_seconds=60)
        if not when:
            timed("summing up", lambda: daily_snapshots.sum_up(now=clock.now(), limit=10_000), limit_seconds=60)
    print(f"holds in Redis: {scripts.shared().client.hlen(f'holds:{LARGE}'):,} of the large tenant")


if __name__ == "__main__":
    with own_services():
        measure()
