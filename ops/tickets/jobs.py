"""The schedule of operations. It runs by hand too: `manage.py ops_cycle`."""

from dpp_project.constants import RECOVERY_INTERVAL_SECONDS
from dpp_project.jobs.registry import Job
from ops.tickets import cycle

JOBS = (
    Job(
        name="ops_cycle",
        summary="Looks at the emergency stop, reaps stale tickets, works on open ones.",
        every_seconds=RECOVERY_INTERVAL_SECONDS,
        run_once=cycle.run_ticket_cycle,
        preview=cycle.preview_ticket_cycle,
        limit=500,
    ),
)
