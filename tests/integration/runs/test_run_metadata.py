"""`metadata` of a run: taken with the submit in the same statement, shown, found by, kept and deleted (DPP-91)."""

import json
import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dpp_project import clock
from dpp_project.http.cursors import Cursor
from reaper import retention
from runs.claims import Accepted
from runs.models import Run, RunMetadata
from runs.reads import listing
from runs.reads.listing import Filters
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import RUNS, Shop, a_body, a_request_key, a_shop, take_balance_to
from tests.gear.builders.tenants import a_tenant

pytestmark = pytest.mark.contract("DPP-91")

WORDS = {"project": "apollo", "customer.id": "47:11", "note": "이름 = 'x'; DROP\nrow \\"}


def submitted(shop: Shop, **metadata: str) -> str:
    answer = shop.submit(a_body(metadata=metadata))
    assert answer.status_code == 202, answer.content
    return str(answer.json()["run_id"])


def found(shop: Shop, query: str) -> list[str]:
    answer = shop.get(f"{RUNS}?{query}")
    assert answer.status_code == 200, answer.content
    return [run["run_id"] for run in answer.json()["runs"]]


def rows(run_id: str) -> dict[str, str]:
    return dict(RunMetadata.objects.filter(run_id=run_id).values_list("key", "value"))


def test_dpp_91_what_was_sent_is_shown_wherever_the_run_is(shop: Shop) -> None:
    answer = shop.submit(a_body(metadata=WORDS))
    assert "metadata" not in answer.json()
    run_id = answer.json()["run_id"]
    assert shop.get(f"{RUNS}/{run_id}").json()["metadata"] == WORDS
    assert shop.get(RUNS).json()["runs"][0]["metadata"] == WORDS
    assert shop.get(f"{RUNS}?metadata[project]=apollo").json()["runs"][0]["metadata"] == WORDS
    assert shop.cancel(run_id).json()["metadata"] == WORDS
    plain = shop.submit().json()["run_id"]
    assert shop.get(f"{RUNS}/{plain}").json()["metadata"] == {}
    assert [run["metadata"] for run in shop.get(RUNS).json()["runs"]] == [{}, WORDS]


def test_dpp_91_the_limits_are_taken_whole(shop: Shop) -> None:
    widest = {f"{'k' * 38}{at:02}": "힣" * 500 for at in range(16)}
    assert rows(submitted(shop, **widest)) == widest


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({f"k{at}": "v" for at in range(17)}, "metadata"),
        ({"k" * 41: "v"}, "metadata." + "k" * 41),
        ({"": "v"}, "metadata"),
        ({"a[b]": "v"}, "metadata.a[b]"),
        ({"a b": "v"}, "metadata.a b"),
        ({"naïve": "v"}, "metadata.naïve"),
        ({"k": "v" * 501}, "metadata.k"),
        ({"k": ""}, "metadata.k"),
        ({"k": 1}, "metadata.k"),
        ({"k": None}, "metadata.k"),
        ({"k": {"l": "v"}}, "metadata.k"),
        (["k"], "metadata"),
        ("k=v", "metadata"),
        (None, "metadata"),
    ],
)
def test_dpp_91_wrong_metadata_is_422_by_field_and_changes_nothing(shop: Shop, metadata: Any, field: str) -> None:
    answer = shop.submit(a_body(metadata=metadata))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"].startswith(field)
    shop.nothing_happened()
    assert not RunMetadata.objects.exists()


def test_dpp_91_it_is_not_hashed_and_the_first_stands(shop: Shop) -> None:
    key = a_request_key()
    first = shop.submit(a_body(metadata={"project": "apollo"}), key=key)
    again = shop.submit(a_body(metadata={"project": "gemini", "try": "2"}), key=key)
    without = shop.submit(a_body(), key=key)
    assert first.content == again.content == without.content
    assert [one.headers.get("Idempotent-Replayed") for one in (first, again, without)] == [None, "true", "true"]
    assert rows(first.json()["run_id"]) == {"project": "apollo"}


def test_dpp_91_a_refused_hold_leaves_none(shop: Shop) -> None:
    take_balance_to(shop.tenant, 1)
    assert shop.submit(a_body(metadata=WORDS)).status_code == 402
    assert not RunMetadata.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_dpp_91_accept_stays_one_statement() -> None:
    tenant, capture = a_tenant(), CaptureQueriesContext(connection)
    with capture:
        run = gear.accept(tenant_id=tenant.tenant_id, metadata=WORDS)
    assert isinstance(run, Accepted)
    assert len(capture.captured_queries) == 1
    assert rows(str(run.run_id)) == WORDS


# Finding.


