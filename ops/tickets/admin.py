"""Operations in the console: tickets opened, approved and declined, the emergency stop, the papers to read."""

import json
from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from dpp_project import actors
from dpp_project.console import confirm
from dpp_project.console.json_field import JsonDocumentField
from dpp_project.console.row_admin import ReadOnlyAdmin, WrittenOnceAdmin
from dpp_project.refusals import Refusal
from ops.tickets import emergency, services
from ops.tickets.models import TEXT_LENGTH_MAX, EmergencySwitch, OpsRunReceipt, ReaperReport, Ticket
from ops.tickets.processors import PROCESSORS
from ops.tickets.states import RequestType, TicketStatus
from tenants.services import text_fault

SWITCH_COLORS = {"STOPPED": "danger", "RUNNING": "success"}
STATUS_COLORS = {"OPEN": "info", "IN_PROGRESS": "warning", "DONE": "success", "FAILED": "danger"}


def _examples() -> SafeString:
    lines = ((one.request_type, json.dumps(dict(one.example))) for one in PROCESSORS.values())
    return format_html_join("", "{}: <code>{}</code><br>", lines)


class TicketForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when it runs
    request_type = forms.ChoiceField(
        choices=[("", "---------"), *((one.value, one.value) for one in RequestType)], widget=UnfoldAdminSelectWidget
    )
    payload = JsonDocumentField(widget=UnfoldAdminTextareaWidget, help_text=_examples())

    class Meta:
        model = Ticket
        fields = ["request_type", "payload", "reason"]
        help_texts = {"reason": "Why you ask for it."}

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        if {"request_type", "payload"} <= found.keys():
            fault = services.ticket_fault(
                request_type=RequestType(found["request_type"]),
                payload=found["payload"],
                reason=found.get("reason") or "",
            )
            if fault is not None:
                field = fault.field.partition(".")[0]
                self.add_error(field, f"{fault.field}: {fault.detail}")
            else:
                found["payload"] = services.checked_payload(RequestType(found["request_type"]), found["payload"])
        return found


class DeclineForm(forms.Form):
    reason = forms.CharField(max_length=TEXT_LENGTH_MAX, widget=UnfoldAdminTextInputWidget)


class EmergencySwitchForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = EmergencySwitch
        fields = ["is_on", "reason"]
        help_texts = {
            "is_on": "While it is stopped, no ticket is worked on. Runs, recovery and money go on; submits are stopped "
            "on the tenants' page.",
            "reason": "Shown to the other operators.",
        }

    def clean_reason(self) -> str:
        reason = str(self.cleaned_data["reason"]).strip()
        if (fault := text_fault("reason", reason)) is not None:
            raise forms.ValidationError(f"say why: {fault.detail}")
        return reason


ONE_LINE: Final[dict[Any, Any]] = {models.TextField: {"widget": UnfoldAdminTextInputWidget}}


