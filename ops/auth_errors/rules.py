"""Rules: what is decided without a person, right after an analysis, by cluster, exception class and path.

Each condition that a rule has must hold; the oldest rule that matches decides. A rule decides what comes after it was
made, never what waits already. It has no RETRY: that would repeat the analysis that has just been made.
"""

import uuid
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models.functions import Now

from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from ops.auth_errors import clusters
from ops.auth_errors.models import REASON_LENGTH_MAX, AuthError, Cluster, DecisionRule
from ops.auth_errors.states import RULES_DECIDE, DecisionType

RULES_MAX: Final = 200
"""Each is looked at after each analysis."""
CONDITION_LENGTH_MAX: Final = 300


def matching_decision_rule(error: AuthError, *, root_id: uuid.UUID) -> DecisionRule | None:
    return next((one for one in active_decision_rules() if _matches(one, error, root_id)), None)


def active_decision_rules() -> Sequence[DecisionRule]:
    return list(DecisionRule.objects.filter(ended_at__isnull=True).order_by("pk")[:RULES_MAX])


def _matches(rule: DecisionRule, error: AuthError, root_id: uuid.UUID) -> bool:
    if rule.exception_class and rule.exception_class != error.exception_class:
        return False
    if rule.path_prefix and not path_of(error).startswith(rule.path_prefix):
        return False
    return rule.cluster_id is None or clusters.root_of(rule.cluster_id) == root_id


def path_of(error: AuthError) -> str:
    """Of the request that failed, without host and query."""
    try:
        return urlsplit(error.request_uri or "").path
    except ValueError:  # an address that is none
        return ""


def add_decision_rule(
    *,
    name: str,
    decision: DecisionType,
    cluster_id: uuid.UUID | None,
    exception_class: str,
    path_prefix: str,
    by: str,
) -> DecisionRule | Refusal:
    fault = fault_of_decision_rule(
        name=name, decision=decision, cluster_id=cluster_id, exception_class=exception_class, path_prefix=path_prefix
    )
    if fault is not None:
        return fault
    with transaction.atomic():
        rule = DecisionRule.objects.create(
            name=name.strip(),
            decision=decision,
            cluster_id=cluster_id,
            exception_class=exception_class.strip(),
            path_prefix=path_prefix.strip(),
            created_by=by,
        )
        after = {
            "name": rule.name,
            "decision": decision,
            "cluster": cluster_id,
            "exception_class": rule.exception_class,
            "path_prefix": rule.path_prefix,
        }
        trail.record_in_trail("rule added", actor=by, subject=f"auth error rule {rule.pk}", after=after)
    return DecisionRule.objects.get(pk=rule.pk)


def fault_of_decision_rule(
    *, name: str, decision: DecisionType, cluster_id: uuid.UUID | None, exception_class: str, path_prefix: str
) -> Refusal | None:
    """What is wrong with a rule that is asked for, if anything; forms ask before they add one."""
    if not name.strip() or len(name) > REASON_LENGTH_MAX or not name.isprintable():
        return invalid("name", f"give it a name, of at most {REASON_LENGTH_MAX} printable characters")
    if decision not in RULES_DECIDE:
        return invalid("decision", f"a rule decides {', '.join(sorted(RULES_DECIDE))}")
    fault = _condition_fault(cluster_id, exception_class=exception_class, path_prefix=path_prefix)
    if fault is None and DecisionRule.objects.filter(ended_at__isnull=True).count() >= RULES_MAX:
        return Refusal(ReasonCode.CONFLICT, f"there are {RULES_MAX} rules; end one first", "name")
    return fault


def _condition_fault(cluster_id: uuid.UUID | None, *, exception_class: str, path_prefix: str) -> Refusal | None:
    for field, text in (("exception_class", exception_class), ("path_prefix", path_prefix)):
        if len(text) > CONDITION_LENGTH_MAX or not text.isprintable():
            return invalid(field, f"must be at most {CONDITION_LENGTH_MAX} printable characters")
    if path_prefix.strip() and not path_prefix.strip().startswith("/"):
        return invalid("path_prefix", "a path begins with /")
    if cluster_id is not None and not Cluster.objects.filter(pk=cluster_id).exists():
        return invalid("cluster", "there is no such cluster")
    if cluster_id is None and not exception_class.strip() and not path_prefix.strip():
        return invalid("cluster", "give a condition: a cluster, an exception class or a path prefix")
    return None


def end_decision_rule(*, rule_id: int, by: str) -> DecisionRule | Refusal:
    """It decides nothing more; what it decided stands. Ended before: as it stands."""
    with transaction.atomic():
        rule = DecisionRule.objects.select_for_update().filter(pk=rule_id).first()
        if rule is None:
            return Refusal(ReasonCode.NOT_FOUND, "there is no such rule", "rule")
        if rule.ended_at is None:
            DecisionRule.objects.filter(pk=rule_id).update(ended_at=Now(), ended_by=by)
            trail.record_in_trail(
                "rule ended", actor=by, subject=f"auth error rule {rule_id}", before={"name": rule.name}
            )
    return DecisionRule.objects.get(pk=rule_id)
