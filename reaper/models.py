"""Dead letters: what three receives did not finish, kept to be seen and, if wanted, sent again."""

from django.contrib.postgres.functions import TransactionNow
from django.db import models
from django.db.models import Q

RAW_BYTES_MAX = 16_384


class DeadLetter(models.Model):
    """What came from the dead-letter queue: one row for each run, or for each message of poison.

    Of a readable message only ids and headers are kept, of another its bytes. Of a run's letters the last one's are,
    and `letters` counts them. `of_run` is the run where it is the row's key; rows of version 0.1.0, one for each
    message, have none.
    """

    class Outcome(models.TextChoices):
        KEPT = "KEPT", "kept: nothing to do for its run"
        REQUEUED = "REQUEUED", "its run was sent once more"
        REFUNDED = "REFUNDED", "its run was ended and its hold returned"
        POISON = "POISON", "not a message of ours"

    message_id = models.TextField(unique=True)
    of_run = models.UUIDField(null=True, editable=False)
    outcome = models.TextField(choices=Outcome.choices)
    run_id = models.UUIDField(null=True)
    tenant_id = models.TextField(default="", db_default="")
    task = models.TextField(default="", db_default="")
    trace_id = models.TextField(default="", db_default="")
    kwargs = models.JSONField(default=dict)
    raw = models.BinaryField(null=True)
    size_bytes = models.PositiveIntegerField()
    sha256 = models.TextField()
    receives = models.PositiveIntegerField()
    letters = models.PositiveIntegerField(default=1, db_default=1)
    sent_at = models.DateTimeField(null=True)
    stored_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    redriven_at = models.DateTimeField(null=True)
    redriven_by = models.TextField(default="", db_default="")

    class Meta:
        db_table = "dead_letters"
        ordering = ["-stored_at", "-pk"]
        indexes = [
            models.Index(fields=["-stored_at"], name="idx_dead_letters_newest"),
            models.Index(fields=["run_id"], name="idx_dead_letters_run", condition=Q(run_id__isnull=False)),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["of_run"], name="dead_letters_one_per_run", condition=Q(of_run__isnull=False)
            ),
            models.CheckConstraint(
                condition=Q(outcome__in=["KEPT", "REQUEUED", "REFUNDED", "POISON"]), name="dead_letters_outcome_known"
            ),
            models.CheckConstraint(
                condition=Q(outcome="POISON", raw__isnull=False) | ~Q(outcome="POISON") & Q(raw__isnull=True),
                name="dead_letters_bytes_of_poison_alone",
            ),
            models.CheckConstraint(
                condition=Q(redriven_at__isnull=True, redriven_by="")
                | Q(redriven_at__isnull=False) & ~Q(redriven_by=""),
                name="dead_letters_redriven_by_someone",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.message_id} {self.outcome}"

    @property
    def is_whole(self) -> bool:
        """Whether the stored bytes of poison are all there were."""
        return self.raw is not None and len(self.raw) == self.size_bytes