@admin.register(Ticket)
class TicketAdmin(WrittenOnceAdmin):
    empty_said = "A ticket asks in writing for what one person may not do alone; docs/tickets.md."
    formfield_overrides = ONE_LINE
    list_display = ("created_at", "request_type", "label", "needs_approval", "approved_by", "requested_by", "attempts")
    list_filter = ("status", "request_type", "needs_approval")
    search_fields = ("request_id", "requested_by")
    ordering = ("-created_at",)
    readonly_fields = (
        *("request_id", "request_type", "label", "payload", "reason", "requested_by", "needs_approval"),
        *("approved_by", "approved_at", "attempts", "created_at", "in_progress_at", "last_processed_at", "outcome"),
    )
    actions_detail = ("approve", "decline")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return TicketForm.Meta.fields if obj is None else self.readonly_fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else self.readonly_fields

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002  Django's
        return super().get_form(request, obj, change, **(kwargs | ({"form": TicketForm} if obj is None else {})))

    @display(description="status", ordering="status", label=STATUS_COLORS)  # type: ignore[untyped-decorator]
    def label(self, ticket: Ticket) -> str:
        return ticket.status

    @admin.display(description="result")
    def outcome(self, ticket: Ticket) -> str:
        result = getattr(ticket, "result", None)
        if result is None:
            return ""
        return f"{result.processor_id}: {result.message} {json.dumps(result.detail) if result.detail else ''}"

    def save_model(self, request: HttpRequest, obj: Ticket, form: Any, change: bool) -> None:  # noqa: FBT001  Django's
        opened = services.open_ticket(
            request_type=RequestType(obj.request_type),
            payload=obj.payload,
            reason=obj.reason,
            requested_by=actors.person_actor(request.user),
        )
        if isinstance(opened, Refusal):
            raise ValueError(opened.detail)  # noqa: TRY004  no matter of types
        obj.pk = opened.ticket.pk

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """Those that would change something."""
        ticket: Ticket | None = self.get_object(request, object_id)
        is_open = ticket is not None and ticket.status == TicketStatus.OPEN
        waits = ticket is not None and ticket.needs_approval and ticket.approved_by is None
        may = {"approve": is_open and waits, "decline": is_open}
        return [one for one in super().get_actions_detail(request, object_id) if may.get(one.path, True)]

    def has_decide_permission(self, request: HttpRequest, _object_id: Any = None) -> bool:
        return bool(request.user.has_perm("tickets.change_ticket"))

    @action(description="Approve", icon="done", permissions=["decide"])  # type: ignore[untyped-decorator]
    def approve(self, request: HttpRequest, object_id: str) -> HttpResponse:
        ticket = self._found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            ticket,
            title="Approve",
            text=f"{ticket.request_type} {json.dumps(ticket.payload)}, asked for by {ticket.requested_by}. "
            "The next ops cycle processes it.",
            submit="Approve",
            form_class=forms.Form,
            act=lambda _form: self._tell(
                request,
                ticket,
                services.approve_ticket(request_id=ticket.pk, by=actors.person_actor(request.user)),
                "Approved.",
            ),
        )

    @action(description="Decline", icon="block", permissions=["decide"])  # type: ignore[untyped-decorator]
    def decline(self, request: HttpRequest, object_id: str) -> HttpResponse:
        ticket = self._found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            ticket,
            title="Decline",
            text="The ticket ends FAILED without any effect.",
            submit="Decline",
            form_class=DeclineForm,
            act=lambda form: self._tell(
                request,
                ticket,
                services.decline_ticket(
                    request_id=ticket.pk,
                    by=actors.person_actor(request.user),
                    reason=form.cleaned_data["reason"],
                ),
                "Declined.",
            ),
        )

    def _found(self, request: HttpRequest, object_id: str) -> Ticket:
        ticket: Ticket | None = self.get_object(request, object_id)
        if ticket is None:
            raise Http404
        return ticket

    def _tell(self, request: HttpRequest, ticket: Ticket, answer: Ticket | Refusal, done: str) -> HttpResponse:
        if isinstance(answer, Refusal):
            self.message_user(request, f"Nothing was changed: {answer.detail}.", messages.ERROR)
        else:
            self.log_change(request, ticket, done)
            self.message_user(request, done, messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:tickets_ticket_change", args=[ticket.pk]))


@admin.register(EmergencySwitch)
class EmergencySwitchAdmin(WrittenOnceAdmin):
    formfield_overrides = ONE_LINE
    form = EmergencySwitchForm
    list_display = ("at", "state", "actor", "reason")
    fields = ("is_on", "reason")

    @display(description="ticket cycle", ordering="is_on", label=SWITCH_COLORS)  # type: ignore[untyped-decorator]
    def state(self, turn: EmergencySwitch) -> str:
        return "STOPPED" if turn.is_on else "RUNNING"

    def save_model(self, request: HttpRequest, obj: EmergencySwitch, form: Any, change: bool) -> None:  # noqa: FBT001
        turned = emergency.turn_emergency_stop(on=obj.is_on, actor=actors.person_actor(request.user), reason=obj.reason)
        if turned is None:  # the form has asked the same question
            raise ValueError("a reason is needed")
        obj.pk, obj.actor = turned.pk, turned.actor


@admin.register(OpsRunReceipt)
class OpsRunReceiptAdmin(ReadOnlyAdmin):
    list_display = ("asof", "decision", "reaped", "processed")
    list_filter = ("decision",)
    fields = readonly_fields = ("asof", "decision", "shown")

    @admin.display(description="stale / cleaned")
    def reaped(self, receipt: OpsRunReceipt) -> str:
        report = receipt.document["ticket_reaper"]
        return "" if report is None else f"{report['stale_count']} / {report['cleaned_count']}"

    @admin.display(description="tickets processed")
    def processed(self, receipt: OpsRunReceipt) -> int:
        return len(receipt.document["processed"])

    @admin.display(description="receipt")
    def shown(self, receipt: OpsRunReceipt) -> SafeString:
        return format_html("<pre>{}</pre>", json.dumps(receipt.document, indent=2, ensure_ascii=False))


@admin.register(ReaperReport)
class ReaperReportAdmin(ReadOnlyAdmin):
    list_display = ("asof", "stale_count", "cleaned_count", "published_at")
    fields = readonly_fields = ("asof", "snapshot_path", "published_at", "shown")

    @admin.display(description="report")
    def shown(self, report: ReaperReport) -> SafeString:
        return format_html("<pre>{}</pre>", report.content)
