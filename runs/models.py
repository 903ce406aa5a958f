"""The run, its inputs, its history and its disputes. What the database can refuse, it refuses.

`transitions.py` is the only writer of status, money state and stage. The triggers of migration 0002 hold what a CHECK
cannot see: the step from one row to the next.
"""

from collections.abc import Mapping
from types import MappingProxyType

from django.contrib.postgres.functions import TransactionNow
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Greatest, Least

from budget.money import MAX_MICROS
from dpp_project.constants import (
    MINIMUM_FEE_CAP_MICROS,
    MINIMUM_FEE_FLOOR_MICROS,
    MINIMUM_FEE_PERCENT,
    TIMEBOX_SECONDS_MAX,
)
from runs.metadata import CONCURRENCY_KEY, CONCURRENCY_MAX, PRIORITY_DEFAULT, PRIORITY_MAX
from runs.states import ENDED_MONEY, TERMINAL, UNENDED_MONEY, MoneyState, Stage, Status
from tenants.models import Tenant

_UNCLAIMED = Q(finalize_stage__isnull=True)
# `stage = 'CLAIMED'` alone is unknown, not false, where the stage is NULL; and a CHECK lets the unknown pass.
_CLAIMED = Q(finalize_stage__isnull=False, finalize_stage=Stage.CLAIMED)
_COMMITTED = Q(finalize_stage__isnull=False, finalize_stage=Stage.COMMITTED)
_NO_INTENT = Q(
    finalize_token__isnull=True,
    finalize_claimed_at__isnull=True,
    intent_status__isnull=True,
    intent_money_state__isnull=True,
    intent_charge_usd_micros__isnull=True,
    intent_reason_code__isnull=True,
)
_INTENT = Q(
    finalize_token__isnull=False,
    finalize_claimed_at__isnull=False,
    intent_status__isnull=False,
    intent_money_state__isnull=False,
    intent_charge_usd_micros__isnull=False,
)
_POINTER = Q(result_bucket__isnull=False, result_key__isnull=False, result_sha256__isnull=False)
WAITS_FOR_WORKER = Q(status=Status.QUEUED, money_state=MoneyState.RESERVED, finalize_stage__isnull=True)
"""Its money is held, no worker has started it and nobody has claimed it: a message may be sent, a worker may start."""
_NO_POINTER = Q(result_bucket__isnull=True, result_key__isnull=True, result_sha256__isnull=True)
_FEE = Least(F("minimum_fee_usd_micros"), F("reservation_max_cost_usd_micros"))


