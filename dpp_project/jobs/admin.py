"""Reports of jobs, to read."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from dpp_project.jobs.models import JobReport


@admin.register(JobReport)
class JobReportAdmin(ModelAdmin):  # type: ignore[misc]  # unfold has no types
    list_display = ("job", "started_at", "took", "seen", "changed", "errors", "dry_run", "host")
    list_filter = ("job", "dry_run")
    search_fields = ("job",)
    ordering = ("-started_at",)
    show_full_result_count = False

    @admin.display(description="took", empty_value="running or died")
    def took(self, report: JobReport) -> str | None:
        return None if report.ended_at is None else f"{(report.ended_at - report.started_at).total_seconds():.1f} s"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
