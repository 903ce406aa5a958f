"""The console's pages of auth errors: none, one and many rows; decisions in two clicks; what came back is marked."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ops.auth_errors import bulk
from ops.auth_errors.admin import trend_bars
from ops.auth_errors.models import AuthError, Cluster, DecisionRule, ErrorDecision
from ops.auth_errors.states import DecisionType
from tests.gear.builders import auth_errors as gear
from tests.gear.builders.console import page

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("AUT-11")]

CLUSTERS = "/admin/auth_errors/cluster/"
ERRORS = "/admin/auth_errors/autherror/"
RULES = "/admin/auth_errors/decisionrule/"


def test_aut_11_pages_without_a_row_are_pages(console: Client) -> None:
    for path in (CLUSTERS, ERRORS, RULES, f"{RULES}add/", "/admin/"):
        assert page(console, path)


def test_aut_11_a_cluster_shows_its_figures(console: Client) -> None:
    for tenant in ("t_a", "t_b", "t_c", "t_d"):
        error = gear.analyzed(tenant_id=tenant)
    shown = page(console, CLUSTERS)
    for text in (
        "com.acme.auth.TokenExpired",
        "com.acme.auth.Tokens.verify",
        "t_a, t_b, t_c and 1 more",
        str(error.pk),
    ):
        assert text in shown
    assert "·············█" in shown
    alone = page(console, f"{CLUSTERS}{error.cluster_id}/change/")
    for text in (error.stacktrace.splitlines()[1].strip(), str(error.stack_hash), "t_a, t_b, t_c and 1 more"):
        assert text in alone


def test_aut_11_many_clusters_cost_as_many_questions_as_one(console: Client) -> None:
    def questions() -> int:
        with CaptureQueriesContext(connection) as seen:
            page(console, CLUSTERS)
        return len(seen)

    gear.analyzed(name="First")
    page(console, CLUSTERS)
    one = questions()
    for number in range(12):
        gear.analyzed(name=f"Name{number}")
    assert questions() <= one


def test_aut_11_two_clicks_decide_a_cluster(console: Client) -> None:
    errors = [gear.analyzed(), gear.analyzed()]
    path = f"{CLUSTERS}{errors[0].cluster_id}/"
    assert f"{path}resolve/" in page(console, f"{path}change/")
    asked = page(console, f"{path}resolve/")
    assert "all open errors" in asked
    assert {gear.row(one.pk).status for one in errors} == {"ANALYSIS_COMPLETED"}
    assert console.post(f"{path}resolve/", {"reason": "released"}).status_code == 302
    assert {gear.row(one.pk).status for one in errors} == {"RESOLVED"}
    assert set(ErrorDecision.objects.values_list("by", "reason")) == {("operator:ada", "released")}
    gear.analyzed()
    assert "REGRESSED" in page(console, CLUSTERS)
    assert "REGRESSED" in page(console, f"{path}change/")


def test_aut_11_an_errors_page_shows_every_event_of_its_life(console: Client) -> None:
    error = gear.analyzed(exceptionMessage="<script>alert(1)</script>")
    assert f"{ERRORS}{error.pk}/ignore/" in page(console, f"{ERRORS}{error.pk}/change/")
    assert console.post(f"{ERRORS}{error.pk}/ignore/", {"reason": "a drill"}).status_code == 302
    shown = page(console, f"{ERRORS}{error.pk}/change/")
    for text in (
        *("reported", "auth.error.recorded.v1 written", "auth.error.analysis.requested.v1 written", "analysed"),
        *("decided IGNORE", "a drill", "operator:ada", "&lt;script&gt;"),
    ):
        assert text in shown
    assert "<script>alert" not in shown
    assert f"{ERRORS}{error.pk}/ignore/" not in shown
    assert str(error.pk) in page(console, f"{ERRORS}?q={error.dedup_key}")


def test_aut_11_a_merged_cluster_leaves_the_list_and_is_found_by_its_id(console: Client) -> None:
    one, other = gear.analyzed(name="One"), gear.analyzed(name="Other")
    path = f"{CLUSTERS}{one.cluster_id}/"
    assert console.post(f"{path}merge/", {"into": "x"}).status_code == 200
    assert console.post(f"{path}merge/", {"into": str(other.cluster_id)}).status_code == 302
    assert "com.acme.auth.One<" not in page(console, CLUSTERS)
    assert "MERGED" in page(console, f"{CLUSTERS}?q={one.cluster_id}")
    shown = page(console, f"{path}change/")
    assert (f"{path}unmerge/" in shown, f"{path}resolve/" in shown) == (True, False)
    assert console.post(f"{path}unmerge/").status_code == 302
    assert "com.acme.auth.One<" in page(console, CLUSTERS)


def test_aut_11_a_wrong_rule_is_told_beside_its_field(console: Client) -> None:
    wrong = {"name": "bots", "decision": "IGNORE", "path_prefix": "login"}
    answer = console.post(f"{RULES}add/", wrong)
    assert (answer.status_code, "a path begins with /" in answer.content.decode()) == (200, True)
    assert "RETRY" not in page(console, f"{RULES}add/")
    assert not DecisionRule.objects.exists()
    assert console.post(f"{RULES}add/", wrong | {"path_prefix": "/login"}).status_code == 302
    rule = DecisionRule.objects.get()
    assert (rule.created_by, rule.path_prefix) == ("operator:ada", "/login")
    assert f"{RULES}{rule.pk}/end/" in page(console, f"{RULES}{rule.pk}/change/")
    assert console.post(f"{RULES}{rule.pk}/end/").status_code == 302
    assert f"{RULES}{rule.pk}/end/" not in page(console, f"{RULES}{rule.pk}/change/")


NOTHING = ["x/change/", "x/resolve/", "00000000-0000-0000-0000-000000000007/resolve/", "%C2%B2/change/"]


@pytest.mark.parametrize("path", NOTHING)
def test_aut_11_an_address_of_nothing_is_no_fault_of_the_server(console: Client, path: str) -> None:
    for place in (CLUSTERS, ERRORS, RULES):
        assert console.get(place + path).status_code in {302, 404}


def test_aut_11_nothing_is_changed_or_deleted_by_hand(console: Client) -> None:
    error = gear.analyzed()
    for path in (f"{ERRORS}{error.pk}/", f"{CLUSTERS}{error.cluster_id}/"):
        assert console.post(f"{path}change/", {"status": "RESOLVED"}).status_code == 403
        assert console.post(f"{path}delete/").status_code == 403
    assert (AuthError.objects.count(), Cluster.objects.count()) == (1, 1)


def test_aut_11_the_first_page_counts_what_came_back(console: Client) -> None:
    error = gear.analyzed()
    assert error.cluster_id is not None
    bulk.decide_cluster(cluster_id=error.cluster_id, decision=DecisionType.RESOLVE, by="operator:ada")
    gear.analyzed()
    shown = page(console, "/admin/")
    assert "Open faults" in shown
    assert "Came back" in shown


@pytest.mark.parametrize(
    ("counts", "shown"), [([0, 0], "··"), ([1, 8], "▁█"), ([3], "█"), ([], ""), ([1, 1_000_000], "▁█")]
)
def test_a_trend_is_a_line_of_bars(counts: Any, shown: str) -> None:
    assert trend_bars(counts) == shown
