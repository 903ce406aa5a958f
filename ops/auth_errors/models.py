"""Auth errors, the clusters they fall into, and what was decided about them.

Ids are UUIDs of version 7, so that the order of ids is the order of recording, and each list is a range of one index.
No foreign key leads to a tenant: each report would lock its tenant's row.
"""

from typing import Final

from django.contrib.postgres.functions import TransactionNow
from django.db import models
from django.db.models import F, Q

from ops.auth_errors.states import RULES_DECIDE, AuthErrorStatus, ClusterStatus, DecisionType

REASON_LENGTH_MAX: Final = 200
_STATUSES: Final = sorted(one.value for one in AuthErrorStatus)
_DECISIONS: Final = sorted(one.value for one in DecisionType)
_BY_RULES: Final = sorted(one.value for one in RULES_DECIDE)
_CLUSTER_STATUSES: Final = sorted(one.value for one in ClusterStatus)


class Cluster(models.Model):
    """All errors of one stack hash. Written by `clusters.py` alone, by INSERT … ON CONFLICT and guarded UPDATEs."""

    cluster_id = models.UUIDField(primary_key=True, editable=False)
    hash_version = models.PositiveSmallIntegerField()
    stack_hash = models.TextField()
    status = models.TextField(
        choices=[(one.value, one.value) for one in ClusterStatus],
        default="OPEN",
        db_default="OPEN",
    )
    exception_class = models.TextField()
    top_frame = models.TextField(default="", db_default="")
    occurrences = models.BigIntegerField(default=0, db_default=0)
    newest_error_id = models.UUIDField(null=True)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    """Of it and of what is merged into it."""
    resolved_at = models.DateTimeField(null=True)
    regressed_at = models.DateTimeField(null=True)
    """When an error came back after the latest RESOLVE; none since then."""

    class Meta:
        db_table = "auth_error_cluster"
        ordering = ["-last_seen_at", "-cluster_id"]
        indexes = [
            models.Index(fields=["-last_seen_at", "-cluster_id"], name="idx_auth_cluster_latest"),
            models.Index(fields=["status", "-last_seen_at", "-cluster_id"], name="idx_auth_cluster_status"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["hash_version", "stack_hash"], name="auth_error_cluster_hash_unique"),
            models.CheckConstraint(condition=Q(status__in=_CLUSTER_STATUSES), name="auth_error_cluster_status"),
            models.CheckConstraint(
                condition=Q(status="OPEN", resolved_at__isnull=True)
                | Q(status="RESOLVED", resolved_at__isnull=False, regressed_at__isnull=True),
                name="auth_error_cluster_resolved_has_a_time",
            ),
            models.CheckConstraint(condition=Q(hash_version__gte=1), name="auth_error_cluster_hash_version"),
        ]

    def __str__(self) -> str:
        return f"{self.exception_class} {self.stack_hash[:12]}"


