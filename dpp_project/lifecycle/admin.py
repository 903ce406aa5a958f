"""Alarms and daily cleanups, to read."""

from django.contrib import admin
from django.db.models import QuerySet, Sum
from django.http import HttpRequest

from dpp_project.console.row_admin import ReadOnlyAdmin
from dpp_project.lifecycle.models import Alarm, CleanupStep, DataCleanup


@admin.register(Alarm)
class AlarmAdmin(ReadOnlyAdmin):
    empty_said = "Nothing is wrong, and nothing was in the last 30 days."
    list_display = ("name", "subject", "said", "began_at", "ended_at")
    list_filter = ("name",)
    search_fields = ("subject",)
    ordering = ("-pk",)


@admin.register(DataCleanup)
class DataCleanupAdmin(ReadOnlyAdmin):
    list_display = ("day", "due_at", "started_at", "ended_at", "rows", "bytes_deleted", "failures")
    ordering = ("-day",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[DataCleanup]:
        found: QuerySet[DataCleanup] = super().get_queryset(request)
        return found.annotate(all_rows=Sum("steps__rows"), all_bytes=Sum("steps__bytes_deleted"))

    @admin.display(description="rows")
    def rows(self, cleanup: DataCleanup) -> int:
        return getattr(cleanup, "all_rows", None) or 0

    @admin.display(description="bytes deleted")
    def bytes_deleted(self, cleanup: DataCleanup) -> int:
        return getattr(cleanup, "all_bytes", None) or 0


@admin.register(CleanupStep)
class CleanupStepAdmin(ReadOnlyAdmin):
    list_display = ("cleanup", "kind", "rows", "bytes_deleted", "table_bytes_before", "table_bytes_after", "error")
    list_filter = ("kind",)
    ordering = ("-cleanup_id", "kind")
