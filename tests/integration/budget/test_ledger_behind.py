"""A Postgres that went back in time is noticed before money moves, and gone on with by an operator alone (HRD-06).

Here rows are taken out of the running Postgres; tests/proving/rollback.py restores a real older one.
"""

import io
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import psycopg
import pytest
import redis
import structlog
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection, connections, transaction

from budget import dashboard, entries, ledger, ledger_loss, metrics, services
from budget.caps import setting
from budget.ledger_loss import Loss
from budget.models import LedgerEntry, PendingCredit
from budget.outcomes import Closed, Held, Settled, Unavailable
from budget.rebuild import evidence, rebuild
from budget.rebuild.evidence import LedgerBehind, MissingCommits
from budget.rebuild.gate_watch import watch_gates
from budget.rebuild.rebuild import Rebuilt
from budget.redis import keys, scripts, view
from budget.redis.gate import GateClosed
from budget.services import Available
from budget.verification import verify
from budget.verification.verify import Verdict
from dpp_project.pages import health
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants.models import SpendCap
from tests.gear.builders.money import standing_balance
from tests.gear.builders.open_runs import RunsTable, runs_table
from tests.gear.builders.recovery import redis_through_proxy
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.proxy import Mode
from tests.gear.servers.live_processes import database_url

__all__ = ["runs_table"]
pytestmark = pytest.mark.contract("HRD-06")

FUNDS = 1_000_000


@pytest.fixture
def runs(runs_table: RunsTable, valkey: redis.Redis) -> RunsTable:
    rebuild.rebuild_all()
    return runs_table


@pytest.fixture
def tenant_id(runs: RunsTable) -> str:
    made = a_tenant().tenant_id
    top_up(made, FUNDS, "first")
    return made


def top_up(tenant_id: str, micros: int, reference: str) -> str:
    made = entries.top_up(tenant_id=tenant_id, amount_micros=micros, reference=reference, reason="", actor="test")
    assert isinstance(made, entries.Entered)
    return str(made.entry.entry_id)


def held_run(runs: RunsTable, tenant_id: str, micros: int = 250_000) -> str:
    run_id = runs.accept(tenant_id, micros)
    held = services.hold(tenant_id=tenant_id, run_id=run_id, reserved_micros=micros, created_at_ms=1)
    assert isinstance(held, Held)
    assert runs.mark_reserved(run_id)
    scripts.shared_scripts().client.lpush(keys.EVIDENCE, f"run:{run_id}")  # as the mapping of its key does
    return run_id


def settled_run(runs: RunsTable, tenant_id: str, charge: int = 50_000) -> str:
    run_id = held_run(runs, tenant_id)
    claimed = runs.claim(run_id)
    assert claimed is not None
    outcome = services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=charge)
    assert isinstance(outcome, Settled)
    assert runs.commit(claimed, taken_micros=charge)
    return run_id


def without_triggers(statement: str, *values: Any) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = 'replica'")
        cursor.execute(statement, values)


def lose_entry(runs: RunsTable, tenant_id: str) -> str:
    entry_id = top_up(tenant_id, 400_000, "lost")
    without_triggers("DELETE FROM ledger_entries WHERE entry_id = %s", entry_id)
    return f"entry:{entry_id}"


def lose_run(runs: RunsTable, tenant_id: str) -> str:
    run_id = held_run(runs, tenant_id)
    without_triggers("DELETE FROM money_test_runs WHERE run_id = %s", run_id)
    return f"run:{run_id}"


def lose_reservation(runs: RunsTable, tenant_id: str) -> str:
    run_id = held_run(runs, tenant_id)
    without_triggers("UPDATE money_test_runs SET money = 'NONE' WHERE run_id = %s", run_id)
    return f"run:{run_id}"


def lose_end(runs: RunsTable, tenant_id: str) -> str:
    run_id = settled_run(runs, tenant_id)
    without_triggers("UPDATE money_test_runs SET stage = NULL, money = 'RESERVED' WHERE run_id = %s", run_id)
    without_triggers("DELETE FROM ledger_entries WHERE run_id = %s", run_id)
    return f"end:{run_id}"


LOSSES = [lose_entry, lose_run, lose_reservation, lose_end]
Lose = Callable[[RunsTable, str], str]