class ClusterDay(models.Model):
    """How many errors of a tenant fell into a cluster on a day (UTC): trend, total and tenants without a scan."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="days")
    day = models.DateField()
    tenant_id = models.TextField()
    occurrences = models.BigIntegerField()

    class Meta:
        db_table = "auth_error_cluster_day"
        constraints = [
            models.UniqueConstraint(fields=["cluster", "day", "tenant_id"], name="auth_error_cluster_day_unique")
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.tenant_id}: {self.occurrences}"


class AuthError(models.Model):
    """One report. `recording.py` inserts it, `transitions.py` alone moves it, retention deletes it."""

    auth_error_id = models.UUIDField(primary_key=True, editable=False)
    tenant_id = models.TextField()
    dedup_key = models.TextField()
    status = models.TextField(
        choices=[(one.value, one.value) for one in AuthErrorStatus],
        default="NEW",
        db_default="NEW",
    )
    version = models.BigIntegerField(default=0, db_default=0)
    recorded_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    updated_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    occurred_at = models.DateTimeField()
    http_status = models.PositiveSmallIntegerField()
    exception_class = models.TextField()
    exception_message = models.TextField(null=True)  # noqa: DJ001  absent is not empty
    root_cause_class = models.TextField(null=True)  # noqa: DJ001
    root_cause_message = models.TextField(null=True)  # noqa: DJ001
    stacktrace = models.TextField()
    frames = models.JSONField()
    """The chain's frames, taken from the whole text before it was cut."""
    truncated = models.BooleanField()
    """Whether a text was cut; frames and hash never are."""
    request_uri = models.TextField(null=True)  # noqa: DJ001
    http_method = models.TextField(null=True)  # noqa: DJ001
    client_ip = models.TextField(null=True)  # noqa: DJ001
    user_agent = models.TextField(null=True)  # noqa: DJ001
    session_hash = models.TextField(null=True)  # noqa: DJ001
    user_id = models.TextField(null=True)  # noqa: DJ001
    hash_version = models.PositiveSmallIntegerField(null=True)
    stack_hash = models.TextField(null=True)  # noqa: DJ001
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    """That of its latest analysis; `members` keeps each."""
    analyzed_at = models.DateTimeField(null=True)
    retry_count = models.PositiveIntegerField(default=0, db_default=0)
    next_retry_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "auth_error"
        ordering = ["-auth_error_id"]
        indexes = [
            models.Index(fields=["tenant_id", "-auth_error_id"], name="idx_auth_error_tenant"),
            models.Index(fields=["tenant_id", "status", "-auth_error_id"], name="idx_auth_error_tenant_status"),
            models.Index(fields=["tenant_id", "exception_class", "-auth_error_id"], name="idx_auth_error_tenant_class"),
            models.Index(fields=["status", "-auth_error_id"], name="idx_auth_error_status"),
            models.Index(fields=["exception_class", "status", "-auth_error_id"], name="idx_auth_error_class_status"),
            models.Index(fields=["exception_class", "-auth_error_id"], name="idx_auth_error_class"),
            models.Index(
                fields=["cluster", "status", "-auth_error_id"],
                name="idx_auth_error_cluster_status",
                condition=Q(cluster__isnull=False),
            ),
            models.Index(
                fields=["cluster", "-auth_error_id"], name="idx_auth_error_cluster", condition=Q(cluster__isnull=False)
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "dedup_key"], name="auth_error_dedup_key_unique"),
            models.CheckConstraint(condition=Q(status__in=_STATUSES), name="auth_error_status_known"),
            models.CheckConstraint(condition=Q(http_status__range=(100, 599)), name="auth_error_http_status"),
            models.CheckConstraint(
                condition=Q(status__in=["NEW", "RETRY", "ANALYSIS_REQUESTED"])
                | Q(cluster__isnull=False, stack_hash__isnull=False, hash_version__isnull=False),
                name="auth_error_analysis_has_a_cluster",
            ),
            models.CheckConstraint(
                condition=Q(status="RETRY", next_retry_at__isnull=False) | ~Q(status="RETRY"),
                name="auth_error_retry_has_a_time",
            ),
            models.CheckConstraint(
                condition=~Q(dedup_key="") & ~Q(exception_class="") & ~Q(stacktrace=""), name="auth_error_complete"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.exception_class} {self.auth_error_id}"


