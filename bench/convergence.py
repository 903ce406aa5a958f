"""How soon the live platform is right again: workers killed, claims left behind, Redis emptied, Postgres killed.

    make bench B=convergence        about ten minutes, most of them waiting; writes docs/convergence.md

A platform of its own, as `make up` starts it, with 100,000 open runs and customers who go on buying. Nothing in it is
made older or quicker: leases, claims and ticks are the real ones, and times are the database's.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

import psycopg

from dpp_project.constants import LEASE_TTL_SECONDS, REAPER_INTERVAL_SECONDS, RECOVERY_INTERVAL_SECONDS
from runs.timing import RECONCILE_AFTER_SECONDS
from tests.gear.faults.proxy import Mode
from tests.gear.waiting import wait_until
from tests.proving.chaos.customers import Account, Customers
from tests.proving.chaos.stand import Stand

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "convergence.md"
OPEN_RUNS: Final = 100_000
TENANTS: Final = 200
AT_WORK: Final = 4
"""What one worker has room for."""
CLAIMS: Final = 6
LOAD_SECONDS: Final = 8.0
SERVING_WITHIN_SECONDS: Final = 60
REAPED_WITHIN_SECONDS: Final = LEASE_TTL_SECONDS + 2 * REAPER_INTERVAL_SECONDS
TAKEN_OVER_WITHIN_SECONDS: Final = RECONCILE_AFTER_SECONDS + RECOVERY_INTERVAL_SECONDS
PATIENCE_SECONDS: Final = 240
"""For what is not measured; a message that a killed worker's open poll took along comes again within it."""

_FILL: Final = (
    "INSERT INTO tenants (tenant_id, display_name) SELECT 't_open_' || n, 't_open_' || n FROM generate_series(1, %s) n",
    """INSERT INTO ledger_entries (entry_id, tenant_id, kind, amount_usd_micros, reference, actor)
       SELECT gen_random_uuid(), tenant_id, 'TOPUP', 1000000000, 'first', 'bench'
         FROM tenants WHERE tenant_id LIKE 't_open_%%' AND %s > 0""",
    """INSERT INTO runs (run_id, tenant_id, pack_type, status, money_state, payload_hash, version,
                         reservation_max_cost_usd_micros, minimum_fee_usd_micros, retention_until, next_send_at,
                         last_actor)
       SELECT gen_random_uuid(), 't_open_' || (n %% 200 + 1), 'probe', 'QUEUED', 'RESERVED', repeat('a', 64), 1,
              250000, 5000, now() + interval '30 days', now() + interval '1 day', 'bench'
         FROM generate_series(1, %s) n""",
)
_ENDS: Final = """
SELECT run_id, extract(epoch FROM min(at) FILTER (WHERE stage = 'CLAIMED')),
       extract(epoch FROM min(at) FILTER (WHERE stage = 'COMMITTED')),
       max(actor) FILTER (WHERE stage = 'COMMITTED'),
       count(*) FILTER (WHERE stage = 'COMMITTED')
  FROM run_history WHERE run_id = ANY(%s::uuid[]) GROUP BY run_id
"""


@dataclass(frozen=True)
class Line:
    """One row of the page: what was done, and after how many seconds it was right again, of how many allowed."""

    what: str
    seconds: Sequence[float]
    allowed_seconds: int

    def wrong(self) -> bool:
        return max(self.seconds) > self.allowed_seconds


@dataclass
class Findings:
    lines: list[Line] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, line: Line) -> None:
        print(_row(line), flush=True)
        self.lines.append(line)
        if line.wrong():
            self.wrong.append(f"{line.what}: {max(line.seconds):.1f} s, allowed are {line.allowed_seconds} s")

    def say(self, fact: str) -> None:
        print(fact, flush=True)
        self.facts.append(fact)


class Database:
    """Straight to Postgres, past the proxies; a connection each time, since it is killed now and then."""

    def __init__(self, stand: Stand) -> None:
        self._url = stand.values["DATABASE_URL"]

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url, connect_timeout=5) as connection:
            return connection.execute(statement, values).fetchall()

    def do(self, statement: str, *values: Any) -> None:
        with psycopg.connect(self._url, connect_timeout=5) as connection:
            connection.execute(statement, values)

    def now(self) -> float:
        return float(self.rows("SELECT extract(epoch FROM clock_timestamp())")[0][0])

    def count(self, run_ids: Sequence[str], condition: str) -> int:
        statement = f"SELECT count(*) FROM runs WHERE run_id = ANY(%s::uuid[]) AND {condition}"  # noqa: S608  ours
        found = self.rows(statement, list(run_ids))
        return int(found[0][0])


