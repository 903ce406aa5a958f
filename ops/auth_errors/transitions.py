"""The only writer of an auth error's status: one function for each edge, each one conditional UPDATE.

    request_analysis          NEW or RETRY -> ANALYSIS_REQUESTED
    complete_analysis         ANALYSIS_REQUESTED -> ANALYSIS_COMPLETED, with hash and cluster
    mark_auth_error_decided   ANALYSIS_COMPLETED -> PROCESSED, FAILED, RESOLVED or IGNORED
    mark_auth_error_retried   ANALYSIS_COMPLETED -> RETRY, with its count and its time
    mark_auth_errors_decided  ANALYSIS_COMPLETED -> the same, for many at once

A call that finds another status has changed nothing. What must be true with an edge (an event, a member, a decision) is
written by the caller in the same transaction, and only where the edge was won. The trigger `auth_error_step_is_legal`
holds the same edges against every other writer; nothing leads out of the terminal four.
"""

import enum
import uuid
from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from django.db.models import F
from django.db.models.functions import Now

from ops.auth_errors.models import AuthError
from ops.auth_errors.states import STATUS_OF, AuthErrorStatus, DecisionType


class StepOutcome(enum.Enum):
    WON = "won"
    LOST = "lost"


_BEFORE_ANALYSIS: Final = (AuthErrorStatus.NEW, AuthErrorStatus.RETRY)


def request_analysis(*, auth_error_id: uuid.UUID) -> StepOutcome:
    return _auth_error_step_outcome(
        AuthError.objects.filter(pk=auth_error_id, status__in=_BEFORE_ANALYSIS).update(
            status=AuthErrorStatus.ANALYSIS_REQUESTED, **_auth_error_step_columns()
        )
    )


def complete_analysis(
    *, auth_error_id: uuid.UUID, cluster_id: uuid.UUID, hash_version: int, stack_hash: str
) -> StepOutcome:
    return _auth_error_step_outcome(
        AuthError.objects.filter(pk=auth_error_id, status=AuthErrorStatus.ANALYSIS_REQUESTED).update(
            status=AuthErrorStatus.ANALYSIS_COMPLETED,
            cluster_id=cluster_id,
            hash_version=hash_version,
            stack_hash=stack_hash,
            analyzed_at=Now(),
            **_auth_error_step_columns(),
        )
    )


def mark_auth_error_decided(*, auth_error_id: uuid.UUID, decision: DecisionType) -> StepOutcome:
    if decision is DecisionType.RETRY:
        raise ValueError("a retry has a time: retry()")
    return _auth_error_step_outcome(
        AuthError.objects.filter(pk=auth_error_id, status=AuthErrorStatus.ANALYSIS_COMPLETED).update(
            status=STATUS_OF[decision], **_auth_error_step_columns()
        )
    )


def mark_auth_errors_decided(*, auth_error_ids: Collection[uuid.UUID], decision: DecisionType) -> int:
    """How many were still waiting. The caller holds their rows' locks, so that it knows which."""
    if decision is DecisionType.RETRY:
        raise ValueError("a retry has a time: retry()")
    return AuthError.objects.filter(pk__in=auth_error_ids, status=AuthErrorStatus.ANALYSIS_COMPLETED).update(
        status=STATUS_OF[decision], **_auth_error_step_columns()
    )


def mark_auth_error_retried(*, auth_error_id: uuid.UUID, retry_count: int, next_retry_at: datetime) -> StepOutcome:
    """`retry_count` is that of this retry: the row must stand at the one before."""
    return _auth_error_step_outcome(
        AuthError.objects.filter(
            pk=auth_error_id, status=AuthErrorStatus.ANALYSIS_COMPLETED, retry_count=retry_count - 1
        ).update(
            status=AuthErrorStatus.RETRY,
            retry_count=retry_count,
            next_retry_at=next_retry_at,
            **_auth_error_step_columns(),
        )
    )


def _auth_error_step_columns() -> dict[str, Any]:
    return {"version": F("version") + 1, "updated_at": Now()}


def _auth_error_step_outcome(changed: int) -> StepOutcome:
    return StepOutcome.WON if changed else StepOutcome.LOST
