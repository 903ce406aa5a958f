"""manage.py auth_errors list --status ANALYSIS_COMPLETED"""

import json
import uuid
from typing import Any

from django.core.management.base import CommandParser

from dpp_project import actors, clock
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand, unless_refused
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from ops.auth_errors import bulk, clusters, deciding, reads, rules
from ops.auth_errors.api.documents import AuthErrorAnswer, ClusterAnswer, ClusterDecisionAnswer
from ops.auth_errors.models import AuthError, Cluster, DecisionRule
from ops.auth_errors.reads import Wanted
from ops.auth_errors.states import RULES_DECIDE, AuthErrorStatus, DecisionType
from tenants.services import text_fault

LISTED = 50
LISTED_MAX = 1_000
CLUSTERS_LISTED_MAX = 100


class Command(OpsCommand):
    help = (
        "Auth errors: list the newest (or --clusters), show one or a cluster by its id, decide about one or about all "
        "open errors of a cluster, merge a cluster into another, unmerge it; rules: list them, --add one or --end one. "
        "docs/auth_errors.md says what a decision does."
    )
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("do", choices=("list", "show", "decide", "merge", "unmerge", "rules"))
        parser.add_argument("subject", nargs="?", default="", help="show, decide, merge, unmerge: an id")
        parser.add_argument("--clusters", action="store_true", help="list: clusters, the one last seen first")
        parser.add_argument("--status", choices=[one.value for one in AuthErrorStatus], help="list: only such errors")
        parser.add_argument("--tenant", help="list: only this tenant's")
        parser.add_argument("--cluster", default="", help="list: only of this cluster; rules --add: a condition")
        parser.add_argument("--class", default="", dest="exception_class", help="list, rules --add: an exception class")
        parser.add_argument("--path", default="", help="rules --add: the beginning of the request's path")
        parser.add_argument("--limit", type=int, default=LISTED, help=f"list: at most so many (default {LISTED})")
        parser.add_argument("--decision", choices=[one.value for one in DecisionType], help="decide, rules --add")
        parser.add_argument("--into", default="", help="merge: the cluster that it shall count as")
        parser.add_argument("--reason", default="", help="decide: why")
        parser.add_argument("--by", default="", help="your name; all but list and show ask for it")
        parser.add_argument("--add", metavar="NAME", help="rules: a new rule of this name")
        parser.add_argument("--end", type=int, metavar="NUMBER", help="rules: the rule that shall decide no more")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        match options["do"]:
            case "list":
                return _clusters(options) if options["clusters"] else _errors(options)
            case "show":
                return _error_or_cluster_answer(_auth_error_or_cluster(options["subject"]))
            case "decide":
                return _decide_error_or_cluster(options, dry_run=dry_run)
            case "merge":
                return _merge(options, dry_run=dry_run)
            case "unmerge":
                return _unmerge(options, dry_run=dry_run)
        return _decision_rules_answer(options, dry_run=dry_run)


def _errors(options: dict[str, Any]) -> CommandAnswer:
    limit = _limit(options, LISTED_MAX)
    wanted = Wanted(
        tenant_id=options["tenant"],
        status=None if options["status"] is None else AuthErrorStatus(options["status"]),
        cluster_id=_id(options["cluster"], "--cluster") if options["cluster"] else None,
        exception_class=options["exception_class"] or None,
    )
    errors = reads.error_page(wanted, limit=limit).errors
    documents = [AuthErrorAnswer.in_a_list(one, for_operator=True).model_dump(mode="json") for one in errors]
    lines = [
        f"{one.pk}  {one.recorded_at:%Y-%m-%d %H:%M:%S}  {one.status:18}  {one.tenant_id}  "
        f"{_on_one_line(one.exception_class)}"
        for one in errors
    ]
    return CommandAnswer({"auth_errors": documents}, lines or ["There are no such auth errors."])


