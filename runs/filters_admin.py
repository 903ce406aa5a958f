"""How operators narrow the list of runs: by tenant, pack, reason and the day they were made.

Each goes by an index or looks back over a bounded number of rows: the list is read from the newest run on.
"""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.core.validators import EMPTY_VALUES
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import TextFilter

from dpp_project import clock
from dpp_project.reasons import REASONS, ReasonCode
from runs import run_ids
from runs.models import Run
from runs.packs import registry
from runs.reads import listing
from runs.states import MoneyState, Stage, Status

ENDS_RUNS: Final = sorted(
    code for code, reason in REASONS.items() if reason.status is None or code is ReasonCode.QUEUE_ENQUEUE_FAILED
)


PACK_NAME: Final = re.compile(r"\w{1,64}", re.ASCII)


class TenantFilter(TextFilter):  # type: ignore[misc]  # unfold has no types
    title = "tenant"
    parameter_name = "tenant"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        return queryset if self.value() in EMPTY_VALUES else queryset.filter(tenant_id=self.value().strip())


class _StateFilter(SimpleListFilter):
    """The value stands in the statement: the planner is to know how many runs are in this state, and which index holds
    them alone.
    """

    parameter_name: str
    states: tuple[StrEnum, ...]

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Any]") -> Iterable[tuple[str, str]]:
        return [(state.value, state.value) for state in self.states]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        if self.value() is None:
            return queryset
        if self.value() not in self.states:
            return queryset.none()
        column = self.parameter_name.removesuffix("__exact")
        return queryset.filter(listing.in_the_statement(f"runs.{column} = '{self.value()}'"))


class StatusFilter(_StateFilter):
    title = "status"
    parameter_name = "status__exact"
    states = tuple(Status)


class MoneyStateFilter(_StateFilter):
    title = "money state"
    parameter_name = "money_state__exact"
    states = tuple(MoneyState)


class StageFilter(_StateFilter):
    title = "finalize stage"
    parameter_name = "finalize_stage__exact"
    states = tuple(Stage)


class PackFilter(SimpleListFilter):
    title = "pack"
    parameter_name = "pack"

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Any]") -> Iterable[tuple[str, str]]:
        return [(name, name) for name in sorted(registry.packs_for_sale())]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        name = self.value()
        if name is None:
            return queryset
        return queryset.filter(listing.of_pack(name)) if PACK_NAME.fullmatch(name) else queryset.none()


class ReasonFilter(SimpleListFilter):
    """Failed runs alone have one."""

    title = "reason"
    parameter_name = "reason"

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Any]") -> Iterable[tuple[str, str]]:
        return [(code.value, code.value) for code in ENDS_RUNS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        if self.value() is None:
            return queryset
        return queryset.filter(status=Status.FAILED, last_error_reason_code=self.value())


class MadeFilter(SimpleListFilter):
    """By ids, which are in order of time: a range of the primary key."""

    title = "made"
    parameter_name = "made"

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Any]") -> Iterable[tuple[str, str]]:
        today = clock.now().astimezone(UTC).date()
        days = [("today", today), ("yesterday", today - timedelta(days=1))]
        days += [(f"{today - timedelta(days=back):%d %b}", today - timedelta(days=back)) for back in range(2, 8)]
        return [("hour", "this hour"), *((day.isoformat(), name) for name, day in days)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        value = self.value()
        if value is None:
            return queryset
        if value == "hour":
            return queryset.filter(run_id__gte=run_ids.first_run_id_at(clock.now() - timedelta(hours=1)))
        try:
            day = date.fromisoformat(value)
            start = datetime(day.year, day.month, day.day, tzinfo=UTC)
            first, after = (run_ids.first_run_id_at(at) for at in (start, start + timedelta(days=1)))
        except (ValueError, OverflowError):
            return queryset.none()
        return queryset.filter(run_id__gte=first, run_id__lt=after)
