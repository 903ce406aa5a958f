"""Events on their way: the outbox, the consumers' ledger, and the dead letters.

    outbox     PENDING -> PROCESSING -> PUBLISHED | PENDING (to be tried again) | DEAD
               PUBLISHED -> PENDING by the resend, DEAD -> PENDING by a person
    ledger     PENDING | RETRY_WAIT | PROCESSING whose lease is over -> PROCESSING -> DONE | RETRY_WAIT | DEAD
               DONE | DEAD | RETRY_WAIT -> PENDING where the event is to be handled anew

The trigger `outbox_step_is_legal` freezes what an event says and holds the outbox's edges against every writer.
"""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class OutboxMessage(models.Model):
    """One event, written by the statement that makes its fact."""

    class Status(models.TextChoices):
        PENDING = "PENDING"
        PROCESSING = "PROCESSING"
        PUBLISHED = "PUBLISHED"
        DEAD = "DEAD"

    outbox_id = models.UUIDField(primary_key=True, editable=False)
    aggregate_type = models.TextField()
    aggregate_id = models.TextField()
    event_type = models.TextField()
    idempotency_key = models.TextField()
    tenant_id = models.TextField(null=True)  # noqa: DJ001  absent where it concerns no tenant
    payload = models.JSONField()
    status = models.TextField(choices=Status.choices, db_default="PENDING", default="PENDING")
    processing_owner = models.UUIDField(null=True)
    """A token of one claim, never of a process: a publisher that lost its claim cannot finalize it."""
    claimed_at = models.DateTimeField(null=True)
    retry_count = models.PositiveIntegerField(db_default=0, default=0)
    next_retry_at = models.DateTimeField(db_default=Now())
    """When a pending message is due."""
    resend_at = models.DateTimeField(null=True)
    handled_at = models.DateTimeField(null=True)
    """When the ledger came to its end for this event: DONE, or DEAD with a letter."""
    last_error = models.TextField(db_default="", default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    published_at = models.DateTimeField(null=True)
    """When it was sent for the first time."""

    class Meta:
        db_table = "outbox_message"
        ordering = ["-outbox_id"]
        verbose_name = "event"
        indexes = [
            models.Index(fields=["next_retry_at"], name="idx_outbox_due", condition=Q(status="PENDING")),
            models.Index(fields=["claimed_at"], name="idx_outbox_claimed", condition=Q(status="PROCESSING")),
            models.Index(
                fields=["resend_at"], name="idx_outbox_resend", condition=Q(status="PUBLISHED", handled_at__isnull=True)
            ),
            models.Index(fields=["aggregate_id"], name="idx_outbox_aggregate"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["idempotency_key"], name="outbox_message_key_unique"),
            models.CheckConstraint(
                condition=Q(status__in=["PENDING", "PROCESSING", "PUBLISHED", "DEAD"]), name="outbox_status_known"
            ),
            models.CheckConstraint(
                condition=Q(status="PROCESSING", processing_owner__isnull=False, claimed_at__isnull=False)
                | ~Q(status="PROCESSING") & Q(processing_owner__isnull=True, claimed_at__isnull=True),
                name="outbox_claimed_while_processing",
            ),
            models.CheckConstraint(
                condition=~Q(status="PUBLISHED") | Q(published_at__isnull=False), name="outbox_published_at_a_time"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event_type} {self.outbox_id}"


class ProcessedMessage(models.Model):
    """What consumers know of one event. Made by `ledger.ensure_row_exists` alone; no column has a default."""

    class Status(models.TextChoices):
        PENDING = "PENDING"
        PROCESSING = "PROCESSING"
        RETRY_WAIT = "RETRY_WAIT"
        DONE = "DONE"
        DEAD = "DEAD"

    outbox_id = models.UUIDField(primary_key=True, editable=False)
    status = models.TextField(choices=Status.choices)
    lease_owner = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    retry_count = models.PositiveIntegerField()
    next_retry_at = models.DateTimeField(null=True)
    last_error = models.TextField()

    class Meta:
        db_table = "processed_message"
        ordering = ["-outbox_id"]
        verbose_name = "handled event"
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["PENDING", "PROCESSING", "RETRY_WAIT", "DONE", "DEAD"]),
                name="processed_status_known",
            ),
            models.CheckConstraint(
                condition=Q(status="PROCESSING", lease_owner__isnull=False, lease_until__isnull=False)
                | ~Q(status="PROCESSING") & Q(lease_owner__isnull=True, lease_until__isnull=True),
                name="processed_leased_while_processing",
            ),
            models.CheckConstraint(
                condition=Q(status="RETRY_WAIT", next_retry_at__isnull=False)
                | ~Q(status="RETRY_WAIT") & Q(next_retry_at__isnull=True),
                name="processed_retry_has_a_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.outbox_id}"


class EventDeadLetter(models.Model):
    """A message that was given up, as it came: body, attributes and the reason. Kept 30 days, to be sent again."""

    class Reason(models.TextChoices):
        HEADER_MISSING = "HEADER_MISSING", "an attribute is missing or wrong"
        NOT_JSON = "NOT_JSON", "the body is no JSON object"
        UNKNOWN_EVENT = "UNKNOWN_EVENT", "there is no such event in the outbox"
        NOT_AS_WRITTEN = "NOT_AS_WRITTEN", "it differs from the event in the outbox"
        NOT_RETRYABLE = "NOT_RETRYABLE", "its handler refused it for good"
        RETRIES_EXCEEDED = "RETRIES_EXCEEDED", "it failed too often"
        RECEIVED_TOO_OFTEN = "RECEIVED_TOO_OFTEN", "the queue gave it up"
        UNSENDABLE = "UNSENDABLE", "the queue does not take it"

    letter_key = models.TextField(unique=True)
    """The message's id in the queue; of what was never sent, the claim that found out."""
    outbox_id = models.UUIDField(null=True)
    tenant_id = models.TextField(null=True)  # noqa: DJ001  absent where it is unknown
    event_type = models.TextField(db_default="", default="")
    reason = models.TextField(choices=Reason.choices)
    detail = models.TextField(db_default="", default="")
    body = models.BinaryField()
    attributes = models.JSONField()
    receives = models.PositiveIntegerField()
    sent_at = models.DateTimeField(null=True)
    stored_at = models.DateTimeField(db_default=Now(), editable=False)
    redriven_at = models.DateTimeField(null=True)
    redriven_by = models.TextField(db_default="", default="")

    class Meta:
        db_table = "event_dead_letter"
        ordering = ["-stored_at", "-pk"]
        verbose_name = "event's dead letter"
        indexes = [
            models.Index(fields=["-stored_at"], name="idx_event_letters_newest"),
            models.Index(fields=["outbox_id"], name="idx_event_letters_event", condition=Q(outbox_id__isnull=False)),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(redriven_at__isnull=True, redriven_by="")
                | Q(redriven_at__isnull=False) & ~Q(redriven_by=""),
                name="event_letters_redriven_by_someone",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reason} {self.letter_key}"
