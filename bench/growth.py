"""What grows with the tables: requests, pages, recovery scans and the proofs of money, at 10,000 to 1,000,000 runs.

    make bench B=growth        ARGS="--most 10000000" for one size more

A database and a Valkey of its own, filled anew for each size: four weeks of ended runs of 100 tenants, half of them of
one, with their charges; a tenth as many held and in the line; a hundred left behind for each recovery loop. Each is the
median of some calls in this process, one after the other, and the pages of Postgres that one call reads: those say
whether it is flat, also on a busy machine. What each recovery loop finds due is counted, and left as it is.
"""

import argparse
import io
import itertools
import os
import statistics
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from bench._figures import tell
from bench._services import own_services

FEW: Final = 10_000
MOST: Final = 1_000_000
TENANTS: Final = 100
LARGE: Final = "t_of000"
SMALL: Final = "t_of051"
DUE: Final = 100
RATE: Final = 100_000
"""Requests a minute: the most a tenant may have, for none of these measures a refusal."""
REBUILD_SECONDS: Final = 10
VERIFY_SECONDS: Final = 30
PAGE_MS: Final = 300

Call = Callable[[], object]


def fill(rows: int) -> None:
    from django.db import connection

    from tests.gear.builders import bulk

    names = [f"t_of{number:03d}" for number in range(TENANTS)]
    # The first has half of all.
    owners = [owner for name in names[1:] for owner in (LARGE, name)]
    began = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        with bulk.without_triggers(cursor):
            cursor.execute("TRUNCATE runs, ledger_entries, tenants CASCADE")
            cursor.execute("INSERT INTO tenants (tenant_id, display_name) VALUES ('t_operator', 'Operator')")
            bulk.tenants(cursor, names)
            cursor.execute("UPDATE tenants SET poll_rate_per_minute = %s, submit_rate_per_minute = %s", [RATE, RATE])
            bulk.ended(cursor, owners=owners, count=rows)
            bulk.metadata(cursor)
            bulk.credits(cursor, names)
            bulk.charges(cursor)
            bulk.in_line(cursor, owners=owners, count=rows // 10)
            bulk.left_behind(cursor, owners=owners, count=DUE)
            bulk.inputs(cursor)
        cursor.execute("VACUUM ANALYZE")
    print(f"{rows:,} runs, {rows // 10:,} open ({time.perf_counter() - began:.0f} s to fill)", flush=True)


# What one call costs.


def pages_read() -> int:
    """Of this database so far, by this session and by those that have ended a while ago."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def pages_of(call: Call) -> int:
    """Less what the counting itself reads."""
    at = [pages_read(), pages_read()]
    call()
    at.append(pages_read())
    return max(0, at[2] - at[1] - (at[1] - at[0]))


def measured(what: str, call: Call, rows: int, *, times: int = 9, at_most: float | None = None) -> None:
    """The median in milliseconds, after calls that fill the caches; the target is for the largest size."""
    if times > 1:
        call()
    # The least of some: another session, autovacuum's say, reads pages of this database too.
    pages = min(pages_of(call) for _ in range(3 if times > 1 else 1))
    took = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        took.append((time.perf_counter() - began) * 1_000)
    tell(what, statistics.median(took), "ms", at_most=at_most if rows >= MOST else None, rows=rows, pages=pages)


# What is measured.


def requests(rows: int) -> None:
    from django.test import Client

    from runs.models import Run
    from tenants import services
    from tenants.scopes import TENANT_SCOPES
    from tenants.services import IssuedKey

    issued = services.issue_key(tenant_id=LARGE, scopes=TENANT_SCOPES, actor="bench")
    assert isinstance(issued, IssuedKey)
    client = Client(headers={"Authorization": f"Bearer {issued.plaintext}"})
    ended = Run.objects.filter(tenant_id=LARGE, finalize_stage="COMMITTED").order_by("run_id")
    some = itertools.cycle([str(run_id) for run_id in ended.values_list("run_id", flat=True)[:: max(1, rows // 40)]])
    body = {"pack_type": "probe", "inputs": {"sleep_ms": 1}, "reservation": {"max_cost_usd": "0.2500"}}

    def submit() -> None:
        answer = client.post(
            "/v1/runs", body, content_type="application/json", headers={"Idempotency-Key": uuid.uuid4().hex}
        )
        assert answer.status_code == 202, answer.content

    def reads(path: str) -> Call:
        def call() -> None:
            answer = client.get(path.format(run=next(some)))
            assert answer.status_code == 200, (path, answer.content[:300])

        return call

    measured("submit", submit, rows)
    measured("poll", reads("/v1/runs/{run}"), rows)
    measured("list", reads("/v1/runs?limit=20"), rows)
    measured("list by a status", reads("/v1/runs?limit=20&status=COMPLETED"), rows)
    measured("list by a rare status", reads("/v1/runs?limit=20&status=PROCESSING"), rows)
    measured("list by a pack", reads("/v1/runs?limit=20&pack_type=decision"), rows)
    measured("list by a rare pack", reads("/v1/runs?limit=20&pack_type=eval"), rows)
    measured("list by metadata", reads("/v1/runs?limit=20&metadata[project]=usual"), rows)
    measured("list by rare metadata", reads("/v1/runs?limit=20&metadata[project]=rare"), rows)
    measured("budget", reads("/v1/budget"), rows)


def loops(rows: int) -> None:
    """What each recovery loop looks for; a hundred are due to each, and stay so."""
    from django.db import connection

    from dpp_project import clock
    from reaper import claim_reconciler, hold_auditor, lease_reaper, requeuer, reservation_sweeper
    from runs.packs import registry
    from runs.reads import for_recovery, for_worker
    from tests.gear.builders import bulk

    with connection.cursor() as cursor, bulk.without_triggers(cursor):  # the rebuild has fenced them just now
        cursor.execute("UPDATE runs SET updated_at = now() - interval '10 minutes' WHERE money_state = 'NONE'")
    scans = {
        "reaper's scan": for_recovery.lease_expired,
        "sweeper's scan": for_recovery.never_started,
        "requeuer's scan": for_recovery.send_due,
        "reconciler's scan": for_recovery.claimed_too_long,
        "hold auditor's scan": for_recovery.abandoned_runs,
    }
    for what, due in scans.items():
        measured(what, lambda due=due: next(for_recovery.batches_of_due(due())), rows)  # type: ignore[misc]
    previews = {
        "reaper, counted": lease_reaper.preview_reaping_leases,
        "sweeper, counted": reservation_sweeper.preview_sweeping_reservations,
        "requeuer, counted": requeuer.preview_requeuing_runs,
        "reconciler, counted": claim_reconciler.preview_reconciling_claims,
    }
    for what, preview in previews.items():
        measured(what, partial(preview, now=clock.now(), limit=1_000), rows)
    measured(
        "hold auditor, all tenants",
        lambda: hold_auditor.preview_auditing_holds(now=clock.now(), limit=1_000),
        rows,
        times=1,
    )
    measured(
        "next of the line",
        lambda: for_worker.next_in_line(uuid.uuid4(), packs=registry.packs_for_sale(), own_too=True),
        rows,
    )


def money(rows: int) -> None:
    """Before any day was summed up, which is the longest way."""
    from budget import ports
    from budget.rebuild import rebuild
    from budget.rebuild.rebuild import Rebuilt
    from budget.verification import verify
    from budget.verification.verify import Verdict
    from tenants.models import Tenant

    def rebuild_all() -> None:
        assert isinstance(rebuild.rebuild_all(), Rebuilt)

    def prove() -> None:
        proofs = [
            verify.verify_tenant_money(tenant_id) for tenant_id in Tenant.objects.values_list("tenant_id", flat=True)
        ]
        assert {proof.verdict for proof in proofs} == {Verdict.PROVED}

    measured("budget rebuild of all", rebuild_all, rows, times=1, at_most=REBUILD_SECONDS * 1_000)
    measured("money_verify of all", prove, rows, times=1, at_most=VERIFY_SECONDS * 1_000)
    measured("sums of holds, all tenants", lambda: list(ports.open_runs().reserved(tenant_id=None)), rows, times=3)
    measured("sums of holds, a small tenant", lambda: list(ports.open_runs().reserved(tenant_id=SMALL)), rows)


def sum_up() -> None:
    from budget import daily_snapshots
    from dpp_project import clock

    began = time.perf_counter()
    daily_snapshots.sum_up(now=clock.now(), limit=10_000)
    print(f"the days summed up ({time.perf_counter() - began:.0f} s)", flush=True)


def people(rows: int) -> None:
    """The console's and the account's pages."""
    from django.contrib.auth.models import User
    from django.test import Client

    from runs import metrics as run_metrics
    from runs.models import Run
    from tenants import services
    from tenants.scopes import TENANT_SCOPES
    from tenants.services import IssuedKey

    console, account = Client(), Client()
    console.force_login(User.objects.create_superuser(f"bench-{uuid.uuid4().hex[:8]}"))
    issued = services.issue_key(tenant_id=LARGE, scopes=TENANT_SCOPES, actor="bench")
    assert isinstance(issued, IssuedKey)
    assert account.post("/account/sign-in/", {"key": issued.plaintext}).status_code == 302
    of_runs = "/admin/runs/run/"
    one = Run.objects.filter(status="COMPLETED").order_by("-run_id")[0].pk
    pages = {
        "console: first page": "/admin/",
        "console: its live fragment": "/admin/live/",
        "console: runs": of_runs,
        "console: runs, page 10": f"{of_runs}?p=10",
        "console: runs of a large tenant": f"{of_runs}?tenant={LARGE}",
        "console: runs of a small tenant": f"{of_runs}?tenant={SMALL}",
        "console: runs of a rare pack": f"{of_runs}?pack=eval",
        "console: runs failed for a rare reason": f"{of_runs}?reason=RESULT_LOST",
        "console: runs, queued": f"{of_runs}?status__exact=QUEUED",
        "console: one run": f"{of_runs}{one}/change/",
    }
    for what, path in pages.items():
        measured(what, lambda path=path: found(console, path), rows, times=5, at_most=PAGE_MS)  # type: ignore[misc]
    for what in ("overview", "runs/", "runs/?status=FAILED", "runs/?pack=eval", "statement/", "usage/"):
        path = "/account/" + what.removeprefix("overview")
        measured(f"account: {what}", lambda path=path: found(account, path), rows, times=5, at_most=PAGE_MS)  # type: ignore[misc]
    measured("metrics: runs", lambda: list(run_metrics.collect_runs()), rows, at_most=PAGE_MS)


def found(client: Any, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)


def measure(sizes: list[int]) -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from budget.redis import scripts
    from tenants import rate_limits

    settings.ALLOWED_HOSTS = ["testserver"]
    rate_limits.PAGES_PER_MINUTE = 100_000  # type: ignore[misc]  # it asks the same page again and again
    call_command("migrate", verbosity=0)
    call_command("provision", verbosity=0, stdout=io.StringIO())
    for rows in sizes:
        fill(rows)
        scripts.shared_scripts().client.flushdb()
        money(rows)
        sum_up()
        requests(rows)
        loops(rows)
        people(rows)


def sizes_up_to(most: int) -> list[int]:
    found = [FEW]
    while found[-1] * 10 <= most:
        found.append(found[-1] * 10)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=MOST, help="runs in the largest table; tenfold from 10,000 on")
    given = parser.parse_args()
    os.environ["DPP_ENABLE_PROBE_PACK"] = "1"
    with own_services():
        measure(sizes_up_to(given.most))


if __name__ == "__main__":
    main()
