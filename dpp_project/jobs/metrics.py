"""How long ago each job last finished, and what it found, from the report table (DPP-74)."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project import clock
from dpp_project.jobs import registry
from dpp_project.jobs.models import JobReport
from dpp_project.observe import metrics


@metrics.metrics_collector("jobs")
def collect_job_ages() -> Iterable[Metric]:
    """A job that never finished has no age: alert on absence as on an age far above its interval."""
    age = GaugeMetricFamily("dpp_job_age_seconds", "Since the job last finished.", labels=["job"])
    interval = GaugeMetricFamily("dpp_job_interval_seconds", "How often the job is due.", labels=["job"])
    changed = GaugeMetricFamily("dpp_job_last_changed", "What its last finished pass changed.", labels=["job"])
    errors = GaugeMetricFamily("dpp_job_last_errors", "Errors of its last finished pass.", labels=["job"])
    now = clock.now()
    for job in registry.declared_jobs().values():  # a query each, by index: over the whole table one would grow with it
        interval.add_metric([job.name], job.every_seconds)
        finished = JobReport.objects.filter(job=job.name, dry_run=False, ended_at__isnull=False)
        last = finished.order_by("-started_at").first()
        if last is not None and last.ended_at is not None:
            age.add_metric([job.name], max(0.0, (now - last.ended_at).total_seconds()))
            changed.add_metric([job.name], last.changed)
            errors.add_metric([job.name], last.errors)
    return [age, interval, changed, errors]
