"""Tenants and their API keys, by the specified DDL; constraints refuse every row that must not exist."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.functions import RandomUUID, TransactionNow
from django.db import models
from django.db.models import Q

from dpp_project.constants import RATE_LIMIT_PER_MINUTE_DEFAULT
from tenants.scopes import OPERATOR_SCOPES, OPERATOR_TENANT_ID, TENANT_SCOPES

ZONE_PATTERN = r"^[A-Za-z0-9_+/-]{1,64}$"
TENANT_ID_PATTERN = r"^t_[a-z0-9_]{1,60}$"
RATE_PER_MINUTE_MAX = 1_000_000
SHARE_WEIGHT_MAX = 100
MOST_AT_WORK_MAX = 10_000
_A_RATE = (1, RATE_PER_MINUTE_MAX)
LOW_BALANCE_MICROS_MAX = 9_007_199_254_740_991
"""The greatest whole number that every reader of JSON reads exactly."""
_AN_AMOUNT = (1, LOW_BALANCE_MICROS_MAX)
ZONE_DEFAULT = "UTC"
CAP_MICROS_MAX = LOW_BALANCE_MICROS_MAX
_A_CAP = (0, CAP_MICROS_MAX)
_OPERATOR_SCOPES = sorted(scope.value for scope in OPERATOR_SCOPES)
_TENANT_SCOPES = sorted(scope.value for scope in TENANT_SCOPES)


class Tenant(models.Model):
    """One customer. Never deleted: ledger entries and runs refer to it for ever."""

    class Status(models.TextChoices):
        ACTIVE = "ACTIVE"
        SUSPENDED = "SUSPENDED"

    tenant_id = models.TextField(primary_key=True)
    display_name = models.TextField()
    status = models.TextField(choices=Status.choices, default=Status.ACTIVE, db_default=Status.ACTIVE)
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    poll_rate_per_minute = models.IntegerField(
        default=RATE_LIMIT_PER_MINUTE_DEFAULT, db_default=RATE_LIMIT_PER_MINUTE_DEFAULT
    )
    submit_rate_per_minute = models.IntegerField(
        default=RATE_LIMIT_PER_MINUTE_DEFAULT, db_default=RATE_LIMIT_PER_MINUTE_DEFAULT
    )
    submits_enabled = models.BooleanField(default=True, db_default=True)
    """Off: the tenant's keys stay valid for reading, and new runs are refused."""
    refund_own_failures = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Give back what a run cost that failed on our side: its worker or its result was lost.",
    )
    automations_enabled = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Rules of the operators' automations may buy runs for this tenant.",
    )
    low_balance_usd_micros = models.BigIntegerField(
        "low balance, in micros of USD",
        null=True,
        blank=True,
        help_text="Below it the tenant's webhooks hear budget.low, once until it is a tenth above it again. 1000000 is"
        " one dollar; empty: never.",
    )
    low_balance_since = models.DateTimeField(null=True, editable=False)
    low_balance_crossings = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    zone = models.TextField(
        "time zone",
        blank=True,
        default=ZONE_DEFAULT,
        db_default=ZONE_DEFAULT,
        help_text="Its midnight ends a day, a week and a month of spending: UTC, or a name such as Europe/Berlin.",
    )
    """Postgres and zoneinfo both knew it when it was set; see `known_zone`."""
    share_weight = models.SmallIntegerField(
        blank=True,
        default=1,
        db_default=1,
        help_text="Beside others whose runs wait it has so many times the share of a tenant of weight 1.",
    )
    most_at_work = models.SmallIntegerField(
        "most runs at work",
        null=True,
        blank=True,
        help_text="So many of its runs are at work at once; the others wait. Empty: as many as there are workers for.",
    )

    class Meta:
        db_table = "tenants"
        ordering = ["tenant_id"]
        constraints = [
            models.CheckConstraint(condition=Q(tenant_id__regex=TENANT_ID_PATTERN), name="tenants_tenant_id_form"),
            models.CheckConstraint(condition=~Q(display_name=""), name="tenants_display_name_given"),
            models.CheckConstraint(condition=Q(status__in=["ACTIVE", "SUSPENDED"]), name="tenants_status_known"),
            models.CheckConstraint(
                condition=~Q(tenant_id=OPERATOR_TENANT_ID) | Q(status="ACTIVE"), name="tenants_operator_stays_active"
            ),
            models.CheckConstraint(condition=Q(poll_rate_per_minute__range=_A_RATE), name="tenants_poll_rate_range"),
            models.CheckConstraint(
                condition=Q(submit_rate_per_minute__range=_A_RATE), name="tenants_submit_rate_range"
            ),
            models.CheckConstraint(
                condition=Q(low_balance_usd_micros__isnull=True) | Q(low_balance_usd_micros__range=_AN_AMOUNT),
                name="tenants_low_balance_range",
            ),
            models.CheckConstraint(condition=Q(zone__regex=ZONE_PATTERN), name="tenants_zone_form"),
            models.CheckConstraint(
                condition=Q(share_weight__range=(1, SHARE_WEIGHT_MAX)), name="tenants_share_weight_range"
            ),
            models.CheckConstraint(
                condition=Q(most_at_work__isnull=True) | Q(most_at_work__range=(1, MOST_AT_WORK_MAX)),
                name="tenants_most_at_work_range",
            ),
        ]

    def __str__(self) -> str:
        return self.tenant_id


