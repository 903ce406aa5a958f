"""Alarms that stand, and what the last daily cleanup came to."""

from collections.abc import Iterable

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project.lifecycle import alarming
from dpp_project.lifecycle.models import DataCleanup
from dpp_project.observe import metrics

LOG_FILES_CUT = Counter("dpp_log_files_cut_total", "Rotated log files deleted before their days, for want of room.")


@metrics.metrics_collector("alarms")
def collect_alarms() -> Iterable[Metric]:
    family = GaugeMetricFamily("dpp_alarms", "Alarms that stand.", labels=["alarm"])
    standing = [alarm.name for alarm in alarming.standing_alarms()]
    for name in sorted({*alarming.alarm_checks(), *standing}):
        family.add_metric([name], standing.count(name))
    return [family]


@metrics.metrics_collector("cleanup")
def collect_cleanup() -> Iterable[Metric]:
    failures = GaugeMetricFamily("dpp_cleanup_failures", "Passes of the daily cleanup that failed in a row.")
    rows = GaugeMetricFamily("dpp_cleanup_rows", "Rows that the latest daily cleanup deleted.", labels=["kind"])
    latest = DataCleanup.objects.order_by("-day").first()
    failures.add_metric([], 0 if latest is None else latest.failures)
    for step in latest.steps.all() if latest is not None else ():
        rows.add_metric([step.kind], step.rows)
    return [failures, rows]


@metrics.metrics_collector("disks")
def collect_disks() -> Iterable[Metric]:
    from dpp_project.lifecycle import measuring  # it names objects, whose client counts into metrics of its own

    used = GaugeMetricFamily("dpp_disk_used_bytes", "Used of a disk, as measured last.", labels=["host", "disk"])
    total = GaugeMetricFamily("dpp_disk_total_bytes", "Room of a disk.", labels=["host", "disk"])
    days = GaugeMetricFamily("dpp_disk_days_until_full", "As it grew of late.", labels=["host", "disk"])
    for (host, disk), outlook in measuring.disk_outlooks().items():
        used.add_metric([host, disk], outlook.used_bytes)
        if outlook.total_bytes is not None:
            total.add_metric([host, disk], outlook.total_bytes)
        if outlook.days_until_full is not None:
            days.add_metric([host, disk], outlook.days_until_full)
    sizes = GaugeMetricFamily("dpp_data_bytes", "Room that a kind of data took, as measured last.", labels=["kind"])
    for size in measuring.data_sizes():
        sizes.add_metric([size.kind], size.bytes)
    return [used, total, days, sizes]
