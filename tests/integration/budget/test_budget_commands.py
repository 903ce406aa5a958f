"""The money's commands: what they print, what they change, how they end (DPP-76)."""

import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command

from budget import entries
from budget.models import LedgerEntry
from budget.rebuild import rebuild
from budget.redis import keys
from tests.gear.builders.open_runs import RunsTable, runs_table
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.rebuilders import another_at_work
from tests.gear.servers.live_processes import database_url
from tests.gear.servers.worker import ROOT

__all__ = ["runs_table"]
pytestmark = pytest.mark.contract("DPP-56", "DPP-76")


@pytest.fixture(autouse=True)
def _money(runs_table: RunsTable, valkey: redis.Redis) -> None:
    rebuild.rebuild_all()


def run(*arguments: str) -> tuple[str, str, int]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=err, no_color=True)
    except CommandError as error:
        return out.getvalue(), str(error), error.returncode
    except SystemExit as end:
        return out.getvalue(), err.getvalue(), int(str(end.code))
    return out.getvalue(), err.getvalue(), 0


def run_json(*arguments: str, code: int = 0) -> dict[str, Any]:
    out, err, ended = run(*arguments, "--json")
    assert ended == code, err
    document: dict[str, Any] = json.loads(out)
    return document


def funded(micros: int = 1_000_000) -> str:
    tenant_id = a_tenant().tenant_id
    entries.top_up(tenant_id=tenant_id, amount_micros=micros, reference="first", reason="", actor="test")
    return tenant_id


@pytest.mark.contract("DPP-57")
def test_topup_enters_once_per_reference() -> None:
    tenant_id = a_tenant().tenant_id
    asked = ("topup", tenant_id, "25.0000", "--reference", "invoice 7", "--reason", "paid")
    made = run_json(*asked)
    entry = LedgerEntry.objects.get(tenant_id=tenant_id)
    assert made == {
        "entry_id": str(entry.entry_id),
        "tenant_id": tenant_id,
        "kind": "TOPUP",
        "amount_usd_micros": 25_000_000,
        "reference": "invoice 7",
        "reason": "paid",
        "is_new": True,
        "balance_usd_micros": 25_000_000,
        "dry_run": False,
    }
    assert run_json(*asked) == made | {"is_new": False}
    assert entry.actor == "command"
    out, err, _ = run(*asked)
    assert out == f"TOPUP 25000000 micros for {tenant_id} was entered before\n"
    assert "25.0000 USD" in err


@pytest.mark.parametrize("amount", ["25", "25.00", "0.0000", "1e3", "nan"])
def test_topup_refuses_a_wrong_amount(amount: str) -> None:
    tenant_id = a_tenant().tenant_id
    document = run_json("topup", tenant_id, amount, "--reference", "x", code=1)
    assert document["error"]["field"] == "amount"
    assert not LedgerEntry.objects.exists()


def test_adjust_takes_away_with_a_reason() -> None:
    tenant_id = funded()
    asked = ("adjust", tenant_id, "--amount=-0.2500", "--reference", "ticket 7", "--reason", "by hand")
    assert run_json(*asked, "--dry-run")["balance_usd_micros"] is None
    assert LedgerEntry.objects.count() == 1
    assert run_json(*asked)["balance_usd_micros"] == 750_000
    refused = run_json("adjust", tenant_id, "--amount=-9.0000", "--reference", "t 8", "--reason", "x", code=1)
    assert refused["error"]["reason"] == "VALIDATION_FAILED"


@pytest.mark.parametrize("command", ["topup", "adjust"])
def test_an_unknown_tenant_is_refused(command: str) -> None:
    amount = ("25.0000",) if command == "topup" else ("--amount", "25.0000", "--reason", "x")
    assert run(command, "t_nobody", *amount, "--reference", "x")[2] == 1


@pytest.mark.contract("DPP-55")
def test_budget_rebuild_does_it_by_hand(valkey: redis.Redis) -> None:
    tenant_id = funded()
    valkey.flushall()
    preview = run_json("budget_rebuild", "--dry-run")
    assert (preview["balance_micros"], preview["dry_run"]) == (1_000_000, True)
    assert valkey.keys() == []
    assert run_json("budget_rebuild")["outcome"] == "rebuilt"
    assert valkey.get(keys.balance_key(tenant_id)) == "1000000"
    valkey.set(keys.balance_key(tenant_id), "3")
    one = run_json("budget_rebuild", "--tenant", tenant_id)
    assert (one["tenants"], one["balance_micros"]) == (1, 1_000_000)
    assert valkey.get(keys.balance_key(tenant_id)) == "1000000"
    assert run("budget_rebuild", "--tenant", "t_nobody")[2] == 1


