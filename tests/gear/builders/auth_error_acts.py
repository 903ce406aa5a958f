"""What a person may do about auth errors, each once refused and once done: entered among all the others."""

import uuid
from collections.abc import Callable
from typing import Final

from ops.auth_errors import clusters, rules
from ops.auth_errors.models import DecisionRule
from ops.auth_errors.states import DecisionType
from tests.gear.builders import auth_errors as auth_error_gear
from tests.gear.builders.acts import Act, Case, Scene

CASES: Final[dict[str, Case]] = {}


def case(name: str) -> Callable[[Case], Case]:
    def register(made: Case) -> Case:
        CASES[name] = made
        return made

    return register


@case("api POST api/auth-errors/<str:auth_error_id>/decisions")
def _(it: Scene) -> tuple[Act, Act]:
    early, error = auth_error_gear.requested(), auth_error_gear.analyzed()
    body = {"decision": "RESOLVE"}
    return (
        lambda: it.call(f"/api/auth-errors/{early.pk}/decisions", body),
        lambda: it.call(f"/api/auth-errors/{error.pk}/decisions", body),
    )


@case("api POST api/auth-errors/clusters/<str:cluster_id>/decisions")
def _(it: Scene) -> tuple[Act, Act]:
    path = f"/api/auth-errors/clusters/{auth_error_gear.analyzed().cluster_id}/decisions"
    return lambda: it.call(path, {"decision": "RESET"}), lambda: it.call(path, {"decision": "RESOLVE"})


@case("api POST api/auth-errors/clusters/<str:cluster_id>/merge")
def _(it: Scene) -> tuple[Act, Act]:
    one, other = (auth_error_gear.analyzed(name=name).cluster_id for name in ("One", "Other"))
    path = f"/api/auth-errors/clusters/{one}/merge"
    return lambda: it.call(path, {"into": str(one)}), lambda: it.call(path, {"into": str(other)})


@case("api POST api/auth-errors/clusters/<str:cluster_id>/unmerge")
def _(it: Scene) -> tuple[Act, Act]:
    one, other = (auth_error_gear.analyzed(name=name).cluster_id for name in ("One", "Other"))
    assert one is not None
    assert other is not None
    clusters.merge_clusters(source_id=one, into_id=other, by="operator:bob")
    return (
        lambda: it.call(f"/api/auth-errors/clusters/{other}/unmerge", {}),
        lambda: it.call(f"/api/auth-errors/clusters/{one}/unmerge", {}),
    )


def _of_decision(subject: str, decision: str) -> Case:
    def made(it: Scene) -> tuple[Act, Act]:
        early, error = auth_error_gear.requested(), auth_error_gear.analyzed()
        if subject == "autherror":
            path, wrong = f"auth_errors/autherror/{error.pk}", f"auth_errors/autherror/{early.pk}"
        else:
            path, wrong = f"auth_errors/cluster/{error.cluster_id}", f"auth_errors/cluster/{uuid.uuid4()}"
        return lambda: it.post(f"{wrong}/{decision}/"), lambda: it.post(f"{path}/{decision}/", reason="known")

    return made


CASES.update(
    {
        f"console auth_errors.{subject} {decision}": _of_decision(subject, decision)
        for subject in ("autherror", "cluster")
        for decision in ("resolve", "ignore", "retry", "fail", "process")
    }
)


@case("console auth_errors.cluster merge")
def _(it: Scene) -> tuple[Act, Act]:
    one, other = (auth_error_gear.analyzed(name=name).cluster_id for name in ("One", "Other"))
    path = f"auth_errors/cluster/{one}/merge/"
    return lambda: it.post(path, into=str(one)), lambda: it.post(path, into=str(other))


@case("console auth_errors.cluster unmerge")
def _(it: Scene) -> tuple[Act, Act]:
    one, other = (auth_error_gear.analyzed(name=name).cluster_id for name in ("One", "Other"))
    assert one is not None
    assert other is not None
    clusters.merge_clusters(source_id=one, into_id=other, by="operator:bob")
    return (
        lambda: it.post(f"auth_errors/cluster/{other}/unmerge/"),
        lambda: it.post(f"auth_errors/cluster/{one}/unmerge/"),
    )


@case("console auth_errors.decisionrule add")
def _(it: Scene) -> tuple[Act, Act]:
    path, rule = "auth_errors/decisionrule/add/", {"name": "bots", "decision": "IGNORE"}
    return lambda: it.post(path, **rule), lambda: it.post(path, **rule, path_prefix="/login")


@case("console auth_errors.decisionrule end")
def _(it: Scene) -> tuple[Act, Act]:
    rule = _a_rule()
    return (
        lambda: it.post("auth_errors/decisionrule/0/end/"),
        lambda: it.post(f"auth_errors/decisionrule/{rule}/end/"),
    )


def _a_rule() -> int:
    rule = rules.add_decision_rule(
        name="bots",
        decision=DecisionType.IGNORE,
        cluster_id=None,
        exception_class="com.acme.Bot",
        path_prefix="",
        by="operator:bob",
    )
    assert isinstance(rule, DecisionRule), rule
    return rule.pk


@case("command auth_errors decide")
def _(it: Scene) -> tuple[Act, Act]:
    common = ("auth_errors", "decide", str(auth_error_gear.analyzed().pk), "--by", "bob")
    return lambda: it.command(*common), lambda: it.command(*common, "--decision", "RESOLVE")


@case("command auth_errors merge")
def _(it: Scene) -> tuple[Act, Act]:
    one, other = (str(auth_error_gear.analyzed(name=name).cluster_id) for name in ("One", "Other"))
    common = ("auth_errors", "merge", one, "--by", "bob", "--into")
    return lambda: it.command(*common, one), lambda: it.command(*common, other)


@case("command auth_errors unmerge")
def _(it: Scene) -> tuple[Act, Act]:
    one, other = (auth_error_gear.analyzed(name=name).cluster_id for name in ("One", "Other"))
    assert one is not None
    assert other is not None
    clusters.merge_clusters(source_id=one, into_id=other, by="operator:bob")
    return (
        lambda: it.command("auth_errors", "unmerge", str(other), "--by", "bob"),
        lambda: it.command("auth_errors", "unmerge", str(one), "--by", "bob"),
    )


@case("command auth_errors rules")
def _(it: Scene) -> tuple[Act, Act]:
    common = ("auth_errors", "rules", "--add", "bots", "--decision", "IGNORE", "--by", "bob")
    return lambda: it.command(*common), lambda: it.command(*common, "--path", "/login")
