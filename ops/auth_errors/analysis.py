"""What the analysis of an error does: its hash, its cluster, and what a rule or an earlier decision says of it.

All of it happens in the transaction of the event's handler: an error is ANALYSIS_COMPLETED, a member of its cluster
and counted there, or nothing of it happened.
"""

import uuid
from itertools import islice

import structlog

from ops.auth_errors import clusters, deciding, metrics, rules, transitions
from ops.auth_errors.models import AuthError, Cluster, ClusterDecision
from ops.auth_errors.normaliser import frameworks, traces, versions
from ops.auth_errors.states import ClusterStatus, DecisionType
from ops.auth_errors.transitions import StepOutcome

log = structlog.get_logger("dpp.ops")

TOP_FRAME_LENGTH_MAX = 300


def analyze_auth_error(error: AuthError) -> None:
    """Of an error that is ANALYSIS_REQUESTED and whose row the caller has locked."""
    grouping = versions.grouping_of_trace(error.frames, clusters.is_known_cluster)
    joined = clusters.join_cluster(error, own=grouping.own, follows=grouping.follows, top_frame=top_frame(error.frames))
    completed = transitions.complete_analysis(
        auth_error_id=error.pk,
        cluster_id=joined.cluster_id,
        hash_version=grouping.own.version,
        stack_hash=grouping.own.stack_hash,
    )
    if completed is StepOutcome.LOST:
        raise RuntimeError("an auth error was moved under its lock")
    metrics.ANALYZED.inc()
    if joined.has_regressed:
        log.warning("cluster regressed", cluster_id=str(joined.root_id), auth_error_id=str(error.pk))
    _decide_analysed_auth_error(error, joined.root_id)


def _decide_analysed_auth_error(error: AuthError, root_id: uuid.UUID) -> None:
    rule = rules.matching_decision_rule(error, root_id=root_id)
    if rule is not None:
        deciding.decide_by_rule(error, rule)
        return
    resolved = _resolved_with(error, root_id)
    if resolved is not None:
        deciding.apply_decision(
            error, DecisionType.RESOLVE, by=resolved.by, reason=resolved.reason, of_cluster=resolved
        )


def _resolved_with(error: AuthError, root_id: uuid.UUID) -> ClusterDecision | None:
    """It was reported before its cluster was resolved, and analysed after: the decision was about it too."""
    if not Cluster.objects.filter(pk=root_id, status=ClusterStatus.RESOLVED).exists():
        return None
    latest = ClusterDecision.objects.filter(cluster_id=root_id, decision=DecisionType.RESOLVE).first()
    return latest if latest is not None and error.pk <= latest.upto_error_id else None


def top_frame(trace: traces.Trace) -> str:
    """Where the cause was raised, for people: the application's own place, where the chain has one."""
    frames = [frame for exception in trace["exceptions"] for frame in exception["frames"]]
    own = (frame for frame in frames if frameworks.in_app(trace["language"], frame))
    for frame in (*islice(own, 1), *frames[:1]):
        place = ".".join(part for part in (frame["module"], frame["function"]) if part)
        return (place or frame["file"])[:TOP_FRAME_LENGTH_MAX]
    return ""