class ApiKey(models.Model):
    """A key's public prefix and the SHA-256 of the whole key. The key itself is shown once and never stored.

    A key ends by `revoked_at` (at once) or by `expires_at` (by the clock, also at the end of a rotated key's grace
    period). The status column records revocation only: a key that is ACTIVE may have expired.
    """

    class Status(models.TextChoices):
        ACTIVE = "ACTIVE"
        REVOKED = "REVOKED"

    key_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="api_keys", db_index=False)
    key_hash = models.TextField(editable=False)
    label = models.TextField(null=True, blank=True)  # noqa: DJ001  nullable by the documented DDL
    status = models.TextField(choices=Status.choices, default=Status.ACTIVE, db_default=Status.ACTIVE)
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    prefix = models.TextField(editable=False)
    scopes = ArrayField(models.TextField())
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, editable=False)
    replaced_by = models.OneToOneField(
        "self", on_delete=models.PROTECT, null=True, editable=False, related_name="replaces"
    )
    lineage_id = models.UUIDField(default=uuid.uuid4, db_default=RandomUUID(), editable=False)
    """One for a key and all its rotations: what they spend is counted, and capped, together."""

    class Meta:
        db_table = "api_keys"
        verbose_name = "API key"
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["tenant"], name="idx_api_keys_tenant")]
        constraints = [
            models.UniqueConstraint(fields=["prefix"], name="api_keys_prefix_unique"),
            models.CheckConstraint(condition=Q(prefix__regex=r"^[0-9A-Za-z]{8}$"), name="api_keys_prefix_form"),
            models.CheckConstraint(condition=Q(key_hash__regex=r"^[0-9a-f]{64}$"), name="api_keys_key_hash_form"),
            models.CheckConstraint(
                condition=Q(status="ACTIVE", revoked_at__isnull=True) | Q(status="REVOKED", revoked_at__isnull=False),
                name="api_keys_status_agrees_with_revoked_at",
            ),
            models.CheckConstraint(condition=Q(scopes__len__gt=0), name="api_keys_scopes_given"),
            models.CheckConstraint(
                condition=Q(tenant=OPERATOR_TENANT_ID, scopes__contained_by=_OPERATOR_SCOPES)
                | (~Q(tenant=OPERATOR_TENANT_ID) & Q(scopes__contained_by=_TENANT_SCOPES)),
                name="api_keys_scopes_fit_tenant",
            ),
        ]

    def __str__(self) -> str:
        return f"dpp_{self.prefix}"


class SpendCap(models.Model):
    """What a tenant, or one of its keys with its rotations, may spend in a day, a week, a month and ever.

    A row is made with the first cap and stays, its limits taken away or not: from then on Redis counts for its scope.
    A limit that is not there is no limit. Each change raises the revision, by which a late process knows the newer.
    """

    cap_id = models.UUIDField(primary_key=True, default=uuid.uuid4, db_default=RandomUUID(), editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="caps", db_index=False)
    lineage_id = models.UUIDField(null=True)
    """NULL: the tenant itself."""
    day_usd_micros = models.BigIntegerField(null=True)
    week_usd_micros = models.BigIntegerField(null=True)
    month_usd_micros = models.BigIntegerField(null=True)
    total_usd_micros = models.BigIntegerField(null=True)
    revision = models.BigIntegerField()
    actor = models.TextField()
    changed_at = models.DateTimeField(db_default=TransactionNow())
    told = models.JSONField(default=dict, db_default={})
    """`day:50`: the window and the revision whose half has its message; see webhooks/cap_reached.py."""

    class Meta:
        db_table = "spend_caps"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "lineage_id"], name="spend_caps_one_per_scope", nulls_distinct=False
            ),
            *(
                models.CheckConstraint(
                    condition=Q(**{f"{period}_usd_micros__isnull": True})
                    | Q(**{f"{period}_usd_micros__range": _A_CAP}),
                    name=f"spend_caps_{period}_range",
                )
                for period in ("day", "week", "month", "total")
            ),
            models.CheckConstraint(condition=Q(revision__gt=0), name="spend_caps_revision_positive"),
            models.CheckConstraint(condition=~Q(actor=""), name="spend_caps_actor_given"),
        ]

    def __str__(self) -> str:
        return f"caps of {self.tenant_id}{'' if self.lineage_id is None else f' {self.lineage_id}'}"
