"""Dead letters in the console: to read, and to send again."""

import json
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action, display

from dpp_project import actors
from dpp_project.console import confirm
from dpp_project.console.row_admin import ReadOnlyAdmin
from dpp_project.outbox.models import EventDeadLetter
from reaper import redrive
from reaper.models import DeadLetter

EVENTS_SHOWN = 10
OUTCOME_COLORS = {"KEPT": "info", "REQUEUED": "success", "REFUNDED": "warning", "POISON": "danger"}


def letters_of_events() -> dict[str, Any]:
    letters = EventDeadLetter.objects.all()
    rows = [
        [
            format_html(
                '<a href="{}">{}</a>',
                reverse("admin:outbox_eventdeadletter_change", args=[letter.pk]),
                f"{letter.stored_at:%Y-%m-%d %H:%M:%S}",
            ),
            letter.reason,
            letter.event_type,
            letter.tenant_id or "",
            "" if letter.redriven_at is None else f"sent again by {letter.redriven_by}",
        ]
        for letter in letters.defer("body")[:EVENTS_SHOWN]
    ]
    return {
        "table": {"headers": ["Stored", "Reason", "Event", "Tenant", ""], "rows": rows},
        "link": reverse("admin:outbox_eventdeadletter_changelist"),
        "waiting": letters.filter(redriven_at__isnull=True).count(),
    }


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    list_display = ("stored_at", "label", "run_id", "tenant_id", "receives", "redriven_at")
    list_filter = ("outcome",)
    search_fields = ("message_id", "run_id", "tenant_id", "trace_id")
    ordering = ("-stored_at",)
    fields = readonly_fields = (
        *("message_id", "label", "run_id", "tenant_id", "task", "trace_id", "sent_at", "stored_at"),
        *("letters", "receives"),
        *("size_bytes", "sha256", "carried", "redriven_at", "redriven_by"),
    )
    actions_detail = ("send_again",)
    list_before_template = "admin/dead_letters_of_events.html"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """One page shows both kinds: what runs died of, and what events did."""
        of_events = letters_of_events() if request.user.has_perm("outbox.view_eventdeadletter") else None
        more: HttpResponse = super().changelist_view(request, {"letters_of_events": of_events, **(extra_context or {})})
        return more

    @display(description="outcome", ordering="outcome", label=OUTCOME_COLORS)  # type: ignore[untyped-decorator]
    def label(self, letter: DeadLetter) -> str:
        return letter.outcome

    @admin.display(description="content")
    def carried(self, letter: DeadLetter) -> SafeString:
        """Ids of a message of ours; of poison, the bytes as they came, shown as text and never as markup."""
        if letter.raw is None:
            return format_html("<pre>{}</pre>", json.dumps(letter.kwargs, indent=2))
        return format_html("<pre>{}</pre>", bytes(letter.raw).decode("utf-8", "backslashreplace"))

    @action(description="Send again", icon="redo", permissions=["send_again"])  # type: ignore[untyped-decorator]
    def send_again(self, request: HttpRequest, object_id: str) -> HttpResponse:
        letter = self.get_object(request, object_id)
        if letter is None:
            raise Http404

        def act(_form: forms.Form) -> HttpResponse:
            refusal = redrive.redrive(letter, actor=actors.person(request.user))
            if refusal is None:
                self.log_change(request, letter, "Sent again.")
                self.message_user(request, "The message was sent again.", messages.SUCCESS)
            else:
                self.message_user(request, f"Nothing was sent: {refusal.detail}.", messages.ERROR)
            return HttpResponseRedirect(reverse("admin:reaper_deadletter_change", args=[letter.pk]))

        return confirm.page(
            self,
            request,
            letter,
            title="Send dead letter again",
            text=(
                "A worker receives the message once more. Its run starts only if it still waits; what dies again comes "
                "back as a letter of its own, and a run whose letter comes back is ended and refunded."
            ),
            submit="Send again",
            form_class=forms.Form,
            act=act,
        )

    def has_send_again_permission(self, request: HttpRequest, _object_id: Any = None) -> bool:
        return bool(request.user.has_perm("reaper.change_deadletter"))
