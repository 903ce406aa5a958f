"""The budget as tenants read it, and top-ups as operators make them (DPP-28, DPP-57)."""

import csv
import io
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import redis
from django.db import transaction
from django.test import Client

from budget import entries, ledger, services
from budget.models import BalanceSnapshot, LedgerEntry
from budget.outcomes import Settled
from budget.rebuild import rebuild
from budget.redis import keys
from tenants.models import Tenant
from tenants.scopes import OPERATOR_TENANT_ID, Scope
from tests.gear.builders.open_runs import RunsTable, runs_table
from tests.gear.builders.tenants import a_key, a_tenant, an_operator_key, bearer
from tests.gear.faults.rivals import OnAnotherConnection

__all__ = ["runs_table"]
pytestmark = pytest.mark.contract("DPP-28")

BUDGET, ENTRIES = "/v1/budget", "/v1/budget/entries"
JANUARY = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def runs(runs_table: RunsTable, valkey: redis.Redis) -> RunsTable:
    rebuild.rebuild_all()
    return runs_table


@pytest.fixture
def tenant_id(runs: RunsTable) -> str:
    return a_tenant(poll_rate_per_minute=10_000).tenant_id


@pytest.fixture
def owner(client: Client, tenant_id: str) -> "Caller":
    return Caller(client, bearer(a_key(Tenant.objects.get(pk=tenant_id))))


@pytest.fixture
def operator(client: Client, runs: RunsTable) -> "Caller":
    return Caller(client, bearer(an_operator_key()))


class Caller:
    def __init__(self, client: Client, headers: dict[str, str]) -> None:
        self.client, self.headers = client, headers

    def get(self, path: str, *, status: int = 200, accept: str = "application/json", **query: Any) -> Any:
        response = self.client.get(path, query, headers=self.headers | {"Accept": accept})
        assert response.status_code == status, response.content
        return response

    def top_up(self, tenant_id: str, body: Any, *, key: str | None = "invoice-7", status: int = 201) -> Any:
        headers = self.headers | ({} if key is None else {"Idempotency-Key": key})
        response = self.client.post(
            f"/v1/tenants/{tenant_id}/topups", body, content_type="application/json", headers=headers
        )
        assert response.status_code == status, response.content
        return response


def top_up(tenant_id: str, micros: int, reference: str = "first") -> None:
    entries.top_up(tenant_id=tenant_id, amount_micros=micros, reference=reference, reason="", actor="test")


def charged_run(runs: RunsTable, tenant_id: str, reserved: int, charge: int) -> None:
    run_id = held_run(runs, tenant_id, reserved)
    claimed = runs.claim(run_id)
    assert claimed is not None
    assert isinstance(services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=charge), Settled)
    assert runs.commit(claimed, taken_micros=charge)


def held_run(runs: RunsTable, tenant_id: str, reserved: int) -> str:
    run_id = runs.accept(tenant_id, reserved)
    services.hold(tenant_id=tenant_id, run_id=run_id, reserved_micros=reserved, created_at_ms=1)
    runs.mark_reserved(run_id)
    return run_id


def test_dpp_28_the_budget_adds_up(runs: RunsTable, tenant_id: str, owner: Caller) -> None:
    top_up(tenant_id, 25_000_099)
    charged_run(runs, tenant_id, 250_000, 50_001)
    held_run(runs, tenant_id, 300_000)
    answer = owner.get(BUDGET)
    assert answer.json() == {
        "tenant_id": tenant_id,
        "balance_usd_micros": 24_650_098,
        "balance_usd": "24.6500",
        "held_usd_micros": 300_000,
        "held_usd": "0.3000",
        "charged_usd_micros": 50_001,
        "charged_usd": "0.0500",
        "credited_usd_micros": 25_000_099,
        "credited_usd": "25.0000",
        "zone": "UTC",
        "low_usd_micros": None,
        "low_usd": None,
        "caps": [],
    }
    assert answer.headers["X-DPP-Budget-Remaining"] == "24.6500"


