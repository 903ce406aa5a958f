"""Dead letters in the console: to read, and to send again."""

import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from dpp_project.console.letter_admin import LetterAdmin
from dpp_project.outbox.models import EventDeadLetter
from dpp_project.refusals import Refusal
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
        "table": {"headers": ["Stored", "Reason", "Event", "Tenant", "Since then"], "rows": rows},
        "link": reverse("admin:outbox_eventdeadletter_changelist"),
        "waiting": letters.filter(redriven_at__isnull=True).count(),
    }


@admin.register(DeadLetter)
class DeadLetterAdmin(LetterAdmin):
    empty_said = "No message was given up in the last 30 days."
    list_display = ("stored_at", "label", "run_id", "tenant_id", "receives", "redriven_at")
    list_filter = ("outcome",)
    search_fields = ("message_id", "run_id", "tenant_id", "trace_id")
    ordering = ("-stored_at",)
    fields = readonly_fields = (
        *("message_id", "label", "run_id", "tenant_id", "task", "trace_id", "sent_at", "stored_at"),
        *("letters", "receives"),
        *("size_bytes", "sha256", "carried", "redriven_at", "redriven_by"),
    )
    send_again_title = "Send dead letter again"
    send_again_text = (
        "A worker receives the message once more. Its run starts only if it still waits; what dies again comes "
        "back as a letter of its own, and a run whose letter comes back is ended and refunded."
    )
    sent_again = "The message was sent again."
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

    def redrive(self, letter: DeadLetter, *, actor: str) -> Refusal | None:
        return redrive.redrive(letter, actor=actor)
