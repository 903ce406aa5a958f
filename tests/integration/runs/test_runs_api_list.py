"""`GET /v1/runs`: newest first, page by page, only the tenant's own (DPP-26)."""

import base64
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dpp_project import clock
from dpp_project.http.cursors import Cursor, CursorInvalid
from runs import run_ids
from runs.models import Run
from runs.reads import listing
from runs.reads.listing import Filters
from tenants.models import Tenant
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import RUNS, Shop, a_shop
from tests.gear.builders.tenants import a_tenant

pytestmark = pytest.mark.contract("DPP-26")


def some_runs(shop: Shop, count: int, **values: Any) -> list[Run]:
    """Straight into the table, newest last; two share each instant."""
    made = [gear.reserved(tenant_id=shop.tenant.tenant_id, **values) for _ in range(count)]
    return [gear.aged(run, created_at=1_000 - at // 2) for at, run in enumerate(made)]


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [run["run_id"] for run in response.json()["runs"]]


def walked(shop: Shop, query: str = "") -> list[list[str]]:
    pages, cursor = [], None
    while True:
        response = shop.get(f"{RUNS}?{query}" + (f"&cursor={cursor}" if cursor else ""))
        pages.append(ids(response))
        cursor = response.json()["next_cursor"]
        if cursor is None:
            return pages


def newest_first(runs: list[Run]) -> list[str]:
    return [str(run.run_id) for run in sorted(runs, key=lambda run: (run.created_at, run.run_id), reverse=True)]


def test_dpp_26_pages_hold_every_run_once_newest_first(shop: Shop) -> None:
    runs = some_runs(shop, 7)
    pages = walked(shop, "limit=3")
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [run_id for page in pages for run_id in page] == newest_first(runs)


def test_dpp_26_a_page_that_is_just_full_has_no_next(shop: Shop) -> None:
    some_runs(shop, 4)
    assert [len(page) for page in walked(shop, "limit=2")] == [2, 2]
    assert [len(page) for page in walked(shop, "limit=4")] == [4]
    assert walked(a_shop()) == [[]]


def test_dpp_26_a_run_that_comes_meanwhile_shifts_no_page(shop: Shop) -> None:
    runs = some_runs(shop, 4)
    first = shop.get(f"{RUNS}?limit=2")
    gear.reserved(tenant_id=shop.tenant.tenant_id)
    second = shop.get(f"{RUNS}?limit=2&cursor={first.json()['next_cursor']}")
    assert ids(first) + ids(second) == newest_first(runs)


def test_dpp_26_a_tenant_sees_its_own_alone(shop: Shop) -> None:
    other = a_shop()
    mine, theirs = some_runs(shop, 2), some_runs(other, 3)
    assert walked(shop) == [newest_first(mine)]
    assert walked(other) == [newest_first(theirs)]
    cursor = Cursor(theirs[-1].created_at, theirs[-1].run_id)
    assert set(ids(shop.get(f"{RUNS}?cursor={cursor}"))) <= set(newest_first(mine))


def test_dpp_26_filters_by_status_and_pack(shop: Shop) -> None:
    tenant_id = shop.tenant.tenant_id
    queued = gear.reserved(tenant_id=tenant_id)
    working = gear.working(tenant_id=tenant_id, pack_type="ocr")
    done = gear.committed(tenant_id=tenant_id)
    gear.accepted(tenant_id=tenant_id)
    tombstone = gear.expired(tenant_id=tenant_id)
    old = gear.aged(gear.committed(tenant_id=tenant_id), retention_until=1)

    def found(query: str) -> set[str]:
        return set(ids(shop.get(f"{RUNS}?{query}")))

    def these(*runs: Run) -> set[str]:
        return {str(run.run_id) for run in runs}

    assert found("") == these(queued, working, done, tombstone, old)
    assert found("status=QUEUED") == these(queued)
    assert found("status=PROCESSING&pack_type=ocr") == these(working)
    assert found("status=PROCESSING&pack_type=decision") == set()
    assert found("status=COMPLETED") == these(done)
    assert found("status=EXPIRED") == these(tombstone, old)
    assert found("pack_type=unheard_of") == set()
    expired = shop.get(f"{RUNS}?status=EXPIRED").json()["runs"]
    assert {run["status"] for run in expired} == {"EXPIRED"}


def test_dpp_26_filters_by_the_time_of_acceptance(shop: Shop) -> None:
    runs = some_runs(shop, 6)
    times = sorted({run.created_at for run in runs})
    since, until = times[1], times[2]
    query = f"created_from={_text(since)}&created_to={_text(until)}"
    assert ids(shop.get(f"{RUNS}?{query}")) == newest_first([run for run in runs if run.created_at == since])


def _text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "query.limit"),
        ("limit=101", "query.limit"),
        ("limit=ten", "query.limit"),
        ("limit=1&limit=2", "query.limit"),
        ("status=DONE", "query.status"),
        ("created_from=yesterday", "query.created_from"),
        ("created_from=2026-03-01T12:00:00", "query.created_from"),
        ("colour=blue", "query.colour"),
        ("cursor=x", "query.cursor"),
        ("cursor=!!!", "query.cursor"),
        (f"cursor={base64.urlsafe_b64encode(b'1.x').decode()}", "query.cursor"),
        ("pack_type=" + "x" * 65, "query.pack_type"),
        ("pack_type=%00", "query.pack_type"),
    ],
)
def test_dpp_26_a_wrong_query_is_422_by_field(shop: Shop, query: str, field: str) -> None:
    response = shop.get(f"{RUNS}?{query}")
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field)


def test_dpp_26_a_cursor_reads_back_as_itself() -> None:
    cursor = Cursor(clock.now(), run_ids.new_run_id())
    assert Cursor.parse(str(cursor)) == cursor
    for text in ("", "x", "=", "%", "\u00d2", "\x00", "MS54", str(cursor)[:-1], str(cursor) + "A"):
        with pytest.raises(CursorInvalid):
            Cursor.parse(text)


@pytest.mark.django_db
def test_dpp_26_a_deep_page_reads_no_more_than_a_page() -> None:
    """Of 20,000 runs a page in the middle reads its own rows by the index, not those before them."""
    tenant = a_tenant()
    _fill(tenant, 20_000)
    after = Cursor(clock.now() - timedelta(seconds=10_000), run_ids.new_run_id())
    capture: Any = CaptureQueriesContext
    with capture(connection) as queries:
        page = listing.list_runs(tenant_id=tenant.tenant_id, filters=Filters(), after=after, limit=50, now=clock.now())
    assert len(page.runs) == 50
    (query,) = queries.captured_queries
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query['sql']}")
        (plan,) = cursor.fetchone()
    assert _rows_read(plan[0]["Plan"]) <= 60


def _rows_read(node: dict[str, Any]) -> int:
    """By the scans at the leaves, those filtered away included."""
    inner = [_rows_read(child) for child in node.get("Plans", [])]
    return sum(inner) if inner else int(node["Actual Rows"] + node.get("Rows Removed by Filter", 0))


def _fill(tenant: Tenant, count: int) -> None:
    """Into a table as new: one that earlier tests filled and emptied keeps its size, and is planned by it."""
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
        cursor.execute("ANALYZE runs")