def test_dpp_28_a_charge_counts_before_its_commit(runs: RunsTable, tenant_id: str, owner: Caller) -> None:
    top_up(tenant_id, 1_000_000)
    run_id = held_run(runs, tenant_id, 250_000)
    runs.claim(run_id)
    services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=7)
    body = owner.get(BUDGET).json()
    assert (body["balance_usd_micros"], body["held_usd_micros"], body["charged_usd_micros"]) == (999_993, 0, 7)


@pytest.mark.contract("DPP-55")
def test_dpp_55_a_tenant_made_a_moment_ago_has_a_budget(owner: Caller, tenant_id: str, valkey: redis.Redis) -> None:
    assert valkey.get(keys.balance_key(tenant_id)) is None, "nothing has opened it yet"
    body = owner.get(BUDGET).json()
    assert (body["balance_usd_micros"], body["held_usd_micros"], body["credited_usd_micros"]) == (0, 0, 0)
    assert valkey.get(keys.balance_key(tenant_id)) == "0"


@pytest.mark.contract("DPP-55")
def test_dpp_55_a_lost_balance_is_made_again_by_whoever_looks(
    runs: RunsTable, tenant_id: str, owner: Caller, valkey: redis.Redis
) -> None:
    top_up(tenant_id, 1_000_000)
    held_run(runs, tenant_id, 250_000)
    valkey.delete(keys.balance_key(tenant_id))
    body = owner.get(BUDGET).json()
    assert (body["balance_usd_micros"], body["held_usd_micros"], body["credited_usd_micros"]) == (
        750_000,
        250_000,
        1_000_000,
    )


@pytest.mark.contract("HRD-04")
@pytest.mark.parametrize("whole", [False, True], ids=["a word", "no hash"])
def test_hrd_04_holds_that_cannot_be_read_are_made_again_by_whoever_looks(
    runs: RunsTable, tenant_id: str, owner: Caller, valkey: redis.Redis, *, whole: bool
) -> None:
    top_up(tenant_id, 1_000_000)
    run_id, name = held_run(runs, tenant_id, 250_000), keys.holds_key(tenant_id)
    assert valkey.set(name, "x") if whole else valkey.hset(name, run_id, "abc") == 0
    body = owner.get(BUDGET).json()
    assert (body["balance_usd_micros"], body["held_usd_micros"], body["charged_usd_micros"]) == (750_000, 250_000, 0)
    assert valkey.hgetall(name) == {run_id: "250000"}


def test_dpp_55_a_closed_budget_is_no_budget_of_zero(owner: Caller, valkey: redis.Redis) -> None:
    valkey.flushall()
    answer = owner.get(BUDGET, status=503)
    assert answer.json()["reason_code"] == "BUDGET_UNAVAILABLE"
    assert answer.headers["Retry-After"] == "2"


@pytest.mark.parametrize("path", [BUDGET, ENTRIES])
def test_the_budget_needs_its_scope(runs: RunsTable, client: Client, operator: Caller, path: str) -> None:
    other_scope, nobody = Caller(client, bearer(a_key(scopes=[Scope.RUNS_READ]))), Caller(client, {})
    told = [
        caller.get(path, status=status).json()["reason_code"]
        for caller, status in ((other_scope, 403), (operator, 403), (nobody, 401))
    ]
    assert told == ["SCOPE_MISSING", "SCOPE_MISSING", "AUTH_INVALID"]


def entered(tenant_id: str, micros: int, at: datetime) -> LedgerEntry:
    kind = "TOPUP" if micros > 0 else "CHARGE"
    return LedgerEntry.objects.create(
        tenant_id=tenant_id,
        kind=kind,
        amount_usd_micros=micros,
        created_at=at,
        actor="ada",
        reference=uuid.uuid4().hex if micros > 0 else None,
        run_id=None if micros > 0 else uuid.uuid4(),
    )


