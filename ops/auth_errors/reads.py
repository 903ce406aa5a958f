"""Auth errors and clusters as they are read: pages from one range of one index each, and the life of one error.

The order of ids is the order of recording, so a page begins below an id. `since` is the database's time of recording;
ids carry the recorder's, which only bounds what is read, with room for clocks that differ. A filter by cluster takes
what is merged into it along.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Q, QuerySet

from dpp_project import uuid7
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage, ProcessedMessage
from ops.auth_errors import clusters
from ops.auth_errors.event_types import ANALYSIS_REQUESTED, RECORDED
from ops.auth_errors.models import AuthError, Cluster, ClusterAlias, ClusterDay, ErrorDecision
from ops.auth_errors.states import AuthErrorStatus, ClusterStatus

TREND_DAYS: Final = 14
TENANTS_SHOWN: Final = 50
CLOCKS_DIFFER: Final = timedelta(minutes=5)
_FIRST_DAY: Final = datetime(1970, 1, 2, tzinfo=UTC)
UNSHOWN: Final = ("stacktrace", "frames", "exception_message", "root_cause_message")
"""Of an error in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which errors; `tenant_id` None is every tenant's."""

    tenant_id: str | None = None
    status: AuthErrorStatus | None = None
    cluster_id: uuid.UUID | None = None
    exception_class: str | None = None
    since: datetime | None = None
    below: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class ErrorPage:
    errors: list[AuthError]
    next: uuid.UUID | None
    """The id that the next page begins below."""


def error_page(wanted: Wanted, *, limit: int) -> ErrorPage:
    """Newest first; one more is read than shown, to know whether there is a next page."""
    rows = _wanted_auth_errors(wanted)
    if wanted.cluster_id is not None:
        tree = clusters.tree_of(wanted.cluster_id)
        if len(tree) > 1:  # one range of the index for each, and the newest of all of them
            ids = [one for member in tree for one in _newest(rows.filter(cluster_id=member), limit + 1)]
            rows = AuthError.objects.filter(pk__in=sorted(ids, reverse=True)[: limit + 1])
        else:
            rows = rows.filter(cluster_id=wanted.cluster_id)
    found = list(rows.defer(*UNSHOWN).order_by("-auth_error_id")[: limit + 1])
    shown = found[:limit]
    return ErrorPage(shown, shown[-1].pk if len(found) > limit else None)


def _newest(rows: QuerySet[AuthError], limit: int) -> list[uuid.UUID]:
    return list(rows.order_by("-auth_error_id").values_list("auth_error_id", flat=True)[:limit])


def _wanted_auth_errors(wanted: Wanted) -> QuerySet[AuthError]:
    rows = AuthError.objects.all()
    if wanted.tenant_id is not None:
        rows = rows.filter(tenant_id=wanted.tenant_id)
    if wanted.status is not None:
        rows = rows.filter(status=wanted.status)
    if wanted.exception_class is not None:
        rows = rows.filter(exception_class=wanted.exception_class)
    if wanted.since is not None:
        bound = uuid7.first_at(max(wanted.since, _FIRST_DAY) - CLOCKS_DIFFER)
        rows = rows.filter(auth_error_id__gte=bound, recorded_at__gte=wanted.since)
    if wanted.below is not None:
        rows = rows.filter(auth_error_id__lt=wanted.below)
    return rows


def error_of(auth_error_id: uuid.UUID, *, tenant_id: str | None) -> AuthError | None:
    rows = AuthError.objects.filter(pk=auth_error_id)
    return (rows if tenant_id is None else rows.filter(tenant_id=tenant_id)).first()


@dataclass(frozen=True, slots=True)
class Happened:
    """One line of an error's life."""

    at: datetime
    what: str
    detail: str = ""
    by: str = ""


def life_of(error: AuthError) -> list[Happened]:
    """Its report, its events in the outbox, in the consumers' ledger and among the dead letters, and its decisions."""
    keys = [RECORDED.key(error.pk), ANALYSIS_REQUESTED.key(error.pk)]
    messages = list(OutboxMessage.objects.filter(idempotency_key__in=keys))
    ids = [message.outbox_id for message in messages]
    ledger = ProcessedMessage.objects.in_bulk(ids)
    lines = [Happened(error.recorded_at, "reported", f"HTTP {error.http_status} {error.exception_class}")]
    for message in messages:
        lines.extend(_life_of_event(message, ledger.get(message.outbox_id)))
    if error.analyzed_at is not None:
        lines.append(Happened(error.analyzed_at, "analysed", f"cluster {error.cluster_id}"))
    lines.extend(
        Happened(letter.stored_at, f"{letter.event_type} is a dead letter", f"{letter.reason}: {letter.detail}")
        for letter in EventDeadLetter.objects.filter(outbox_id__in=ids)
    )
    lines.extend(
        Happened(decision.at, f"decided {decision.decision}", decision.reason, decision.by)
        for decision in ErrorDecision.objects.filter(auth_error=error)
    )
    return sorted(lines, key=lambda line: line.at)


