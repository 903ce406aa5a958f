"""What the daily cleanup did, which alarms stand, how much room the data take."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class DataCleanup(models.Model):
    """One a local date of DPP_REPORT_TIME_ZONE. Open until each kind was cleared once."""

    day = models.DateField(primary_key=True)
    due_at = models.DateTimeField()
    started_at = models.DateTimeField(db_default=Now(), editable=False)
    ended_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0, db_default=0)
    """Passes that failed one after the other, those of the day before included."""
    next_try_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "data_cleanups"
        ordering = ["-day"]
        verbose_name = "cleanup"

    def __str__(self) -> str:
        return f"cleanup of {self.day}"


class CleanupStep(models.Model):
    """One kind of data in one day's cleanup: how far it has come, and what it deleted so far."""

    cleanup = models.ForeignKey(DataCleanup, on_delete=models.CASCADE, related_name="steps", db_index=False)
    kind = models.TextField()
    watermark = models.JSONField(null=True)
    """Where the next batch begins: the last row's columns of the clearing's order, as text."""
    rows = models.PositiveBigIntegerField(default=0, db_default=0)
    bytes_deleted = models.PositiveBigIntegerField(default=0, db_default=0)
    """Of the rows, for the table to use again."""
    table_bytes_before = models.PositiveBigIntegerField(default=0, db_default=0)
    table_bytes_after = models.PositiveBigIntegerField(null=True)
    """What a deletion gives back to the disk is less than it deleted: Postgres keeps the room for the table."""
    ended_at = models.DateTimeField(null=True)
    error = models.TextField(default="", db_default="", blank=True)

    class Meta:
        db_table = "data_cleanup_steps"
        constraints = [models.UniqueConstraint(fields=["cleanup", "kind"], name="data_cleanup_steps_once")]

    def __str__(self) -> str:
        return f"{self.kind} on {self.cleanup_id}"

    @property
    def bytes_returned(self) -> int:
        return 0 if self.table_bytes_after is None else max(0, self.table_bytes_before - self.table_bytes_after)


class Alarm(models.Model):
    """What a person must see to, from when it was found until it was over. One open row of a name and subject.

    Who tells people of alarms goes by these rows: a row is one alarm, however often it is looked at.
    """

    name = models.TextField()
    subject = models.TextField()
    said = models.TextField()
    began_at = models.DateTimeField(db_default=Now(), editable=False)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "alarms"
        ordering = ["-pk"]
        indexes = [models.Index(fields=["ended_at"], name="idx_alarms_ended")]
        constraints = [
            models.UniqueConstraint(
                fields=["name", "subject"], condition=Q(ended_at__isnull=True), name="alarms_one_open"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.subject}"


class DataSize(models.Model):
    """How much room one kind of data took on a local date, at its last measuring."""

    day = models.DateField()
    kind = models.TextField()
    bytes = models.PositiveBigIntegerField()
    objects_count = models.PositiveBigIntegerField(default=0, db_default=0)
    is_whole = models.BooleanField(default=True, db_default=True)
    """Whether all of it was looked at: a bucket is listed as far as a pass goes."""

    class Meta:
        db_table = "data_sizes"
        constraints = [models.UniqueConstraint(fields=["day", "kind"], name="data_sizes_once_a_day")]

    def __str__(self) -> str:
        return f"{self.kind} on {self.day}: {self.bytes}"


class DiskUse(models.Model):
    """How full one disk was on a local date, at its last measuring: a host's, Postgres' or Redis' room."""

    day = models.DateField()
    host = models.TextField(blank=True, default="", db_default="")
    """Empty for what belongs to no host of ours."""
    disk = models.TextField()
    used_bytes = models.PositiveBigIntegerField()
    total_bytes = models.PositiveBigIntegerField(null=True)
    """None where nobody can say: Postgres knows no disk."""
    measured_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "disk_uses"
        constraints = [models.UniqueConstraint(fields=["day", "host", "disk"], name="disk_uses_once_a_day")]

    def __str__(self) -> str:
        return f"{self.host} {self.disk} on {self.day}: {self.used_bytes}"
