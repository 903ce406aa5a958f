"""Decisions about errors and clusters, by operators and rules; merges, and clusters that come back."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client

from dpp_project.audit.models import AuditEntry
from dpp_project.clock import now
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.auth_errors import bulk, clusters, deciding, rules
from ops.auth_errors.bulk import ClusterDecided
from ops.auth_errors.deciding import Decided
from ops.auth_errors.models import AuthError, Cluster, ClusterAlias, ClusterDecision, DecisionRule, ErrorDecision
from ops.auth_errors.states import STATUS_OF, TERMINAL, DecisionType
from tests.gear.builders import auth_errors as gear
from tests.gear.builders.tenants import an_operator_key, bearer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]

ADA = "operator:ada"


def everything() -> list[Any]:
    tables = (AuthError, Cluster, ClusterAlias, ClusterDecision, ErrorDecision, AuditEntry)
    return [list(table.objects.order_by("pk").values()) for table in tables]


def cluster_of(error: AuthError) -> uuid.UUID:
    assert error.cluster_id is not None
    return error.cluster_id


def decide(error: AuthError, decision: DecisionType, **values: Any) -> Decided:
    answer = deciding.decide_auth_error(auth_error_id=error.pk, decision=decision, by=ADA, **values)
    assert isinstance(answer, Decided), answer
    return answer


def decide_cluster(cluster_id: uuid.UUID, decision: DecisionType) -> ClusterDecided:
    answer = bulk.decide_cluster(cluster_id=cluster_id, decision=decision, by=ADA)
    assert isinstance(answer, ClusterDecided), answer
    return answer


def merged(source: uuid.UUID, into: uuid.UUID) -> None:
    assert isinstance(clusters.merge_clusters(source_id=source, into_id=into, by=ADA), ClusterAlias)


@pytest.mark.contract("AUT-11")
@pytest.mark.parametrize("decision", DecisionType)
def test_aut_11_each_decision_has_its_status_and_is_entered(client: Client, decision: DecisionType) -> None:
    error, key = gear.analyzed(), an_operator_key()
    path, body = f"/api/auth-errors/{error.pk}/decisions", {"decision": decision, "reason": "known"}
    answer = client.post(path, body, content_type="application/json", headers=bearer(key))
    assert (answer.status_code, answer.json()["status"]) == (200, STATUS_OF[decision])
    made = ErrorDecision.objects.get()
    assert (made.decision, made.by, made.reason, made.rule) == (decision, f"key:dpp_{key.key.prefix}", "known", None)
    entry = AuditEntry.objects.get(act="auth error decided")
    assert (entry.subject, entry.tenant_id, entry.reason) == (f"auth error {error.pk}", "t_acme", "known")
    assert (entry.before, entry.after) == ({"status": "ANALYSIS_COMPLETED"}, {"status": STATUS_OF[decision]})
    before = everything()
    again = client.post(path, body, content_type="application/json", headers=bearer(key))
    assert (again.status_code, again.json()) == (200, answer.json())
    assert everything() == before


@pytest.mark.contract("AUT-11")
@pytest.mark.parametrize("decision", DecisionType)
@pytest.mark.parametrize("make", [gear.recorded, gear.requested])
def test_aut_11_before_its_analysis_nothing_is_decided(client: Client, make: Any, decision: DecisionType) -> None:
    error, key = make(), an_operator_key()
    before = everything()
    path = f"/api/auth-errors/{error.pk}/decisions"
    answer = client.post(path, {"decision": decision}, content_type="application/json", headers=bearer(key))
    assert (answer.status_code, answer.json()["reason_code"]) == (409, "CONFLICT")
    assert everything() == before


@pytest.mark.contract("AUT-11")
@pytest.mark.parametrize("first", [one for one in DecisionType if STATUS_OF[one] in TERMINAL])
def test_aut_11_a_terminal_error_is_decided_no_more(first: DecisionType) -> None:
    error = gear.analyzed()
    decide(error, first)
    before = everything()
    for other in set(DecisionType) - {first}:
        refused = deciding.decide_auth_error(auth_error_id=error.pk, decision=other, by=ADA)
        assert isinstance(refused, Refusal)
        assert refused.reason is ReasonCode.CONFLICT
    assert everything() == before


@pytest.mark.contract("AUT-11")
def test_aut_11_of_two_at_once_one_decides() -> None:
    error = gear.analyzed()

    def ask(decision: DecisionType) -> Any:
        try:
            return deciding.decide_auth_error(auth_error_id=error.pk, decision=decision, by=ADA)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(ask, [DecisionType.RESOLVE, DecisionType.IGNORE]))
    assert sorted(isinstance(one, Decided) for one in answers) == [False, True]
    assert ErrorDecision.objects.count() == 1


@pytest.mark.contract("AUT-11")
@pytest.mark.parametrize("reason", ["x" * 201, "a\nb", "a\u202eb"], ids=ascii)
def test_aut_11_a_reason_that_cannot_be_shown_is_refused(reason: str) -> None:
    error = gear.analyzed()
    before = everything()
    refused = deciding.decide_auth_error(auth_error_id=error.pk, decision=DecisionType.FAIL, by=ADA, reason=reason)
    assert isinstance(refused, Refusal)
    assert refused.field == "reason"
    assert everything() == before


# Clusters.


@pytest.mark.contract("AUT-11")
def test_aut_11_a_cluster_is_decided_for_its_open_errors_alone() -> None:
    opened = [gear.analyzed() for _ in range(3)]
    ignored, waiting, other = gear.analyzed(), gear.requested(), gear.analyzed(name="Other")
    decide(ignored, DecisionType.IGNORE)
    answer = decide_cluster(cluster_of(opened[0]), DecisionType.RESOLVE)
    assert (answer.decision.decided, answer.decision.finished_at is not None, answer.is_new) == (3, True, True)
    statuses = {error.pk: gear.row(error.pk).status for error in (*opened, ignored, waiting, other)}
    assert list(statuses.values()) == [
        *["RESOLVED"] * 3,
        *("IGNORED", "ANALYSIS_REQUESTED", "ANALYSIS_COMPLETED"),
    ]
    assert Cluster.objects.get(pk=cluster_of(opened[0])).status == "RESOLVED"
    assert ErrorDecision.objects.filter(of_cluster=answer.decision).count() == 3
    assert AuditEntry.objects.filter(act="cluster decided").count() == 1
    before = everything()
    again = decide_cluster(cluster_of(opened[0]), DecisionType.RESOLVE)
    assert (again.is_new, again.decision) == (False, answer.decision)
    assert everything() == before


@pytest.mark.contract("AUT-11")
def test_aut_11_a_large_cluster_is_decided_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after any batch, the job goes on behind it, and decides none twice."""
    monkeypatch.setattr(bulk, "BATCH", 2)
    errors = [gear.analyzed() for _ in range(5)]
    answer = decide_cluster(cluster_of(errors[0]), DecisionType.IGNORE)
    assert (answer.decision.decided, answer.decision.finished_at) == (2, None)
    late = gear.analyzed()
    assert bulk.preview_bulk_decisions(now=now(), limit=5).changed == 1
    with monkeypatch.context() as patched:

        def dies(*_args: Any, **_values: Any) -> Any:
            raise KeyboardInterrupt

        patched.setattr(ErrorDecision.objects, "bulk_create", dies)
        with pytest.raises(KeyboardInterrupt):
            bulk.carry_on_bulk_decisions(now=now(), limit=5)
    assert AuthError.objects.filter(status="IGNORED").count() == 2
    assert bulk.carry_on_bulk_decisions(now=now(), limit=5).changed == 3
    finished = ClusterDecision.objects.get()
    assert (finished.decided, finished.finished_at is not None) == (5, True)
    assert gear.row(late.pk).status == "ANALYSIS_COMPLETED"
    assert ErrorDecision.objects.count() == 5
    assert bulk.carry_on_bulk_decisions(now=now(), limit=5).seen == 0


