"""Automations in the console: rules with a tester, events, tasks with their runs, messages, sources."""

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from pydantic import ValidationError
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminTextareaWidget

from budget.money import format_exact_usd, format_usd
from dpp_project import actors
from dpp_project.console import confirm
from dpp_project.console.json_field import JsonDocumentField
from dpp_project.console.row_admin import ActedUpon, ReadOnlyAdmin, WrittenOnceAdmin
from dpp_project.refusals import Refusal
from ops.automations import emitting, rehearsing
from ops.automations.models import (
    AutomationEvent,
    AutomationMessage,
    AutomationRule,
    AutomationSource,
    AutomationTask,
)
from ops.automations.rehearsing import RuleTrial
from ops.automations.rules import rules
from ops.automations.rules.rule_values import RuleChange, RuleValues
from ops.automations.sources import acts, failures
from ops.automations.states import FAILED_AGAIN

AnyRow = TypeVar("AnyRow", bound=Model)
COLORS: Final = {
    "PENDING": "info",
    "DISPATCHED": "warning",
    "IN_PROGRESS": "warning",
    "SUCCEEDED": "success",
    "SENT": "success",
    "NO_RULE": "success",
    "OWN_ACTOR": "success",
    "FAILED": "danger",
    "LOOP": "danger",
    "ON": "success",
    "OFF": "danger",
    "ENDED": "info",
}
EXAMPLE: Final = {
    "name": "issues-without-secrets",
    "source": "hooks",
    "tenant": "t_demo",
    "filter": 'event.action == "opened"',
    "pack_type": "compliance",
    "inputs": {"text": {"$": "event.issue.body"}, "rules": [{"id": "no-secrets", "type": "secret"}]},
    "max_cost_usd": "0.2500",
    "runs_per_hour": 20,
    "usd_per_day": "2.0000",
    "notify": {"channel": "slack", "target": "C012345"},
}


class RuleDocumentForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when it runs
    """A rule as the API takes it."""

    rule = JsonDocumentField(
        widget=UnfoldAdminTextareaWidget,
        help_text=format_html("For example <code>{}</code>", json.dumps(EXAMPLE, ensure_ascii=False)),
    )

    class Meta:
        model = AutomationRule
        fields: list[str] = []

    def asked(self) -> RuleValues:
        return RuleValues.model_validate(self.cleaned_data["rule"])

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        if "rule" in found:
            try:
                fault = rules.fault_of_automation_rule(self.asked())
            except ValidationError as error:
                first = error.errors(include_input=False, include_url=False)[0]
                self.add_error("rule", f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}")
            else:
                if fault is not None:
                    self.add_error("rule", f"{fault.field}: {fault.detail}")
        return found