class Run(models.Model):
    """One paid piece of work, from the accepted request to the tombstone that says it once was."""

    run_id = models.UUIDField(primary_key=True, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="runs", db_index=False)
    pack_type = models.TextField()
    profile_version = models.TextField(db_default="v0.4.2.2")
    status = models.TextField(choices=[(one, one) for one in Status])
    money_state = models.TextField(choices=[(one, one) for one in MoneyState])
    idempotency_key = models.TextField(null=True)  # noqa: DJ001  NULL frees the key; so in the documented DDL
    payload_hash = models.TextField()
    version = models.BigIntegerField(db_default=0)
    reservation_max_cost_usd_micros = models.BigIntegerField()
    actual_cost_usd_micros = models.BigIntegerField(null=True)
    minimum_fee_usd_micros = models.BigIntegerField()
    tokens_consumed = models.BigIntegerField(db_default=0)
    result_bucket = models.TextField(null=True)  # noqa: DJ001  nullable by the documented DDL, as those below
    result_key = models.TextField(null=True)  # noqa: DJ001
    result_sha256 = models.TextField(null=True)  # noqa: DJ001
    retention_until = models.DateTimeField()
    lease_token = models.TextField(null=True)  # noqa: DJ001
    lease_expires_at = models.DateTimeField(null=True)
    finalize_token = models.TextField(null=True)  # noqa: DJ001
    finalize_stage = models.TextField(null=True, choices=[(one, one) for one in Stage])  # noqa: DJ001
    finalize_claimed_at = models.DateTimeField(null=True)
    intent_status = models.TextField(null=True)  # noqa: DJ001
    intent_money_state = models.TextField(null=True)  # noqa: DJ001
    intent_charge_usd_micros = models.BigIntegerField(null=True)
    intent_reason_code = models.TextField(null=True)  # noqa: DJ001
    last_error_reason_code = models.TextField(null=True)  # noqa: DJ001
    last_error_detail = models.TextField(null=True)  # noqa: DJ001
    next_send_at = models.DateTimeField(null=True)
    send_count = models.IntegerField(db_default=0)
    dead_lettered_at = models.DateTimeField(null=True)
    last_actor = models.TextField()
    trace_id = models.TextField(null=True)  # noqa: DJ001
    lineage_id = models.UUIDField(null=True)
    """Of the key that submitted it; NULL where no key did."""
    spend_day = models.DateField(null=True)
    """Whose day, week and month it counts in: the tenant's date when it was accepted. NULL: accepted before 0.2."""
    price_version = models.TextField(null=True)  # noqa: DJ001
    """Of the pack's price list that it was accepted under, and is charged by. NULL: accepted before 0.2."""
    result_artifacts = models.JSONField(null=True)
    """The files beside the envelope: name to type, size and hash. Written with the pointer, and gone with it."""
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    updated_at = models.DateTimeField(db_default=TransactionNow(), editable=False)

    metadata: Mapping[str, str] = MappingProxyType({})
    """Its owner's own words for it, where the reader was asked for them (`reads/`); no column."""

    class Meta:
        db_table = "runs"
        ordering = ["-created_at"]
        indexes = [
            models.Index("tenant", F("created_at").desc(), name="idx_runs_tenant_created"),
            models.Index("status", "lease_expires_at", name="idx_runs_status_lease"),  # the reaper's scan
            # One for each other recovery scan (reads/for_recovery.py); each holds only the rows that wait for its loop.
            models.Index("created_at", name="idx_runs_queued", condition=_UNCLAIMED & Q(status=Status.QUEUED)),
            models.Index("updated_at", name="idx_runs_unheld", condition=_UNCLAIMED & Q(money_state=MoneyState.NONE)),
            models.Index(
                "next_send_at",
                name="idx_runs_unsent",
                condition=_UNCLAIMED
                & Q(status=Status.QUEUED, money_state=MoneyState.RESERVED, dead_lettered_at__isnull=True),
            ),
            models.Index("finalize_claimed_at", name="idx_runs_claimed", condition=Q(finalize_stage=Stage.CLAIMED)),
            models.Index(
                "retention_until",
                name="idx_runs_retained",
                condition=Q(finalize_stage=Stage.COMMITTED) & ~Q(status=Status.EXPIRED),
            ),
            models.Index("retention_until", name="idx_runs_tombstones", condition=Q(status=Status.EXPIRED)),
            # What a rebuild reads: the open money of one tenant or of all, and what was committed lately.
            models.Index("tenant", name="idx_runs_open_money", condition=Q(money_state__in=sorted(UNENDED_MONEY))),
            models.Index("updated_at", name="idx_runs_committed", condition=Q(finalize_stage=Stage.COMMITTED)),
            # What was bought without a key of the caller's (submit/derived_key.py).
            models.Index(
                fields=["tenant", "payload_hash"],
                name="idx_runs_derived",
                condition=Q(idempotency_key__startswith="auto-"),
            ),
            # Lists by pack and by reason (reads/listing.py, filters_admin.py). Of ended runs alone: a run's row is
            # written five times, and so its entry once; those that have not ended are few, and found by their money.
            models.Index(
                "pack_type",
                "tenant",
                F("created_at").desc(),
                name="idx_runs_pack_ended",
                condition=Q(finalize_stage=Stage.COMMITTED),
            ),
            models.Index(
                fields=["last_error_reason_code", "run_id"],
                name="idx_runs_reason",
                condition=Q(last_error_reason_code__isnull=False),
            ),
            # What operators have open.
            models.Index("updated_at", name="idx_runs_disputed", condition=Q(money_state=MoneyState.DISPUTED)),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "idempotency_key"],
                name="idx_runs_idem",  # one run of a key
                condition=Q(idempotency_key__isnull=False),
            ),
            models.CheckConstraint(condition=Q(status__in=sorted(Status)), name="runs_status_known"),
            models.CheckConstraint(condition=Q(money_state__in=sorted(MoneyState)), name="runs_money_state_known"),
            models.CheckConstraint(
                condition=_UNCLAIMED | Q(finalize_stage__in=sorted(Stage)), name="runs_finalize_stage_known"
            ),
            models.CheckConstraint(
                condition=Q(status=Status.QUEUED, money_state__in=sorted(UNENDED_MONEY)) & (_UNCLAIMED | _CLAIMED)
                | Q(status=Status.PROCESSING, money_state=MoneyState.RESERVED) & (_UNCLAIMED | _CLAIMED)
                | Q(status__in=sorted(TERMINAL), money_state__in=sorted(ENDED_MONEY)) & _COMMITTED,
                name="runs_terminal_means_money_ended",
            ),
            models.CheckConstraint(condition=Q(version__gte=0), name="runs_version_not_negative"),
            models.CheckConstraint(
                condition=Q(reservation_max_cost_usd_micros__range=(1, MAX_MICROS)), name="runs_reservation_positive"
            ),
            models.CheckConstraint(
                condition=Q(
                    minimum_fee_usd_micros=Least(
                        Greatest(
                            Value(MINIMUM_FEE_FLOOR_MICROS),
                            F("reservation_max_cost_usd_micros") * MINIMUM_FEE_PERCENT / 100,
                        ),
                        Value(MINIMUM_FEE_CAP_MICROS),
                        output_field=models.BigIntegerField(),
                    )
                ),
                name="runs_minimum_fee_by_the_rule",
            ),
            models.CheckConstraint(
                condition=Q(actual_cost_usd_micros__isnull=True)
                | Q(
                    actual_cost_usd_micros__gte=0,
                    actual_cost_usd_micros__lte=F("reservation_max_cost_usd_micros"),
                ),
                name="runs_actual_within_reservation",
            ),
            models.CheckConstraint(
                condition=_COMMITTED
                & Q(
                    actual_cost_usd_micros__isnull=False,
                    intent_charge_usd_micros__isnull=False,
                    actual_cost_usd_micros__lte=F("intent_charge_usd_micros"),
                )
                | (_UNCLAIMED | _CLAIMED) & Q(actual_cost_usd_micros__isnull=True),
                name="runs_actual_known_when_committed",
            ),
            models.CheckConstraint(
                condition=_UNCLAIMED & _NO_INTENT & _NO_POINTER | ~_UNCLAIMED & _INTENT,
                name="runs_intent_from_claim_on",
            ),
            models.CheckConstraint(
                condition=Q(intent_status__isnull=True)
                | Q(
                    intent_status=Status.COMPLETED,
                    intent_money_state=MoneyState.SETTLED,
                    intent_reason_code__isnull=True,
                    intent_charge_usd_micros__gte=0,
                    intent_charge_usd_micros__lte=F("reservation_max_cost_usd_micros"),
                )
                & (_POINTER | Q(status=Status.EXPIRED))
                & ~Q(status=Status.QUEUED)
                | Q(
                    intent_status=Status.FAILED,
                    intent_money_state=MoneyState.SETTLED,
                    intent_reason_code__isnull=False,
                    intent_charge_usd_micros=_FEE,
                )
                & ~Q(status=Status.QUEUED)
                | Q(
                    intent_status=Status.FAILED,
                    intent_money_state=MoneyState.REFUNDED,
                    intent_reason_code__isnull=False,
                    intent_charge_usd_micros=0,
                ),
                name="runs_intent_is_one_of_three",
            ),
            models.CheckConstraint(
                condition=Q(intent_reason_code__isnull=True) | Q(intent_reason_code__regex=r"^[A-Z][A-Z_]{2,63}$"),
                name="runs_intent_reason_form",
            ),
            models.CheckConstraint(condition=_POINTER | _NO_POINTER, name="runs_pointer_whole_or_none"),
            models.CheckConstraint(
                condition=~Q(status=Status.EXPIRED) | _NO_POINTER & Q(idempotency_key__isnull=True),
                name="runs_tombstone_points_nowhere",
            ),
            models.CheckConstraint(
                condition=~Q(status=Status.PROCESSING) | Q(lease_token__isnull=False, lease_expires_at__isnull=False),
                name="runs_processing_has_a_lease",
            ),
            models.CheckConstraint(
                condition=~Q(money_state=MoneyState.RESERVED) | Q(next_send_at__isnull=False),
                name="runs_reserved_has_a_next_send",
            ),
            models.CheckConstraint(condition=Q(tokens_consumed__gte=0), name="runs_tokens_not_negative"),
            models.CheckConstraint(condition=Q(send_count__gte=0), name="runs_send_count_not_negative"),
            models.CheckConstraint(condition=Q(payload_hash__regex=r"^[0-9a-f]{64}$"), name="runs_payload_hash_form"),
            models.CheckConstraint(
                condition=Q(idempotency_key__isnull=True) | Q(idempotency_key__regex=r"^.{8,64}$"),
                name="runs_idempotency_key_size",
            ),
            models.CheckConstraint(condition=~Q(last_actor=""), name="runs_last_actor_given"),
        ]

    def __str__(self) -> str:
        return str(self.run_id)

    @property
    def waits_for_worker(self) -> bool:
        """As `WAITS_FOR_WORKER` says of rows."""
        return self.status == Status.QUEUED and self.money_state == MoneyState.RESERVED and self.finalize_stage is None