def is_behind() -> bool:
    try:
        scripts.shared_scripts().gate.renewed()
    except GateClosed as closed:
        return closed.ledger_is_behind
    return False


def money_in(valkey: redis.Redis) -> dict[str, Any]:
    return {str(key): valkey.dump(key) for key in sorted(valkey.keys()) if key not in {keys.EPOCH, keys.POSTGRES}}


@pytest.mark.parametrize("lose", LOSSES, ids=lambda it: it.__name__)
@pytest.mark.parametrize("whole", [True, False], ids=["of all", "of one"])
def test_hrd_06_nothing_is_rebuilt_from_a_ledger_that_lost_entries(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis, lose: Lose, *, whole: bool
) -> None:
    lost = lose(runs, tenant_id)
    before, rows = money_in(valkey), runs.unended()
    with pytest.raises(LedgerBehind) as behind:
        rebuild.rebuild_all() if whole else rebuild.rebuild_tenant(tenant_id)
    assert behind.value.missing == (lost,)
    assert is_behind()
    assert (money_in(valkey), runs.unended()) == (before, rows)
    held = services.hold(tenant_id=tenant_id, run_id=runs.accept(tenant_id, 5), reserved_micros=5, created_at_ms=1)
    assert held == Unavailable(Closed.EPOCH)


@pytest.mark.parametrize("lose", LOSSES, ids=lambda it: it.__name__)
def test_hrd_06_the_watch_closes_the_money_and_never_opens_it(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis, lose: Lose
) -> None:
    lose(runs, tenant_id)
    before = money_in(valkey)
    for _ in range(3):
        seen = watch_gates(limit=10)
        assert (seen.found, seen.rebuilt, seen.failed) == (1, 0, 1)
        assert is_behind()
    assert money_in(valkey) == before
    assert services.balance(tenant_id=tenant_id) == Unavailable(Closed.EPOCH)
    assert verify.verify_tenant_money(tenant_id).verdict is Verdict.CLOSED


def test_hrd_06_money_opens_by_itself_when_the_right_postgres_is_back(runs: RunsTable, tenant_id: str) -> None:
    run_id = settled_run(runs, tenant_id)
    without_triggers("UPDATE money_test_runs SET stage = 'AWAY' WHERE run_id = %s", run_id)
    without_triggers("UPDATE money_test_runs SET stage = NULL WHERE run_id = %s", run_id)
    assert watch_gates(limit=10).failed == 1
    without_triggers("UPDATE money_test_runs SET stage = 'COMMITTED' WHERE run_id = %s", run_id)
    assert watch_gates(limit=10).rebuilt == 1
    assert standing_balance(tenant_id) == FUNDS - 50_000


def test_hrd_06_what_is_only_on_its_way_is_no_loss(runs: RunsTable, tenant_id: str) -> None:
    """Each kind of row at each step of its life; and a dropped row, whose refund leaves a tombstone."""
    settled_run(runs, tenant_id)
    held_run(runs, tenant_id)
    runs.claim(held_run(runs, tenant_id, 5))
    dropped = runs.accept(tenant_id, 5)
    assert runs.drop(dropped)
    services.refund(tenant_id=tenant_id, run_id=dropped)
    told = [each.partition(":")[0] for each in evidence.heard_commits(scripts.shared_scripts().client)]
    assert told == ["run", "run", "end", "run", "entry"]
    assert isinstance(rebuild.rebuild_all(), Rebuilt)
    assert isinstance(rebuild.rebuild_tenant(tenant_id), Rebuilt)
    assert watch_gates(limit=10).found == 0


def test_hrd_06_a_redis_that_is_older_asks_for_less(runs: RunsTable, tenant_id: str, valkey: redis.Redis) -> None:
    settled_run(runs, tenant_id)
    valkey.ltrim(keys.EVIDENCE, 2, -1)
    valkey.delete(keys.POSTGRES)
    assert isinstance(rebuild.rebuild_all(), Rebuilt)
    valkey.flushall()
    assert watch_gates(limit=10).rebuilt == 1
    assert standing_balance(tenant_id) == FUNDS - 50_000


def test_hrd_06_the_evidence_is_bounded(runs: RunsTable, tenant_id: str, valkey: redis.Redis) -> None:
    valkey.rpush(keys.EVIDENCE, *[f"run:{number}" for number in range(1_200)])
    newest = top_up(tenant_id, 5, "second")
    assert (valkey.llen(keys.EVIDENCE), valkey.lindex(keys.EVIDENCE, 0)) == (1_000, f"entry:{newest}")


