"""Decides about one auth error: an operator's word, or a rule's.

Key: the error and the decision. The same decision about an error that it has ended, or that waits for its retry, is
answered with what stands; any other about an error that is not ANALYSIS_COMPLETED is refused. The error's row is
locked meanwhile, so that of two operators at once the second learns what the first decided.

A RETRY sends the event of the analysis again: its outbox row is frozen and its key is there for good, so its ledger
row is reset in the same transaction. Neither stands without the other.
"""

import uuid
from dataclasses import dataclass
from typing import Final

import structlog
from django.db import transaction

from dpp_project import clock
from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from ops.auth_errors import metrics, retries, transitions
from ops.auth_errors.models import REASON_LENGTH_MAX, AuthError, ClusterDecision, DecisionRule, ErrorDecision
from ops.auth_errors.states import STATUS_OF, AuthErrorStatus, DecisionType

log = structlog.get_logger("dpp.ops")

OPERATOR: Final = "operator"
RULE: Final = "rule"
CLUSTER: Final = "cluster"


@dataclass(frozen=True, slots=True)
class Decided:
    error: AuthError
    is_new: bool
    """False: it stood before."""


def decide_auth_error(
    *, auth_error_id: uuid.UUID, decision: DecisionType, by: str, reason: str = ""
) -> Decided | Refusal:
    """An operator's decision, entered into the audit trail."""
    if (fault := reason_fault(reason)) is not None:
        return fault
    with transaction.atomic():
        error = AuthError.objects.select_for_update().filter(pk=auth_error_id).first()
        if error is None:
            return Refusal(ReasonCode.NOT_FOUND, "there is no such auth error", "auth_error_id")
        if error.status == STATUS_OF[decision]:
            return Decided(error, is_new=False)
        if (refusal := refusal_of(error, decision)) is not None:
            return refusal
        apply_decision(error, decision, by=by, reason=reason.strip())
        trail.record_in_trail(
            "auth error decided",
            actor=by,
            subject=f"auth error {error.pk}",
            tenant_id=error.tenant_id,
            before={"status": error.status},
            after={"status": STATUS_OF[decision]},
            reason=reason.strip(),
        )
    metrics.DECISIONS.labels(decision.value, OPERATOR).inc()
    log.info("auth error decided", auth_error_id=str(auth_error_id), decision=decision.value, actor=by)
    return Decided(AuthError.objects.get(pk=auth_error_id), is_new=True)


def decide_by_rule(error: AuthError, rule: DecisionRule) -> None:
    """In the transaction of the analysis. The rule itself stands in the audit trail; each error it decides does not."""
    apply_decision(error, DecisionType(rule.decision), by=f"rule:{rule.pk}", rule=rule)
    metrics.DECISIONS.labels(rule.decision, RULE).inc()


def refusal_of(error: AuthError, decision: DecisionType) -> Refusal | None:
    """Why this cannot be decided about it now, if it cannot. Its row is locked."""
    if error.status != AuthErrorStatus.ANALYSIS_COMPLETED:
        detail = f"it is {error.status}; only what is {AuthErrorStatus.ANALYSIS_COMPLETED} is decided"
        return Refusal(ReasonCode.CONFLICT, detail, "decision")
    if decision is DecisionType.RETRY and not retries.may_retry(error):
        return Refusal(ReasonCode.CONFLICT, f"it was retried {error.retry_count} times; decide otherwise", "decision")
    return None


def apply_decision(
    error: AuthError,
    decision: DecisionType,
    *,
    by: str,
    reason: str = "",
    rule: DecisionRule | None = None,
    of_cluster: ClusterDecision | None = None,
) -> None:
    """In the caller's transaction, which holds the row's lock and has asked `refusal_of`."""
    if decision is DecisionType.RETRY:
        retries.send_again(error, now=clock.now())
    elif transitions.mark_auth_error_decided(auth_error_id=error.pk, decision=decision) is transitions.StepOutcome.LOST:
        raise RuntimeError("an auth error was moved under its lock")
    ErrorDecision.objects.create(
        auth_error=error, decision=decision, by=by, reason=reason, rule=rule, of_cluster=of_cluster
    )


def reason_fault(reason: str) -> Refusal | None:
    if len(reason) > REASON_LENGTH_MAX or not (reason == "" or reason.isprintable()):
        return invalid("reason", f"must be at most {REASON_LENGTH_MAX} printable characters")
    return None
