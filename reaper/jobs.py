"""Recovery's schedule. Each loop also runs by hand: `manage.py reap`, `sweep`, `reconcile`, `requeue` and so on."""

from dpp_project.constants import REAPER_INTERVAL_SECONDS, RECOVERY_INTERVAL_SECONDS, RETENTION_INTERVAL_SECONDS
from dpp_project.jobs.registry import Job
from reaper import (
    claim_reconciler,
    dead_letters,
    hold_auditor,
    lease_reaper,
    requeuer,
    reservation_sweeper,
    retention,
)

JOBS = (
    Job(
        name="lease_reaper",
        summary="Ends runs whose worker stopped renewing its lease, at the minimum fee.",
        every_seconds=REAPER_INTERVAL_SECONDS,
        run_once=lease_reaper.reap_leases,
        preview=lease_reaper.preview_reaping_leases,
    ),
    Job(
        name="reservation_sweeper",
        summary="Ends runs that waited an hour without starting, and returns their hold.",
        every_seconds=RECOVERY_INTERVAL_SECONDS,
        run_once=reservation_sweeper.sweep_reservations,
        preview=reservation_sweeper.preview_sweeping_reservations,
    ),
    Job(
        name="claim_reconciler",
        summary="Carries out what a finisher decided and left unfinished for five minutes.",
        every_seconds=RECOVERY_INTERVAL_SECONDS,
        run_once=claim_reconciler.reconcile_claims,
        preview=claim_reconciler.preview_reconciling_claims,
    ),
    Job(
        name="requeuer",
        summary="Sends the message of a queued run again when it may be lost.",
        every_seconds=RECOVERY_INTERVAL_SECONDS,
        run_once=requeuer.requeue_runs,
        preview=requeuer.preview_requeuing_runs,
    ),
    Job(
        name="hold_auditor",
        summary="Ends abandoned submits and makes holds fit their runs.",
        every_seconds=RECOVERY_INTERVAL_SECONDS,
        run_once=hold_auditor.audit_holds,
        preview=hold_auditor.preview_auditing_holds,
    ),
    Job(
        name="dead_letters",
        summary="Stores dead letters; sends their run once more, then ends it and returns its hold.",
        every_seconds=RECOVERY_INTERVAL_SECONDS,
        run_once=dead_letters.consume_dead_letters,
        preview=dead_letters.preview_consuming_dead_letters,
    ),
    Job(
        name="run_retention",
        summary="Deletes results and inputs past their retention; forgets tombstones after a year.",
        every_seconds=RETENTION_INTERVAL_SECONDS,
        run_once=retention.expire_runs,
        preview=retention.preview_expiring_runs,
    ),
)