class ChangeForm(forms.Form):
    change = JsonDocumentField(
        widget=UnfoldAdminTextareaWidget, help_text='What shall differ, as in {"runs_per_hour": 5}.'
    )

    def clean_change(self) -> RuleChange:
        try:
            return RuleChange.model_validate(self.cleaned_data["change"])
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            raise forms.ValidationError(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None


class TrialForm(forms.Form):
    event = JsonDocumentField(widget=UnfoldAdminTextareaWidget, help_text="An event's payload, as JSON.")

    def clean_event(self) -> dict[str, Any]:
        event = self.cleaned_data["event"]
        if not isinstance(event, dict):
            raise forms.ValidationError("It must be an object.")
        return event


class ActedAdmin(ActedUpon, WrittenOnceAdmin):
    """Acts lead to a page that says what will happen; what came of it is said on the row's own page."""

    def confirmed(
        self, request: HttpRequest, subject: Any, *, title: str, text: str, act: Callable[[], object]
    ) -> HttpResponse:
        return confirm.confirm_page(
            self,
            request,
            subject,
            title=title,
            text=text,
            submit=title,
            form_class=forms.Form,
            act=lambda _form: self.done(request, subject, act(), f"{title}: done."),
        )


@admin.register(AutomationRule)
class AutomationRuleAdmin(ActedAdmin):
    empty_said = "A rule buys a run for what happens at a source. Add the source first; docs/automations.md."
    form = RuleDocumentForm
    list_display = ("name", "state", "source", "tenant_id", "pack_type", "ceiling", "runs_per_hour", "day_cap")
    list_filter = ("enabled",)
    ordering = ("position", "rule_id")
    sortable_by = ()
    readonly_fields = (
        *("name", "state", "position", "source", "tenant_id", "filter", "pack_type", "template", "ceiling"),
        *("timebox_sec", "retries", "runs_per_hour", "day_cap", "thread_runs_per_hour", "workspace_id"),
        *("context_file", "notify_channel", "notify_target", "awaits_answers", "created_by", "created_at", "ended_at"),
    )
    actions_detail = ("try_it", "change_it", "enable", "disable", "end")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ["rule"] if obj is None else self.readonly_fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else self.readonly_fields

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """Those that would change something."""
        rule = _automation_row_or_none(AutomationRule, _uuid(object_id))
        if rule is None or rule.ended_at is not None:
            return []
        idle = "enable" if rule.enabled else "disable"
        return [one for one in super().get_actions_detail(request, object_id) if one.path != idle]

    @display(description="state", label=COLORS)  # type: ignore[untyped-decorator]
    def state(self, rule: AutomationRule) -> str:
        return "ENDED" if rule.ended_at is not None else "ON" if rule.enabled else "OFF"

    @admin.display(description="ceiling of a task")
    def ceiling(self, rule: AutomationRule) -> str:
        return f"{format_usd(rule.max_cost_usd_micros)} USD"

    @admin.display(description="a day")
    def day_cap(self, rule: AutomationRule) -> str:
        return f"{format_usd(rule.usd_per_day_micros)} USD"

    @admin.display(description="inputs")
    def template(self, rule: AutomationRule) -> SafeString:
        return _json(rule.inputs)

    def save_model(self, request: HttpRequest, obj: AutomationRule, form: Any, change: bool) -> None:  # noqa: FBT001  Django's
        """Disabled, in the page's transaction; enabled once that has committed: a cap is never put in force inside one.

        Dying in between leaves a rule that a person enables.
        """
        del change
        asked, actor = form.asked(), actors.person_actor(request.user)
        made = rules.create_rule(asked=asked.model_copy(update={"enabled": False}), actor=actor)
        if isinstance(made, Refusal):
            raise ValueError(made.detail)  # noqa: TRY004  no matter of types
        if asked.enabled:
            transaction.on_commit(lambda: rules.enable_rule(rule_id=made.pk, enabled=True, actor=actor))
        obj.pk, obj.name = made.pk, made.name

    @action(description="Try an event", icon="science", permissions=["manage"])  # type: ignore[untyped-decorator]
    def try_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        rule: AutomationRule = self.found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            rule,
            title="Try an event",
            text="What this rule would do with it, and what that may cost. Nothing is stored, held or said.",
            submit="Try",
            form_class=TrialForm,
            act=lambda form: self._tried(request, rule, rehearsing.try_rule(rule, form.cleaned_data["event"])),
        )

    def _tried(self, request: HttpRequest, rule: AutomationRule, trial: RuleTrial) -> HttpResponse:
        level = messages.WARNING if trial.faults or not trial.matches else messages.SUCCESS
        self.message_user(request, trial_text(trial), level)
        return HttpResponseRedirect(reverse("admin:automations_automationrule_change", args=[rule.pk]))

    @action(description="Change", icon="edit", permissions=["manage"])  # type: ignore[untyped-decorator]
    def change_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        rule: AutomationRule = self.found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            rule,
            title="Change",
            text="What is left out stays. Tasks that stand keep what they were made with.",
            submit="Change",
            form_class=ChangeForm,
            act=lambda form: self.done(
                request,
                rule,
                rules.change_rule(
                    rule_id=rule.pk, asked=form.cleaned_data["change"], actor=actors.person_actor(request.user)
                ),
                "Changed.",
            ),
        )

    @action(description="Enable", icon="play_arrow", permissions=["manage"])  # type: ignore[untyped-decorator]
    def enable(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._turned(request, object_id, enabled=True)

    @action(description="Disable", icon="pause", permissions=["manage"])  # type: ignore[untyped-decorator]
    def disable(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._turned(request, object_id, enabled=False)

    def _turned(self, request: HttpRequest, object_id: str, *, enabled: bool) -> HttpResponse:
        rule, actor = self.found(request, object_id), actors.person_actor(request.user)
        return self.confirmed(
            request,
            rule,
            title="Enable" if enabled else "Disable",
            text="It matches events again." if enabled else "It matches nothing; its tasks go on.",
            act=lambda: rules.enable_rule(rule_id=rule.pk, enabled=enabled, actor=actor),
        )

    @action(description="End", icon="block", permissions=["manage"])  # type: ignore[untyped-decorator]
    def end(self, request: HttpRequest, object_id: str) -> HttpResponse:
        rule, actor = self.found(request, object_id), actors.person_actor(request.user)
        return self.confirmed(
            request,
            rule,
            title="End",
            text="For good: its key is revoked, and what waits of it ends unbought.",
            act=lambda: rules.end_automation_rule(rule_id=rule.pk, actor=actor),
        )


@admin.register(AutomationEvent)
class AutomationEventAdmin(ActedAdmin):
    empty_said = "Events come from sources; add one under Automation sources."
    list_display = ("seen_at", "event_id", "label", "waits_for", "source", "rule", "thread", "actor")
    list_filter = ("status", "outcome")
    list_select_related = ("source", "rule")
    search_fields = ("event_pk__exact", "event_id__exact")
    search_help_text = "An id, here or at the source, whole."
    ordering = ("-event_pk",)
    sortable_by = ()
    list_per_page = 50
    readonly_fields = (
        *("event_id", "label", "reason", "waits_for", "source", "rule", "its_task", "thread", "actor", "emission"),
        *("occurred_at", "seen_at", "dispatched_at", "completed_at", "shown_payload", "event_pk"),
    )
    fields = readonly_fields
    actions_detail = ("again",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        event = _automation_row_or_none(AutomationEvent, _uuid(object_id))
        failed = event is not None and event.outcome in FAILED_AGAIN
        return list(super().get_actions_detail(request, object_id)) if failed else []

    @display(description="status", label=COLORS)  # type: ignore[untyped-decorator]
    def label(self, event: AutomationEvent) -> str:
        return event.outcome or event.status

    @admin.display(description="task")
    def its_task(self, event: AutomationEvent) -> SafeString | str:
        task = AutomationTask.objects.filter(event=event).first()
        return "-" if task is None else _task_link(task)

    @admin.display(description="payload")
    def shown_payload(self, event: AutomationEvent) -> SafeString:
        return _json(event.payload)

    @action(description="Emit again", icon="replay", permissions=["manage"])  # type: ignore[untyped-decorator]
    def again(self, request: HttpRequest, object_id: str) -> HttpResponse:
        event, actor = self.found(request, object_id), actors.person_actor(request.user)
        return self.confirmed(
            request,
            event,
            title="Emit again",
            text="It goes through the rules once more, as it was stored, and may buy a run.",
            act=lambda: emitting.emit_again(event_pk=event.pk, actor=actor),
        )


@admin.register(AutomationTask)
class AutomationTaskAdmin(ReadOnlyAdmin):
    empty_said = "A rule makes a task of each event that it matches."
    list_display = ("number", "label", "rule", "tenant_id", "attempts", "charged", "thread", "created_at")
    list_filter = ("status", "outcome")
    list_select_related = ("rule",)
    search_fields = ("number__exact", "task_id__exact")
    search_help_text = "A number or an id, whole."
    ordering = ("-task_id",)
    sortable_by = ()
    list_per_page = 50
    readonly_fields = (
        *("number", "label", "reason", "waits_for", "rule", "tenant_id", "its_event", "resumed", "runs", "charged"),
        *("shown_inputs", "shown_result", "thread", "workspace_id", "created_at", "started_at", "completed_at"),
        "task_id",
    )
    fields = readonly_fields

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return _seen_by(request, self.fields)

    @display(description="status", label=COLORS)  # type: ignore[untyped-decorator]
    def label(self, task: AutomationTask) -> str:
        return task.outcome or task.status

    @admin.display(description="charged")
    def charged(self, task: AutomationTask) -> str:
        return f"{format_exact_usd(task.charged_usd_micros)} of {format_usd(task.max_cost_usd_micros)} USD"

    @admin.display(description="event")
    def its_event(self, task: AutomationTask) -> SafeString:
        place = reverse("admin:automations_automationevent_change", args=[task.event_id])
        return format_html('<a href="{}">{}</a>', place, task.event_id)

    @admin.display(description="resumes")
    def resumed(self, task: AutomationTask) -> SafeString | str:
        former = _automation_row_or_none(AutomationTask, task.resumes_id)
        return "-" if former is None else _task_link(former)

    @admin.display(description="runs")
    def runs(self, task: AutomationTask) -> SafeString | str:
        rows = (
            (one.attempt, one.status, _run_link(one.run_id), one.charged_usd_micros or 0, one.reason)
            for one in task.tries.all()
        )
        return format_html_join("", "{}. {} {} {} micros {}<br>", rows) or "-"

    @admin.display(description="inputs")
    def shown_inputs(self, task: AutomationTask) -> SafeString | str:
        return "cleared" if task.inputs is None else _json(task.inputs)

    @admin.display(description="result")
    def shown_result(self, task: AutomationTask) -> SafeString | str:
        result = getattr(task, "result", None)
        if result is None:
            return "-"
        return format_html("{}<br>{}{}", result.summary, _json(result.data), _json(result.session_log))


@admin.register(AutomationMessage)
class AutomationMessageAdmin(ReadOnlyAdmin):
    empty_said = "What a task came to is said where its rule's `notify` says."
    list_display = ("number", "label", "kind", "channel", "target", "rule", "attempts", "created_at")
    list_filter = ("status", "kind", "channel")
    list_select_related = ("rule",)
    search_fields = ("number__exact", "message_id__exact")
    search_help_text = "A number or an id, whole."
    ordering = ("-message_id",)
    sortable_by = ()
    list_per_page = 50
    readonly_fields = (
        *("number", "label", "kind", "channel", "target", "thread", "body", "its_task", "rule", "attempts"),
        *("unclear", "next_attempt_at", "last_error", "external_id", "created_at", "ended_at"),
    )
    fields = readonly_fields

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return _seen_by(request, self.fields)

    @display(description="status", label=COLORS)  # type: ignore[untyped-decorator]
    def label(self, message: AutomationMessage) -> str:
        return message.status

    @admin.display(description="task")
    def its_task(self, message: AutomationMessage) -> SafeString | str:
        task = _automation_row_or_none(AutomationTask, message.task_id)
        return "-" if task is None else _task_link(task)


@admin.register(AutomationSource)
class AutomationSourceAdmin(ActedAdmin):
    """Made, changed and rotated by `manage.py automations source`: a page would put secrets into forms and cookies."""

    empty_said = "GitHub, Jira, Slack, a time of day or a signed hook; docs/automations_sources.md."
    list_display = ("name", "kind", "state", "looked_at", "next_look_at", "failures", "trouble")
    ordering = ("name",)
    sortable_by = ()
    readonly_fields = (
        *("name", "kind", "state", "trouble", "shown_settings", "cursor", "looked_at", "next_look_at", "failures"),
        *("created_by", "created_at"),
    )
    fields = readonly_fields
    actions_detail = ("pause", "resume", "look_now")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @display(description="state", label=COLORS)  # type: ignore[untyped-decorator]
    def state(self, source: AutomationSource) -> str:
        if not source.enabled:
            return "OFF"
        return "FAILED" if source.failures else "ON"

    @admin.display(description="what is wrong, and since when")
    def trouble(self, source: AutomationSource) -> str:
        return failures.source_failure_told(source) or "-"

    @action(description="Pause", icon="pause", permissions=["manage"])  # type: ignore[untyped-decorator]
    def pause(self, request: HttpRequest, object_id: str) -> HttpResponse:
        text = "It is not looked at, and its hook refuses what is sent to it."
        return self._acted(request, object_id, title="Pause", text=text, act=acts.pause_source)

    @action(description="Resume", icon="play_arrow", permissions=["manage"])  # type: ignore[untyped-decorator]
    def resume(self, request: HttpRequest, object_id: str) -> HttpResponse:
        text = "It is looked at again; what happened meanwhile is found, as far as its service tells."
        return self._acted(request, object_id, title="Resume", text=text, act=acts.resume_source)

    @action(description="Look now", icon="search", permissions=["manage"])  # type: ignore[untyped-decorator]
    def look_now(self, request: HttpRequest, object_id: str) -> HttpResponse:
        text = "At once, or as soon as its service wants to be asked again."
        return self._acted(request, object_id, title="Look now", text=text, act=acts.look_now)

    def _acted(
        self, request: HttpRequest, object_id: str, *, title: str, text: str, act: Callable[..., object]
    ) -> HttpResponse:
        source, actor = self.found(request, object_id), actors.person_actor(request.user)
        return self.confirmed(request, source, title=title, text=text, act=lambda: act(source=source, actor=actor))

    @admin.display(description="settings")
    def shown_settings(self, source: AutomationSource) -> SafeString:
        return _json(source.settings)


def trial_text(trial: RuleTrial) -> str:
    if not trial.matches:
        return f"{trial.rule} does not match: {trial.filter_said}."
    if trial.least_usd is None:
        return f"{trial.rule} matches, and no run would come of it: {'; '.join(trial.faults)}."
    cost = f"{trial.least_usd} to {trial.most_usd} USD, at most {trial.ceiling_usd}"
    waits = f" {'; '.join(trial.faults)}." if trial.faults else ""
    return f"{trial.rule} matches and buys a run for {cost}.{waits} Inputs: {json.dumps(trial.inputs)[:500]}"


def _seen_by(request: HttpRequest, fields: Sequence[str]) -> list[str]:
    """What a run was given and what it answered is its tenant's: for who may act on runs, as on the run's own page."""
    may_read = request.user.has_perm("runs.change_run")
    return [field for field in fields if may_read or field not in {"shown_inputs", "shown_result", "body"}]


def _json(value: Any) -> SafeString:
    return format_html("<pre>{}</pre>", json.dumps(value, ensure_ascii=False, indent=2))


def _task_link(task: AutomationTask) -> SafeString:
    place = reverse("admin:automations_automationtask_change", args=[task.pk])
    return format_html('<a href="{}">{}</a>', place, task.number)


def _run_link(run_id: uuid.UUID | None) -> SafeString | str:
    if run_id is None:
        return "-"
    return format_html('<a href="{}">{}</a>', reverse("admin:runs_run_change", args=[run_id]), run_id)


def _automation_row_or_none(model: type[AnyRow], pk: uuid.UUID | None) -> AnyRow | None:
    found: AnyRow | None = None if pk is None else model._default_manager.filter(pk=pk).first()  # noqa: SLF001  Django's own name for it
    return found


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
