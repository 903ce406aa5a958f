"""One row for each act of a person. Nothing of it is a foreign key: an entry outlives whom and what it names."""

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Func, Q


class AuditEntry(models.Model):
    """Written once, by `record_in_trail`, with the act. Triggers refuse to change, delete or empty it."""

    class Source(models.TextChoices):
        CONSOLE = "console"
        API = "api"
        COMMAND = "command"
        TICKET = "ticket"
        PLATFORM = "platform"

    # The moment itself: the entries of one transaction stand in their order.
    at = models.DateTimeField(
        "at (UTC)",
        db_default=Func(function="clock_timestamp", output_field=models.DateTimeField()),
        editable=False,
    )
    actor = models.TextField("who")
    source = models.TextField("from", choices=Source.choices)
    place = models.TextField("from where", default="", db_default="")
    act = models.TextField()
    subject = models.TextField("on what")
    tenant_id = models.TextField("tenant", null=True)  # noqa: DJ001  absent where it concerns no tenant
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.TextField(default="", db_default="")
    trace_id = models.TextField(default="", db_default="")

    class Meta:
        db_table = "audit_entries"
        verbose_name_plural = "audit trail"
        ordering = ["-pk"]
        indexes = [
            models.Index(fields=["tenant_id", "-id"], name="idx_audit_tenant", condition=Q(tenant_id__isnull=False)),
            models.Index(fields=["subject", "-id"], name="idx_audit_subject"),
            models.Index(fields=["actor", "-id"], name="idx_audit_actor"),
            models.Index(fields=["at"], name="idx_audit_failed_sign_ins", condition=Q(act="sign-in failed")),
            BrinIndex(fields=["at"], name="idx_audit_time"),
        ]
        constraints = [
            models.CheckConstraint(condition=~Q(actor="") & ~Q(act="") & ~Q(subject=""), name="audit_entries_complete"),
            models.CheckConstraint(
                condition=Q(source__in=["console", "api", "command", "ticket", "platform"]),
                name="audit_entries_source_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.act} {self.subject} by {self.actor}"
