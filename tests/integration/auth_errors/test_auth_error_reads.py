"""Who reads which auth errors, by which filter, page by page, and what an error's page tells of its life."""

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils.dateparse import parse_datetime

from dpp_project import clock as clock_module
from dpp_project.clock import FixedClock
from ops.auth_errors import clusters, deciding, reads
from ops.auth_errors.models import AuthError
from ops.auth_errors.reads import Wanted
from ops.auth_errors.states import AuthErrorStatus, DecisionType
from tenants.scopes import Scope
from tests.gear.builders import auth_errors as gear
from tests.gear.builders.tenants import a_key, an_operator_key, bearer

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey"),
    pytest.mark.contract("AUT-11"),
]


def read(client: Client, path: str = "", *, key: Any = None, **query: Any) -> Any:
    return client.get(gear.ADDRESS + path, query, headers=bearer(key or an_operator_key()))


def ids(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [one["auth_error_id"] for one in answer.json()["auth_errors"]]


def test_aut_11_a_tenant_reads_its_own_reports_and_nothing_of_clusters(client: Client) -> None:
    key = a_key(scopes=[Scope.ERRORS_WRITE])
    mine, theirs = gear.analyzed(tenant_id=key.key.tenant_id), gear.analyzed(tenant_id="t_other")
    assert mine.cluster_id == theirs.cluster_id
    deciding.decide_auth_error(
        auth_error_id=mine.pk, decision=DecisionType.RESOLVE, by="operator:ada", reason="mended for t_other"
    )
    answer = read(client, key=key)
    assert ids(answer) == [str(mine.pk)]
    whole = read(client, f"/{mine.pk}", key=key).json()
    assert whole["status"] == "RESOLVED"
    assert whole["events"][0]["what"] == "reported"
    shown = json.dumps([answer.json(), whole])
    for secret in (str(mine.cluster_id), str(mine.stack_hash), "t_other", "operator:ada", "mended"):
        assert secret not in shown
    assert read(client, f"/{theirs.pk}", key=key).status_code == 404
    for path in ("/clusters", f"/clusters/{mine.cluster_id}"):
        assert read(client, path, key=key).status_code == 403
    refused = read(client, key=key, cluster=str(mine.cluster_id))
    assert (refused.status_code, refused.json()["reason_code"]) == (403, "SCOPE_MISSING")


def test_aut_11_an_operator_reads_all_by_each_filter(client: Client) -> None:
    first = gear.analyzed(tenant_id="t_a")
    other = gear.analyzed(tenant_id="t_b", name="Other")
    latest = gear.recorded(tenant_id="t_a", name="Other")
    everything = [str(one.pk) for one in (latest, other, first)]
    assert ids(read(client)) == everything
    assert ids(read(client, status="NEW")) == [str(latest.pk)]
    assert ids(read(client, cluster=str(other.cluster_id))) == [str(other.pk)]
    assert ids(read(client, cluster=str(uuid.uuid4()))) == []
    assert ids(read(client, **{"class": "com.acme.auth.Other"})) == [str(latest.pk), str(other.pk)]
    assert ids(read(client, since=latest.recorded_at.isoformat(timespec="milliseconds"))) == [str(latest.pk)]
    assert (
        ids(read(client, **{"class": "com.acme.auth.Other", "status": "NEW", "cluster": str(other.cluster_id)})) == []
    )
    whole = read(client, f"/{first.pk}").json()
    assert (whole["cluster_id"], whole["stack_hash"]) == (str(first.cluster_id), first.stack_hash)
    assert whole["stacktrace"] == first.stacktrace


def test_aut_11_since_is_the_databases_time_whatever_clock_made_the_id(client: Client) -> None:
    with clock_module.use_clock(FixedClock(clock_module.now() - timedelta(minutes=1))):
        late = gear.recorded(tenant_id="t_a")
    assert ids(read(client, since=late.recorded_at.isoformat())) == [str(late.pk)]
    assert ids(read(client, since=(late.recorded_at + timedelta(microseconds=1)).isoformat())) == []
    assert ids(read(client, since="1970-01-01T00:00:00Z")) == [str(late.pk)]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"status": "GONE"}, "query.status"),
        ({"since": "2026-03-01"}, "query.since"),
        ({"cluster": "x"}, "query.cluster"),
        ({"limit": 0}, "query.limit"),
        ({"limit": 201}, "query.limit"),
        ({"cursor": "x"}, "query.cursor"),
        ({"clas": "x"}, "query.clas"),
    ],
)
def test_aut_11_a_wrong_filter_is_named(client: Client, query: dict[str, Any], field: str) -> None:
    answer = read(client, **query)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


def test_aut_11_pages_follow_each_other_and_lose_none(client: Client) -> None:
    made = [str(gear.recorded().pk) for _ in range(7)]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(4):
        answer = read(client, limit=2, **cursor)
        seen += ids(answer)
        if (after := answer.json()["next_cursor"]) is None:
            break
        gear.recorded()  # a newer one moves no page
        cursor = {"cursor": after}
    assert seen == sorted(made, reverse=True)


