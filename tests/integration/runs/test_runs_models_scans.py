"""What each recovery loop finds, and that finding it stays cheap: the plans at 100,000 rows."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from pytest_django.plugin import DjangoDbBlocker

from dpp_project import clock
from dpp_project.reasons import ReasonCode
from runs import transitions
from runs.intents import Intent
from runs.models import Run
from runs.reads import for_recovery, for_tenant, listing
from runs.reads.for_budget import OpenRunsOfTheTable
from runs.reads.listing import Filters
from runs.states import Status
from tests.gear.builders import runs as gear

Scan = Callable[[], QuerySet[Run]]

SCANS: dict[str, Scan] = {
    "idx_runs_status_lease": for_recovery.lease_expired,
    "idx_runs_queued": for_recovery.never_started,
    "idx_runs_unheld": for_recovery.abandoned_runs,
    "idx_runs_claimed": for_recovery.claimed_too_long,
    "idx_runs_unsent": for_recovery.send_due,
    "idx_runs_retained": for_recovery.past_retention,
    "idx_runs_tombstones": for_recovery.old_tombstones,
}
DAY = 86_400

# What a scan must find, and its neighbours that it must not.
FOUND: dict[str, tuple[Callable[[], Run], dict[str, int]]] = {
    "idx_runs_status_lease": (gear.working, {"lease_expires_at": 1}),
    "idx_runs_queued": (gear.reserved, {"created_at": 3_601, "next_send_at": -60}),
    "idx_runs_unheld": (gear.accepted, {"updated_at": 61}),
    "idx_runs_claimed": (gear.claimed, {"finalize_claimed_at": 301}),
    "idx_runs_unsent": (gear.reserved, {"next_send_at": 1}),
    "idx_runs_retained": (gear.committed, {"retention_until": 1}),
    "idx_runs_tombstones": (gear.expired, {"retention_until": 365 * DAY + 60}),
}


@pytest.mark.django_db
def test_runs_models_each_scan_finds_its_own_and_nobody_elses() -> None:
    expected = {}
    for name, (make, ages) in FOUND.items():
        expected[name] = gear.aged(make(), **ages).run_id
    for make in (gear.accepted, gear.reserved, gear.working, gear.claimed, gear.committed, gear.disputed, gear.expired):
        make()
    found = {name: [run.run_id for run in scan()] for name, scan in SCANS.items()}
    assert found == {name: [run_id] for name, run_id in expected.items()}


@pytest.mark.django_db
def test_runs_models_a_dead_lettered_run_is_not_due_for_sending() -> None:
    run = gear.aged(gear.reserved(), next_send_at=1)
    gear.won(transitions.mark_dead_lettered(run_id=run.run_id))
    assert not for_recovery.send_due().exists()


@pytest.mark.django_db
def test_runs_models_a_scan_takes_the_oldest_first() -> None:
    ages = [300, 900, 600]
    runs = [gear.aged(gear.working(), lease_expires_at=age) for age in ages]
    assert [run.run_id for run in for_recovery.lease_expired()] == [runs[1].run_id, runs[2].run_id, runs[0].run_id]


@pytest.mark.django_db
def test_dpp_22_a_tenant_reads_its_own_runs_once_their_money_is_held() -> None:
    run, other, unheld = gear.reserved(), gear.reserved(), gear.accepted()
    assert [found.run_id for found in for_tenant.visible_to(run.tenant_id)] == [run.run_id]
    assert for_tenant.run_of_tenant(run.tenant_id, run.run_id) == run
    assert for_tenant.run_of_tenant(run.tenant_id, other.run_id) is None
    assert for_tenant.run_of_tenant(unheld.tenant_id, unheld.run_id) is None
    assert for_tenant.of_key(unheld.tenant_id, unheld.idempotency_key or "") == unheld
    assert for_tenant.of_key(run.tenant_id, unheld.idempotency_key or "") is None


class Explaining:
    """Keeps the plan of each query that passes."""

    def __init__(self) -> None:
        self.plans: list[str] = []

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001  Django's
        with connection.connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}", params)
            self.plans.append("\n".join(line for (line,) in cursor.fetchall()))
        return execute(sql, params, many, context)


RUN = uuid.UUID(int=7)
SEEN = Run(run_id=RUN, tenant_id="t", version=2)
INTENT = Intent.full_refund(reason=ReasonCode.SUBMIT_ABANDONED)
BY_KEY: dict[str, Callable[[], object]] = {
    "reserve": lambda: transitions.reserve(run_id=RUN, version=0, actor="a"),
    "resume": lambda: transitions.resume(run_id=RUN, version=0, actor="a"),
    "start": lambda: transitions.start(run_id=RUN, version=1, lease_token="l", actor="a"),
    "claim_worked": lambda: transitions.claim_worked(run=SEEN, lease_token="l", token="t", intent=INTENT, actor="a"),
    "claim_unsent": lambda: transitions.claim_unsent(run=SEEN, intent=INTENT, actor="a"),
    "claim_canceled": lambda: transitions.claim_canceled(run=SEEN, intent=INTENT, actor="a"),
    "retake": lambda: transitions.retake(run=SEEN, actor="a"),
    "dispute": lambda: transitions.dispute(run_id=RUN, version=4, actor="a"),
}


@pytest.mark.django_db
@pytest.mark.parametrize("edge", BY_KEY)
def test_runs_models_an_edge_finds_its_row_by_its_key_whatever_postgres_believes(edge: str) -> None:
    """Statistics of an empty table: every index looks as good as the key, and thousands may be queued by now.

    It stands before all that wants `many`, which stays to the end of the module.
    """
    assert not Run.objects.exists()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE runs")
        cursor.execute("SET LOCAL enable_seqscan = off")  # a table without a page is read whole
    explaining = Explaining()
    with connection.execute_wrapper(explaining):
        BY_KEY[edge]()
    (plan,) = explaining.plans
    assert "Index Scan using runs_pkey on runs" in plan, plan
    assert plan.count("Scan") == 1, plan


# Plans


FILL = """
INSERT INTO runs (run_id, tenant_id, pack_type, status, money_state, finalize_stage, payload_hash, version,
                  reservation_max_cost_usd_micros, minimum_fee_usd_micros, actual_cost_usd_micros, retention_until,
                  lease_token, lease_expires_at, finalize_token, finalize_claimed_at, intent_status,
                  intent_money_state, intent_charge_usd_micros, result_bucket, result_key, result_sha256,
                  next_send_at, last_actor, created_at, updated_at)
