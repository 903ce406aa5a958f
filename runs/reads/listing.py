"""A tenant's runs, newest first, a page at a time. Pages are found by key: the thousandth costs what the first did."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.db.models import BooleanField, Exists, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from psycopg import sql

from dpp_project.http.cursors import Cursor
from runs.models import Run, RunMetadata
from runs.reads import for_tenant
from runs.reads.with_inputs import METADATA
from runs.states import UNENDED_MONEY, MoneyState, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    status: Status | None = None
    pack_type: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Runs that have all of these."""


@dataclass(frozen=True, slots=True)
class ListedRuns:
    runs: list[Run]
    next: Cursor | None


def list_runs(*, tenant_id: str, filters: Filters, after: Cursor | None, limit: int, now: datetime) -> ListedRuns:
    """One query, by pack two; one run more than asked tells whether there is another page."""
    find = _found_by_metadata if filters.metadata else _listed_runs
    found = find(tenant_id, filters, after, limit + 1, now)
    if len(found) <= limit:
        return ListedRuns(found, None)
    last = found[limit - 1]
    return ListedRuns(found[:limit], Cursor(last.created_at, last.run_id))


def in_the_statement(condition: str) -> RawSQL:
    """A condition that stands in the statement and not in its parameters: our statements are prepared, and a plan for
    any parameters uses no partial index, and takes no pack for a rare one.
    """
    return RawSQL(condition.replace("%", "%%"), [], BooleanField())  # noqa: S611  our own text, values quoted by psycopg


_ENDED: Final = "runs.finalize_stage = 'COMMITTED'"
_NOT_ENDED: Final = f"runs.money_state IN ({', '.join(repr(one.value) for one in sorted(UNENDED_MONEY))})"
_PARTS: Final = (in_the_statement(_ENDED), in_the_statement(_NOT_ENDED))
"""Together all runs, and each with an index of its own."""


def of_pack(pack_type: str) -> RawSQL:
    """Of all tenants: by those two indexes where few runs are of this pack, else in the order that is asked for."""
    named = f"runs.pack_type = {sql.quote(pack_type)}"
    return in_the_statement(f"({named} AND {_ENDED} OR {named} AND {_NOT_ENDED})")


_TOLD: Final = RawSQL(METADATA, [])  # noqa: S611  our own text


def _listed_runs(tenant_id: str, filters: Filters, after: Cursor | None, most: int, now: datetime) -> list[Run]:
    runs = for_tenant.visible_to(tenant_id).filter(_wanted(filters, now), _behind(after))
    runs = runs.annotate(told=_TOLD).order_by("-created_at", "-run_id")
    if filters.pack_type is None:
        rows = list(runs[:most])
    else:
        some = [run for part in _PARTS for run in runs.filter(part)[:most]]
        rows = sorted({run.run_id: run for run in some}.values(), key=_place, reverse=True)[:most]
    return [_with_metadata(run, run.told) for run in rows]


def _place(run: Run) -> tuple[datetime, uuid.UUID]:
    return run.created_at, run.run_id


def _found_by_metadata(tenant_id: str, filters: Filters, after: Cursor | None, most: int, now: datetime) -> list[Run]:
    """The first key and value lead: their index has the tenant's runs in the order of the list.

    Like the tenant in `visible_to`, they are hidden from the planner: by its figures it would take a value that came
    since the last ANALYZE for a rare one, and sort all the runs that have it.
    """
    first, *others = filters.metadata.items()
    led = _rows_of(tenant_id, *first).exclude(run__money_state=MoneyState.NONE)
    for key, value in others:
        led = led.filter(Exists(_rows_of(tenant_id, key, value).filter(run_id=OuterRef("run_id"))))
    led = led.filter(_wanted(filters, now, of="run__"), _behind(after))
    rows = led.select_related("run").annotate(told=_TOLD).order_by("-created_at", "-run_id")[:most]
    return [_with_metadata(row.run, row.told) for row in rows]


def _rows_of(tenant_id: str, key: str, value: str) -> QuerySet[RunMetadata]:
    some = {name: RawSQL("(SELECT %s::text)", [text]) for name, text in (("tenant_id", tenant_id), ("key", key))}
    return RunMetadata.objects.filter(**some, value=RawSQL("(SELECT %s::text)", [value]))


def _with_metadata(run: Run, told: str | None) -> Run:
    if told is not None:
        run.metadata = json.loads(told)
    return run


def _behind(after: Cursor | None) -> Q:
    if after is None:
        return Q()
    return Q(created_at__lte=after.at) & (Q(created_at__lt=after.at) | Q(run_id__lt=after.id))


def _wanted(filters: Filters, now: datetime, *, of: str = "") -> Q:
    """EXPIRED is what the clock says, as everywhere a tenant looks. `of`: how to come from the row to its run."""
    wanted = Q()
    if filters.status is Status.EXPIRED:
        wanted &= Q(**{f"{of}retention_until__lte": now})
    elif filters.status is not None:
        wanted &= Q(**{f"{of}status": filters.status, f"{of}retention_until__gt": now})
    if filters.pack_type is not None:
        wanted &= Q(**{f"{of}pack_type": filters.pack_type})
    if filters.created_from is not None:
        wanted &= Q(created_at__gte=filters.created_from)
    if filters.created_to is not None:
        wanted &= Q(created_at__lt=filters.created_to)
    return wanted