@pytest.fixture
def quarter(tenant_id: str) -> list[LedgerEntry]:
    """Three months: a top-up on each first, then four charges a day apart."""
    made = []
    for month in (1, 2, 3):
        first = JANUARY.replace(month=month)
        made.append(entered(tenant_id, 1_000_000 * month, first))
        made += [entered(tenant_id, -(10_000 + day), first + timedelta(days=day)) for day in range(1, 5)]
    BalanceSnapshot.objects.create(
        tenant_id=tenant_id,
        through=JANUARY.replace(month=2),
        total_usd_micros=1_000_000 - 40_010,
        credited_usd_micros=1_000_000,
    )
    return made


def test_dpp_28_a_months_statement_adds_up(owner: Caller, quarter: list[LedgerEntry]) -> None:
    february: dict[str, Any] = {"created_from": "2026-02-01T00:00:00Z", "created_to": "2026-03-01T00:00:00Z"}
    body = owner.get(ENTRIES, **february).json()
    assert body["opening_usd_micros"] == 1_000_000 - 40_010
    assert (
        body["opening_usd_micros"] + sum(it["amount_usd_micros"] for it in body["entries"])
        == body["closing_usd_micros"]
    )
    assert body["closing_usd_micros"] == 3_000_000 - 80_020
    assert [it["entry_id"] for it in body["entries"]] == [str(it.entry_id) for it in quarter[9:4:-1]]
    assert body["next_cursor"] is None
    assert "actor" not in body["entries"][0], "who entered it is the operators' business"


def test_dpp_28_pages_fit_together(owner: Caller, quarter: list[LedgerEntry]) -> None:
    walked, cursor, opening = [], None, None
    while True:
        body = owner.get(ENTRIES, limit=4, **({} if cursor is None else {"cursor": cursor})).json()
        assert opening in {None, body["closing_usd_micros"]}
        opening = body["opening_usd_micros"]
        assert opening + sum(it["amount_usd_micros"] for it in body["entries"]) == body["closing_usd_micros"]
        walked += body["entries"]
        if (cursor := body["next_cursor"]) is None:
            break
    assert [it["entry_id"] for it in walked] == [str(it.entry_id) for it in reversed(quarter)]
    assert opening == 0
    assert walked[0]["balance_after_usd_micros"] == 6_000_000 - 120_030
    assert (walked[0]["kind"], walked[0]["amount_usd"]) == ("CHARGE", "-0.0100")


@pytest.mark.contract("HRD-08")
def test_pages_join_over_an_entry_in_flight(owner: Caller, tenant_id: str) -> None:
    """It was written before another that is seen already, and is seen after the first page was read."""
    for number in range(3):
        top_up(tenant_id, 1_000 + number, f"before {number}")
    with transaction.atomic():
        LedgerEntry.objects.create(
            tenant_id=tenant_id, kind="CHARGE", amount_usd_micros=-7, run_id=uuid.uuid4(), actor="worker"
        )

        def while_it_is_written() -> tuple[Any, str]:
            LedgerEntry.objects.create(
                tenant_id=tenant_id, kind="TOPUP", amount_usd_micros=5, reference="after", actor="ada"
            )
            page = owner.get(ENTRIES, limit=1).json()
            whole = owner.get(ENTRIES).json()
            assert [it["amount_usd_micros"] for it in whole["entries"]] == [5, 1_002, 1_001, 1_000]
            text = b"".join(owner.get(ENTRIES, accept="text/csv").streaming_content).decode()
            return page, text

        first, text = OnAnotherConnection(while_it_is_written).answer()
    assert [row["amount_usd_micros"] for row in csv.DictReader(io.StringIO(text))][1:-1] == ["1000", "1001", "1002"]
    assert [it["amount_usd_micros"] for it in first["entries"]] == [1_002]
    second = owner.get(ENTRIES, limit=1, cursor=first["next_cursor"]).json()
    assert second["closing_usd_micros"] == first["opening_usd_micros"] == 2_001
    newest = owner.get(ENTRIES, limit=2).json()
    assert [it["amount_usd_micros"] for it in newest["entries"]] == [5, -7]
    assert newest["opening_usd_micros"] == first["closing_usd_micros"] == 3_003


