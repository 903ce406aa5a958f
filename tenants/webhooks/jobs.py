"""Periodic work of webhooks; also by hand, `manage.py run_job webhook_retention`."""

from typing import Final

from dpp_project.constants import RETENTION_INTERVAL_SECONDS
from dpp_project.jobs.registry import Job
from tenants.webhooks import releasing, retention

JOBS: Final = (
    Job(
        name="webhook_release",
        summary="Sends the rest of what a webhook's resume or recovery lets go; ends the rest of a deletion's.",
        every_seconds=30,
        run_once=releasing.release_held_webhooks,
        preview=releasing.preview_releasing_webhooks,
    ),
    Job(
        name="webhook_retention",
        summary="Deletes messages of webhooks with their deliveries, and deleted webhooks, past their retention.",
        every_seconds=RETENTION_INTERVAL_SECONDS,
        run_once=retention.forget_old_webhooks,
        preview=retention.preview_forgetting_webhooks,
    ),
)
