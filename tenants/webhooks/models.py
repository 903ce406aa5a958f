"""Endpoints, their secrets, and messages on their way to them. What the database can refuse, it refuses.

`transitions.py` is the only writer of the statuses. Two orders hold everywhere: an endpoint's row is locked before its
deliveries (FOR NO KEY UPDATE by acts and claims, FOR SHARE by the fan-out, which may be many at once), and a message is
there before its deliveries. So a fan-out that saw an endpoint paused has committed its HELD deliveries before a resume
looks for them.
"""

import uuid
from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.functions import TransactionNow
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from dpp_project.outbound.locations import URL_CHARACTERS_MAX
from tenants.models import Tenant
from tenants.webhooks.event_names import SUBSCRIBABLE

_EVENTS: Final = sorted(one.value for one in SUBSCRIBABLE)
UUID_BY_TIME: Final = Func(
    template="(encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send("
    "(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid)",
    output_field=models.UUIDField(),
)
"""UUID version 7 (Postgres makes none before 18): rows that statements make in thousands share the last pages."""


class EndpointStatus(models.TextChoices):
    ENABLED = "ENABLED"
    PAUSED = "PAUSED"
    """By a person; resumed by one."""
    DISABLED = "DISABLED"
    """By five days of failing, or by its own 410; a person recovers it."""


class DeliveryStatus(models.TextChoices):
    PENDING = "PENDING"
    HELD = "HELD"
    """Its endpoint is paused or disabled: nothing is sent until a person resumes or recovers it."""
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


class WebhookEndpoint(models.Model):
    """An address of a tenant, and how it has behaved. Deleted by a mark: what was delivered names it for 30 days.

    People write url, events and status. The sender writes the rest, under this row's lock:
    new is `last_success_at IS NULL`, failing is `consecutive_failures > 0`, slow is `slow_at IS NOT NULL` (an attempt
    took over 2 s, and none was quick five minutes or more after it). `paused_until` is the breaker's and nobody else's.
    """

    endpoint_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="webhook_endpoints", db_index=False)
    url = models.TextField()
    events = ArrayField(models.TextField())
    status = models.TextField(
        choices=EndpointStatus.choices, default=EndpointStatus.ENABLED, db_default=EndpointStatus.ENABLED
    )
    reason = models.TextField(default="", db_default="", blank=True)
    idempotency_key = models.TextField(null=True, editable=False)  # noqa: DJ001  unique where given
    asked_for = models.JSONField(default=dict, editable=False)
    """What the key stands for: the request as it came, whatever was changed since."""
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    updated_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    deleted_at = models.DateTimeField(null=True, editable=False)

    release_since = models.DateTimeField(null=True, editable=False)
    """Set while what was held since then is being let go; `release_failed_until`: what had failed by then, too."""
    release_failed_until = models.DateTimeField(null=True, editable=False)

    consecutive_failures = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    failing_since = models.DateTimeField(null=True, editable=False)
    failed_again_at = models.DateTimeField(null=True, editable=False)
    """The first failure 12 h or more after `failing_since`: one outage of the receiver alone disables nothing."""
    paused_until = models.DateTimeField(null=True, editable=False)
    last_success_at = models.DateTimeField(null=True, editable=False)
    slow_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "webhook_endpoint"
        ordering = ["-created_at", "-endpoint_id"]
        indexes = [
            # What a commit asks: which events does anyone of this tenant want?
            models.Index(fields=["tenant"], name="idx_webhook_endpoint_tenant", condition=Q(deleted_at__isnull=True)),
            models.Index(
                fields=["failing_since"],
                name="idx_webhook_endpoint_failing",
                condition=Q(deleted_at__isnull=True, failing_since__isnull=False),
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "idempotency_key"],
                name="webhook_endpoint_idempotency_key_unique",
                condition=Q(idempotency_key__isnull=False),
            ),
            models.CheckConstraint(
                condition=Q(status__in=["ENABLED", "PAUSED", "DISABLED"]), name="webhook_endpoint_status_known"
            ),
            models.CheckConstraint(condition=Q(url__regex=r"^https://[!-~]+$"), name="webhook_endpoint_url_https"),
            models.CheckConstraint(
                condition=LessThanOrEqual(Length("url"), URL_CHARACTERS_MAX), name="webhook_endpoint_url_bounded"
            ),
            models.CheckConstraint(
                condition=Q(events__len__gt=0) & Q(events__contained_by=_EVENTS), name="webhook_endpoint_events_known"
            ),
            models.CheckConstraint(
                condition=Q(failing_since__isnull=True, consecutive_failures=0)
                | Q(failing_since__isnull=False, consecutive_failures__gt=0),
                name="webhook_endpoint_failing_agrees",
            ),
            models.CheckConstraint(
                condition=Q(failed_again_at__isnull=True) | Q(failed_again_at__gte=F("failing_since")),
                name="webhook_endpoint_failed_again_later",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint_id}"