def _life_of_event(message: OutboxMessage, ledger: ProcessedMessage | None) -> list[Happened]:
    lines = [Happened(message.created_at, f"{message.event_type} written")]
    if message.published_at is not None:
        lines.append(Happened(message.published_at, f"{message.event_type} published", message.last_error))
    if message.handled_at is not None:
        state = "" if ledger is None else ledger.status
        lines.append(Happened(message.handled_at, f"{message.event_type} handled", state))
    elif ledger is not None:
        when = ledger.next_retry_at or ledger.lease_until or message.published_at or message.created_at
        lines.append(Happened(when, f"{message.event_type} {ledger.status}", ledger.last_error))
    return lines


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """A cluster with all that counts as it."""

    cluster: Cluster
    merged: Sequence[uuid.UUID]
    occurrences: int
    first_seen_at: datetime
    newest_error_id: uuid.UUID | None
    trend: Mapping[date, int]
    """Of the last 14 days (UTC), oldest first."""
    tenants: Sequence[str]
    """The first fifty by name, of the days that are kept."""
    counts_as: uuid.UUID | None = field(default=None)


@dataclass(frozen=True, slots=True)
class ClusterPage:
    clusters: list[ClusterSummary]
    next: tuple[datetime, uuid.UUID] | None


def cluster_page(
    *,
    status: ClusterStatus | None = None,
    after: tuple[datetime, uuid.UUID] | None = None,
    today: date,
    limit: int,
) -> ClusterPage:
    """Those that count as no other, the one that was seen last first."""
    rows = root_clusters()
    if status is not None:
        rows = rows.filter(status=status)
    if after is not None:
        at, cluster_id = after
        rows = rows.filter(Q(last_seen_at__lt=at) | Q(last_seen_at=at, cluster_id__lt=cluster_id), last_seen_at__lte=at)
    found = list(rows.order_by("-last_seen_at", "-cluster_id")[: limit + 1])
    shown = found[:limit]
    last = shown[-1] if len(found) > limit else None
    return ClusterPage(cluster_summaries(shown, today=today), None if last is None else (last.last_seen_at, last.pk))


def root_clusters() -> QuerySet[Cluster]:
    return Cluster.objects.exclude(pk__in=ClusterAlias.objects.filter(ended_at__isnull=True).values("source_id"))


def summary_of(cluster_id: uuid.UUID, *, today: date) -> ClusterSummary | None:
    found = Cluster.objects.filter(pk=cluster_id).first()
    return None if found is None else cluster_summaries([found], today=today)[0]


def cluster_summaries(found: Sequence[Cluster], *, today: date) -> list[ClusterSummary]:
    """A few questions for all of them together."""
    if not found:
        return []
    trees = clusters.trees_of([one.pk for one in found])
    members = Cluster.objects.in_bulk([one for tree in trees.values() for one in tree])
    counts_as = dict(
        ClusterAlias.objects.filter(source__in=trees, ended_at__isnull=True).values_list("source_id", "target_id")
    )
    days = _days(list(members), since=today - timedelta(days=TREND_DAYS - 1))
    tenants = _tenants(list(members))
    return [
        _summary(
            one,
            [members[each] for each in trees[one.pk]],
            days,
            tenants,
            counts_as=counts_as.get(one.pk),
            today=today,
        )
        for one in found
    ]


def _summary(
    cluster: Cluster,
    tree: Sequence[Cluster],
    days: Mapping[uuid.UUID, Mapping[date, int]],
    tenants: Mapping[uuid.UUID, Sequence[str]],
    *,
    counts_as: uuid.UUID | None,
    today: date,
) -> ClusterSummary:
    window = [today - timedelta(days=back) for back in range(TREND_DAYS - 1, -1, -1)]
    return ClusterSummary(
        cluster=cluster,
        merged=[one.pk for one in tree if one.pk != cluster.pk],
        occurrences=sum(one.occurrences for one in tree),
        first_seen_at=min(one.first_seen_at for one in tree),
        newest_error_id=max((one.newest_error_id for one in tree if one.newest_error_id), default=None),
        trend={day: sum(days.get(one.pk, {}).get(day, 0) for one in tree) for day in window},
        tenants=sorted({name for one in tree for name in tenants.get(one.pk, ())})[:TENANTS_SHOWN],
        counts_as=counts_as,
    )


def _days(cluster_ids: Sequence[uuid.UUID], *, since: date) -> dict[uuid.UUID, dict[date, int]]:
    found: dict[uuid.UUID, dict[date, int]] = {}
    rows = ClusterDay.objects.filter(cluster__in=cluster_ids, day__gte=since)
    for cluster_id, day, occurrences in rows.values_list("cluster_id", "day", "occurrences"):
        per_day = found.setdefault(cluster_id, {})
        per_day[day] = per_day.get(day, 0) + occurrences
    return found


_TENANTS: Final = """
SELECT asked.cluster_id, seen.tenant_id
  FROM unnest(%s::uuid[]) AS asked (cluster_id)
 CROSS JOIN LATERAL (
       SELECT DISTINCT tenant_id FROM auth_error_cluster_day WHERE cluster_id = asked.cluster_id
        ORDER BY tenant_id LIMIT %s
       ) AS seen
"""


def _tenants(cluster_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    found: dict[uuid.UUID, list[str]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_TENANTS, [list(cluster_ids), TENANTS_SHOWN])
        rows: list[tuple[Any, str]] = cursor.fetchall()
    for cluster_id, tenant_id in rows:
        found.setdefault(cluster_id, []).append(tenant_id)
    return found
