"""Reports of jobs, to read."""

from django.contrib import admin

from dpp_project.console.row_admin import ReadOnlyAdmin
from dpp_project.jobs.models import JobReport


@admin.register(JobReport)
class JobReportAdmin(ReadOnlyAdmin):
    list_display = ("job", "started_at", "took", "seen", "changed", "errors", "kind", "host")
    list_filter = ("job", "dry_run")
    search_fields = ("job",)
    ordering = ("-started_at",)

    @admin.display(description="")
    def kind(self, report: JobReport) -> str:
        """Only what is out of the ordinary is marked."""
        return "dry run" if report.dry_run else ""

    @admin.display(description="took", empty_value="running or died")
    def took(self, report: JobReport) -> str | None:
        return None if report.ended_at is None else f"{(report.ended_at - report.started_at).total_seconds():.1f} s"
