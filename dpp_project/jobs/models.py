"""What each run of a job saw and did. Metrics of job ages and the admin read this table."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q


class JobReport(models.Model):
    """Written when a run starts, completed when it ends. One that never ended died with its process."""

    job = models.CharField(max_length=64)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    seen = models.PositiveIntegerField(default=0)
    changed = models.PositiveIntegerField(default=0)
    errors = models.PositiveIntegerField(default=0)
    detail = models.JSONField(default=dict)
    dry_run = models.BooleanField(default=False)
    host = models.CharField(max_length=128)
    pid = models.PositiveIntegerField()
    beat_at = models.DateTimeField(null=True)
    """The heartbeat of a pass at work, by the database's clock: its row is the job's lease (leases.py)."""

    class Meta:
        db_table = "job_reports"
        indexes: ClassVar = [
            models.Index(fields=["job", "-started_at"], name="idx_job_reports_latest"),
            models.Index(fields=["started_at"], name="idx_job_reports_age"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("started_at")),
                name="job_report_ends_after_start",
            ),
            models.UniqueConstraint(fields=["job"], condition=Q(beat_at__isnull=False), name="job_reports_one_at_work"),
        ]

    def __str__(self) -> str:
        return f"{self.job} at {self.started_at:%Y-%m-%d %H:%M:%S}"

    def remarks(self) -> list[str]:
        """What the pass left and why, for people: rows it skipped, what it waits for, a backlog."""
        return report_remarks(self.detail)


def report_remarks(detail: Mapping[str, Any]) -> list[str]:
    said = [f"skipped {row}: {why}" for row, why in detail.get("skipped", {}).items()]
    if "waits_for" in detail:
        said.append(f"the rest waits for {detail['waits_for']}")
    if "ended_by" in detail:
        said.append("the pass reached its deadline; the next one goes on with the rest")
    return said