# New connections.


def a_new_connection() -> None:
    """Of a pool: it is asked before anything else runs on it."""
    pool: Any = connections["default"]
    pool.close()
    pool.close_pool()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


@pytest.mark.parametrize("lose", LOSSES, ids=lambda it: it.__name__)
def test_hrd_06_the_first_connection_to_an_older_postgres_closes_the_money(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis, lose: Lose
) -> None:
    lose(runs, tenant_id)
    assert not is_behind()
    valkey.set(keys.POSTGRES, "2026-01-01 00:00:00+00 5432")  # the server that knew it all
    a_new_connection()
    assert is_behind()
    assert valkey.get(keys.POSTGRES) == "2026-01-01 00:00:00+00 5432"


def test_hrd_06_a_restarted_postgres_that_lost_nothing_closes_nothing(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis
) -> None:
    settled_run(runs, tenant_id)
    epoch = scripts.shared_scripts().gate.renewed()
    valkey.set(keys.POSTGRES, "another")
    a_new_connection()
    assert scripts.shared_scripts().gate.renewed() == epoch
    assert valkey.get(keys.POSTGRES) not in {None, "another"}


def test_hrd_06_a_connection_to_the_server_that_knew_all_of_it_is_asked_no_more(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis
) -> None:
    a_new_connection()
    lose_run(runs, tenant_id)
    a_new_connection()
    assert not is_behind(), "a running server cannot go back; the watch would find it all the same"
    assert watch_gates(limit=10).failed == 1


STRANGE: Final = (
    "run:7",
    "entry:",
    "end:{}",
    "",
    "refund:0197b4a5-0000-7000-8000-000000000000",
    "한글",
    "run:0197b4a5",
)


def test_hrd_06_evidence_that_cannot_be_read_keeps_no_connection_from_being_made(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis
) -> None:
    """As a later release, or a person, might leave it: it would keep every process from Postgres for good."""
    settled_run(runs, tenant_id)
    epoch = scripts.shared_scripts().gate.renewed()
    valkey.lpush(keys.EVIDENCE, *STRANGE)
    valkey.delete(keys.POSTGRES)
    with structlog.testing.capture_logs() as logs:
        a_new_connection()
    assert connection.is_usable()
    assert scripts.shared_scripts().gate.renewed() == epoch
    assert [line["count"] for line in logs if "cannot be read" in line["event"]] == [len(STRANGE)]
    assert isinstance(rebuild.rebuild_all(), Rebuilt)
    lost = lose_run(runs, tenant_id)
    valkey.delete(keys.POSTGRES)
    a_new_connection()
    assert is_behind()
    assert evidence.lost_commits(valkey) == [lost]


def test_hrd_06_a_postgres_without_our_tables_has_lost_all_of_it(runs: RunsTable, tenant_id: str) -> None:
    url = database_url().rpartition("/")[0] + "/postgres"
    with psycopg.connect(url, autocommit=True) as empty:
        scripts.shared_scripts().client.delete(keys.POSTGRES)
        evidence.ask_new_connection(empty)
    assert is_behind()


def test_hrd_06_without_redis_a_connection_is_not_refused(
    runs: RunsTable, tenant_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_arguments: object, **_more: object) -> None:
        raise redis.ConnectionError("refused")

    monkeypatch.setattr(redis.connection.AbstractConnection, "send_packed_command", away)
    a_new_connection()
    assert connection.is_usable()


