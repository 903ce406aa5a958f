"""The schedule of operations. Both run by hand too: `manage.py ops_cycle`, `manage.py run_job ops_retention`."""

from dpp_project.constants import RECOVERY_INTERVAL_SECONDS, RETENTION_INTERVAL_SECONDS
from dpp_project.jobs.registry import Job
from ops.tickets import cycle, retention

JOBS = (
    Job(
        name="ops_cycle",
        summary="Looks at the emergency stop, reaps stale tickets, works on open ones.",
        every_seconds=RECOVERY_INTERVAL_SECONDS,
        run_once=cycle.run_once,
        preview=cycle.preview,
        limit=500,
    ),
    Job(
        name="ops_retention",
        summary="Deletes receipts and reports of the ops cycle after their period.",
        every_seconds=RETENTION_INTERVAL_SECONDS,
        run_once=retention.run_once,
        preview=retention.preview,
        limit=5_000,
    ),
)
