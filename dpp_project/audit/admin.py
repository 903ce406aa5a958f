"""The audit trail in the console, to read."""

import json
from typing import Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dpp_project.audit.models import AuditEntry
from dpp_project.console.row_admin import ReadOnlyAdmin


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ("at", "actor", "source", "place", "act", "subject", "tenant_id", "reason")
    list_filter = ("source", "act", "at")
    search_fields = ("actor__exact", "subject__exact", "tenant_id__exact", "trace_id__exact")
    search_help_text = "Who, on what, whose or a trace id, each as it stands in its column."
    list_per_page = 50
    fields = readonly_fields = (
        *("at", "actor", "source", "place", "act", "subject", "tenant_id", "reason"),
        *("was", "became", "trace_id"),
    )

    @admin.display(description="before")
    def was(self, entry: AuditEntry) -> SafeString | str:
        return _audit_facts_as_html(entry.before)

    @admin.display(description="after")
    def became(self, entry: AuditEntry) -> SafeString | str:
        return _audit_facts_as_html(entry.after)


def _audit_facts_as_html(facts: Any) -> SafeString | str:
    return "-" if facts is None else format_html("<pre>{}</pre>", json.dumps(facts, indent=2, ensure_ascii=False))