@pytest.mark.parametrize("first", ["hold", "settle", "refund", "top up", "balance"])
def test_hrd_06_a_connection_opened_while_redis_was_away_is_asked_before_money_moves(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Postgres went back and Redis was cut off, both at once; the watch has not looked yet."""
    with redis_through_proxy(monkeypatch) as proxy:
        stands = held_run(runs, tenant_id)
        lose_run(runs, tenant_id)
        valkey.set(keys.POSTGRES, "another")
        with proxy.outage(Mode.REFUSE):
            a_new_connection()
        before = money_in(valkey)
        late = runs.accept(tenant_id, 5)
        asked: dict[str, Callable[[], object]] = {
            "hold": lambda: services.hold(tenant_id=tenant_id, run_id=late, reserved_micros=5, created_at_ms=1),
            "settle": lambda: services.settle(tenant_id=tenant_id, run_id=stands, charge_micros=5),
            "refund": lambda: services.refund(tenant_id=tenant_id, run_id=stands),
            "top up": lambda: top_up(tenant_id, 5, "late"),
            "balance": lambda: services.balance(tenant_id=tenant_id),
        }
        answer = asked[first]()
        assert is_behind()
        assert money_in(valkey) == before
        assert first == "top up" or answer == Unavailable(Closed.EPOCH)


def test_hrd_06_a_late_question_is_asked_until_it_is_answered_and_then_no_more(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redis_through_proxy(monkeypatch) as proxy:
        asks: list[str] = []
        real = evidence.lost_commits

        def lost_commits(client: redis.Redis) -> list[str]:
            asks.append("asked")
            if len(asks) == 2:
                raise OperationalError("Postgres is away")
            return real(client)

        monkeypatch.setattr(evidence, "lost_commits", lost_commits)
        valkey.set(keys.POSTGRES, "another")
        with proxy.outage(Mode.REFUSE):
            a_new_connection()
            assert services.balance(tenant_id=tenant_id) == Unavailable(Closed.REDIS)
        assert services.balance(tenant_id=tenant_id) == Unavailable(Closed.EPOCH)
        answers = [services.balance(tenant_id=tenant_id) for _ in range(3)]
    assert answers == [Available(FUNDS)] * 3
    assert len(asks) == 3
    assert not is_behind()


def test_hrd_06_a_question_that_cannot_be_answered_closes_the_money_to_its_process_alone(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch in such a process puts it itself, and rebuilds nothing for it."""

    def away(_client: redis.Redis) -> list[str]:
        raise OperationalError("Postgres is away")

    with redis_through_proxy(monkeypatch) as proxy:
        epoch = valkey.get(keys.EPOCH)
        valkey.set(keys.POSTGRES, "another")
        with proxy.outage(Mode.REFUSE):
            a_new_connection()
        with monkeypatch.context() as patch:
            patch.setattr(evidence, "lost_commits", away)
            assert services.balance(tenant_id=tenant_id) == Unavailable(Closed.EPOCH)
            with pytest.raises(OperationalError):
                watch_gates(limit=10)
        assert watch_gates(limit=10).found == 0
        assert services.balance(tenant_id=tenant_id) == Available(FUNDS)
        assert valkey.get(keys.EPOCH) == epoch


# What is said.


def test_hrd_06_console_readyz_and_metrics_say_what_is_missing(runs: RunsTable, tenant_id: str) -> None:
    lose_entry(runs, tenant_id)
    lose_run(runs, tenant_id)
    watch_gates(limit=10)
    what = "at least 1 runs, 0 ends of runs and 1 entries"
    gate = next(figure for figure in dashboard.money_panel().figures if figure.label == "Gate")
    assert gate.value == f"closed: Postgres went back in time, it lacks {what}; see docs/operations.md"
    found = health.probe_all()["ledger"]
    assert (found["state"], found["error"]) == (
        "down",
        "Postgres lacks 1 runs, 0 ends of runs and 1 entries that it had committed: it went back in time",
    )
    assert "ledger" in health.NEEDED
    levels = {metric.name: metric.samples[0].value for metric in metrics.collect_money() if metric.samples}
    assert (levels["dpp_ledger_behind"], levels["dpp_budget_open"]) == (1, 0)


@pytest.mark.parametrize("alone", [True, False])
def test_hrd_06_a_rebuild_by_hand_is_refused_in_words(runs: RunsTable, tenant_id: str, *, alone: bool) -> None:
    lose_entry(runs, tenant_id)
    with pytest.raises(CommandError, match=r"went back in time.*accept_ledger_loss"):
        call_command("budget_rebuild", *(("--tenant", tenant_id) if alone else ()))
    assert is_behind()


# Going on without what was lost.


def accept(**more: Any) -> Loss | Refusal:
    return ledger_loss.accept_ledger_loss(**({"actor": "operator:ada", "reason": "the primary burned"} | more))


def accepted(**more: Any) -> Loss:
    loss = accept(**more)
    assert isinstance(loss, Loss), loss
    return loss


def adjustments() -> list[tuple[str, int, str]]:
    found = LedgerEntry.objects.filter(kind="ADJUST").order_by("tenant_id")
    return list(found.values_list("tenant_id", "amount_usd_micros", "actor"))


@pytest.mark.parametrize(
    ("lose", "adjusted", "balance"),
    [
        (lose_entry, 400_000, FUNDS + 400_000),
        (lose_run, 0, FUNDS),
        (lose_reservation, 0, FUNDS),
        (lose_end, 0, FUNDS - 250_000),
    ],
    ids=lambda it: getattr(it, "__name__", str(it)),
)
def test_hrd_06_an_operator_accepts_the_loss(
    runs: RunsTable, tenant_id: str, lose: Lose, adjusted: int, balance: int
) -> None:
    lost = lose(runs, tenant_id)
    loss = accepted()
    assert loss.missing == MissingCommits.of([lost])
    assert loss.opened
    assert adjustments() == ([(tenant_id, adjusted, "operator:ada")] if adjusted else [])
    assert PendingCredit.objects.count() == 0
    assert standing_balance(tenant_id) == balance
    assert verify.verify_tenant_money(tenant_id).verdict is Verdict.PROVED
    assert watch_gates(limit=10).found == 0


@pytest.mark.contract("CAP-09")
def test_cap_09_a_cap_that_was_lost_with_the_ledger_refuses_no_more(runs: RunsTable, tenant_id: str) -> None:
    """One that is left is counted anew."""
    other = a_tenant().tenant_id
    for whose in (tenant_id, other):
        assert isinstance(
            setting.set_caps(tenant_id=whose, lineage_id=None, changes={"day": 0}, actor="test"), setting.CapsSet
        )
    lose_entry(runs, tenant_id)
    SpendCap.objects.filter(tenant_id=tenant_id).delete()
    accepted()
    seen = [view.look_at_caps(scripts.shared_scripts().client, whose) for whose in (tenant_id, other)]
    assert [it is not None for it in seen] == [False, True]


def test_hrd_06_a_charge_that_was_lost_with_its_run_stays_charged_once(runs: RunsTable, tenant_id: str) -> None:
    run_id = settled_run(runs, tenant_id)
    without_triggers("DELETE FROM money_test_runs WHERE run_id = %s", run_id)
    without_triggers("DELETE FROM ledger_entries WHERE run_id = %s", run_id)
    accepted()
    assert adjustments() == [(tenant_id, -50_000, "operator:ada")]
    assert standing_balance(tenant_id) == ledger.sums_of(tenant_id).total_micros == FUNDS - 50_000
    assert verify.verify_tenant_money(tenant_id).verdict is Verdict.PROVED


def test_hrd_06_an_end_that_was_lost_is_charged_once_when_it_comes_again(runs: RunsTable, tenant_id: str) -> None:
    run_id = lose_end(runs, tenant_id).partition(":")[2]
    accepted()
    claimed = runs.claim(run_id)
    assert claimed is not None
    again = services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=50_000)
    assert isinstance(again, Settled)
    assert runs.commit(claimed, taken_micros=again.charge_micros)
    assert standing_balance(tenant_id) == ledger.sums_of(tenant_id).total_micros == FUNDS - 50_000


