"""Tickets and what became of them, the emergency stop, and the papers that reaper and cycle leave."""

import uuid

from django.contrib.postgres.functions import TransactionNow
from django.db import models
from django.db.models import F, Q

from ops.tickets.states import RequestType, TicketStatus

TEXT_LENGTH_MAX = 200


class Ticket(models.Model):
    """Something an operator asks the ops cycle to do. Written by transitions.py alone; never deleted."""

    request_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    request_type = models.TextField(choices=[(one.value, one.value) for one in RequestType])
    status = models.TextField(choices=[(one.value, one.value) for one in TicketStatus], default=TicketStatus.OPEN)
    payload = models.JSONField()
    reason = models.TextField(default="", db_default="", blank=True)
    requested_by = models.TextField()
    idempotency_key = models.TextField(null=True)  # noqa: DJ001  unique where given
    needs_approval = models.BooleanField(default=False)
    approved_by = models.TextField(null=True)  # noqa: DJ001  absent is not empty
    approved_at = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0, db_default=0)
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    updated_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    in_progress_at = models.DateTimeField(null=True)
    last_processed_at = models.DateTimeField(null=True)
    version = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "tickets"
        ordering = ["-created_at", "-request_id"]
        indexes = [
            models.Index(fields=["-created_at", "-request_id"], name="idx_tickets_newest"),
            models.Index(
                fields=["created_at"], name="idx_tickets_unfinished", condition=Q(status__in=["OPEN", "IN_PROGRESS"])
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["idempotency_key"], name="tickets_idempotency_key_unique"),
            models.CheckConstraint(
                condition=Q(status__in=["OPEN", "IN_PROGRESS", "DONE", "FAILED"]), name="tickets_status_known"
            ),
            models.CheckConstraint(
                condition=~Q(status__in=["IN_PROGRESS", "DONE"]) | Q(in_progress_at__isnull=False),
                name="tickets_work_has_a_beginning",
            ),
            models.CheckConstraint(
                condition=~Q(status__in=["IN_PROGRESS", "DONE"])
                | Q(needs_approval=False)
                | Q(approved_by__isnull=False),
                name="tickets_work_is_approved",
            ),
            models.CheckConstraint(
                condition=Q(approved_by__isnull=True, approved_at__isnull=True)
                | Q(approved_by__isnull=False, approved_at__isnull=False) & ~Q(approved_by=F("requested_by")),
                name="tickets_approved_by_another",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.request_type} {self.request_id}"


class TicketResult(models.Model):
    """How a ticket ended: one row a ticket, never changed."""

    ticket = models.OneToOneField(Ticket, on_delete=models.PROTECT, related_name="result")
    processor_id = models.TextField()
    status = models.TextField(choices=[("DONE", "DONE"), ("FAILED", "FAILED")])
    processed_at = models.DateTimeField()
    message = models.TextField()
    detail = models.JSONField(default=dict)

    class Meta:
        db_table = "ticket_results"
        constraints = [
            models.CheckConstraint(condition=Q(status__in=["DONE", "FAILED"]), name="ticket_results_status_final"),
        ]

    def __str__(self) -> str:
        return f"{self.status} by {self.processor_id}"


class EmergencySwitch(models.Model):
    """One turn of the stop of the ticket cycle. The latest row is its state, the others are its history.

    It stops the cycle alone: runs, recovery and money go on. `tenants.services` stops submits.
    """

    is_on = models.BooleanField("stop the ticket cycle", default=True)
    actor = models.TextField(editable=False)
    reason = models.TextField()
    at = models.DateTimeField(db_default=TransactionNow(), editable=False)

    class Meta:
        db_table = "emergency_switches"
        ordering = ["-pk"]
        verbose_name = "stop of the ticket cycle"
        verbose_name_plural = "stop of the ticket cycle"
        constraints = [models.CheckConstraint(condition=~Q(reason=""), name="emergency_switches_reason_given")]

    def __str__(self) -> str:
        return f"{'on' if self.is_on else 'off'} by {self.actor}"


class ReaperReport(models.Model):
    """A report of the ticket reaper, byte for byte as it goes to the storage. Its path belongs to it alone."""

    asof = models.DateTimeField()
    snapshot_path = models.TextField(unique=True)
    content = models.TextField()
    cleaned_count = models.PositiveIntegerField()
    stale_count = models.PositiveIntegerField()
    published_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "ticket_reaper_reports"
        ordering = ["-pk"]
        indexes = [
            models.Index(fields=["asof"], name="idx_reaper_reports_age"),
            models.Index(fields=["id"], name="idx_reaper_reports_unpublished", condition=Q(published_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return self.snapshot_path


class OpsRunReceipt(models.Model):
    """What one ops cycle did, step by step."""

    class Decision(models.TextChoices):
        RAN = "RAN"
        STOPPED = "STOPPED"

    asof = models.DateTimeField()
    decision = models.TextField(choices=Decision.choices)
    document = models.JSONField()

    class Meta:
        db_table = "ops_run_receipts"
        ordering = ["-pk"]
        indexes = [models.Index(fields=["asof"], name="idx_ops_run_receipts_age")]

    def __str__(self) -> str:
        return f"{self.decision} at {self.asof:%Y-%m-%d %H:%M:%S}"