SELECT gen_random_uuid(), 't_' || n %% 100, 'decision',
       CASE kind WHEN 0 THEN 'QUEUED' WHEN 1 THEN 'QUEUED' WHEN 2 THEN 'PROCESSING' WHEN 3 THEN 'PROCESSING'
                 WHEN 4 THEN 'EXPIRED' ELSE 'COMPLETED' END,
       CASE kind WHEN 0 THEN 'NONE' WHEN 1 THEN 'RESERVED' WHEN 2 THEN 'RESERVED' WHEN 3 THEN 'RESERVED'
                 ELSE 'SETTLED' END,
       CASE WHEN kind <= 2 THEN NULL WHEN kind = 3 THEN 'CLAIMED' ELSE 'COMMITTED' END,
       repeat('a', 64), 4, 250000, 5000, CASE WHEN kind > 3 THEN 50000 END,
       now() + (n %% 30 - CASE WHEN kind = 4 THEN 380 ELSE 15 END) * interval '1 day',
       'lease', now() + (n %% 120 - 60) * interval '1 second',
       CASE WHEN kind > 2 THEN 'token' END, CASE WHEN kind > 2 THEN now() - n %% 600 * interval '1 second' END,
       CASE WHEN kind > 2 THEN 'COMPLETED' END, CASE WHEN kind > 2 THEN 'SETTLED' END,
       CASE WHEN kind > 2 THEN 50000 END,
       CASE WHEN kind > 2 AND kind <> 4 THEN 'b' END, CASE WHEN kind > 2 AND kind <> 4 THEN 'k' END,
       CASE WHEN kind > 2 AND kind <> 4 THEN 's' END,
       now() + (n %% 150 - 75) * interval '1 second', 'test', created_at, created_at
  FROM (SELECT n, CASE WHEN n %% 100 < 5 THEN n %% 100 ELSE 9 END AS kind,
               now() - n * interval '26 seconds' AS created_at
          FROM generate_series(1, %s) AS n) AS made
