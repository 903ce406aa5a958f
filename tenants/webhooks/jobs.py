"""Periodic work of webhooks; also by hand, `manage.py run_job webhook_retention`."""

from typing import Final

from dpp_project.constants import RETENTION_INTERVAL_SECONDS
from dpp_project.jobs.registry import Job
from tenants.webhooks import retention

JOBS: Final = (
    Job(
        name="webhook_retention",
        summary="Deletes messages of webhooks with their deliveries, and deleted webhooks, past their retention.",
        every_seconds=RETENTION_INTERVAL_SECONDS,
        run_once=retention.run_once,
        preview=retention.preview,
    ),
)