@pytest.mark.contract("AUT-11")
def test_aut_11_a_decision_that_cannot_go_on_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BATCH", 1)
    decisions = []
    for name in ("Stuck", "Well"):
        errors = [gear.analyzed(name=name) for _ in range(3)]
        decisions.append(decide_cluster(cluster_of(errors[0]), DecisionType.IGNORE).decision)
    stuck, well = decisions
    real = bulk._decide_all

    def refuses(decision: ClusterDecision, ids: Any) -> int:
        if decision.pk == stuck.pk:
            raise OperationalError("a lock was not given")
        return real(decision, ids)

    with monkeypatch.context() as patched:
        patched.setattr(bulk, "_decide_all", refuses)
        report = bulk.carry_on_bulk_decisions(now=now(), limit=5)
    assert (report.seen, report.changed, report.errors) == (2, 2, 1)
    assert ClusterDecision.objects.get(pk=well.pk).finished_at is not None
    assert bulk.carry_on_bulk_decisions(now=now(), limit=5).changed == 2
    assert not ClusterDecision.objects.filter(finished_at__isnull=True).exists()


@pytest.mark.contract("AUT-11")
def test_aut_11_a_cluster_is_retried_and_those_retried_too_often_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh, spent = gear.analyzed(), gear.analyzed()
    monkeypatch.setattr("ops.auth_errors.retries.may_retry", lambda error: error.pk == fresh.pk)
    answer = decide_cluster(cluster_of(fresh), DecisionType.RETRY)
    assert (answer.decision.decided, answer.decision.finished_at is not None) == (1, True)
    assert [gear.row(one.pk).status for one in (fresh, spent)] == ["RETRY", "ANALYSIS_COMPLETED"]