class RunInputs(models.Model):
    """What the caller sent, apart from the run: it is large, private, and deleted at the end of the retention."""

    run = models.OneToOneField(
        Run,
        primary_key=True,
        on_delete=models.DO_NOTHING,  # the database deletes it with the run
        db_constraint=False,  # migration 0002 makes the foreign key, with its ON DELETE
        related_name="sent",
    )
    inputs = models.JSONField()
    artifacts = models.JSONField(null=True)
    timebox_sec = models.IntegerField()
    min_reliability_score = models.FloatField()
    inline = models.BooleanField(db_default=False)

    class Meta:
        db_table = "run_inputs"
        verbose_name_plural = "run inputs"
        constraints = [
            models.CheckConstraint(
                condition=Q(timebox_sec__range=(1, TIMEBOX_SECONDS_MAX)), name="run_inputs_timebox_range"
            ),
            models.CheckConstraint(
                condition=Q(min_reliability_score__range=(0, 1)), name="run_inputs_reliability_range"
            ),
        ]

    def __str__(self) -> str:
        return f"inputs of {self.run_id}"


class RunMetadata(models.Model):
    """One of the owner's own words for a run: `project` = `apollo`. A row each, so that an index finds runs by it.

    A table of its own and no column of `runs`: a run's row is written anew at each step, and an index over a column
    would be as well. It stands as long as the run's row does, so that usage can be told by it; its owner can delete it.
    """

    pk = models.CompositePrimaryKey("run_id", "key")
    run = models.ForeignKey(
        Run,
        on_delete=models.DO_NOTHING,  # the database deletes it with the run
        db_constraint=False,  # the migration makes the foreign key, with its ON DELETE
        db_index=False,
        related_name="metadata_rows",
    )
    key = models.TextField()
    value = models.TextField()
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_constraint=False, db_index=False, related_name="+")
    created_at = models.DateTimeField()
    """The run's own: a page of runs is found in this table, in the order of the list."""

    class Meta:
        db_table = "run_metadata"
        verbose_name_plural = "run metadata"
        indexes = [
            models.Index(
                "key", "value", "tenant", F("created_at").desc(), F("run_id").desc(), name="idx_run_metadata_found"
            ),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(key__regex=r"^[A-Za-z0-9_.:-]{1,40}$"), name="run_metadata_key_form"),
            models.CheckConstraint(condition=Q(value__regex=r"^.{1,250}.{0,250}$"), name="run_metadata_value_size"),
        ]

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


