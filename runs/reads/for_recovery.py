"""What each recovery loop looks for, by the database's clock. Each has its own partial index, and stays flat."""

from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from dpp_project.constants import RESERVATION_TTL_SECONDS
from runs import timing
from runs.models import Run
from runs.states import MoneyState, Stage, Status

_UNCLAIMED = Q(finalize_stage__isnull=True)


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
        _UNCLAIMED,
        status=Status.QUEUED,
        money_state=MoneyState.RESERVED,
        created_at__lt=_ago(RESERVATION_TTL_SECONDS),
    ).order_by("created_at")


def abandoned() -> QuerySet[Run]:
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


def send_due() -> QuerySet[Run]:
    """The requeuer's: the message may be lost. What the dead-letter consumer has taken is not sent again by this."""
    return Run.objects.filter(
        _UNCLAIMED,
        status=Status.QUEUED,
        money_state=MoneyState.RESERVED,
        dead_lettered_at__isnull=True,
        next_send_at__lte=Now(),
    ).order_by("next_send_at")


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
