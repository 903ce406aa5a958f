"""Sources, rules, and what becomes of an event: task, attempts, result, messages.

Ids are UUIDs of version 7; `task-20261119-001` and `msg-20261119-001` are for people. Statuses are written by
`transitions.py` alone. No foreign key leads to a tenant or to a run: neither is locked by what is noted here.
"""

from typing import Any, Final

from django.contrib.postgres.functions import TransactionNow
from django.db import models
from django.db.models import Q

from ops.automations.states import (
    AttemptStatus,
    EventOutcome,
    EventStatus,
    MessageChannel,
    MessageKind,
    MessageStatus,
    SourceKind,
    TaskOutcome,
    TaskStatus,
)

NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9_-]{0,63}$"


def _automation_column_is_one_of(name: str, values: type[Any]) -> Q:
    return Q(**{f"{name}__in": sorted(one.value for one in values)})


def _choices(values: type[Any]) -> list[tuple[str, str]]:
    return [(one.value, one.value) for one in values]


class AutomationSource(models.Model):
    """Where events come from. A poller leases it, looks, emits, and moves its marks."""

    source_id = models.UUIDField(primary_key=True, editable=False)
    name = models.TextField(unique=True)
    kind = models.TextField(choices=_choices(SourceKind))
    settings = models.JSONField(default=dict, db_default={})
    """Nothing secret: addresses, a query, a time of day, own actors."""
    sealed_secrets = models.BinaryField(null=True, editable=False)
    """A JSON object under DPP_ENCRYPTION_KEYS, bound to the source's id."""
    enabled = models.BooleanField(default=True, db_default=True)
    cursor = models.TextField(default="", db_default="")
    """How far it was read, in the source's own terms; moved with the event, in one transaction."""
    etag = models.TextField(default="", db_default="")
    state = models.JSONField(default=dict, db_default={})
    """Whatever else a source must remember between two looks."""
    next_look_at = models.DateTimeField(db_default=TransactionNow())
    lease_owner = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    looked_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0, db_default=0)
    last_error = models.TextField(default="", db_default="")
    created_by = models.TextField()
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    version = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "automation_source"
        ordering = ["name"]
        indexes = [models.Index(fields=["next_look_at"], name="idx_automation_source_due", condition=Q(enabled=True))]
        constraints = [
            models.CheckConstraint(condition=Q(name__regex=NAME_PATTERN), name="automation_source_name_form"),
            models.CheckConstraint(
                condition=_automation_column_is_one_of("kind", SourceKind), name="automation_source_kind_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class AutomationRule(models.Model):
    """What is bought when an event matches: the first that does, by position, makes a task of it."""

    rule_id = models.UUIDField(primary_key=True, editable=False)
    name = models.TextField()
    position = models.PositiveIntegerField(default=100, db_default=100)
    source = models.ForeignKey(AutomationSource, on_delete=models.PROTECT, related_name="rules")
    filter = models.TextField(default="", db_default="", blank=True)
    """CEL over `event`; empty: every event of the source."""
    tenant_id = models.TextField()
    pack_type = models.TextField()
    inputs = models.JSONField()
    max_cost_usd_micros = models.BigIntegerField()
    timebox_sec = models.PositiveIntegerField()
    retries = models.PositiveSmallIntegerField(default=1, db_default=1)
    runs_per_hour = models.PositiveIntegerField()
    usd_per_day_micros = models.BigIntegerField()
    thread_runs_per_hour = models.PositiveIntegerField(default=5, db_default=5)
    workspace_id = models.UUIDField(null=True, blank=True)
    context_file = models.TextField(null=True, blank=True)  # noqa: DJ001  absent is not empty
    notify_channel = models.TextField(default="", db_default="", blank=True)
    notify_target = models.TextField(default="", db_default="", blank=True)
    awaits_answers = models.BooleanField(default=False, db_default=False)
    """Its results ask for an answer, which makes a task that resumes the former."""
    key_id = models.UUIDField(editable=False)
    """The key that its runs are bought with; its secret was never shown."""
    lineage_id = models.UUIDField(editable=False)
    enabled = models.BooleanField(default=True, db_default=True)
    created_by = models.TextField()
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    updated_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    ended_at = models.DateTimeField(null=True)
    version = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "automation_rule"
        ordering = ["position", "rule_id"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"], name="automation_rule_name_unique", condition=Q(ended_at__isnull=True)
            ),
            models.CheckConstraint(condition=Q(name__regex=NAME_PATTERN), name="automation_rule_name_form"),
            models.CheckConstraint(condition=Q(max_cost_usd_micros__gte=1), name="automation_rule_ceiling"),
            models.CheckConstraint(condition=Q(usd_per_day_micros__gte=0), name="automation_rule_day_cap"),
            models.CheckConstraint(condition=Q(runs_per_hour__gte=1), name="automation_rule_runs_per_hour"),
            models.CheckConstraint(
                condition=Q(notify_channel="", notify_target="")
                | (_automation_column_is_one_of("notify_channel", MessageChannel) & ~Q(notify_target="")),
                name="automation_rule_notify",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class SeenEvent(models.Model):
    """That an event was seen, and how it ended: it outlives the event, so that no repetition buys a second run."""

    source = models.ForeignKey(AutomationSource, on_delete=models.PROTECT, db_index=False, related_name="+")
    event_id = models.TextField()
    at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    outcome = models.TextField(null=True, choices=_choices(EventOutcome))  # noqa: DJ001  absent: not ended yet
    emissions = models.PositiveIntegerField(default=1, db_default=1)

    class Meta:
        db_table = "seen_event"
        indexes = [models.Index(fields=["at"], name="idx_seen_event_age")]
        constraints = [
            models.UniqueConstraint(fields=["source", "event_id"], name="seen_event_unique"),
            models.CheckConstraint(condition=~Q(event_id=""), name="seen_event_id_given"),
        ]

    def __str__(self) -> str:
        return self.event_id


class AutomationEvent(models.Model):
    """Something that happened. PENDING until it is dispatched, DISPATCHED until its task has ended."""

    event_pk = models.UUIDField(primary_key=True, editable=False)
    source = models.ForeignKey(AutomationSource, on_delete=models.PROTECT, db_index=False, related_name="+")
    event_id = models.TextField()
    """The source's own: the same happening has the same, however often it is found."""
    emission = models.PositiveIntegerField(default=1, db_default=1)
    status = models.TextField(choices=_choices(EventStatus), default="PENDING", db_default="PENDING")
    outcome = models.TextField(null=True, choices=_choices(EventOutcome))  # noqa: DJ001
    reason = models.TextField(default="", db_default="")
    payload = models.JSONField()
    thread = models.TextField(default="", db_default="")
    """What it belongs to at its source: an issue, a pull request."""
    actor = models.TextField(default="", db_default="")
    occurred_at = models.DateTimeField()
    seen_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    next_try_at = models.DateTimeField(db_default=TransactionNow())
    """A bound of its rule is reached: it waits until then."""
    waits_for = models.TextField(default="", db_default="")
    resumes_id = models.UUIDField(null=True)
    """An answer: the task whose result it was given to."""
    faults = models.PositiveSmallIntegerField(default=0, db_default=0)
    """How often it failed by a fault of the platform's own, one after the other."""
    # Of one that waits, the rule that it waits for.
    rule = models.ForeignKey(AutomationRule, on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    dispatched_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    version = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "automation_event"
        ordering = ["-event_pk"]
        indexes = [
            models.Index(
                fields=["next_try_at", "event_pk"], name="idx_automation_event_due", condition=Q(status="PENDING")
            ),
            models.Index(
                fields=["source", "next_try_at", "event_pk"],
                name="idx_automation_event_new",
                condition=Q(status="PENDING", waits_for=""),
            ),
            models.Index(
                fields=["rule", "event_pk"],
                name="idx_automation_event_held",
                condition=Q(status="PENDING") & ~Q(waits_for=""),
            ),
            models.Index(fields=["completed_at"], name="idx_automation_event_age", condition=Q(status="COMPLETED")),
            models.Index(fields=["rule", "thread", "-dispatched_at"], name="idx_automation_event_thread"),
            models.Index(fields=["source", "-event_pk"], name="idx_automation_event_source"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["source", "event_id", "emission"], name="automation_event_unique"),
            models.CheckConstraint(
                condition=_automation_column_is_one_of("status", EventStatus), name="automation_event_status_known"
            ),
            models.CheckConstraint(
                condition=Q(status="COMPLETED", outcome__isnull=False, completed_at__isnull=False)
                | (~Q(status="COMPLETED") & Q(outcome__isnull=True, completed_at__isnull=True)),
                name="automation_event_completed_has_an_outcome",
            ),
            models.CheckConstraint(
                condition=~Q(status="DISPATCHED") | Q(rule__isnull=False, dispatched_at__isnull=False),
                name="automation_event_dispatched_has_a_rule",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event_id} {self.status}"


class AutomationTask(models.Model):
    """What a rule made of an event. Its attempts are its runs."""

    task_id = models.UUIDField(primary_key=True, editable=False)
    number = models.TextField(unique=True)
    """task-YYYYMMDD-NNN"""
    event = models.OneToOneField(AutomationEvent, on_delete=models.DO_NOTHING, db_constraint=False, related_name="task")
    rule = models.ForeignKey(AutomationRule, on_delete=models.PROTECT, related_name="tasks")
    tenant_id = models.TextField()
    pack_type = models.TextField()
    inputs = models.JSONField(null=True)
    """As they were rendered; gone when prompts have had their days."""
    max_cost_usd_micros = models.BigIntegerField()
    """The ceiling of all its attempts together."""
    timebox_sec = models.PositiveIntegerField()
    attempts_max = models.PositiveSmallIntegerField()
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    charged_usd_micros = models.BigIntegerField(default=0, db_default=0)
    workspace_id = models.UUIDField(null=True)
    context_file = models.TextField(null=True)  # noqa: DJ001
    thread = models.TextField(default="", db_default="")
    resumes = models.ForeignKey(
        "self", on_delete=models.DO_NOTHING, db_constraint=False, null=True, related_name="resumed_by"
    )
    """The task whose result an answer was given to."""
    status = models.TextField(choices=_choices(TaskStatus), default="PENDING", db_default="PENDING")
    outcome = models.TextField(null=True, choices=_choices(TaskOutcome))  # noqa: DJ001
    reason = models.TextField(default="", db_default="")
    next_try_at = models.DateTimeField(db_default=TransactionNow())
    waits_for = models.TextField(default="", db_default="")
    faults = models.PositiveSmallIntegerField(default=0, db_default=0)
    """As an event's, between two attempts."""
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    version = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "automation_task"
        ordering = ["-task_id"]
        indexes = [
            models.Index(
                fields=["next_try_at", "task_id"], name="idx_automation_task_due", condition=~Q(status="COMPLETED")
            ),
            models.Index(fields=["completed_at"], name="idx_automation_task_age", condition=Q(status="COMPLETED")),
            models.Index(fields=["rule", "thread", "-task_id"], name="idx_automation_task_thread"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace_id"],
                name="automation_task_one_a_workspace",
                condition=Q(status="IN_PROGRESS", workspace_id__isnull=False),
            ),
            models.CheckConstraint(
                condition=_automation_column_is_one_of("status", TaskStatus), name="automation_task_status_known"
            ),
            models.CheckConstraint(
                condition=Q(status="COMPLETED", outcome__isnull=False, completed_at__isnull=False)
                | (~Q(status="COMPLETED") & Q(outcome__isnull=True, completed_at__isnull=True)),
                name="automation_task_completed_has_an_outcome",
            ),
            models.CheckConstraint(
                condition=Q(attempts__lte=models.F("attempts_max")), name="automation_task_attempts_bounded"
            ),
            models.CheckConstraint(
                condition=Q(charged_usd_micros__lte=models.F("max_cost_usd_micros")),
                name="automation_task_ceiling_covers_all",
            ),
        ]

    def __str__(self) -> str:
        return self.number


class AutomationAttempt(models.Model):
    """One attempt: one run, under the key `{task}:{attempt}`, and one charge."""

    task = models.ForeignKey(AutomationTask, on_delete=models.CASCADE, db_index=False, related_name="tries")
    attempt = models.PositiveSmallIntegerField()
    rule_id = models.UUIDField()
    status = models.TextField(choices=_choices(AttemptStatus), default="OPEN", db_default="OPEN")
    reserved_usd_micros = models.BigIntegerField()
    run_id = models.UUIDField(null=True)
    charged_usd_micros = models.BigIntegerField(null=True)
    reason = models.TextField(default="", db_default="")
    began_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    lease_until = models.DateTimeField(null=True)
    """Until then one process is submitting it; afterwards any other does, under the same key."""
    unclear = models.BooleanField(default=False, db_default=False)
    """A process ended, or failed, while it submitted it: its run may stand, and is looked for among those whose data,
    and with them their key, are gone."""
    unavailable_since = models.DateTimeField(null=True)
    """Since when each submit was refused by what passes by itself, or failed; of one that is RUNNING, since when its
    run's end could not be noted. NULL: the last time it was not so."""
    next_try_at = models.DateTimeField(db_default=TransactionNow())
    accepted_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "automation_attempt"
        ordering = ["task_id", "attempt"]
        indexes = [
            models.Index(fields=["next_try_at"], name="idx_automation_attempt_open", condition=Q(status="OPEN")),
            models.Index(fields=["run_id"], name="idx_automation_attempt_running", condition=Q(status="RUNNING")),
            models.Index(fields=["rule_id", "-began_at"], name="idx_automation_attempt_rule"),
            models.Index(fields=["rule_id", "-accepted_at"], name="idx_automation_attempt_bought"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["task", "attempt"], name="automation_attempt_unique"),
            models.UniqueConstraint(fields=["run_id"], name="automation_attempt_one_run_each"),
            models.UniqueConstraint(
                fields=["task"],
                name="automation_attempt_one_at_a_time",
                condition=Q(status__in=["OPEN", "RUNNING"]),
            ),
            models.CheckConstraint(
                condition=_automation_column_is_one_of("status", AttemptStatus), name="automation_attempt_status_known"
            ),
            models.CheckConstraint(
                condition=Q(status__in=["OPEN", "REFUSED"], run_id__isnull=True)
                | Q(status__in=["RUNNING", "SUCCEEDED", "FAILED"], run_id__isnull=False),
                name="automation_attempt_run_agrees",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}:{self.attempt}"


class AutomationResult(models.Model):
    """What a task's last run answered. It is also what later tasks of the same thread may read."""

    task = models.OneToOneField(
        AutomationTask, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True, related_name="result"
    )
    rule_id = models.UUIDField()
    thread = models.TextField(default="", db_default="")
    run_id = models.UUIDField(null=True)
    outcome = models.TextField(choices=_choices(TaskOutcome))
    summary = models.TextField(default="", db_default="")
    data = models.JSONField(null=True)
    """Of the envelope; null where it is too large or where there is none."""
    session_id = models.TextField(default="", db_default="")
    session_log = models.JSONField(null=True)
    """The envelope's logs, and the output of a command; gone when session logs have had their days."""
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)

    class Meta:
        db_table = "automation_result"
        indexes = [
            models.Index(fields=["created_at"], name="idx_automation_result_age"),
            models.Index(fields=["rule_id", "thread", "-created_at"], name="idx_automation_result_thread"),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} of {self.task_id}"


class AutomationMessage(models.Model):
    """One message to one place. Sent outside any transaction, under a lease."""

    message_id = models.UUIDField(primary_key=True, editable=False)
    number = models.TextField(unique=True)
    """msg-YYYYMMDD-NNN"""
    key = models.TextField(null=True, unique=True)  # noqa: DJ001  absent: no two are the same
    """The same thing said twice is one message."""
    kind = models.TextField(choices=_choices(MessageKind))
    channel = models.TextField(choices=_choices(MessageChannel))
    target = models.TextField()
    thread = models.TextField(default="", db_default="")
    """The thread at the target that it answers in; empty: it begins one."""
    body = models.TextField()
    task = models.ForeignKey(
        AutomationTask, on_delete=models.DO_NOTHING, db_constraint=False, null=True, related_name="messages"
    )
    rule = models.ForeignKey(AutomationRule, on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    awaits_answer = models.BooleanField(default=False, db_default=False)
    status = models.TextField(choices=_choices(MessageStatus), default="PENDING", db_default="PENDING")
    attempts = models.PositiveIntegerField(default=0, db_default=0)
    next_attempt_at = models.DateTimeField(db_default=TransactionNow())
    lease_owner = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    unclear = models.BooleanField(default=False, db_default=False)
    """It may have arrived: it is looked up before it is sent again."""
    external_id = models.TextField(default="", db_default="")
    """What the target calls it."""
    last_error = models.TextField(default="", db_default="")
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)
    ended_at = models.DateTimeField(null=True)
    version = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "automation_message"
        ordering = ["-message_id"]
        indexes = [
            models.Index(
                fields=["next_attempt_at", "message_id"],
                name="idx_automation_message_due",
                condition=Q(status="PENDING"),
            ),
            models.Index(fields=["ended_at"], name="idx_automation_message_age", condition=~Q(status="PENDING")),
        ]
        constraints = [
            models.CheckConstraint(
                condition=_automation_column_is_one_of("status", MessageStatus), name="automation_message_status_known"
            ),
            models.CheckConstraint(
                condition=_automation_column_is_one_of("channel", MessageChannel),
                name="automation_message_channel_known",
            ),
            models.CheckConstraint(
                condition=_automation_column_is_one_of("kind", MessageKind), name="automation_message_kind_known"
            ),
            models.CheckConstraint(
                condition=Q(status="PENDING", ended_at__isnull=True)
                | (~Q(status="PENDING") & Q(ended_at__isnull=False)),
                name="automation_message_ended_has_a_time",
            ),
            models.CheckConstraint(condition=~Q(target="") & ~Q(body=""), name="automation_message_complete"),
        ]

    def __str__(self) -> str:
        return self.number


class ThreadMapping(models.Model):
    """In which thread at the target a task is spoken of. Gone when the task has ended."""

    task = models.ForeignKey(AutomationTask, on_delete=models.CASCADE, db_index=False, related_name="mappings")
    channel = models.TextField(choices=_choices(MessageChannel))
    target = models.TextField()
    thread = models.TextField()
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)

    class Meta:
        db_table = "automation_thread_mapping"
        indexes = [models.Index(fields=["created_at"], name="idx_automation_mapping_age")]
        constraints = [
            models.UniqueConstraint(fields=["task", "channel", "target"], name="automation_mapping_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.task_id} in {self.thread}"


class AwaitedAnswer(models.Model):
    """A thread in which an answer is waited for. Gone when it came."""

    task = models.ForeignKey(AutomationTask, on_delete=models.CASCADE, related_name="awaited")
    channel = models.TextField(choices=_choices(MessageChannel))
    target = models.TextField()
    thread = models.TextField()
    created_at = models.DateTimeField(db_default=TransactionNow(), editable=False)

    class Meta:
        db_table = "automation_awaited_answer"
        indexes = [models.Index(fields=["created_at"], name="idx_automation_awaited_age")]
        constraints = [
            models.UniqueConstraint(fields=["channel", "target", "thread"], name="automation_awaited_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.task_id} in {self.thread}"


class NumberOfDay(models.Model):
    """The last number given to a task, or to a message, on a date."""

    kind = models.TextField()
    day = models.DateField()
    last = models.PositiveIntegerField()

    class Meta:
        db_table = "automation_number"
        constraints = [models.UniqueConstraint(fields=["kind", "day"], name="automation_number_unique")]

    def __str__(self) -> str:
        return f"{self.kind}-{self.day:%Y%m%d}-{self.last:03d}"


class AutomationNotice(models.Model):
    """When something was last said, so that it is said once an hour, or once a date."""

    key = models.TextField(primary_key=True)
    told_at = models.DateTimeField()

    class Meta:
        db_table = "automation_notice"
        indexes = [models.Index(fields=["told_at"], name="idx_automation_notice_age")]

    def __str__(self) -> str:
        return self.key