"""


AS_NEW = "TRUNCATE runs, run_inputs, run_disputes, run_history, tenants CASCADE"


@pytest.fixture(scope="module")
def many(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """100,000 rows, a month of them, one in a hundred in each open state, half of those due; analysed."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # neither triggers nor foreign keys
        cursor.execute(AS_NEW)  # the planner takes a table that was emptied row by row for one that stays empty
        cursor.execute(
            "INSERT INTO tenants (tenant_id, display_name) SELECT 't_' || n, 'n' FROM generate_series(0, 99) n"
        )
        cursor.execute(FILL, [100_000])
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("ANALYZE runs")
        yield
        cursor.execute("SET session_replication_role = replica")  # the ledger's trigger refuses it
        cursor.execute(AS_NEW)
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("INSERT INTO tenants (tenant_id, display_name) VALUES ('t_operator', 'Operator')")


@pytest.fixture(scope="module")
def newcomers_run(many: None, django_db_blocker: DjangoDbBlocker) -> uuid.UUID:
    """One of 20,000 that came since the last ANALYZE, of a tenant it never saw: to the planner a tenant of none."""
    columns = ", ".join(field.attname for field in Run._meta.concrete_fields[2:])
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            f"INSERT INTO runs (run_id, tenant_id, {columns})"  # noqa: S608  the model's own names
            f" SELECT gen_random_uuid(), 't_new', {columns} FROM runs"
            " WHERE money_state = 'SETTLED' LIMIT 20000 RETURNING run_id"
        )
        found: uuid.UUID = cursor.fetchone()[0]
        cursor.execute("SET session_replication_role = origin")
    return found


@pytest.mark.usefixtures("many")
@pytest.mark.django_db
@pytest.mark.parametrize("index", SCANS)
def test_runs_models_each_scan_reads_its_own_partial_index(index: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_bitmapscan = off")  # which fits as long as the planner sees only a few due
    found = SCANS[index]()[:100].explain()
    assert f"using {index} " in found
    assert "Sort" not in found


@pytest.mark.usefixtures("many")
@pytest.mark.django_db
def test_runs_models_a_scan_touches_only_what_waits() -> None:
    """Of 100,000 rows 1,000 are claimed and 500 of them late: a handful of pages gives the ten that are latest."""
    found = for_recovery.claimed_too_long()[:10].explain(analyze=True, buffers=True)
    touched = sum(int(part) for part in found.split("shared hit=")[1].split("\n")[0].split()[:1])
    assert touched < 50, found


@pytest.mark.usefixtures("many")
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("index", "query"),
    [
        ("idx_runs_tenant_created", lambda: for_tenant.visible_to("t_7").order_by("-created_at")[:20]),
        ("idx_runs_idem", lambda: Run.objects.filter(tenant_id="t_7", idempotency_key="k")),
    ],
)
def test_runs_models_what_tenants_read_stays_flat(index: str, query: Scan) -> None:
    found = query().explain()
    assert any(name in found for name in index.split("|")), found
    assert "Seq Scan" not in found


PAGES: dict[str, dict[str, Any]] = {
    "all": {},
    "one state": {"status": Status.COMPLETED},
    "a range": {"created_from": datetime(2020, 1, 1, tzinfo=UTC), "created_to": datetime(2100, 1, 1, tzinfo=UTC)},
}


@pytest.mark.usefixtures("newcomers_run")
@pytest.mark.django_db
@pytest.mark.parametrize("tenant_id", ["t_7", "t_new"])
@pytest.mark.parametrize("page", PAGES)
def test_runs_models_a_page_is_read_by_the_index_that_has_its_order(page: str, tenant_id: str) -> None:
    """Also of a tenant that came since the last ANALYZE: only a few runs of one instant are sorted."""
    explaining = Explaining()
    with connection.execute_wrapper(explaining):
        listing.list_runs(tenant_id=tenant_id, filters=Filters(**PAGES[page]), after=None, limit=50, now=clock.now())
    [found] = explaining.plans
    assert "Index Scan using idx_runs_tenant_created " in found, found
    assert "->  Sort" not in found, found