def main() -> None:
    findings = Findings()
    with Stand() as stand:
        database = Database(stand)
        fill(stand, database)
        account = Account("t_convergence", *stand.customer_keys("t_convergence"))
        customers = Customers(stand.api, stand.values["DPP_OPERATOR_KEY"], [account], seed=1)
        customers.come()
        load(customers)
        empty_redis(stand, customers, findings)
        kill_postgres(stand, customers, findings)
        load(customers)
        customers.leave()
        wait_until(customers.are_gone, seconds=PATIENCE_SECONDS, pause_seconds=0.1, what="the customers to leave")
        claims = leave_claims(stand, database, customers)
        killed = kill_workers(stand, database, customers)
        nothing_is_lost(database, customers, findings)
        recover(database, findings, claims=claims, killed=killed)
        proved, told = stand.proves_its_money()
        findings.wrong += [] if proved else [f"money_verify: {told}"]
        findings.wrong += customers.books.wrong
        customers.close()
    PAGE.write_text(page(findings), encoding="utf-8")
    print(f"written to {PAGE.name}")
    if findings.wrong:
        raise SystemExit("WRONG: " + "; ".join(findings.wrong))


# What is done.


def fill(stand: Stand, database: Database) -> None:
    for statement, count in zip(_FILL, (TENANTS, 1, OPEN_RUNS), strict=True):
        database.do(statement, count)
    wait_until(
        lambda: stand.manage("budget_rebuild", "--json").returncode == 0,
        seconds=PATIENCE_SECONDS,
        what="holds for the open runs, once the gate's watch is done with the new tenants",
    )


def load(customers: Customers) -> None:
    """Until so many more runs were accepted as a while of buying brings."""
    since = time.monotonic()
    wait_until(
        lambda: (customers.books.first_served(since + LOAD_SECONDS) or 0) > 0,
        seconds=PATIENCE_SECONDS,
        pause_seconds=0.1,
        what="customers under way",
    )


def served_again(customers: Customers, since: float) -> float:
    """Seconds from this moment until a submit asked after it was accepted."""
    found = wait_until(
        lambda: customers.books.first_served(since), seconds=PATIENCE_SECONDS, pause_seconds=0.05, what="service"
    )
    return found - since


def empty_redis(stand: Stand, customers: Customers, findings: Findings) -> None:
    """Memory and files: what the next Redis starts with is nothing."""
    before = len(customers.books.accepted())
    stand.redis().flushall()
    stand.kill("redis")
    seconds = served_again(customers, time.monotonic())
    findings.add(
        Line(f"Redis emptied and killed, {OPEN_RUNS:,} runs open: serving again", [seconds], SERVING_WITHIN_SECONDS)
    )
    load(customers)
    proved, told = stand.proves_its_money()
    if not proved:
        findings.wrong.append(f"money_verify after Redis was emptied: {told}")
    findings.say(
        f"After Redis was emptied `money_verify` proved every tenant: 0 micros lost ({before} runs before it)."
    )


def kill_postgres(stand: Stand, customers: Customers, findings: Findings, *, times: int = 3) -> None:
    seconds = []
    for _ in range(times):
        load(customers)
        stand.kill("postgres")
        seconds.append(served_again(customers, time.monotonic()))
    findings.add(Line("Postgres killed (SIGKILL): serving again", seconds, SERVING_WITHIN_SECONDS))


def leave_claims(stand: Stand, database: Database, customers: Customers) -> list[str]:
    """Claimed, and their workers killed before any money moved: Redis is out of reach until then."""
    run_ids = ordered(customers, CLAIMS, sleep_ms=8_000)
    wait_for(database, run_ids, "status = 'PROCESSING'")
    stand.proxies["redis"].set(Mode.REFUSE)
    wait_for(database, run_ids, "finalize_stage = 'CLAIMED'")
    stand.kill("worker")
    stand.second_ones(SIGKILL)
    stand.proxies["redis"].set(Mode.PASS)
    return run_ids


