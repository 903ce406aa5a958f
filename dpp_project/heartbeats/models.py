"""Every process of the platform, as it says of itself every few seconds."""

from django.db import models
from django.db.models.functions import Now


class ProcessHeartbeat(models.Model):
    """One row a process, from its start to its end. A process that ended in order takes its row along."""

    key = models.CharField(primary_key=True, max_length=32)
    service = models.CharField(max_length=32)
    host = models.CharField(max_length=128)
    pid = models.PositiveIntegerField()
    identity = models.CharField(max_length=96, help_text="Boot, pid and start time: a pid alone is used again.")
    release = models.CharField(max_length=32)
    address = models.CharField(max_length=128, blank=True)
    slots = models.PositiveIntegerField()
    progress = models.PositiveBigIntegerField(default=0)
    progressed_at = models.DateTimeField(db_default=Now())
    turned_at = models.DateTimeField(null=True)
    """When its loop was last seen to turn, idle or not; none where its release does not say."""
    started_at = models.DateTimeField(db_default=Now())
    beat_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "process_heartbeats"
        verbose_name = "process"
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return f"{self.service} {self.pid} at {self.host}"