def test_hrd_06_what_an_operator_entered_is_missed_if_postgres_goes_back_again(runs: RunsTable, tenant_id: str) -> None:
    stood = settled_run(runs, tenant_id)
    lose_entry(runs, tenant_id)
    accepted()
    assert watch_gates(limit=10).found == 0
    without_triggers("DELETE FROM ledger_entries WHERE kind = 'ADJUST'")
    assert watch_gates(limit=10).failed == 1
    assert accepted().missing == MissingCommits(runs=0, ends=0, entries=1)
    without_triggers("UPDATE money_test_runs SET stage = NULL, money = 'RESERVED' WHERE run_id = %s", stood)
    assert watch_gates(limit=10).failed == 1, "what stood when the loss was accepted is asked for as before"
    stands = scripts.shared_scripts().client.get(keys.balance_key(tenant_id))
    assert stands == str(FUNDS - 50_000 + 400_000)


def test_hrd_06_a_dry_run_says_it_and_changes_nothing(runs: RunsTable, tenant_id: str, valkey: redis.Redis) -> None:
    lose_entry(runs, tenant_id)
    watch_gates(limit=10)
    before = money_in(valkey)
    loss = accepted(dry_run=True)
    assert [(it.tenant_id, it.adjust_micros) for it in loss.tenants] == [(tenant_id, 400_000)]
    assert (loss.opened, adjustments(), money_in(valkey), is_behind()) == (False, [], before, True)