def _clusters(options: dict[str, Any]) -> CommandAnswer:
    limit = _limit(options, CLUSTERS_LISTED_MAX)
    found = reads.cluster_page(today=clock.now().date(), limit=limit).clusters
    lines = [
        f"{one.cluster.pk}  {one.cluster.last_seen_at:%Y-%m-%d %H:%M:%S}  "
        f"{'REGRESSED' if one.cluster.regressed_at else one.cluster.status:9}  {one.occurrences:6}  "
        f"{_on_one_line(one.cluster.exception_class)}  {_on_one_line(one.cluster.top_frame)}"
        for one in found
    ]
    documents = [ClusterAnswer.of(one).model_dump(mode="json") for one in found]
    return CommandAnswer({"clusters": documents}, lines or ["There are no clusters."])


def _decide_error_or_cluster(options: dict[str, Any], *, dry_run: bool) -> CommandAnswer:
    subject, by, decision = (
        _auth_error_or_cluster(options["subject"]),
        _claimed_auth_error_actor(options),
        _decision(options),
    )
    if (fault := deciding.reason_fault(options["reason"])) is not None:
        raise CommandRefused(Refusal(fault.reason, fault.detail, "--reason"))
    if dry_run:
        return CommandAnswer(_error_or_cluster_document(subject), [f"{subject} would be decided {decision}"])
    if isinstance(subject, AuthError):
        answer = deciding.decide_auth_error(
            auth_error_id=subject.pk, decision=decision, by=by, reason=options["reason"]
        )
        return _error_or_cluster_answer(unless_refused(answer).error)
    made = unless_refused(
        bulk.decide_cluster(cluster_id=subject.pk, decision=decision, by=by, reason=options["reason"])
    )
    return _listed(ClusterDecisionAnswer.of(made.decision).model_dump(mode="json"))


def _merge(options: dict[str, Any], *, dry_run: bool) -> CommandAnswer:
    cluster, by, into = _cluster(options["subject"]), _claimed_auth_error_actor(options), _id(options["into"], "--into")
    if dry_run:
        return CommandAnswer(_error_or_cluster_document(cluster), [f"{cluster} would count as {into}"])
    unless_refused(clusters.merge_clusters(source_id=cluster.pk, into_id=into, by=by))
    return _error_or_cluster_answer(cluster)


def _unmerge(options: dict[str, Any], *, dry_run: bool) -> CommandAnswer:
    cluster, by = _cluster(options["subject"]), _claimed_auth_error_actor(options)
    if dry_run:
        return CommandAnswer(_error_or_cluster_document(cluster), [f"{cluster} would stand for itself"])
    unless_refused(clusters.unmerge_cluster(cluster_id=cluster.pk, by=by))
    return _error_or_cluster_answer(cluster)


def _decision_rules_answer(options: dict[str, Any], *, dry_run: bool) -> CommandAnswer:
    if options["add"] is not None and options["end"] is not None:
        raise CommandRefused(invalid("--end", "add one or end one, not both"))
    if options["add"] is not None:
        return _rule_added(options, dry_run=dry_run)
    if options["end"] is not None:
        return _rule_ended(options, dry_run=dry_run)
    documents = [_rule(one) for one in rules.active_decision_rules()]
    lines = ["  ".join(str(value) for value in one.values() if value) for one in documents]
    return CommandAnswer({"rules": documents}, lines or ["There are no rules."])


def _rule_added(options: dict[str, Any], *, dry_run: bool) -> CommandAnswer:
    asked: dict[str, Any] = {
        "name": options["add"],
        "decision": _decision(options),
        "cluster_id": _id(options["cluster"], "--cluster") if options["cluster"] else None,
        "exception_class": options["exception_class"],
        "path_prefix": options["path"],
    }
    by = _claimed_auth_error_actor(options)
    if (fault := rules.fault_of_decision_rule(**asked)) is not None:
        flags = {"name": "--add", "exception_class": "--class", "path_prefix": "--path"}
        raise CommandRefused(Refusal(fault.reason, fault.detail, flags.get(fault.field, f"--{fault.field}")))
    if dry_run:
        return CommandAnswer({"name": options["add"]}, [f"the rule {options['add']} would be added"])
    return _listed(_rule(unless_refused(rules.add_decision_rule(**asked, by=by))))