@pytest.mark.contract("HRD-04")
def test_hrd_04_budget_rebuild_mends_holds_that_cannot_be_read(valkey: redis.Redis) -> None:
    tenant_id, other = funded(), funded()
    valkey.hset(keys.holds_key(tenant_id), "nobody", "abc")
    valkey.set(keys.holds_key(other), "x")
    assert run_json("budget_rebuild", "--tenant", tenant_id)["outcome"] == "rebuilt"
    assert valkey.exists(keys.holds_key(tenant_id)) == 0
    assert run_json("budget_rebuild")["outcome"] == "rebuilt"
    assert valkey.exists(keys.holds_key(other)) == 0


def test_budget_rebuild_leaves_another_alone() -> None:
    with another_at_work():
        assert run_json("budget_rebuild", code=75) == {"outcome": "busy", "dry_run": False}


@pytest.mark.contract("DPP-55")
def test_budget_rebuild_of_one_tenant_waits_while_all_money_is_closed(valkey: redis.Redis) -> None:
    tenant_id = funded()
    valkey.flushall()
    out, _, code = run("budget_rebuild", "--tenant", tenant_id)
    assert (code, "try again, or without --tenant" in out) == (75, True)
    assert valkey.keys() == [], "its gate was not closed for nothing"


def test_money_verify_proves_and_finds(valkey: redis.Redis) -> None:
    tenant_id, other = funded(), funded()
    proved = run_json("money_verify")
    assert (proved["differs"], proved["differences"], proved["drift_usd_micros"]) == (0, [], 0)
    assert proved["proved"] == proved["tenants"] >= 2
    valkey.decrby(keys.balance_key(tenant_id), 5)
    row = {
        "tenant_id": tenant_id,
        "kind": "BALANCE",
        "expected_micros": 1_000_000,
        "found_micros": 999_995,
        "run_id": None,
        "where": None,
    }
    found = run_json("money_verify", code=1)
    assert (found["differences"], found["drift_usd_micros"]) == ([row], 5)
    assert run("money_verify", "--tenant", other)[2] == 0
    out, _, code = run("money_verify", "--tenant", tenant_id)
    assert (code, out.splitlines()[-1]) == (1, f"{tenant_id}: BALANCE expected 1000000, found 999995")
    assert run("money_verify", "--tenant", "t_nobody")[2] == 1


def test_money_verify_repairs(valkey: redis.Redis) -> None:
    tenant_id = funded()
    valkey.decrby(keys.balance_key(tenant_id), 5)
    repaired = run_json("money_verify", "--repair")
    assert (repaired["differs"], len(repaired["repaired"])) == (0, 1)
    assert valkey.get(keys.balance_key(tenant_id)) == "1000000"


def test_money_verify_tells_nothing_of_closed_money(valkey: redis.Redis) -> None:
    funded()
    valkey.flushall()
    assert run_json("money_verify", code=75)["closed"] >= 1


@pytest.mark.contract("HRD-24")
@pytest.mark.django_db(transaction=True)
def test_a_person_reads_words_and_a_script_reads_lines() -> None:
    tenant_id = a_tenant().tenant_id
    environ = os.environ | {"DATABASE_URL": database_url(), "DPP_SERVICE": "command"}
    asked = [sys.executable, "manage.py", "topup", tenant_id, "1.0000", "--reference", "first"]
    for_people = subprocess.run(asked, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    assert for_people.stdout == f"TOPUP 1000000 micros for {tenant_id} entered\n"
    assert "{" not in for_people.stderr
    again = [*asked[:-1], "second", "--json"]
    for_a_script = subprocess.run(again, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    assert json.loads(for_a_script.stdout)["reference"] == "second"
    assert any(json.loads(line)["event"] == "ledger entry" for line in for_a_script.stderr.splitlines())


def test_a_dry_run_of_a_topup_does_not_say_that_it_was_entered() -> None:
    tenant_id = a_tenant().tenant_id
    out, err, code = run("topup", tenant_id, "1.0000", "--reference", "first", "--dry-run")
    assert (out, code) == (f"TOPUP 1000000 micros for {tenant_id} would be entered\n", 0)
    assert "Nothing is entered." in err
    assert not LedgerEntry.objects.filter(tenant_id=tenant_id).exists()
