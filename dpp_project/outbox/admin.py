"""Events in the console: their way through outbox and ledger to read, dead letters to read and to send again."""

import json

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from dpp_project.console.letter_admin import LetterAdmin
from dpp_project.console.row_admin import ReadOnlyAdmin
from dpp_project.outbox import redrive
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage, ProcessedMessage
from dpp_project.refusals import Refusal

STATUS_COLORS = {"PENDING": "info", "PROCESSING": "warning", "PUBLISHED": "success", "DEAD": "danger"}
SHOWN_BYTES_MAX = 65_536


@admin.register(OutboxMessage)
class OutboxMessageAdmin(ReadOnlyAdmin):
    empty_said = "Every event has been sent, and its row cleared."
    list_display = ("created_at", "event_type", "aggregate_id", "tenant_id", "label", "handled_at")
    list_filter = ("status",)
    search_fields = ("=outbox_id", "=aggregate_id", "=idempotency_key")
    ordering = ("-outbox_id",)
    fields = readonly_fields = (
        *("outbox_id", "event_type", "aggregate_type", "aggregate_id", "tenant_id", "idempotency_key", "said"),
        *("label", "retry_count", "next_retry_at", "claimed_at", "published_at", "resend_at", "last_error"),
        *("ledger", "handled_at", "created_at"),
    )

    @display(description="status", ordering="status", label=STATUS_COLORS)  # type: ignore[untyped-decorator]
    def label(self, event: OutboxMessage) -> str:
        return event.status

    @admin.display(description="payload")
    def said(self, event: OutboxMessage) -> SafeString:
        return format_html("<pre>{}</pre>", json.dumps(event.payload, indent=2, ensure_ascii=False))

    @admin.display(description="consumers' ledger")
    def ledger(self, event: OutboxMessage) -> str:
        known = ProcessedMessage.objects.filter(pk=event.pk).first()
        if known is None:
            return "not received yet"
        due = "" if known.next_retry_at is None else f", due {known.next_retry_at:%Y-%m-%d %H:%M:%S}"
        error = f", {known.last_error}" if known.last_error else ""
        return f"{known.status}, retried {known.retry_count} times{due}{error}"


@admin.register(EventDeadLetter)
class EventDeadLetterAdmin(LetterAdmin):
    empty_said = "No event was given up in the last 30 days."
    list_display = ("stored_at", "label", "event_type", "outbox_id", "tenant_id", "redriven_at")
    list_filter = ("reason",)
    search_fields = ("=letter_key", "=outbox_id", "=tenant_id")
    ordering = ("-stored_at",)
    fields = readonly_fields = (
        *("letter_key", "label", "detail", "event_type", "outbox_id", "tenant_id", "sent_at", "stored_at", "receives"),
        *("headers", "carried", "redriven_at", "redriven_by"),
    )
    send_again_title = "Send event again"
    send_again_text = (
        "The event is handled anew, with all its retries. Its effect happens once, whatever was tried before; "
        "what dies again comes back as a letter of its own."
    )
    sent_again = "The event is sent again."

    @display(description="reason", ordering="reason", label="danger")  # type: ignore[untyped-decorator]
    def label(self, letter: EventDeadLetter) -> str:
        return letter.reason

    @admin.display(description="attributes")
    def headers(self, letter: EventDeadLetter) -> SafeString:
        return format_html("<pre>{}</pre>", json.dumps(letter.attributes, indent=2, ensure_ascii=False))

    @admin.display(description="body")
    def carried(self, letter: EventDeadLetter) -> SafeString:
        """As it came, shown as text and never as markup; of a very long one the beginning."""
        shown = bytes(letter.body)[:SHOWN_BYTES_MAX].decode("utf-8", "backslashreplace")
        return format_html("<pre>{}</pre>", shown)

    def redrive(self, letter: EventDeadLetter, *, actor: str) -> Refusal | None:
        return redrive.redrive(letter, actor=actor)