def test_dpp_91_runs_are_found_by_what_they_all_have(shop: Shop) -> None:
    other = a_shop()
    first = submitted(shop, project="apollo", stage="dev")
    second = submitted(shop, project="apollo", stage="prod")
    third = submitted(shop, project="gemini", stage="prod")
    submitted(other, project="apollo")
    plain = str(shop.submit().json()["run_id"])
    assert found(shop, "metadata[project]=apollo") == [second, first]
    assert found(shop, "metadata%5Bproject%5D=apollo") == [second, first]
    assert found(shop, "metadata[stage]=prod") == [third, second]
    assert found(shop, "metadata[project]=apollo&metadata[stage]=prod") == [second]
    assert found(shop, "metadata[stage]=prod&metadata[project]=apollo") == [second]
    assert found(shop, "metadata[project]=apollo&metadata[stage]=test") == []
    assert found(shop, "metadata[project]=Apollo") == []
    assert found(shop, "metadata[apollo]=project") == []
    assert found(shop, "metadata[project]=apollo&status=COMPLETED") == []
    assert found(shop, "metadata[project]=apollo&status=QUEUED&pack_type=probe") == [second, first]
    assert found(shop, "") == [plain, third, second, first]
    assert found(shop, f"metadata[note]={quote('a&b=c%')}") == []


def test_dpp_91_a_value_of_any_text_is_found(shop: Shop) -> None:
    run_id = submitted(shop, **WORDS)
    assert found(shop, f"metadata[note]={quote(WORDS['note'])}") == [run_id]
    assert found(shop, f"metadata[customer.id]={quote(WORDS['customer.id'])}") == [run_id]


def test_dpp_91_pages_of_what_is_found_hold_every_run_once(shop: Shop) -> None:
    made = [gear.reserved(tenant_id=shop.tenant.tenant_id, metadata={"p": "x"}) for _ in range(7)]
    for at, run in enumerate(made):  # two share each instant
        gear.aged(run, created_at=1_000 - at // 2)
        RunMetadata.objects.filter(run_id=run.run_id).delete()
        _tell(gear.row(run.run_id), p="x")
    pages, cursor = [], ""
    while True:
        page = shop.get(f"{RUNS}?limit=3&metadata[p]=x{cursor}").json()
        pages.append([run["run_id"] for run in page["runs"]])
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert [len(page) for page in pages] == [3, 3, 1]
    rest = sorted(Run.objects.filter(tenant=shop.tenant), key=lambda run: (run.created_at, run.run_id), reverse=True)
    assert [run_id for page in pages for run_id in page] == [str(run.run_id) for run in rest]


def test_dpp_91_a_row_whose_money_is_not_held_is_not_found(shop: Shop) -> None:
    gear.accepted(tenant_id=shop.tenant.tenant_id, metadata={"p": "x"})
    assert found(shop, "metadata[p]=x") == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("metadata=x", "query.metadata"),
        ("metadata[]=x", "query.metadata"),
        ("metadata[a]=" + "x" * 501, "query.metadata.a"),
        ("metadata[a b]=x", "query.metadata.a b"),
        ("metadata[" + "k" * 41 + "]=x", "query.metadata." + "k" * 41),
        ("metadata[a]=1&metadata[a]=2", "query.metadata[a]"),
        ("metadata[a]=1&metadata[b]=2&metadata[c]=3&metadata[d]=4", "query.metadata"),
        ("metadata[a=1", "query.metadata[a"),
        ("meta[a]=1", "query.meta[a]"),
        ("metadata=x&metadata[a]=1", "query.metadata"),
        ("metadata[a]=x%00", "query.metadata[a]"),
    ],
)
def test_dpp_91_a_wrong_filter_is_422_by_field(shop: Shop, query: str, field: str) -> None:
    answer = shop.get(f"{RUNS}?{query}")
    assert answer.status_code == 422, answer.content
    assert answer.json()["errors"][0]["field"].startswith(field)


@pytest.mark.django_db
def test_dpp_91_a_page_of_what_is_found_reads_no_more_than_a_page() -> None:
    """Of 20,000 runs with one value and 20 with another, in the middle and at the start."""
    tenant = a_tenant()
    _fill(tenant, 20_000)
    assert _rows_read(tenant, {"common": "yes"}) <= 110
    assert _rows_read(tenant, {"common": "yes"}, after=Cursor(clock.now() - timedelta(seconds=9_000), _ID)) <= 110
    assert _rows_read(tenant, {"rare": "9"}, runs=20) <= 110


_ID = uuid.UUID(int=0)


def _rows_read(tenant: Tenant, metadata: dict[str, str], *, after: Cursor | None = None, runs: int = 50) -> int:
    """By the scans that meet rows of the two tables, those filtered away included."""
    capture: Any = CaptureQueriesContext
    with capture(connection) as queries:
        page = listing.list_runs(
            tenant_id=tenant.tenant_id, filters=Filters(metadata=metadata), after=after, limit=50, now=clock.now()
        )
    assert len(page.runs) == runs
    (query,) = queries.captured_queries
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query['sql']}")
        (plan,) = cursor.fetchone()
    return sum(_of(node) for node in _nodes(plan[0]["Plan"]) if node.get("Subplan Name") is None)


