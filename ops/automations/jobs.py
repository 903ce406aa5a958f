"""The schedule of automations beside their loops. It runs by hand too: `manage.py run_job automations_report`."""

from dpp_project.jobs.registry import Job
from ops.automations import reporting

JOBS = (
    Job(
        name="automations_report",
        summary="Says once a day what automations did; and what stands too long, and alarms, once each.",
        every_seconds=60,
        run_once=reporting.report_automations,
    ),
)
