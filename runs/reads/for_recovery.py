"""What each recovery loop looks for, by the database's clock. Each has its own partial index, and stays flat.

Ordered by one column, the longest due first; `batches_of_due` reads all of it.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from django.db.models import Count, Exists, Model, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from dpp_project.constants import RESERVATION_TTL_SECONDS
from runs import timing
from runs.models import WAITS_FOR_WORKER, Run, RunTurn
from runs.states import MoneyState, Stage, Status

_UNCLAIMED = Q(finalize_stage__isnull=True)
_DELIVERS = Q(intent_status=Status.COMPLETED, result_key__isnull=False)


def _ago(seconds: int) -> Any:
    return Now() - timedelta(seconds=seconds)


def lease_expired() -> QuerySet[Run]:
    """The reaper's: at work, and nobody renews the lease."""
    return Run.objects.filter(_UNCLAIMED, status=Status.PROCESSING, lease_expires_at__lt=Now()).order_by(
        "lease_expires_at"
    )


def never_started() -> QuerySet[Run]:
    """The sweeper's: held for an hour, and no worker came."""
    return Run.objects.filter(
        WAITS_FOR_WORKER,
        created_at__lt=_ago(RESERVATION_TTL_SECONDS),
    ).order_by("created_at")


def waited_for_a_worker(*, now: datetime) -> timedelta | None:
    """How long the oldest run has waited whose money is held and that no worker has started; None where none waits."""
    oldest = Run.objects.filter(WAITS_FOR_WORKER).order_by("created_at").values_list("created_at", flat=True).first()
    return None if oldest is None else max(now - oldest, timedelta())


def open_runs(tenant_ids: Collection[str]) -> dict[str, int]:
    """Of each of these tenants: how many of its runs hold money, which is until they end."""
    counted = Run.objects.filter(tenant_id__in=tenant_ids, money_state=MoneyState.RESERVED)
    counts = dict(counted.values_list("tenant_id").annotate(Count("run_id")).order_by())
    return {tenant_id: counts.get(tenant_id, 0) for tenant_id in tenant_ids}


def abandoned_runs() -> QuerySet[Run]:
    """The hold auditor's: a submit that died before its money was marked."""
    return Run.objects.filter(
        _UNCLAIMED,
        status=Status.QUEUED,
        money_state=MoneyState.NONE,
        updated_at__lt=_ago(timing.ABANDONED_AFTER_SECONDS),
    ).order_by("updated_at")


def claimed_too_long() -> QuerySet[Run]:
    """The reconciler's: claimed, and not committed, whatever the status."""
    return Run.objects.filter(
        finalize_stage=Stage.CLAIMED, finalize_claimed_at__lt=_ago(timing.RECONCILE_AFTER_SECONDS)
    ).order_by("finalize_claimed_at")


def claimed_with_result() -> QuerySet[Run]:
    """Of these, the ones that must not end before S3 has said whether their result is there."""
    return claimed_too_long().filter(_DELIVERS)


def claimed_without_result() -> QuerySet[Run]:
    """Of these, the ones that end without S3: failures, cancels, refunds."""
    return claimed_too_long().exclude(_DELIVERS)


def send_due() -> QuerySet[Run]:
    """The requeuer's: the message may be lost. What the dead-letter consumer has taken is not sent again by this
    (woken_letters), nor what is kept back: it waits for no message.
    """
    due = Run.objects.filter(WAITS_FOR_WORKER, dead_lettered_at__isnull=True, next_send_at__lte=Now())
    # Each is looked for where its index has it, and not in the whole line: only runs of a key are parked.
    turns = RunTurn.objects.filter(run_id=OuterRef("run_id"))
    parked = turns.filter(stands=RunTurn.Stands.PARKED, concurrency_key__isnull=False)
    limited = turns.filter(stands=RunTurn.Stands.LIMITED)
    return due.filter(~Exists(parked), ~Exists(limited)).order_by("next_send_at")


def woken_letters(run_ids: QuerySet[Any, Any]) -> QuerySet[Run]:
    """The requeuer's as well, of runs whose message died: one that was kept back after that, and was woken, stands in
    the line. Its message is one of all those in the line, and may be lost as they may.
    """
    woken = RunTurn.objects.filter(run_id=OuterRef("run_id"), stands=RunTurn.Stands.WAITING)
    dead = Run.objects.filter(WAITS_FOR_WORKER, dead_lettered_at__isnull=False, run_id__in=run_ids)
    return dead.filter(Exists(woken), next_send_at__lte=Now()).order_by("next_send_at")


def by_lane(due: QuerySet[Run]) -> tuple[QuerySet[Run], QuerySet[Run]]:
    """What has a turn in the line, and what has none: an express run, or one that the release before accepted."""
    has_turn = Exists(RunTurn.objects.filter(run_id=OuterRef("run_id")))
    return due.filter(has_turn), due.filter(~has_turn)


def past_retention() -> QuerySet[Run]:
    """The retention's: ended, and to become a tombstone."""
    return (
        Run.objects.filter(finalize_stage=Stage.COMMITTED, retention_until__lt=Now())
        .exclude(status=Status.EXPIRED)
        .order_by("retention_until")
    )


def old_tombstones() -> QuerySet[Run]:
    """The retention's: a tombstone for a year, and not in dispute."""
    return (
        Run.objects.filter(status=Status.EXPIRED, retention_until__lt=Now() - timedelta(days=timing.TOMBSTONE_DAYS))
        .exclude(money_state=MoneyState.DISPUTED)
        .order_by("retention_until")
    )


BATCH: Final = 500


Row = TypeVar("Row", bound=Model)


def batches_of_due(due: QuerySet[Row]) -> Iterator[Sequence[Row]]:
    """All rows due now, in the order of a time or of `pk`, each once: a batch begins behind the last one's end.

    A row that was moved after the first batch was read is younger than that, and is left to the next pass. So a row
    that stays due is not read again, and the reading comes to an end.
    """
    key = str(due.query.order_by[0])
    first: Any = list(due.annotate(read_at=Now()).order_by(key, "pk")[:BATCH])
    bound = Q(**{f"{key}__lte": first[0].read_at}) if first and key != "pk" else Q()
    batch: Sequence[Row] = first
    while batch:
        yield batch
        if len(batch) < BATCH:
            return
        last = batch[-1]
        at = getattr(last, key)
        behind = Q(**{f"{key}__gte": at}) & (Q(**{f"{key}__gt": at}) | Q(pk__gt=last.pk))
        batch = list(due.filter(behind, bound).order_by(key, "pk")[:BATCH])