class RunTurn(models.Model):
    """A run's place in the line before the workers (docs/scaling.md). One without is started by its own message.

    `turns.py` writes it, and a trigger of `runs`, which moves or deletes a turn with each hold, start, claim and end of
    its run. One of a concurrency key stands until the run has ended, so that who is at work is counted from the rows.
    """

    class Stands(models.TextChoices):
        UNHELD = "UNHELD"  # its submit is still at it, or died
        WAITING = "WAITING"
        PARKED = "PARKED"  # its key has as many at work as it may; the one that ends wakes it
        LIMITED = "LIMITED"  # its tenant has
        AT_WORK = "AT_WORK"

    run = models.OneToOneField(
        Run,
        primary_key=True,
        on_delete=models.DO_NOTHING,  # the database deletes it with the run
        db_constraint=False,  # the migration makes the foreign key, with its ON DELETE
        related_name="turn",
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_constraint=False, db_index=False, related_name="+")
    pack_type = models.TextField()
    fair_pass = models.BigIntegerField()
    priority = models.SmallIntegerField(db_default=PRIORITY_DEFAULT)
    concurrency_key = models.TextField(null=True)  # noqa: DJ001  NULL: no key
    stands = models.TextField(choices=Stands.choices, db_default=Stands.UNHELD)

    class Meta:
        db_table = "run_turns"
        indexes = [
            models.Index(fields=["fair_pass", "run"], name="idx_run_turns_head", condition=Q(stands="WAITING")),
            models.Index(
                "tenant", F("priority").desc(), "run", name="idx_run_turns_of_tenant", condition=Q(stands="WAITING")
            ),
            models.Index(
                *("tenant", "concurrency_key", "stands", F("priority").desc(), "run"),
                name="idx_run_turns_of_key",
                condition=Q(concurrency_key__isnull=False),
            ),
            models.Index(
                "tenant", F("priority").desc(), "run", name="idx_run_turns_limited", condition=Q(stands="LIMITED")
            ),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(priority__range=(0, PRIORITY_MAX)), name="run_turns_priority_range"),
            models.CheckConstraint(
                condition=Q(concurrency_key__isnull=True) | Q(concurrency_key__regex=CONCURRENCY_KEY),
                name="run_turns_concurrency_key_form",
            ),
            models.CheckConstraint(
                condition=Q(stands__in=["AT_WORK", "LIMITED", "PARKED", "UNHELD", "WAITING"]),
                name="run_turns_stands_known",
            ),
            models.CheckConstraint(
                condition=Q(stands__in=["UNHELD", "WAITING", "LIMITED"]) | Q(concurrency_key__isnull=False),
                name="run_turns_only_keys_are_parked",
            ),
        ]

    def __str__(self) -> str:
        return f"turn of {self.run_id}"