class WebhookSecret(models.Model):
    """A signing secret, encrypted with its endpoint's id. At most two rows: the one in use, and the one that ends."""

    secret_id = models.BigAutoField(primary_key=True)
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.PROTECT, related_name="secrets", db_index=False)
    ciphertext = models.BinaryField()
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    expires_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "webhook_secret"
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint"], name="webhook_secret_one_in_use", condition=Q(expires_at__isnull=True)
            ),
            models.UniqueConstraint(
                fields=["endpoint"], name="webhook_secret_one_ends", condition=Q(expires_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"secret {self.pk}"

    def __repr__(self) -> str:
        return f"<WebhookSecret {self.pk}>"


class WebhookMessage(models.Model):
    """Something that happened, written by the statement that made it so.

    No foreign key and nothing checked: an insert that can fail or wait could fail or hold up a commit of money. The
    same key again is the same message.
    """

    message_id = models.UUIDField(primary_key=True, db_default=UUID_BY_TIME, editable=False)
    tenant_id = models.TextField()
    event = models.TextField()
    key = models.TextField()
    payload = models.JSONField()
    at = models.DateTimeField(db_default=TransactionNow())
    fanned_out_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "webhook_message"
        ordering = ["-message_id"]
        indexes = [
            # Tenant by tenant, so that one with thousands of messages holds up nobody's.
            models.Index(
                fields=["tenant_id", "at"], name="idx_webhook_message_new", condition=Q(fanned_out_at__isnull=True)
            ),
            models.Index(fields=["at"], name="idx_webhook_message_age"),
        ]
        constraints = [models.UniqueConstraint(fields=["key"], name="webhook_message_key_unique")]

    def __str__(self) -> str:
        return f"{self.event} {self.message_id}"


class WebhookDelivery(models.Model):
    """One message on its way to one endpoint. `lease_token` fences it: who lost the lease marks nothing."""

    delivery_id = models.UUIDField(primary_key=True, db_default=UUID_BY_TIME, editable=False)
    message = models.ForeignKey(WebhookMessage, on_delete=models.PROTECT, related_name="deliveries", db_index=False)
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.PROTECT, related_name="deliveries", db_index=False)
    status = models.TextField(choices=DeliveryStatus.choices)
    attempts = models.PositiveIntegerField(default=0, db_default=0)
    """Of the schedule; a redelivery begins it anew. How often it was tried, its attempts' rows say."""
    next_attempt_at = models.DateTimeField(null=True)
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    reason = models.TextField(default="", db_default="")
    """Why it FAILED."""
    created_at = models.DateTimeField(db_default=TransactionNow())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "webhook_delivery"
        verbose_name_plural = "webhook deliveries"
        ordering = ["-created_at", "-delivery_id"]
        indexes = [
            # What is due, endpoint by endpoint: the claims walk it.
            models.Index(
                fields=["endpoint", "next_attempt_at"], name="idx_webhook_delivery_due", condition=Q(status="PENDING")
            ),
            models.Index(
                fields=["endpoint", "lease_until"],
                name="idx_webhook_delivery_leased",
                condition=Q(lease_token__isnull=False),
            ),
            models.Index(fields=["endpoint"], name="idx_webhook_delivery_held", condition=Q(status="HELD")),
            models.Index(
                fields=["endpoint", "-created_at", "-delivery_id"],
                name="idx_webhook_delivery_failed",
                condition=Q(status="FAILED"),
            ),
            models.Index(fields=["endpoint", "-created_at", "-delivery_id"], name="idx_webhook_delivery_newest"),
            models.Index(fields=["created_at"], name="idx_webhook_delivery_age"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["message", "endpoint"], name="webhook_delivery_once"),
            models.CheckConstraint(
                condition=Q(status__in=["PENDING", "HELD", "DELIVERED", "FAILED"]),
                name="webhook_delivery_status_known",
            ),
            models.CheckConstraint(
                condition=Q(status="PENDING", next_attempt_at__isnull=False)
                | (~Q(status="PENDING") & Q(next_attempt_at__isnull=True)),
                name="webhook_delivery_pending_is_due",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["PENDING", "HELD"], ended_at__isnull=True)
                | Q(status__in=["DELIVERED", "FAILED"], ended_at__isnull=False),
                name="webhook_delivery_end_has_a_time",
            ),
            models.CheckConstraint(
                condition=Q(lease_token__isnull=True, lease_until__isnull=True)
                | Q(lease_token__isnull=False, lease_until__isnull=False),
                name="webhook_delivery_lease_whole",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.delivery_id}"


class WebhookAttempt(models.Model):
    """One try: what came of it, and never what was answered."""

    attempt_id = models.BigAutoField(primary_key=True)
    delivery = models.ForeignKey(WebhookDelivery, on_delete=models.PROTECT, related_name="tries")
    at = models.DateTimeField(db_default=TransactionNow())
    status_code = models.PositiveSmallIntegerField(null=True)
    ms = models.PositiveIntegerField()
    error = models.TextField(default="", db_default="")
    """A class of fault (TIMEOUT, DNS_ERROR, ...), where no answer came; see dpp_project.outbound.refusals."""

    class Meta:
        db_table = "webhook_attempt"
        ordering = ["-attempt_id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(status_code__isnull=False) | ~Q(error=""), name="webhook_attempt_came_to_something"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status_code or self.error} in {self.ms} ms"
