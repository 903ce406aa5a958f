"""What people may do to rows in the console, beside the actions of each page: keep them, write them once, or read."""

from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import cached_property
from unfold.admin import ModelAdmin, TabularInline

from dpp_project.refusals import Refusal

if TYPE_CHECKING:
    from django.db.models import QuerySet

COUNTED_MAX: Final = 10_000
"""Of a list: so far one can leaf through it, and behind that a search or a filter leads."""


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # not subscriptable when it runs
    """Counts up to a bound: counting ten million rows takes seconds, at each click."""

    @cached_property
    def count(self) -> int:
        rows = cast("QuerySet[Any]", self.object_list)
        return rows.order_by()[:COUNTED_MAX].count()  # in the list's order it would read all rows for a rare filter


class KeptAdmin(ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """Rows may be added and changed, and never deleted. Counting all of them for a filtered list is left out."""

    show_full_result_count = False
    paginator = CappedPaginator
    empty_said: ClassVar[str] = ""
    """What an empty list says: where its rows come from, or what to do first."""

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


class ReadOnlyInline(TabularInline):  # type: ignore[misc]  # unfold has no types
    """Rows of another model on a row's page; they are read there, and no more."""

    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ActedUpon:
    """What is done to a row is an action with a page of its own, for those who may change it. A mixin of row admins."""

    opts: Any
    get_object: Any
    message_user: Any
    log_change: Any

    def has_manage_permission(self, request: HttpRequest, _object_id: Any = None) -> bool:
        return bool(request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}"))

    def found(self, request: HttpRequest, object_id: str) -> Any:
        subject = self.get_object(request, object_id)
        if subject is None:
            raise Http404
        return subject

    def done(self, request: HttpRequest, subject: Any, answer: object, said: str) -> HttpResponse:
        """Back to the row's page, with what came of it."""
        if isinstance(answer, Refusal):
            place = f"{answer.field}: " if answer.field else ""
            self.message_user(request, f"Nothing was changed: {place}{answer.detail}.", messages.ERROR)
        else:
            self.log_change(request, subject, said)
            self.message_user(request, said, messages.SUCCESS)
        place = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return HttpResponseRedirect(reverse(place, args=[subject.pk]))


class ActedUponAdmin(ActedUpon, ReadOnlyAdmin):
    """Rows are read, and acted upon."""