def test_entries_can_be_chosen_by_kind(owner: Caller, quarter: list[LedgerEntry]) -> None:
    body = owner.get(ENTRIES, kind="TOPUP", limit=2).json()
    assert [it["amount_usd_micros"] for it in body["entries"]] == [3_000_000, 2_000_000]
    assert body["entries"][1]["balance_after_usd_micros"] == 3_000_000 - 40_010
    more = owner.get(ENTRIES, kind="TOPUP", limit=2, cursor=body["next_cursor"]).json()
    assert [it["amount_usd_micros"] for it in more["entries"]] == [1_000_000]


@pytest.mark.contract("HRD-12")
def test_hrd_12_entries_of_one_kind_are_added_up_once_for_all_lines(
    owner: Caller, tenant_id: str, quarter: list[LedgerEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of charges of a busy day added that day up for each of its lines: 17 million rows."""
    at = JANUARY.replace(month=3, day=20)
    for micros in (500, -3, -4, 600, -5):
        entered(tenant_id, micros, at)
    walked, total = {}, 0
    for entry in LedgerEntry.objects.filter(tenant_id=tenant_id).order_by("created_at", "entry_id"):
        total += entry.amount_usd_micros
        walked[str(entry.entry_id)] = total
    anew: list[LedgerEntry] = []
    balance_before = ledger.balance_before

    def counted(tenant_id: str, entry: LedgerEntry) -> int:
        anew.append(entry)
        return balance_before(tenant_id, entry)

    monkeypatch.setattr(ledger, "balance_before", counted)
    for kind, lines in (("CHARGE", 15), ("TOPUP", 5)):
        anew.clear()
        shown = owner.get(ENTRIES, kind=kind, limit=200).json()["entries"]
        assert len(shown) == lines
        assert {it["entry_id"]: it["balance_after_usd_micros"] for it in shown}.items() <= walked.items()
        assert len(anew) == 2, "at the oldest line, and behind the one daily sum"


def test_an_empty_period_says_what_stands(owner: Caller, quarter: list[LedgerEntry]) -> None:
    body = owner.get(ENTRIES, created_from="2026-04-01T00:00:00Z").json()
    assert body == {
        "opening_usd_micros": 6_000_000 - 120_030,
        "closing_usd_micros": 6_000_000 - 120_030,
        "entries": [],
        "next_cursor": None,
    }


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": "0"}, "query.limit"),
        ({"limit": "201"}, "query.limit"),
        ({"cursor": "no cursor"}, "query.cursor"),
        ({"kind": "GIFT"}, "query.kind"),
        ({"created_from": "2026-01-01"}, "query.created_from"),
        ({"page": "2"}, "query.page"),
    ],
)
def test_a_wrong_query_is_named(owner: Caller, query: dict[str, str], field: str) -> None:
    body = owner.get(ENTRIES, status=422, **query).json()
    assert [error["field"] for error in body["errors"]] == [field]


def test_another_tenants_entries_are_not_there(owner: Caller, client: Client, quarter: list[LedgerEntry]) -> None:
    stranger = Caller(client, bearer(a_key()))
    assert stranger.get(ENTRIES).json()["entries"] == []


@pytest.mark.contract("HRD-21")
def test_dpp_28_the_statement_as_csv_adds_up(owner: Caller, quarter: list[LedgerEntry]) -> None:
    answer = owner.get(ENTRIES, accept="text/csv", created_from="2026-02-01T00:00:00Z")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    opening, *lines, closing = rows
    assert (opening["kind"], opening["balance_after_usd_micros"]) == ("OPENING", str(1_000_000 - 40_010))
    assert (closing["kind"], closing["balance_after_usd_micros"]) == ("CLOSING", str(6_000_000 - 120_030))
    total = sum(int(line["amount_usd_micros"]) for line in lines)
    assert int(opening["balance_after_usd_micros"]) + total == int(closing["balance_after_usd_micros"])
    assert sum(Decimal(line["amount_usd"]) for line in lines) * 1_000_000 == total
    assert [line["entry_id"] for line in lines] == [str(it.entry_id) for it in quarter[5:]]


def test_csv_gives_a_spreadsheet_no_formula(tenant_id: str, owner: Caller) -> None:
    entries.top_up(tenant_id=tenant_id, amount_micros=1, reference="=1+1", reason='-2, "x"', actor="ada")
    text = b"".join(owner.get(ENTRIES, accept="text/csv").streaming_content).decode()
    (line,) = list(csv.DictReader(io.StringIO(text)))[1:-1]
    assert (line["reference"], line["reason"]) == ("'=1+1", '\'-2, "x"')


def test_a_problem_is_a_problem_to_who_asks_for_csv_too(owner: Caller) -> None:
    answer = owner.get(ENTRIES, accept="text/csv", status=422, limit="0")
    assert answer.headers["Content-Type"] == "application/problem+json"
    owner.get(ENTRIES, accept="image/png", status=406)


# Top-ups


@pytest.mark.contract("DPP-57")
def test_dpp_57_an_operator_tops_up_once_per_key(operator: Caller, owner: Caller, tenant_id: str) -> None:
    body = {"amount_usd": "25.0000", "reason": "Invoice 7"}
    made = operator.top_up(tenant_id, body).json()
    assert (made["amount_usd_micros"], made["applied"], made["balance_usd_micros"]) == (25_000_000, True, 25_000_000)
    again = operator.top_up(tenant_id, body, status=200)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json() == made
    refused = operator.top_up(tenant_id, {"amount_usd": "25.0001"}, status=409)
    assert refused.json()["reason_code"] == "IDEMPOTENCY_CONFLICT"
    assert owner.get(BUDGET).json()["balance_usd_micros"] == 25_000_000
    entry = LedgerEntry.objects.get(tenant_id=tenant_id)
    assert (entry.reference, entry.reason) == ("invoice-7", "Invoice 7")
    assert entry.actor.startswith("key:dpp_")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "amount_usd"),
        ({"amount_usd": 25}, "amount_usd"),
        ({"amount_usd": "25"}, "amount_usd"),
        ({"amount_usd": "0.0000"}, "amount_usd"),
        ({"amount_usd": "-1.0000"}, "amount_usd"),
        ({"amount_usd": "9007199254.7410"}, "amount_usd"),
        ({"amount_usd": "1.0000", "reason": "x" * 201}, "reason"),
        ({"amount_usd": "1.0000", "reference": "x"}, "reference"),
    ],
    ids=str,
)
def test_a_wrong_top_up_is_refused_by_field(operator: Caller, tenant_id: str, body: dict[str, Any], field: str) -> None:
    problem = operator.top_up(tenant_id, body, status=422).json()
    assert [error["field"] for error in problem["errors"]] == [field]
    assert not LedgerEntry.objects.filter(tenant_id=tenant_id).exists()


@pytest.mark.parametrize("key", [None, "short", "with space in it", "x" * 65, "run:0000-0000", "ticket-1"])
def test_a_wrong_key_is_refused(operator: Caller, tenant_id: str, key: str | None) -> None:
    problem = operator.top_up(tenant_id, {"amount_usd": "1.0000"}, key=key, status=422).json()
    assert [error["field"] for error in problem["errors"]] == ["header.Idempotency-Key"]
    assert not LedgerEntry.objects.filter(tenant_id=tenant_id).exists()


def test_dpp_11_only_operators_top_up_and_never_themselves(operator: Caller, owner: Caller, tenant_id: str) -> None:
    body = {"amount_usd": "1.0000"}
    owner.top_up(tenant_id, body, status=403)
    owner.top_up("t_nobody", body, status=403)
    operator.top_up("t_nobody", body, status=404)
    operator.top_up(OPERATOR_TENANT_ID, body, status=422)
    assert not LedgerEntry.objects.exists()


def test_a_top_up_while_money_is_closed_is_entered(
    operator: Caller, owner: Caller, tenant_id: str, valkey: redis.Redis
) -> None:
    valkey.flushall()
    made = operator.top_up(tenant_id, {"amount_usd": "1.0000"}).json()
    assert (made["applied"], made["balance_usd_micros"]) == (False, None)
    rebuild.rebuild_all()
    assert owner.get(BUDGET).json()["balance_usd_micros"] == 1_000_000