def test_hrd_06_where_nothing_is_missing_there_is_nothing_to_accept(runs: RunsTable, tenant_id: str) -> None:
    settled_run(runs, tenant_id)
    scripts.shared_scripts().client.incrby(keys.balance_key(tenant_id), 5)
    epoch = scripts.shared_scripts().gate.renewed()
    refusal = accept()
    assert isinstance(refusal, Refusal)
    assert refusal.reason is ReasonCode.CONFLICT
    assert (adjustments(), scripts.shared_scripts().gate.renewed()) == ([], epoch)
    lose_run(runs, tenant_id)
    unsaid = accept(reason=" ")
    assert isinstance(unsaid, Refusal)
    assert (unsaid.field, adjustments()) == ("reason", [])


class Died(BaseException):
    pass


@pytest.mark.parametrize("at", ["evidence", "rebuild"])
def test_hrd_06_an_acceptance_that_died_is_taken_up_again(
    runs: RunsTable, tenant_id: str, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    lose_entry(runs, tenant_id)
    other = a_tenant().tenant_id
    rebuild_refused = pytest.raises(LedgerBehind)
    with rebuild_refused:
        rebuild.rebuild_tenant(other)

    def die(*_arguments: object) -> None:
        raise Died

    with monkeypatch.context() as patch, suppress(Died):
        if at == "evidence":
            patch.setattr(evidence, "replace_evidence", die)
        else:
            patch.setattr(rebuild, "rebuild_all", die)
        accept()
    assert adjustments() == [(tenant_id, 400_000, "operator:ada")]
    assert is_behind()
    if at == "evidence":
        assert accepted().opened
    else:
        assert watch_gates(limit=10).rebuilt == 1
    assert adjustments() == [(tenant_id, 400_000, "operator:ada")]
    assert standing_balance(tenant_id) == FUNDS + 400_000
    assert verify.verify_tenant_money(tenant_id).verdict is Verdict.PROVED


def test_hrd_06_a_tenant_whose_balance_redis_lacks_too_stays_as_its_ledger_says(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis
) -> None:
    lose_entry(runs, tenant_id)
    valkey.delete(keys.balance_key(tenant_id))
    (tenant,) = accepted().tenants
    assert (tenant.adjust_micros, adjustments(), standing_balance(tenant_id)) == (None, [], FUNDS)


@pytest.mark.contract("HRD-04")
def test_hrd_06_a_tenant_whose_holds_cannot_be_read_stays_as_its_ledger_says(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis
) -> None:
    """What is on hold would be taken for a loss, and entered against the tenant."""
    lose_run(runs, tenant_id)
    run_id = held_run(runs, tenant_id)
    valkey.hset(keys.holds_key(tenant_id), run_id, "abc")
    (tenant,) = accepted().tenants
    assert (tenant.adjust_micros, adjustments(), standing_balance(tenant_id)) == (None, [], FUNDS - 250_000)
    assert valkey.hgetall(keys.holds_key(tenant_id)) == {run_id: "250000"}


def test_hrd_06_a_run_that_is_open_again_without_its_receipt_is_named(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis
) -> None:
    run_id = lose_end(runs, tenant_id).partition(":")[2]
    valkey.delete(keys.receipt_key(run_id))
    (tenant,) = accepted().tenants
    assert (tenant.adjust_micros, tenant.open_again) == (-50_000, (run_id,))


def test_hrd_06_the_command_says_what_it_entered(runs: RunsTable, tenant_id: str) -> None:
    lose_entry(runs, tenant_id)
    out = io.StringIO()
    call_command("accept_ledger_loss", "--by", "ada", "--reason", "drill", "--json", stdout=out)
    document = json.loads(out.getvalue())
    assert document["missing"] == {"runs": 0, "ends": 0, "entries": 1}
    assert document["tenants"] == [{"tenant_id": tenant_id, "adjust_usd_micros": 400_000, "open_again": []}]
    assert document["opened"] is True
    assert adjustments() == [(tenant_id, 400_000, "command:ada")]