@pytest.mark.usefixtures("newcomers_run")
@pytest.mark.django_db
@pytest.mark.parametrize("tenant_id", ["t_7", "t_new"])
def test_runs_models_a_page_of_one_pack_reads_no_run_of_another(tenant_id: str) -> None:
    explaining = Explaining()
    with connection.execute_wrapper(explaining):
        filters = Filters(pack_type="eval")
        listing.list_runs(tenant_id=tenant_id, filters=filters, after=None, limit=50, now=clock.now())
    ended, going_on = explaining.plans
    assert " idx_runs_pack_ended " in ended, ended
    assert " idx_runs_open_money " in going_on, going_on


@pytest.mark.usefixtures("many")
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("indexes", "query"),
    [
        ({"idx_runs_pack_ended", "idx_runs_open_money"}, lambda: Run.objects.filter(listing.of_pack("eval"))),
        ({"idx_runs_reason"}, lambda: Run.objects.filter(last_error_reason_code="RESULT_LOST")),
    ],
    ids=["pack", "reason"],
)
def test_runs_models_what_operators_seldom_find_is_read_by_its_index(indexes: set[str], query: Scan) -> None:
    page = query().order_by("-run_id")[:50]
    found = page.explain()
    assert all(f" {index} " in found for index in indexes), found
    assert "Seq Scan" not in found


@pytest.mark.django_db
def test_runs_models_what_an_index_is_chosen_by_is_no_parameter() -> None:
    """Statements are prepared: a plan for any parameters can prove no index's condition, and thinks no pack rare."""
    sql, params = Run.objects.filter(listing.of_pack("100%'s")).query.sql_with_params()
    assert params == ()
    assert "'COMMITTED'" in sql
    assert list(Run.objects.filter(listing.of_pack("100%'s"))) == []


# What a poll, a cancel and a retry read of one run.
READS: dict[str, tuple[set[str], Callable[[uuid.UUID], Run | None]]] = {
    "poll": ({"runs_pkey"}, lambda run_id: for_tenant.run_of_tenant_with_inputs("t_new", run_id)),
    "cancel": ({"runs_pkey"}, lambda run_id: for_tenant.run_of_tenant("t_new", run_id)),
    "replay": (
        {"runs_pkey", "idx_runs_idem"},
        lambda run_id: for_tenant.of_key("t_new", "some-key", run_id=run_id),
    ),
    "replay by the key alone": (
        {"idx_runs_idem"},
        lambda _run_id: for_tenant.of_key("t_new", "some-key"),
    ),
}


@pytest.mark.django_db
@pytest.mark.parametrize("read", READS)
def test_runs_models_one_run_of_a_tenant_whom_the_figures_do_not_know_is_read_by_its_key(
    read: str, newcomers_run: uuid.UUID
) -> None:
    explaining = Explaining()
    indexes, query = READS[read]
    with connection.execute_wrapper(explaining):
        query(newcomers_run)
    [found] = explaining.plans
    assert any(f" {index} " in found for index in indexes), found
    assert "idx_runs_tenant_created" not in found
    assert "Seq Scan on runs" not in found  # of what was sent there may be no page to read


@pytest.mark.usefixtures("many")
@pytest.mark.django_db
def test_runs_models_the_open_money_is_read_by_its_index() -> None:
    explaining = Explaining()
    with connection.execute_wrapper(explaining):
        assert len(list(OpenRunsOfTheTable().open(tenant_id="t_1"))) == 1_000
        assert len(list(OpenRunsOfTheTable().open(tenant_id=None))) == 4_000
    assert len(explaining.plans) == 2
    for found in explaining.plans:
        assert "idx_runs_open_money" in found
        assert "Seq Scan" not in found