def _nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [
        child for child in node.get("Plans", []) if child.get("Parent Relationship") not in ("InitPlan", "SubPlan")
    ]
    return [node, *(found for child in inner for found in _nodes(child))]


def _of(node: dict[str, Any]) -> int:
    if "Relation Name" not in node:
        return 0
    return int(node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)))


def _fill(tenant: Tenant, count: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE runs CASCADE")
        cursor.execute(
            "INSERT INTO runs (run_id, tenant_id, pack_type, status, money_state, payload_hash,"
            " reservation_max_cost_usd_micros, minimum_fee_usd_micros, retention_until, next_send_at, last_actor,"
            " created_at) SELECT gen_random_uuid(), %s, 'probe', 'QUEUED', 'RESERVED', repeat('a', 64), 250000, 5000,"
            " now() + interval '30 days', now(), 'test', now() - n * interval '1 second'"
            " FROM generate_series(1, %s) AS n",
            [tenant.tenant_id, count],
        )
        cursor.execute(
            "INSERT INTO run_metadata (run_id, tenant_id, created_at, key, value)"
            " SELECT run_id, tenant_id, created_at, 'common', 'yes' FROM runs"
        )
        cursor.execute(
            "INSERT INTO run_metadata (run_id, tenant_id, created_at, key, value)"
            " SELECT run_id, tenant_id, created_at, 'rare', (row_number() OVER () %% %s)::text FROM runs",
            [count // 20],
        )
        cursor.execute("ANALYZE runs, run_metadata")


def _tell(run: Run, **metadata: str) -> None:
    for key, value in metadata.items():
        RunMetadata.objects.create(run=run, tenant_id=run.tenant_id, created_at=run.created_at, key=key, value=value)


# Keeping.


@pytest.mark.django_db(transaction=True)
def test_dpp_91_it_stays_with_the_tombstone_and_goes_with_its_row(tenant: Tenant) -> None:
    run = recovery.past_retention(tenant)
    _tell(run, project="apollo")
    recovery.run_loop(retention.expire_runs)
    assert gear.row(run.run_id).status == "EXPIRED"
    assert rows(str(run.run_id)) == {"project": "apollo"}
    gear.aged(run, retention_until=366 * 86_400)
    recovery.run_loop(retention.expire_runs)
    assert not Run.objects.filter(run_id=run.run_id).exists()
    assert rows(str(run.run_id)) == {}


@pytest.mark.django_db(transaction=True)
def test_dpp_91_the_database_takes_no_change_and_no_other_form() -> None:
    run = gear.accepted(metadata={"project": "apollo"})
    for change in ({"value": "gemini"}, {"key": "other"}, {"tenant_id": a_tenant().tenant_id}):
        with pytest.raises(IntegrityError, match="run_metadata_is_written_once"), transaction.atomic():
            RunMetadata.objects.filter(run_id=run.run_id).update(**change)
    for key, value in (("", "v"), ("a b", "v"), ("k" * 41, "v"), ("k", ""), ("k", "v" * 501)):
        with pytest.raises(IntegrityError, match="run_metadata_"), transaction.atomic():
            _tell(run, **{key: value})
    with pytest.raises(IntegrityError), transaction.atomic():
        _tell(run, project="again")
    assert rows(str(run.run_id)) == {"project": "apollo"}


# The console.


def test_dpp_91_an_operator_finds_runs_by_it_and_reads_it(shop: Shop, console: Client) -> None:
    other = a_shop()
    mine, theirs = submitted(shop, project="apollo 11"), submitted(other, project="apollo 11")
    plain = str(shop.submit().json()["run_id"])

    def listed(term: str) -> set[str]:
        page = console.get(f"/admin/runs/run/?q={quote(term)}").content.decode()
        return {run_id for run_id in (mine, theirs, plain) if run_id in page}

    assert listed("project=apollo 11") == {mine, theirs}
    assert listed(f"{shop.tenant.tenant_id} project=apollo 11") == {mine}
    assert listed("project=apollo") == set()
    page = console.get(f"/admin/runs/run/{mine}/change/").content.decode()
    assert "apollo 11" in page


def test_dpp_91_a_page_shows_it_as_text(shop: Shop, console: Client) -> None:
    run_id = submitted(shop, evil="<script>alert(1)</script>")
    page = console.get(f"/admin/runs/run/{run_id}/change/").content.decode()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page


def test_dpp_91_no_log_line_carries_it(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    submitted(shop, secret="canary-of-metadata")
    assert "canary-of-metadata" not in json.dumps([record.getMessage() for record in caplog.records])
