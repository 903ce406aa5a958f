"""The ledger: each entry written once, never changed. Triggers refuse what constraints cannot (see the migrations)."""

import uuid

from django.contrib.postgres.functions import TransactionNow
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Func, Q

from budget.money import MAX_MICROS
from tenants.models import Tenant


class LedgerEntry(models.Model):
    """Money that came (TOPUP), went (CHARGE) or was put right (ADJUST). A credit is positive, a charge negative."""

    class Kind(models.TextChoices):
        TOPUP = "TOPUP"
        CHARGE = "CHARGE"
        ADJUST = "ADJUST"

    entry_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="ledger_entries", db_index=False)
    run_id = models.UUIDField(null=True)
    kind = models.TextField(choices=Kind.choices)
    amount_usd_micros = models.BigIntegerField()
    reference = models.TextField(null=True)  # noqa: DJ001  absent for charges, unique otherwise
    reason = models.TextField(default="", db_default="")
    actor = models.TextField()
    lineage_id = models.UUIDField(null=True)
    spend_day = models.DateField(null=True)
    """Of a CHARGE, and of an ADJUST of a run: where the run counts. NULL counts in no day and under no cap."""
    # The moment itself, not the start of the transaction: entries of one tenant line up as they were written.
    created_at = models.DateTimeField(
        db_default=Func(function="clock_timestamp", output_field=models.DateTimeField()), editable=False
    )

    class Meta:
        db_table = "ledger_entries"
        verbose_name_plural = "ledger entries"
        ordering = ["-created_at", "-entry_id"]
        indexes = [
            models.Index(
                fields=["tenant", "created_at", "entry_id"],
                include=["amount_usd_micros"],
                name="idx_ledger_entries_statement",
            ),
            models.Index(fields=["created_at"], condition=~Q(kind="CHARGE"), name="idx_ledger_entries_credits"),
            BrinIndex(fields=["created_at"], name="idx_ledger_entries_time"),
            # What was corrected of a run; its charge is found by the constraint below. A charge is in neither twice.
            models.Index(
                fields=["run_id"],
                name="idx_ledger_entries_corrections",
                condition=Q(run_id__isnull=False) & ~Q(kind="CHARGE"),
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["run_id"], condition=Q(kind="CHARGE"), name="ledger_entries_one_charge_per_run"
            ),
            models.UniqueConstraint(
                fields=["tenant", "reference"], condition=~Q(kind="CHARGE"), name="ledger_entries_reference_once"
            ),
            models.CheckConstraint(
                condition=Q(amount_usd_micros__range=(-MAX_MICROS, MAX_MICROS)) & ~Q(amount_usd_micros=0),
                name="ledger_entries_amount_range",
            ),
            models.CheckConstraint(
                condition=Q(kind="TOPUP", amount_usd_micros__gt=0, run_id__isnull=True, reference__isnull=False)
                | Q(kind="CHARGE", amount_usd_micros__lt=0, run_id__isnull=False, reference__isnull=True)
                | Q(kind="ADJUST", reference__isnull=False),
                name="ledger_entries_kind_fits",
            ),
            models.CheckConstraint(condition=~Q(reference=""), name="ledger_entries_reference_given"),
            models.CheckConstraint(
                condition=Q(spend_day__isnull=True) | ~Q(kind="TOPUP") & Q(run_id__isnull=False),
                name="ledger_entries_spend_day_of_a_run",
            ),
            models.CheckConstraint(condition=~Q(actor=""), name="ledger_entries_actor_given"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.amount_usd_micros} of {self.tenant_id}"


class PendingCredit(models.Model):
    """An entry of the ledger that may not have reached the balance in Redis. It goes when it has."""

    entry = models.OneToOneField(LedgerEntry, on_delete=models.PROTECT, primary_key=True, related_name="pending")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    amount_usd_micros = models.BigIntegerField()
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)

    class Meta:
        db_table = "pending_credits"
        indexes = [
            models.Index(fields=["tenant"], name="idx_pending_credits_tenant"),
            models.Index(fields=["created_at"], name="idx_pending_credits_age"),
        ]
        constraints = [
            models.CheckConstraint(condition=~Q(amount_usd_micros=0), name="pending_credits_amount_given"),
        ]

    def __str__(self) -> str:
        return f"{self.amount_usd_micros} for {self.tenant_id}"


class BalanceSnapshot(models.Model):
    """The sums of a tenant's entries before `through`, kept so that summing stays flat. No entry may come before it."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="balance_snapshots", db_index=False)
    through = models.DateTimeField()
    total_usd_micros = models.BigIntegerField()
    credited_usd_micros = models.BigIntegerField()
    has_spend_days = models.BooleanField(default=False, db_default=False)
    """False where a process of a release before 0.2 wrote it: the next one adds its entries to the days as well."""

    class Meta:
        db_table = "balance_snapshots"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "through"], name="balance_snapshots_once"),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} before {self.through:%Y-%m-%d}: {self.total_usd_micros}"


class SpendDay(models.Model):
    """What a tenant's runs of one date came to, of the entries before its last daily sum. Written with that sum."""

    spend_day_id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    lineage_id = models.UUIDField(null=True)
    spend_day = models.DateField()
    pack_type = models.TextField()
    reason = models.TextField(db_default="")
    """Why the runs failed; empty where they completed. Both are empty where the run's row had gone."""
    charged_usd_micros = models.BigIntegerField()
    credited_usd_micros = models.BigIntegerField()
    runs = models.BigIntegerField()
    tokens = models.BigIntegerField()

    class Meta:
        db_table = "spend_days"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "spend_day", "lineage_id", "pack_type", "reason"],
                name="spend_days_once",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} on {self.spend_day}: {self.charged_usd_micros - self.credited_usd_micros}"


class Account(Tenant):
    """A tenant as the console shows its money."""

    class Meta:
        proxy = True
        verbose_name = "account"
        ordering = ["tenant_id"]
