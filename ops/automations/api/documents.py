"""What the addresses of automations take and answer."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from budget.money import format_exact_usd, format_usd
from dpp_project.http.cursors import CursorParameter
from ops.automations.models import AutomationEvent, AutomationMessage, AutomationResult, AutomationRule, AutomationTask
from ops.automations.rehearsing import RuleTrial
from ops.automations.states import EventStatus, MessageStatus, TaskStatus


class AutomationPageQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=200, description="Rows on a page.")] = 50
    cursor: CursorParameter = None


class AutomationEventsQuery(AutomationPageQuery):
    status: Annotated[EventStatus | None, Field(description="Only such events.")] = None


class AutomationTasksQuery(AutomationPageQuery):
    status: Annotated[TaskStatus | None, Field(description="Only such tasks.")] = None


class AutomationMessagesQuery(AutomationPageQuery):
    status: Annotated[MessageStatus | None, Field(description="Only such messages.")] = None


class RuleTrialRequest(BaseModel):
    """An event to try the rules of a source with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Annotated[str, Field(max_length=64)]
    event: dict[str, JsonValue]


class RuleTrialAnswer(BaseModel):
    rule: str
    matches: bool
    is_chosen: Annotated[bool, Field(description="The first that matches: it makes the task.")]
    filter_said: Annotated[str, Field(description="true, false, or the class of its error, such as NOT_FOUND.")]
    inputs: Any
    faults: Annotated[list[str], Field(description="Why no run would come of it now.")]
    least_usd: str | None
    most_usd: str | None
    ceiling_usd: str

    @classmethod
    def of(cls, trial: RuleTrial) -> Self:
        return cls.model_validate(
            {name: getattr(trial, name) for name in cls.model_fields},
        )


class RuleTrials(BaseModel):
    rules: list[RuleTrialAnswer]


class AutomationNotifyAnswer(BaseModel):
    channel: str
    target: str


class AutomationRuleAnswer(BaseModel):
    rule_id: str
    name: str
    source: str
    tenant: str
    position: int
    filter: str
    pack_type: str
    inputs: Any
    max_cost_usd: str
    timebox_sec: int
    retries: int
    runs_per_hour: int
    usd_per_day: str
    thread_runs_per_hour: int
    workspace_id: str | None
    context_file: str | None
    notify: AutomationNotifyAnswer | None
    awaits_answers: bool
    enabled: bool
    created_by: str
    created_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, rule: AutomationRule) -> Self:
        notify = {"channel": rule.notify_channel, "target": rule.notify_target} if rule.notify_channel else None
        return cls(
            rule_id=str(rule.pk),
            name=rule.name,
            source=rule.source.name,
            tenant=rule.tenant_id,
            position=rule.position,
            filter=rule.filter,
            pack_type=rule.pack_type,
            inputs=rule.inputs,
            max_cost_usd=format_usd(rule.max_cost_usd_micros),
            timebox_sec=rule.timebox_sec,
            retries=rule.retries,
            runs_per_hour=rule.runs_per_hour,
            usd_per_day=format_usd(rule.usd_per_day_micros),
            thread_runs_per_hour=rule.thread_runs_per_hour,
            workspace_id=None if rule.workspace_id is None else str(rule.workspace_id),
            context_file=rule.context_file,
            notify=None if notify is None else AutomationNotifyAnswer(**notify),
            awaits_answers=rule.awaits_answers,
            enabled=rule.enabled,
            created_by=rule.created_by,
            created_at=rule.created_at,
            ended_at=rule.ended_at,
        )


class AutomationRules(BaseModel):
    rules: list[AutomationRuleAnswer]


