"""A tenant's runs, newest first, a page at a time. Pages are found by key: the thousandth costs what the first did."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from dpp_project.http.cursors import Cursor
from runs.models import Run
from runs.reads import for_tenant
from runs.states import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    status: Status | None = None
    pack_type: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class ListedRuns:
    runs: list[Run]
    next: Cursor | None


def list_runs(*, tenant_id: str, filters: Filters, after: Cursor | None, limit: int, now: datetime) -> ListedRuns:
    """One query; one run more than asked tells whether there is another page."""
    runs = _filtered(for_tenant.visible_to(tenant_id), filters, now)
    if after is not None:
        runs = runs.filter(created_at__lte=after.at).filter(Q(created_at__lt=after.at) | Q(run_id__lt=after.id))
    found = list(runs.order_by("-created_at", "-run_id")[: limit + 1])
    if len(found) <= limit:
        return ListedRuns(found, None)
    last = found[limit - 1]
    return ListedRuns(found[:limit], Cursor(last.created_at, last.run_id))


def _filtered(runs: QuerySet[Run], filters: Filters, now: datetime) -> QuerySet[Run]:
    """EXPIRED is what the clock says, as everywhere a tenant looks."""
    if filters.status is Status.EXPIRED:
        runs = runs.filter(retention_until__lte=now)
    elif filters.status is not None:
        runs = runs.filter(status=filters.status, retention_until__gt=now)
    if filters.pack_type is not None:
        runs = runs.filter(pack_type=filters.pack_type)
    if filters.created_from is not None:
        runs = runs.filter(created_at__gte=filters.created_from)
    if filters.created_to is not None:
        runs = runs.filter(created_at__lt=filters.created_to)
    return runs