class ClusterMember(models.Model):
    """Many to many: an error analysed by two versions of the normaliser is a member of both clusters."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="members")
    auth_error = models.ForeignKey(AuthError, on_delete=models.CASCADE, db_index=False, related_name="members")

    class Meta:
        db_table = "auth_error_cluster_member"
        constraints = [
            models.UniqueConstraint(fields=["auth_error", "cluster"], name="auth_error_cluster_member_unique")
        ]

    def __str__(self) -> str:
        return f"{self.auth_error_id} in {self.cluster_id}"


class ClusterAlias(models.Model):
    """A merge: `source` counts as `target` until `ended_at`. Members stay where their hash put them."""

    source = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="aliases")
    target = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="merged")
    by = models.TextField()
    at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    ended_by = models.TextField(null=True)  # noqa: DJ001
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "cluster_alias"
        indexes = [
            models.Index(fields=["target"], name="idx_cluster_alias_live", condition=Q(ended_at__isnull=True)),
            models.Index(fields=["source"], name="idx_cluster_alias_source"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["source"], name="cluster_alias_one_at_a_time", condition=Q(ended_at__isnull=True)
            ),
            models.CheckConstraint(condition=~Q(source=F("target")), name="cluster_alias_not_itself"),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, ended_by__isnull=True)
                | Q(ended_at__isnull=False, ended_by__isnull=False),
                name="cluster_alias_ended_by_someone",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source_id} counts as {self.target_id}"


class DecisionRule(models.Model):
    """Decides errors right after their analysis, where each condition that it has is met."""

    name = models.TextField()
    decision = models.TextField(choices=[(one, one) for one in _BY_RULES])
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    exception_class = models.TextField(default="", db_default="", blank=True)
    path_prefix = models.TextField(default="", db_default="", blank=True)
    created_by = models.TextField(editable=False)
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    ended_by = models.TextField(null=True, editable=False)  # noqa: DJ001
    ended_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "auth_error_rule"
        ordering = ["pk"]
        constraints = [
            models.CheckConstraint(condition=Q(decision__in=_BY_RULES), name="auth_error_rule_decision"),
            models.CheckConstraint(
                condition=Q(cluster__isnull=False) | ~Q(exception_class="") | ~Q(path_prefix=""),
                name="auth_error_rule_has_a_condition",
            ),
            models.CheckConstraint(condition=~Q(name=""), name="auth_error_rule_name_given"),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.decision}"


class ClusterDecision(models.Model):
    """A decision about each error of a cluster that is open when it is made; a job goes on where one batch ends."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="decisions")
    decision = models.TextField(choices=[(one.value, one.value) for one in DecisionType])
    by = models.TextField()
    reason = models.TextField(default="", db_default="")
    at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    upto_error_id = models.UUIDField()
    """Errors with higher ids were recorded later: it is not about them."""
    after_error_id = models.UUIDField()
    """How far its batches have come."""
    decided = models.BigIntegerField(default=0, db_default=0)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "auth_error_cluster_decision"
        ordering = ["-pk"]
        indexes = [
            models.Index(fields=["id"], name="idx_cluster_decision_at_work", condition=Q(finished_at__isnull=True))
        ]
        constraints = [
            models.CheckConstraint(condition=Q(decision__in=_DECISIONS), name="auth_error_cluster_decision_known")
        ]

    def __str__(self) -> str:
        return f"{self.decision} {self.cluster_id}"


class ErrorDecision(models.Model):
    """What was decided about one error, by whom: an operator, a rule, or a decision about its cluster. Append-only."""

    auth_error = models.ForeignKey(AuthError, on_delete=models.CASCADE, db_index=False, related_name="decisions")
    decision = models.TextField(choices=[(one.value, one.value) for one in DecisionType])
    by = models.TextField()
    reason = models.TextField(default="", db_default="")
    at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    rule = models.ForeignKey(DecisionRule, on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    of_cluster = models.ForeignKey(
        ClusterDecision,
        on_delete=models.DO_NOTHING,
        null=True,
        db_index=False,
        db_constraint=False,
        related_name="+",
    )

    class Meta:
        db_table = "auth_error_decision"
        ordering = ["pk"]
        indexes = [models.Index(fields=["auth_error", "id"], name="idx_auth_error_decision")]
        constraints = [
            models.CheckConstraint(condition=Q(decision__in=_DECISIONS), name="auth_error_decision_known"),
            models.CheckConstraint(condition=~Q(by=""), name="auth_error_decision_by_someone"),
        ]

    def __str__(self) -> str:
        return f"{self.decision} by {self.by}"