def test_aut_11_a_cluster_is_read_with_what_is_merged_into_it(client: Client) -> None:
    errors = [gear.analyzed(name=name, tenant_id=f"t_{name.lower()}") for name in ("One", "Two", "One", "Three", "Two")]
    one, two, _, three, _ = (error.cluster_id for error in errors)
    assert one is not None
    assert two is not None
    clusters.merge_clusters(source_id=two, into_id=one, by="operator:ada")
    expected = [str(errors[place].pk) for place in (4, 2, 1, 0)]
    assert ids(read(client, cluster=str(one))) == expected
    first = read(client, cluster=str(one), limit=3)
    assert ids(first) + ids(read(client, cluster=str(one), cursor=first.json()["next_cursor"])) == expected
    page = read(client, "/clusters").json()
    assert [each["cluster_id"] for each in page["clusters"]] == [str(one), str(three)]
    found = page["clusters"][0]
    assert (found["occurrences"], found["tenants"], found["merged"]) == (4, ["t_one", "t_two"], [str(two)])
    assert (found["newest_auth_error_id"], found["status"]) == (str(errors[4].pk), "OPEN")
    assert (len(found["trend"]), found["trend"][-1]["occurrences"]) == (14, 4)
    assert found["trend"][-1]["day"] == str(errors[0].recorded_at.date())
    assert read(client, f"/clusters/{two}").json()["counts_as"] == str(one)
    walked = read(client, "/clusters", limit=1).json()
    assert [
        each["cluster_id"] for each in read(client, "/clusters", cursor=walked["next_cursor"]).json()["clusters"]
    ] == [str(three)]
    assert read(client, "/clusters", status="RESOLVED").json() == {"clusters": [], "next_cursor": None}


@pytest.mark.parametrize("path", ["/x", f"/{uuid.UUID(int=7)}", "/clusters/x", f"/clusters/{uuid.UUID(int=7)}"])
def test_aut_11_an_unknown_one_is_404(client: Client, path: str) -> None:
    assert read(client, path).status_code == 404


def test_aut_11_an_errors_life_tells_each_event_in_its_order(client: Client) -> None:
    error = gear.analyzed()
    deciding.decide_auth_error(
        auth_error_id=error.pk, decision=DecisionType.IGNORE, by="operator:ada", reason="a drill"
    )
    lines = read(client, f"/{error.pk}").json()["events"]
    assert [line["what"] for line in lines] == [
        "reported",
        "auth.error.recorded.v1 written",
        "auth.error.analysis.requested.v1 written",
        "analysed",
        "decided IGNORE",
    ]
    moments = [parse_datetime(line["at"]) for line in lines]
    assert moments == sorted(moments)  # type: ignore[type-var]
    assert (lines[-1]["by"], lines[-1]["detail"]) == ("operator:ada", "a drill")


# A million rows.

MANY = """
INSERT INTO auth_error (auth_error_id, tenant_id, dedup_key, status, occurred_at, http_status, exception_class,
                        stacktrace, frames, truncated)
SELECT ('0199c0de-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 't_' || n %% 250, 'k' || n, 'NEW', now(), 401,
       'com.acme.C' || n %% 40, 'x', '{}', false
  FROM generate_series(1, %s) AS n
"""


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(),
        Wanted(tenant_id="t_1"),
        Wanted(tenant_id="t_1", status=AuthErrorStatus.RESOLVED),
        Wanted(status=AuthErrorStatus.RESOLVED),
        Wanted(exception_class="com.acme.None"),
        Wanted(tenant_id="t_1", exception_class="com.acme.None"),
        Wanted(status=AuthErrorStatus.RESOLVED, exception_class="com.acme.C1"),
        Wanted(below=uuid.UUID("0199c0de-0000-7000-8000-000000000100"), tenant_id="t_4"),
    ],
    ids=str,
)
def test_aut_11_a_page_reads_one_range_of_an_index(wanted: Wanted) -> None:
    """Of 20,000 rows as of 10⁶: no more rows are looked at than are shown, also where none is."""
    with connection.cursor() as cursor:
        cursor.execute(MANY, [20_000])
        cursor.execute("ANALYZE auth_error")
    plans: list[Any] = []
    with connection.execute_wrapper(_explained(plans)):
        reads.error_page(wanted, limit=50)
    (plan,) = plans
    assert _looked_at(plan) <= 60, json.dumps(plan)
    assert AuthError.objects.count() == 20_000


def _explained(plans: list[Any]) -> Any:
    def wrapped(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001  Django's
        with context["connection"].connection.cursor() as raw:
            raw.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
            plans.append(raw.fetchone()[0][0]["Plan"])
        return execute(sql, params, many, context)

    return wrapped


def _looked_at(plan: dict[str, Any]) -> float:
    own = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) if "Scan" in plan["Node Type"] else 0
    return float(own) + sum(_looked_at(child) for child in plan.get("Plans", ()))