def _rule_ended(options: dict[str, Any], *, dry_run: bool) -> CommandAnswer:
    by = _claimed_auth_error_actor(options)
    found = DecisionRule.objects.filter(pk=options["end"]).first() if 0 < options["end"] < 2**63 else None
    if found is None:
        raise CommandRefused(
            Refusal(ReasonCode.NOT_FOUND, "there is no such rule; `manage.py auth_errors rules`", "--end")
        )
    if dry_run:
        return CommandAnswer(_rule(found), [f"the rule {found} would be ended"])
    return _listed(_rule(unless_refused(rules.end_decision_rule(rule_id=found.pk, by=by))))


def _rule(rule: DecisionRule) -> dict[str, Any]:
    return {
        "rule": rule.pk,
        "name": rule.name,
        "decision": rule.decision,
        "cluster": None if rule.cluster_id is None else str(rule.cluster_id),
        "exception_class": rule.exception_class,
        "path_prefix": rule.path_prefix,
        "created_by": rule.created_by,
        "ended_at": rule.ended_at and rule.ended_at.isoformat(),
    }


def _limit(options: dict[str, Any], most: int) -> int:
    if not 1 <= options["limit"] <= most:
        raise CommandRefused(invalid("--limit", f"must be 1 to {most}"))
    limit: int = options["limit"]
    return limit


def _decision(options: dict[str, Any]) -> DecisionType:
    if options["decision"] is None:
        choices = RULES_DECIDE if options["do"] == "rules" else DecisionType
        raise CommandRefused(invalid("--decision", f"give one of {', '.join(sorted(choices))}"))
    return DecisionType(options["decision"])


def _claimed_auth_error_actor(options: dict[str, Any]) -> str:
    """Who she says she is: enough where one person suffices."""
    fault = text_fault("--by", options["by"])
    if fault is not None:
        raise CommandRefused(invalid("--by", f"say who you are: {fault.detail}"))
    return actors.claimed_actor(options["by"])


def _auth_error_or_cluster(text: str) -> AuthError | Cluster:
    wanted = _id(text, "subject")
    found = AuthError.objects.filter(pk=wanted).first() or Cluster.objects.filter(pk=wanted).first()
    if found is None:
        raise CommandRefused(
            Refusal(
                ReasonCode.NOT_FOUND, "there is no such auth error or cluster; `manage.py auth_errors list`", "subject"
            )
        )
    return found


def _cluster(text: str) -> Cluster:
    found = _auth_error_or_cluster(text)
    if isinstance(found, AuthError):
        raise CommandRefused(invalid("subject", "that is an auth error; give the id of a cluster"))
    return found


def _id(text: str, field: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise CommandRefused(invalid(field, "give an id, as `manage.py auth_errors list` shows it")) from None


def _error_or_cluster_answer(subject: AuthError | Cluster) -> CommandAnswer:
    return _listed(_error_or_cluster_document(subject))


def _error_or_cluster_document(subject: AuthError | Cluster) -> dict[str, Any]:
    if isinstance(subject, AuthError):
        return AuthErrorAnswer.whole(subject, for_operator=True).model_dump(mode="json")
    (summary,) = reads.cluster_summaries([Cluster.objects.get(pk=subject.pk)], today=clock.now().date())
    return ClusterAnswer.of(summary).model_dump(mode="json")


def _on_one_line(reported: str) -> str:
    """A tenant chose it, and could write the line of another error with it."""
    return " ".join(reported.split())


def _listed(document: dict[str, Any]) -> CommandAnswer:
    """Structures as JSON; a trace with its lines."""
    return CommandAnswer(
        document,
        [
            f"{name}: {json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value}"
            for name, value in document.items()
        ],
    )