class ConcurrencyLimit(models.Model):
    """How many runs of a tenant's key may be at work at once. Where there is none it is one."""

    pk = models.CompositePrimaryKey("tenant_id", "key")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_index=False, related_name="+")
    key = models.TextField()
    most_at_work = models.IntegerField()

    class Meta:
        db_table = "concurrency_limits"
        constraints = [
            models.CheckConstraint(condition=Q(key__regex=CONCURRENCY_KEY), name="concurrency_limits_key_form"),
            models.CheckConstraint(
                condition=Q(most_at_work__range=(1, CONCURRENCY_MAX)), name="concurrency_limits_range"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.most_at_work} of {self.key}"


class RunHistory(models.Model):
    """Each step of a run, written by a trigger whenever the version changes; append-only."""

    pk = models.CompositePrimaryKey("run_id", "version")
    run = models.ForeignKey(
        Run,
        on_delete=models.DO_NOTHING,  # a trigger deletes it with the run
        db_constraint=False,  # a check at each step would lock the run's row once more
        db_index=False,
        related_name="history",
    )
    version = models.BigIntegerField()
    at = models.DateTimeField()
    actor = models.TextField()
    status = models.TextField()
    money_state = models.TextField()
    stage = models.TextField(null=True)  # noqa: DJ001  NULL as in runs.finalize_stage

    class Meta:
        db_table = "run_history"
        verbose_name_plural = "run history"

    def __str__(self) -> str:
        return f"{self.run_id} v{self.version} {self.status} {self.money_state} {self.stage or ''}".rstrip()


class RunDispute(models.Model):
    """One step of a dispute, with who took it and why; append-only."""

    class Step(models.TextChoices):
        OPENED = "OPENED"
        UPHELD = "UPHELD"
        REFUNDED = "REFUNDED"

    run = models.ForeignKey(
        Run, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="disputes"
    )
    version = models.BigIntegerField()
    at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    step = models.TextField(choices=Step.choices)
    actor = models.TextField()
    reason = models.TextField()

    class Meta:
        db_table = "run_disputes"
        ordering = ["run", "version"]
        constraints = [
            models.UniqueConstraint(fields=["run", "version"], name="run_disputes_one_per_step"),
            models.CheckConstraint(
                condition=Q(step__in=["OPENED", "UPHELD", "REFUNDED"]), name="run_disputes_step_known"
            ),
            models.CheckConstraint(condition=~Q(actor="") & ~Q(reason=""), name="run_disputes_say_who_and_why"),
        ]

    def __str__(self) -> str:
        return f"{self.step} of {self.run_id}"


class UploadRoom(models.Model):
    """Room for one uploaded file, counted from the moment its address is given until the file is deleted."""

    upload_id = models.UUIDField(primary_key=True, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    key = models.TextField()
    size_bytes = models.BigIntegerField()
    was_seen = models.BooleanField(db_default=False)
    """The file was found in the bucket; room whose address ended without one is given back."""
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)

    class Meta:
        db_table = "upload_rooms"
        indexes = [
            models.Index("tenant", "created_at", include=["size_bytes"], name="idx_upload_rooms_tenant"),
            models.Index("created_at", name="idx_upload_rooms_unseen", condition=Q(was_seen=False)),
            models.Index("created_at", name="idx_upload_rooms_created"),
        ]
        constraints = [models.CheckConstraint(condition=Q(size_bytes__gt=0), name="upload_rooms_hold_bytes")]

    def __str__(self) -> str:
        return f"{self.size_bytes} bytes for {self.key}"
