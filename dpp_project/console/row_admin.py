"""What people may do to rows in the console, beside the actions of each page: keep them, write them once, or read."""

from typing import Any

from django.http import HttpRequest
from unfold.admin import ModelAdmin


class KeptAdmin(ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """Rows may be added and changed, and never deleted. Counting all of them for a filtered list is left out."""

    show_full_result_count = False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class WrittenOnceAdmin(KeptAdmin):
    """Rows may be added, and never changed or deleted."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(WrittenOnceAdmin):
    """Rows are read, and no more."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False
