"""Decides about a whole cluster: first the decision's row, then its open errors, batch by batch.

    open       the row, the cluster RESOLVED where that is decided, the audit entry: one transaction
    batch      at most 500 errors, oldest first: their status, their decisions, how far it has come: one transaction

A death in between leaves whole batches; the job `auth_errors_decide` goes on behind the last one. It is about errors
recorded before it was made, and analysed when its batch comes to them; one whose analysis comes later still is decided
by its own analysis, where the decision was RESOLVE (`analysis.py`). What a person decides about one of them meanwhile
stands.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from dpp_project import uuid7
from dpp_project.audit import trail
from dpp_project.jobs import deadline
from dpp_project.jobs.registry import PassReport
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.auth_errors import clusters, deciding, metrics, transitions
from ops.auth_errors.models import AuthError, Cluster, ClusterDecision, ErrorDecision
from ops.auth_errors.states import AuthErrorStatus, ClusterStatus, DecisionType

log = structlog.get_logger("dpp.ops")

BATCH: Final = 500
NOTHING_BEFORE: Final = uuid.UUID(int=0)

_WAITING: Final = """
SELECT found.auth_error_id
  FROM unnest(%s::uuid[]) AS asked (cluster_id)
 CROSS JOIN LATERAL (
       SELECT auth_error_id FROM auth_error
        WHERE cluster_id = asked.cluster_id AND status = 'ANALYSIS_COMPLETED'
          AND auth_error_id > %s AND auth_error_id <= %s
        ORDER BY auth_error_id LIMIT %s
       ) AS found
 ORDER BY found.auth_error_id LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class ClusterDecided:
    decision: ClusterDecision
    is_new: bool


def decide_cluster(
    *, cluster_id: uuid.UUID, decision: DecisionType, by: str, reason: str = ""
) -> ClusterDecided | Refusal:
    """The decision, and its first batch. `finished_at` of its row says whether that was all."""
    opened = _open(cluster_id=cluster_id, decision=decision, by=by, reason=reason)
    if isinstance(opened, Refusal):
        return opened
    if opened.is_new:
        log.info("cluster decided", cluster_id=str(cluster_id), decision=decision.value, actor=by)
        _batch(opened.decision.pk)
    return ClusterDecided(ClusterDecision.objects.get(pk=opened.decision.pk), opened.is_new)


def _open(*, cluster_id: uuid.UUID, decision: DecisionType, by: str, reason: str) -> ClusterDecided | Refusal:
    if (fault := deciding.reason_fault(reason)) is not None:
        return fault
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update(no_key=True).filter(pk=cluster_id).first()
        if cluster is None:
            return Refusal(ReasonCode.NOT_FOUND, "there is no such cluster", "cluster_id")
        if (into := clusters.merged_into(cluster_id)) is not None:
            return Refusal(ReasonCode.CONFLICT, f"it counts as {into}; decide about that one", "cluster_id")
        upto = uuid7.new_uuid7()
        latest = ClusterDecision.objects.filter(cluster=cluster).first()
        if latest is not None and _says_it(latest, decision, cluster, upto):
            return ClusterDecided(latest, is_new=False)
        made = ClusterDecision.objects.create(
            cluster=cluster,
            decision=decision,
            by=by,
            reason=reason.strip(),
            upto_error_id=upto,
            after_error_id=NOTHING_BEFORE,
        )
        if decision is DecisionType.RESOLVE:
            clusters.mark_cluster_resolved(cluster_id)
        trail.record_in_trail(
            "cluster decided",
            actor=by,
            subject=f"cluster {cluster_id}",
            before={"status": cluster.status},
            after={"decision": decision},
            reason=reason.strip(),
        )
    return ClusterDecided(made, is_new=True)


def _says_it(latest: ClusterDecision, decision: DecisionType, cluster: Cluster, upto: uuid.UUID) -> bool:
    """The same was decided last, and nothing has come since that it would change."""
    if latest.decision != decision:
        return False
    if decision is DecisionType.RESOLVE and cluster.status != ClusterStatus.RESOLVED:
        return False
    return latest.finished_at is None or not _waiting(cluster.pk, after=NOTHING_BEFORE, upto=upto, limit=1)


def carry_on_bulk_decisions(*, now: datetime, limit: int) -> PassReport:
    """Go on with each decision that is not finished, oldest first."""
    del now
    seen = changed = errors = 0
    for pk in _unfinished(limit):
        seen += 1
        try:
            while not deadline.is_over() and (count := _batch(pk)) is not None:
                changed += count
        except Exception as error:  # one that cannot go on holds up no other; it comes again
            errors += 1
            log.exception("a decision about a cluster waits", decision=pk, exc_info=error)
    return PassReport(seen=seen, changed=changed, errors=errors)


def preview_bulk_decisions(*, now: datetime, limit: int) -> PassReport:
    del now
    count = len(_unfinished(limit))
    return PassReport(seen=count, changed=count)


def _unfinished(limit: int) -> list[int]:
    rows = ClusterDecision.objects.filter(finished_at__isnull=True).order_by("pk")
    return list(rows.values_list("pk", flat=True)[:limit])


def _batch(pk: int) -> int | None:
    """One batch; None where the decision is finished, or another process is at it."""
    with transaction.atomic():
        at_work = ClusterDecision.objects.select_for_update(skip_locked=True).filter(pk=pk, finished_at__isnull=True)
        decision = at_work.first()
        if decision is None:
            return None
        ids = _waiting(decision.cluster_id, after=decision.after_error_id, upto=decision.upto_error_id, limit=BATCH)
        decided = _decide_all(decision, ids)
        ClusterDecision.objects.filter(pk=pk).update(
            decided=F("decided") + decided,
            after_error_id=ids[-1] if ids else decision.after_error_id,
            finished_at=Now() if len(ids) < BATCH else None,
        )
    metrics.DECISIONS.labels(decision.decision, deciding.CLUSTER).inc(decided)
    return decided


def _decide_all(decision: ClusterDecision, ids: Sequence[uuid.UUID]) -> int:
    """Those that still wait once their rows are locked, in the order of their ids as everybody locks them."""
    rows = AuthError.objects.select_for_update().order_by("auth_error_id")
    errors = list(rows.filter(pk__in=ids, status=AuthErrorStatus.ANALYSIS_COMPLETED))
    kind = DecisionType(decision.decision)
    if kind is DecisionType.RETRY:
        errors = [error for error in errors if deciding.refusal_of(error, kind) is None]
        for error in errors:
            deciding.apply_decision(error, kind, by=decision.by, reason=decision.reason, of_cluster=decision)
        return len(errors)
    moved = transitions.mark_auth_errors_decided(auth_error_ids=[error.pk for error in errors], decision=kind)
    ErrorDecision.objects.bulk_create(
        ErrorDecision(auth_error=error, decision=kind, by=decision.by, reason=decision.reason, of_cluster=decision)
        for error in errors
    )
    return moved


def _waiting(cluster_id: uuid.UUID, *, after: uuid.UUID, upto: uuid.UUID, limit: int) -> list[uuid.UUID]:
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, [clusters.tree_of(cluster_id), after, upto, limit, limit])
        return [row[0] for row in cursor.fetchall()]