class AutomationEventAnswer(BaseModel):
    event: Annotated[str, Field(description="Its id here.")]
    event_id: Annotated[str, Field(description="Its id at the source.")]
    source: str
    status: EventStatus
    outcome: str | None
    reason: str
    waits_for: Annotated[str, Field(description="The bound that it waits for, if any.")]
    emission: int
    thread: str
    actor: str
    rule: str | None
    occurred_at: datetime
    seen_at: datetime
    dispatched_at: datetime | None
    completed_at: datetime | None

    @classmethod
    def of(cls, event: AutomationEvent) -> Self:
        same = ("event_id", "outcome", "reason", "waits_for", "emission", "thread", "actor")
        times = ("occurred_at", "seen_at", "dispatched_at", "completed_at")
        return cls(
            event=str(event.pk),
            source=event.source.name,
            status=EventStatus(event.status),
            rule=None if event.rule is None else event.rule.name,
            **{name: getattr(event, name) for name in (*same, *times)},
        )


class AutomationEvents(BaseModel):
    events: list[AutomationEventAnswer]
    next_cursor: str | None


class AutomationAttemptAnswer(BaseModel):
    attempt: int
    status: str
    run_id: str | None
    reserved_usd: str
    charged_usd: str | None
    reason: str


class AutomationResultAnswer(BaseModel):
    outcome: str
    summary: str
    data: Any
    session_id: str
    session_log: Any


class AutomationTaskAnswer(BaseModel):
    task: Annotated[str, Field(description="Its id.")]
    number: str
    rule: str
    tenant: str
    event: str
    status: TaskStatus
    outcome: str | None
    reason: str
    waits_for: str
    attempts: int
    attempts_max: int
    max_cost_usd: str
    charged_usd: str
    thread: str
    resumes: str | None
    created_at: datetime
    completed_at: datetime | None
    tries: list[AutomationAttemptAnswer] | None = None
    inputs: Annotated[Any, Field(description="Gone after three days.")] = None
    result: AutomationResultAnswer | None = None

    @classmethod
    def of(cls, task: AutomationTask) -> Self:
        same = ("number", "outcome", "reason", "waits_for", "attempts", "attempts_max", "thread")
        return cls(
            task=str(task.pk),
            rule=task.rule.name,
            tenant=task.tenant_id,
            event=str(task.event_id),
            status=TaskStatus(task.status),
            max_cost_usd=format_usd(task.max_cost_usd_micros),
            charged_usd=format_exact_usd(task.charged_usd_micros),
            resumes=None if task.resumes_id is None else str(task.resumes_id),
            created_at=task.created_at,
            completed_at=task.completed_at,
            **{name: getattr(task, name) for name in same},
        )

    @classmethod
    def whole(cls, task: AutomationTask) -> Self:
        tries = [
            AutomationAttemptAnswer(
                attempt=one.attempt,
                status=one.status,
                run_id=None if one.run_id is None else str(one.run_id),
                reserved_usd=format_usd(one.reserved_usd_micros),
                charged_usd=None if one.charged_usd_micros is None else format_exact_usd(one.charged_usd_micros),
                reason=one.reason,
            )
            for one in task.tries.all()
        ]
        found = AutomationResult.objects.filter(pk=task.pk).first()
        names = ("outcome", "summary", "data", "session_id", "session_log")
        result = None if found is None else AutomationResultAnswer(**{name: getattr(found, name) for name in names})
        return cls.of(task).model_copy(update={"tries": tries, "inputs": task.inputs, "result": result})


class AutomationTasks(BaseModel):
    tasks: list[AutomationTaskAnswer]
    next_cursor: str | None


class AutomationMessageAnswer(BaseModel):
    message: str
    number: str
    kind: str
    channel: str
    target: str
    thread: str
    body: str
    task: str | None
    rule: str | None
    status: MessageStatus
    attempts: int
    unclear: Annotated[bool, Field(description="It may have arrived; the sender looks it up before it sends again.")]
    last_error: str
    created_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, message: AutomationMessage) -> Self:
        same = ("number", "kind", "channel", "target", "thread", "body", "attempts", "unclear", "last_error")
        return cls(
            message=str(message.pk),
            task=None if message.task_id is None else str(message.task_id),
            rule=None if message.rule is None else message.rule.name,
            status=MessageStatus(message.status),
            **{name: getattr(message, name) for name in (*same, "created_at", "ended_at")},
        )


class AutomationMessages(BaseModel):
    messages: list[AutomationMessageAnswer]
    next_cursor: str | None
