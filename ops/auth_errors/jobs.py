"""The schedule of auth errors. Both run by hand too: `manage.py run_job auth_errors_decide`."""

from dpp_project.constants import REAPER_INTERVAL_SECONDS, RETENTION_INTERVAL_SECONDS
from dpp_project.jobs.registry import Job
from ops.auth_errors import bulk, retention

JOBS = (
    Job(
        name="auth_errors_decide",
        summary="Goes on with decisions about clusters of auth errors that one batch did not finish.",
        every_seconds=REAPER_INTERVAL_SECONDS,
        run_once=bulk.carry_on_bulk_decisions,
        preview=bulk.preview_bulk_decisions,
        limit=100,
    ),
    Job(
        name="auth_errors_retention",
        summary="Deletes auth errors and clusters after their period.",
        every_seconds=RETENTION_INTERVAL_SECONDS,
        run_once=retention.delete_old_auth_errors,
        preview=retention.preview_deleting_auth_errors,
        limit=50_000,
    ),
)