@pytest.mark.contract("AUT-10")
def test_aut_10_an_error_that_comes_back_reopens_its_cluster_and_stays_apart() -> None:
    first = gear.analyzed()
    decide_cluster(cluster_of(first), DecisionType.RESOLVE)
    again = gear.analyzed()
    cluster = Cluster.objects.get()
    assert (cluster.status, cluster.resolved_at, cluster.regressed_at is not None) == ("OPEN", None, True)
    assert [gear.row(one.pk).status for one in (first, again)] == ["RESOLVED", "ANALYSIS_COMPLETED"]
    regressed_at = cluster.regressed_at
    gear.analyzed()
    assert Cluster.objects.get().regressed_at == regressed_at
    decide_cluster(cluster.pk, DecisionType.RESOLVE)
    cluster = Cluster.objects.get()
    assert (cluster.status, cluster.regressed_at) == ("RESOLVED", None)


@pytest.mark.contract("AUT-10")
def test_aut_10_an_error_reported_before_and_analysed_after_is_resolved_along() -> None:
    first, late = gear.analyzed(), gear.requested()
    answer = decide_cluster(cluster_of(first), DecisionType.RESOLVE)
    gear.handle_analysis(late)
    assert Cluster.objects.get().status == "RESOLVED"
    assert gear.row(late.pk).status == "RESOLVED"
    assert ErrorDecision.objects.get(auth_error=late).of_cluster_id == answer.decision.pk


@pytest.mark.contract("AUT-10")
def test_aut_10_a_merge_holds_for_later_events_and_unmerge_gives_back(client: Client) -> None:
    one, other = gear.analyzed(name="One"), gear.analyzed(name="Other")
    source, into = cluster_of(one), cluster_of(other)
    headers = bearer(an_operator_key())
    path = f"/api/auth-errors/clusters/{source}"
    answer = client.post(f"{path}/merge", {"into": str(into)}, content_type="application/json", headers=headers)
    assert (answer.status_code, answer.json()["counts_as"]) == (200, str(into))
    before = everything()
    again = client.post(f"{path}/merge", {"into": str(into)}, content_type="application/json", headers=headers)
    assert (again.status_code, everything() == before) == (200, True)

    assert decide_cluster(into, DecisionType.RESOLVE).decision.decided == 2
    refused = bulk.decide_cluster(cluster_id=source, decision=DecisionType.RESOLVE, by=ADA)
    assert isinstance(refused, Refusal)
    assert str(into) in refused.detail
    later = gear.analyzed(name="One")
    assert Cluster.objects.get(pk=into).regressed_at is not None
    assert Cluster.objects.get(pk=into).last_seen_at == later.recorded_at
    assert later.cluster_id == source

    ended = client.post(f"{path}/unmerge", headers=headers)
    assert (ended.status_code, ended.json()["counts_as"], ended.json()["occurrences"]) == (200, None, 2)
    assert Cluster.objects.get(pk=into).last_seen_at == other.recorded_at
    assert client.post(f"{path}/unmerge", headers=headers).status_code == 409
    alias = ClusterAlias.objects.get()
    assert alias.ended_by == alias.by
    assert AuditEntry.objects.filter(act__in=["cluster merged", "cluster unmerged"]).count() == 2


