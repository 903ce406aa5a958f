"""Processes, to read."""

from django.contrib import admin

from dpp_project.console.row_admin import ReadOnlyAdmin
from dpp_project.heartbeats.models import ProcessHeartbeat


@admin.register(ProcessHeartbeat)
class ProcessHeartbeatAdmin(ReadOnlyAdmin):
    list_display = ("service", "host", "pid", "release", "address", "slots", "progress", "started_at", "beat_at")
    list_filter = ("service", "release")
    search_fields = ("key", "host")
    ordering = ("service", "host", "pid")
