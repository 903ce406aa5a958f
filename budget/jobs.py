"""What recurs: the gate is watched, credits are brought home, the law is proved, the days are summed up."""

from datetime import datetime, timedelta
from typing import Final

from budget import daily_snapshots, entries, low_balances
from budget.caps import alerts
from budget.rebuild.gate_watch import watch_gates
from budget.verification import verify_pass
from dpp_project.jobs.registry import Job, PassReport

PENDING_IS_LATE_AFTER: Final = timedelta(seconds=10)


def watch_gate(*, now: datetime, limit: int) -> PassReport:
    """Rebuilds what is closed or lost. Two at once: the lock lets one of them work."""
    del now
    seen = watch_gates(limit=limit)
    return PassReport(seen=seen.found, changed=seen.rebuilt, errors=seen.failed, detail={"tenants": list(seen.tenants)})


def apply_pending(*, now: datetime, limit: int) -> PassReport:
    """Brings to the balance what a crash between ledger and balance left behind."""
    del now
    done = entries.replay_pending(limit=limit, older_than=PENDING_IS_LATE_AFTER)
    return PassReport(seen=done.seen, changed=done.applied, errors=done.skipped.errors, detail=done.detail)


def verify_all(*, now: datetime, limit: int) -> PassReport:
    """Proves the law tenant by tenant, in turn, and audits some of the ledger. Repairing is a person's decision."""
    del now
    return verify_pass.run_verify_pass(limit=limit)


def sum_up_days(*, now: datetime, limit: int) -> PassReport:
    """Writes yesterday's closing sums. Run twice, the second finds nothing to do."""
    written = daily_snapshots.sum_up(now=now, limit=limit)
    return PassReport(seen=written, changed=written)


JOBS = (
    Job(
        name="budget_gate_watch",
        summary="Rebuilds money that is closed or lost.",
        every_seconds=5,
        run_once=watch_gate,
        limit=1_000,
    ),
    Job(
        name="pending_credits",
        summary="Brings entries to the balance that a crash left on the way.",
        every_seconds=30,
        run_once=apply_pending,
        limit=1_000,
    ),
    Job(
        name="low_balances",
        summary="Tells the webhooks of tenants whose balance has fallen below their own line.",
        every_seconds=30,
        run_once=low_balances.tell_low_balances,
        limit=100_000,
    ),
    Job(
        name=alerts.JOB,
        summary="Tells the webhooks of tenants where half and four fifths of a spend cap are used.",
        every_seconds=30,
        run_once=alerts.raise_cap_alerts,
        limit=1_000_000,
    ),
    Job(
        name=verify_pass.JOB,
        summary="Proves that ledger, balances, holds and runs add up, tenant by tenant in turn.",
        every_seconds=300,
        run_once=verify_all,
        limit=100_000,
    ),
    Job(
        name="balance_snapshots",
        summary="Sums up the ledger by day, so that balances stay quick to work out.",
        every_seconds=3_600,
        run_once=sum_up_days,
        limit=100_000,
    ),
)