@pytest.mark.contract("AUT-10")
def test_aut_10_chains_are_followed_and_circles_refused() -> None:
    a, b, c = (cluster_of(gear.analyzed(name=name)) for name in ("A", "B", "C"))
    merged(a, b)
    merged(b, c)
    assert [clusters.root_of(one) for one in (a, b, c)] == [c, c, c]
    assert sorted(clusters.tree_of(c)) == sorted([a, b, c])
    before = everything()
    for source, into in ((c, a), (c, b), (c, c), (a, c)):
        refused = clusters.merge_clusters(source_id=source, into_id=into, by=ADA)
        assert isinstance(refused, Refusal), (source, into)
        assert (refused.reason, refused.field) == (ReasonCode.CONFLICT, "into")
    assert isinstance(clusters.merge_clusters(source_id=uuid.uuid4(), into_id=c, by=ADA), Refusal)
    assert isinstance(clusters.merge_clusters(source_id=c, into_id=uuid.uuid4(), by=ADA), Refusal)
    assert everything() == before


@pytest.mark.contract("AUT-10")
def test_aut_10_two_merges_at_once_close_no_circle() -> None:
    a, b = (cluster_of(gear.analyzed(name=name)) for name in ("A", "B"))

    def merge(pair: tuple[uuid.UUID, uuid.UUID]) -> Any:
        try:
            return clusters.merge_clusters(source_id=pair[0], into_id=pair[1], by=ADA)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(merge, [(a, b), (b, a)]))
    assert sorted(isinstance(one, ClusterAlias) for one in answers) == [False, True]
    assert ClusterAlias.objects.count() == 1


# Rules.


def a_rule(decision: DecisionType = DecisionType.IGNORE, **conditions: Any) -> DecisionRule | Refusal:
    values: dict[str, Any] = {"cluster_id": None, "exception_class": "", "path_prefix": ""} | conditions
    return rules.add_decision_rule(name="a rule", decision=decision, by=ADA, **values)


@pytest.mark.contract("AUT-11")
@pytest.mark.parametrize(
    ("conditions", "matches"),
    [
        ({"exception_class": "com.acme.auth.One"}, True),
        ({"exception_class": "com.acme.auth.Other"}, False),
        ({"path_prefix": "/api/"}, True),
        ({"path_prefix": "/api/x"}, False),
        ({"exception_class": "com.acme.auth.One", "path_prefix": "/other"}, False),
    ],
)
def test_aut_11_a_rule_decides_what_meets_each_of_its_conditions(conditions: dict[str, Any], *, matches: bool) -> None:
    rule = a_rule(**conditions)
    assert isinstance(rule, DecisionRule)
    error = gear.analyzed(name="One", requestUri="https://shop.test/api/orders?token=x")
    assert error.status == ("IGNORED" if matches else "ANALYSIS_COMPLETED")
    made = list(ErrorDecision.objects.values_list("by", "rule_id"))
    assert made == ([(f"rule:{rule.pk}", rule.pk)] if matches else [])
    assert AuditEntry.objects.filter(act="rule added").count() == 1


@pytest.mark.contract("AUT-11")
def test_aut_11_a_rule_about_a_cluster_holds_for_what_is_merged_into_it_and_ends() -> None:
    one, other = (cluster_of(gear.analyzed(name=name)) for name in ("One", "Other"))
    rule = a_rule(DecisionType.FAIL, cluster_id=other)
    assert isinstance(rule, DecisionRule)
    assert gear.analyzed(name="One").status == "ANALYSIS_COMPLETED"
    merged(one, other)
    assert gear.analyzed(name="One").status == "FAILED"
    assert not isinstance(rules.end_decision_rule(rule_id=rule.pk, by=ADA), Refusal)
    before = everything()
    assert not isinstance(rules.end_decision_rule(rule_id=rule.pk, by=ADA), Refusal)
    assert everything() == before
    assert gear.analyzed(name="One").status == "ANALYSIS_COMPLETED"


@pytest.mark.contract("AUT-11")
@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({}, "cluster"),
        ({"exception_class": "  "}, "cluster"),
        ({"cluster_id": uuid.UUID(int=7)}, "cluster"),
        ({"path_prefix": "api"}, "path_prefix"),
        ({"path_prefix": "/a\nb"}, "path_prefix"),
        ({"exception_class": "x" * 301}, "exception_class"),
        ({"exception_class": "x", "decision": DecisionType.RETRY}, "decision"),
    ],
    ids=ascii,
)
def test_aut_11_a_wrong_rule_is_refused(values: dict[str, Any], field: str) -> None:
    refused = a_rule(**values)
    assert isinstance(refused, Refusal)
    assert refused.field == field
    assert not DecisionRule.objects.exists()
    assert not AuditEntry.objects.exists()