def kill_workers(stand: Stand, database: Database, customers: Customers, *, times: int = 2) -> dict[str, float]:
    """By run, when its worker was killed with it at work."""
    killed: dict[str, float] = {}
    for _ in range(times):
        run_ids = ordered(customers, AT_WORK, sleep_ms=40_000)
        wait_for(database, run_ids, "status = 'PROCESSING'")
        stand.kill("worker")
        killed |= dict.fromkeys(run_ids, database.now())
    return killed


def ordered(customers: Customers, count: int, *, sleep_ms: int) -> list[str]:
    before = {order.run_id for order in customers.books.accepted()}
    customers.order_long_ones(count, sleep_ms=sleep_ms)
    return [str(order.run_id) for order in customers.books.accepted() if order.run_id not in before]


def wait_for(database: Database, run_ids: Sequence[str], condition: str) -> None:
    wait_until(
        lambda: database.count(run_ids, condition) == len(run_ids),
        seconds=PATIENCE_SECONDS,
        pause_seconds=0.1,
        what=f"{len(run_ids)} runs {condition}",
    )


# What came of it.


def nothing_is_lost(database: Database, customers: Customers, findings: Findings) -> None:
    accepted = [str(order.run_id) for order in customers.books.accepted()]
    stand_there = database.count(accepted, "true")
    if stand_there != len(accepted):
        findings.wrong.append(f"{len(accepted) - stand_there} accepted runs have no row")
    findings.say(f"{len(accepted):,} runs were accepted meanwhile, and {stand_there:,} of them stand in Postgres.")


def recover(database: Database, findings: Findings, *, claims: Sequence[str], killed: dict[str, float]) -> None:
    """The one wait of it all: until whatever a customer was promised has ended."""
    wait_until(
        lambda: (
            not database.rows(
                "SELECT 1 FROM runs WHERE finalize_stage IS DISTINCT FROM 'COMMITTED' AND tenant_id = 't_convergence'"
            )
        ),
        seconds=TAKEN_OVER_WITHIN_SECONDS + PATIENCE_SECONDS,
        pause_seconds=1.0,
        what="every run of the customers to end",
    )
    reaped = [ended - killed[run_id] for run_id, _, ended, _ in ends(database, list(killed))]
    findings.add(Line("worker killed (SIGKILL) at work: its run has ended", reaped, REAPED_WITHIN_SECONDS))
    taken_over = [ended - claimed for _, claimed, ended, by in ends(database, claims) if by == "reconciler"]
    findings.add(Line("worker killed after its claim: the run has ended", taken_over, TAKEN_OVER_WITHIN_SECONDS))
    if len(taken_over) != len(claims):
        findings.wrong.append(f"{len(claims) - len(taken_over)} claims were not the reconciler's to end")


def ends(database: Database, run_ids: Sequence[str]) -> Iterator[tuple[str, float, float, str]]:
    for run_id, claimed, ended, by, times in database.rows(_ENDS, list(run_ids)):
        assert times == 1, f"{run_id} ended {times} times"
        yield str(run_id), float(claimed), float(ended), str(by)


# The page.


_PAGE: Final = """# Convergence

Written by `make bench B=convergence` itself, on a platform as `make up` starts it: real workers, a real beat, the real
constants, and {open_runs:,} open runs of {tenants} tenants beside the customers whose runs are measured.

| what was done | times | median, s | worst, s | allowed, s |
|---|---:|---:|---:|---:|
{rows}

{facts}
- Verdict: {verdict}.

A lease of 120 s is looked at each 30 s, a claim of 5 min each minute, closed money each 5 s. Allowed are a lease and
two ticks, a claim and one tick, and a minute until money is open again.
"""


def page(findings: Findings) -> str:
    return _PAGE.format(
        open_runs=OPEN_RUNS,
        tenants=TENANTS,
        rows="\n".join(_row(line) for line in findings.lines),
        facts="\n".join(f"- {fact}" for fact in findings.facts),
        verdict="; ".join(findings.wrong) or "nothing is wrong",
    )


def _row(line: Line) -> str:
    worst, median = max(line.seconds), statistics.median(line.seconds)
    return f"| {line.what} | {len(line.seconds)} | {median:.1f} | {worst:.1f} | {line.allowed_seconds} |"


if __name__ == "__main__":
    main()
