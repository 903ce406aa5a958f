"""Entries, daily sums and committed runs compared row by row, in turns, and every way of disagreeing found."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from django.db import DatabaseError, IntegrityError, connection, transaction

from budget import daily_snapshots, entries, ledger, services
from budget.models import BalanceSnapshot, LedgerEntry
from budget.rebuild import rebuild
from budget.redis import keys
from budget.usage import ranges, reading
from budget.verification import ledger_audit, verify, verify_pass
from budget.verification.days_audit import DaysWalk
from budget.verification.ledger_audit import AuditPlace
from budget.verification.verify import Difference, DifferenceKind, Verdict
from dpp_project import clock
from dpp_project.jobs import registry, runner
from dpp_project.jobs.models import JobReport
from dpp_project.observe import metrics
from tests.gear.builders.open_runs import RunsTable, runs_table
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.rivals import OnAnotherConnection
from tests.gear.waiting import wait_until

__all__ = ["runs_table"]
pytestmark = pytest.mark.contract("HRD-07")

DAY = datetime(2026, 3, 1, tzinfo=UTC)
JOB = registry.job_named(verify_pass.JOB)


@pytest.fixture(autouse=True)
def _chunks_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_audit, "CHUNK", 3)


@pytest.fixture
def runs(runs_table: RunsTable, valkey: redis.Redis) -> RunsTable:
    with transaction.atomic(), connection.cursor() as cursor:  # the migrations' own, where no test has taken it away
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("DELETE FROM tenants")
    rebuild.rebuild_all()
    return runs_table


@pytest.fixture
def tenant_id(runs: RunsTable) -> str:
    return funded()


def funded() -> str:
    made = a_tenant().tenant_id
    entries.top_up(tenant_id=made, amount_micros=1_000_000, reference="first", reason="", actor="test")
    return made


def ended_run(runs: RunsTable, tenant_id: str, *, taken: int = 1_000, due: int | None = None) -> str:
    run_id = runs.accept(tenant_id, 10_000)
    services.hold(tenant_id=tenant_id, run_id=run_id, reserved_micros=10_000, created_at_ms=1)
    runs.mark_reserved(run_id)
    claimed = runs.claim(run_id)
    assert claimed is not None
    services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=taken)
    assert runs.commit(claimed, taken_micros=taken, due_micros=due)
    return run_id


def dated(tenant_id: str, micros: int, at: datetime) -> LedgerEntry:
    """A top-up or, below zero, a charge of a run that the platform no longer keeps."""
    kind = LedgerEntry.Kind.TOPUP if micros > 0 else LedgerEntry.Kind.CHARGE
    of_kind: dict[str, Any] = {"reference": uuid.uuid4().hex} if micros > 0 else {"run_id": uuid.uuid4()}
    return LedgerEntry.objects.create(
        tenant_id=tenant_id, kind=kind, amount_usd_micros=micros, actor="test", created_at=at, **of_kind
    )


def unguarded(statement: str, *values: Any) -> None:
    """As someone with the database's own password would."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, list(values))
        assert cursor.rowcount == 1


def audited(tenant_id: str) -> list[Difference]:
    return [found for chunk in ledger_audit.audit_ledger(tenant_id) for found in chunk.differences]


def test_what_the_platform_writes_agrees(runs: RunsTable, tenant_id: str) -> None:
    for number in range(7):
        ended_run(runs, tenant_id, taken=number * 100)
    ended_run(runs, tenant_id, taken=5_000, due=4_000)
    assert audited(tenant_id) == []
    chunks = list(ledger_audit.audit_ledger(tenant_id))
    assert [chunk.rows for chunk in chunks] == [3, 3, 3, 0, 3, 3, 2], "9 entries, then 8 runs"


def test_a_run_without_its_charge_is_found(runs: RunsTable, tenant_id: str) -> None:
    """Balance and ledger agree about it: the law alone proves a tenant that was not charged."""
    _, run_id, _ = (ended_run(runs, tenant_id) for _ in range(3))
    unguarded("DELETE FROM ledger_entries WHERE run_id = %s", run_id)
    rebuild.rebuild_tenant(tenant_id)
    assert verify.verify_tenant_money(tenant_id).verdict is Verdict.PROVED
    assert audited(tenant_id) == [Difference(DifferenceKind.RUN_OF_ANOTHER_CHARGE, 1_000, 0, run_id)]


def test_a_charge_of_another_amount_is_found(runs: RunsTable, tenant_id: str) -> None:
    run_id = ended_run(runs, tenant_id)
    unguarded("UPDATE ledger_entries SET amount_usd_micros = -1001 WHERE run_id = %s", run_id)
    assert audited(tenant_id) == [Difference(DifferenceKind.RUN_OF_ANOTHER_CHARGE, 1_000, 1_001, run_id)]


def test_what_was_taken_too_much_and_not_given_back_is_found(runs: RunsTable, tenant_id: str) -> None:
    run_id = ended_run(runs, tenant_id, taken=5_000, due=4_000)
    unguarded("DELETE FROM pending_credits WHERE tenant_id = %s", tenant_id)
    unguarded("DELETE FROM ledger_entries WHERE reference = %s", f"run:{run_id}")
    assert audited(tenant_id) == [Difference(DifferenceKind.RUN_OF_ANOTHER_CHARGE, 4_000, 5_000, run_id)]


def test_a_charge_without_its_run_is_found(runs: RunsTable, tenant_id: str) -> None:
    ended_run(runs, tenant_id)
    charge = dated(tenant_id, -7, clock.now() - timedelta(days=394))
    dated(tenant_id, -8, clock.now() - timedelta(days=396))
    expected = Difference(DifferenceKind.CHARGE_WITHOUT_RUN, 0, 7, str(charge.run_id))
    assert audited(tenant_id) == [expected], "a run's row goes a year after its retention, and its charge stays"


def test_a_charge_of_an_open_run_and_one_of_another_tenant_are_found(runs: RunsTable, tenant_id: str) -> None:
    other, unended = a_tenant().tenant_id, runs.accept(tenant_id, 10)
    run_id = ended_run(runs, tenant_id)
    charge = dated(tenant_id, -5, clock.now() - timedelta(days=1))
    unguarded("UPDATE ledger_entries SET run_id = %s WHERE entry_id = %s", unended, charge.entry_id)
    unguarded("UPDATE ledger_entries SET tenant_id = %s WHERE run_id = %s", other, run_id)
    assert audited(tenant_id) == [Difference(DifferenceKind.CHARGE_WITHOUT_RUN, 0, 5, unended)]
    assert audited(other) == [Difference(DifferenceKind.CHARGE_WITHOUT_RUN, 0, 1_000, run_id)]


def test_a_charge_that_is_given_back_twice_is_found(runs: RunsTable, tenant_id: str) -> None:
    run_id = ended_run(runs, tenant_id)
    LedgerEntry.objects.create(
        tenant_id=tenant_id,
        run_id=run_id,
        kind="ADJUST",
        amount_usd_micros=1_000,
        reference=f"dispute:{run_id}",
        actor="test",
    )
    assert audited(tenant_id) == [Difference(DifferenceKind.REFUND_OF_ANOTHER_AMOUNT, 0, 1_000, run_id)]


# Daily sums.


def summed(tenant_id: str) -> None:
    """Five days, an entry on the first instant of each among others, and the sum of each day."""
    for day in range(5):
        dated(tenant_id, 1_000, DAY + timedelta(days=day))
        dated(tenant_id, 10, DAY + timedelta(days=day, hours=5))
        assert daily_snapshots.sum_up(now=DAY + timedelta(days=day + 1, hours=1), limit=10) == 1


def test_every_daily_sum_is_counted_again_from_the_first_entry(runs: RunsTable) -> None:
    tenant_id = a_tenant().tenant_id
    summed(tenant_id)
    assert audited(tenant_id) == []
    third = DAY + timedelta(days=3)
    unguarded("UPDATE balance_snapshots SET total_usd_micros = 3031 WHERE through = %s", third)
    unguarded("UPDATE balance_snapshots SET credited_usd_micros = 5049 WHERE through = %s", DAY + timedelta(days=5))
    assert audited(tenant_id) == [
        Difference(DifferenceKind.SNAPSHOT_OF_ANOTHER_SUM, 3_030, 3_031),
        Difference(DifferenceKind.SNAPSHOT_OF_ANOTHER_SUM, 5_050, 5_049),
    ]


def test_a_sum_that_a_clock_ahead_had_written_stops_no_entry(runs: RunsTable, tenant_id: str) -> None:
    """The clock was a day ahead for some hours, and has been set back: charges and top-ups go on, and add up."""
    to_come = clock.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    unguarded(
        "INSERT INTO balance_snapshots (tenant_id, through, total_usd_micros, credited_usd_micros, has_spend_days)"
        " VALUES (%s, %s, 1000000, 1000000, true)",
        tenant_id,
        to_come,
    )
    run_id = ended_run(runs, tenant_id)
    entered = entries.top_up(tenant_id=tenant_id, amount_micros=7, reference="second", reason="", actor="test")
    assert isinstance(entered, entries.Entered)
    behind = LedgerEntry.objects.filter(tenant_id=tenant_id, created_at=to_come)
    assert {it.run_id and str(it.run_id) for it in behind} == {run_id, None}
    assert ledger.sums_of(tenant_id).total_micros == entered.balance_micros == 999_007
    rebuild.rebuild_tenant(tenant_id)
    assert (verify.verify_tenant_money(tenant_id).verdict, audited(tenant_id)) == (Verdict.PROVED, [])


def test_an_entry_that_went_is_found_by_the_sums_behind_it(runs: RunsTable) -> None:
    tenant_id = a_tenant().tenant_id
    summed(tenant_id)
    gone = LedgerEntry.objects.filter(tenant_id=tenant_id).earliest("created_at")
    unguarded("DELETE FROM ledger_entries WHERE entry_id = %s", gone.entry_id)
    assert len(audited(tenant_id)) == 10, "total and credits of five days"


@pytest.mark.parametrize(("total", "credited"), [(1_009, 1_010), (1_010, 1_011), (0, 0)])
def test_a_sum_that_is_none_is_not_written(runs: RunsTable, total: int, credited: int) -> None:
    tenant_id = a_tenant().tenant_id
    dated(tenant_id, 1_000, DAY)
    dated(tenant_id, 10, DAY + timedelta(hours=5))
    values = {"tenant_id": tenant_id, "total_usd_micros": total, "credited_usd_micros": credited}
    with pytest.raises(IntegrityError, match="not the sum of its entries"), transaction.atomic():
        BalanceSnapshot.objects.create(through=DAY + timedelta(days=1), **values)
    with pytest.raises(IntegrityError, match="has not come yet"), transaction.atomic():
        BalanceSnapshot.objects.create(through=clock.now() + timedelta(hours=1), **values)
    assert not BalanceSnapshot.objects.exists()


def test_a_sum_stays(runs: RunsTable) -> None:
    summed(a_tenant().tenant_id)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM balance_snapshots WHERE through = %s", [DAY + timedelta(days=2)])
    assert BalanceSnapshot.objects.count() == 5


def test_a_day_is_not_summed_up_while_one_writes_into_it(runs: RunsTable) -> None:
    """It is seen by nobody yet, and stands in the day that would be summed up without it."""
    tenant_id = a_tenant().tenant_id
    dated(tenant_id, 1_000, DAY)
    now = DAY + timedelta(days=1, hours=1)
    with transaction.atomic():
        dated(tenant_id, 10, DAY + timedelta(hours=5))
        rival = OnAnotherConnection(lambda: daily_snapshots.sum_up(now=now, limit=10))
        assert rival.answer() == 0
    assert not BalanceSnapshot.objects.exists()
    assert daily_snapshots.sum_up(now=now, limit=10) == 1
    assert BalanceSnapshot.objects.get().total_usd_micros == 1_010


# Days of spending, and usage.

KEY = uuid.UUID(int=7)
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)
"""The rows of its runs have gone."""


def spent(tenant_id: str, micros: int, at: datetime, *, lineage: uuid.UUID | None = KEY) -> LedgerEntry:
    """A charge that counts on the date of LONG_AGO, or what goes back of one."""
    of_kind = {"kind": "CHARGE"} if micros < 0 else {"kind": "ADJUST", "reference": uuid.uuid4().hex}
    return LedgerEntry.objects.create(
        tenant_id=tenant_id,
        run_id=uuid.uuid4(),
        amount_usd_micros=micros,
        actor="test",
        created_at=at,
        lineage_id=lineage,
        spend_day=LONG_AGO.date(),
        **of_kind,
    )


@pytest.fixture
def spent_days(runs: RunsTable) -> str:
    """Five days of entries of two keys and none, each summed up, in chunks of three; and some that are not yet."""
    tenant_id = a_tenant().tenant_id
    for day in range(6):
        at = LONG_AGO + timedelta(days=day)
        spent(tenant_id, -1_000, at)
        spent(tenant_id, -10, at + timedelta(hours=5), lineage=None)
        spent(tenant_id, 7, at + timedelta(hours=6), lineage=uuid.UUID(int=8))
        dated(tenant_id, 5, at + timedelta(hours=7))
        if day < 5:
            daily_snapshots.sum_up(now=at + timedelta(days=1, hours=1), limit=10)
    assert audited(tenant_id) == []
    return tenant_id


OF_KEY = f"2025-01-01 of key line {KEY}"
SAID = DifferenceKind.SPEND_DAY_OF_ANOTHER_SUM


@pytest.mark.contract("CAP-10")
@pytest.mark.parametrize(
    ("change", "where", "found"),
    [
        ("UPDATE spend_days SET charged_usd_micros = 5001 WHERE lineage_id = %s", [OF_KEY], [(5_000, 5_001)]),
        ("UPDATE spend_days SET runs = 6 WHERE lineage_id = %s", [OF_KEY], [(5_000, 5_000)]),
        (
            "UPDATE spend_days SET charged_usd_micros = 5007, credited_usd_micros = 7 WHERE lineage_id = %s",
            [OF_KEY],
            [(5_000, 5_000)],
        ),
        ("DELETE FROM spend_days WHERE lineage_id = %s", [OF_KEY], [(5_000, 0)]),
        (
            "UPDATE spend_days SET spend_day = '2025-01-02' WHERE lineage_id = %s",
            [OF_KEY, OF_KEY.replace("-01 ", "-02 ")],
            [(5_000, 0), (0, 5_000)],
        ),
    ],
    ids=range(5),
)
def test_days_that_are_not_what_was_summed_up_are_found_and_named(
    spent_days: str, change: str, where: list[str], found: list[tuple[int, int]]
) -> None:
    unguarded(change, KEY)
    assert audited(spent_days) == [
        Difference(SAID, *micros, where=name) for name, micros in zip(where, found, strict=True)
    ]


@pytest.mark.contract("CAP-10")
def test_a_daily_sum_that_is_written_behind_the_walk_is_left_to_the_next(spent_days: str) -> None:
    for hours in range(1, 4):
        spent(spent_days, -10, LONG_AGO + timedelta(days=6, hours=hours))
    chunks = ledger_audit.audit_ledger(spent_days)
    seen = [next(chunks) for _ in range(9)]  # all 27 entries, but not yet their end
    assert daily_snapshots.sum_up(now=LONG_AGO + timedelta(days=5, hours=7), limit=10) == 0
    assert daily_snapshots.sum_up(now=LONG_AGO + timedelta(days=6, hours=1), limit=10) == 1
    assert [it for chunk in (*seen, *chunks) for it in chunk.differences] == []
    unguarded("UPDATE spend_days SET charged_usd_micros = charged_usd_micros + 1 WHERE lineage_id = %s", KEY)
    assert [it.kind for it in audited(spent_days)] == [SAID]


@pytest.mark.contract("CAP-15")
def test_usage_is_compared_with_the_ledger_of_the_same_month(runs: RunsTable, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant_id = a_tenant().tenant_id
    range_of = ranges.usage_range(tenant_id, start=LONG_AGO.date(), end=LONG_AGO.date() + timedelta(days=31))
    monkeypatch.setattr(ranges, "usage_range", lambda _tenant_id: range_of)
    spent(tenant_id, -1_000, LONG_AGO)
    assert audited(tenant_id) == []
    rows = reading.read_usage_rows
    monkeypatch.setattr(reading, "read_usage_rows", lambda *asked: rows(*asked)[1:])
    expected = Difference(DifferenceKind.USAGE_OF_ANOTHER_SUM, 1_000, 0, where="2025-01-01 to 2025-02-01")
    assert audited(tenant_id) == [expected]


# In turns.


def report() -> JobReport:
    runner.run_job_pass(JOB, limit=1)
    return JobReport.objects.filter(job=JOB.name).latest("started_at")


def test_every_tenant_has_its_turn_and_what_was_found_stands_until_its_next(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis
) -> None:
    everyone = sorted([tenant_id, funded(), funded()])
    valkey.incrby(keys.balance_key(everyone[0]), 3)
    seen = []
    for _ in range(4):
        found = report()
        seen.append((found.seen, found.errors, found.detail["drift_usd_micros"], found.detail["after"]))
        assert list(found.detail["standing"]["law"]) == [everyone[0]]
    assert seen == [(1, 1, 3, everyone[0]), (1, 1, 3, everyone[1]), (1, 1, 3, ""), (1, 1, 3, everyone[0])]
    valkey.decrby(keys.balance_key(everyone[0]), 3)
    assert [report().detail["drift_usd_micros"] for _ in range(3)] == [3, 3, 0]


def test_a_tenant_that_cannot_be_compared_takes_nobodys_turn(
    runs: RunsTable, tenant_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = min(tenant_id, funded())
    real = verify.verify_tenant_money

    def too_much(which: str) -> verify.Proof:
        if which == first:
            raise DatabaseError("canceling statement due to statement timeout")
        return real(which)

    monkeypatch.setattr(verify, "verify_tenant_money", too_much)
    for _ in range(2):
        found = report()
        assert (found.detail["failed"], found.detail["standing"]["unproved"]) == (1, {first: "failed"})
        found = report()
        assert (found.detail["failed"], found.detail["after"], found.detail["unproved"]) == (0, "", 1)


def test_the_ledger_is_audited_in_stretches_that_go_on(
    runs: RunsTable, tenant_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = funded()
    first = min(tenant_id, other)
    wrong, *_ = [ended_run(runs, first) for _ in range(4)]
    unguarded("DELETE FROM ledger_entries WHERE run_id = %s", wrong)
    monkeypatch.setattr(verify_pass, "ROWS_AUDITED", 3)
    said = []
    for _ in range(6):
        found = report()
        place = found.detail["audit"]
        assert place["tenant_id"] == first
        said.append((place["side"], found.detail["standing"]["ledger"]))
    known = {first: 1_000}
    once_around = [("entries", known), ("runs", known), ("entries", known)]
    assert said == [("entries", {}), *once_around[1:], *once_around], "it stands while its tenant is walked again"
    assert found.errors == 1
    entry_id = uuid.uuid4()
    unguarded(
        "INSERT INTO ledger_entries (entry_id, tenant_id, run_id, kind, amount_usd_micros, actor)"
        " VALUES (%s, %s, %s, 'CHARGE', -1000, 'test')",
        *(entry_id, first, wrong),
    )
    monkeypatch.setattr(verify_pass, "ROWS_AUDITED", 1_000)
    report()
    assert report().detail["standing"]["ledger"] == {}


def test_a_place_survives_its_report() -> None:
    place = AuditPlace(
        "t_x", side="runs", at=DAY, row_id=uuid.uuid4(), total_micros=-5, credited_micros=7, wrong_micros=0
    )
    walk = DaysWalk(-(2**80), DAY, 7)
    assert AuditPlace.of(place.document(), walk.document()) == replace(place, days=walk)
    assert AuditPlace.of(AuditPlace("t_x").document(), DaysWalk().document()) == AuditPlace("t_x")
    assert "days" not in place.document(), "an older release makes its place of every member"
    assert AuditPlace.of(place.document(), None).days is None


def scraped() -> set[str]:
    return {line for line in metrics.render_metrics().decode().splitlines() if line.startswith("dpp_money_")}


def test_what_could_not_be_told_is_not_told_as_no_drift(runs: RunsTable, tenant_id: str, valkey: redis.Redis) -> None:
    runner.run_job_pass(JOB)
    assert {"dpp_money_drift_usd_micros 0.0", "dpp_money_tenants_unproved 0.0"} <= scraped()
    valkey.flushall()
    assert verify.verify_tenant_money(tenant_id).drift_micros is None
    runner.run_job_pass(JOB)
    assert {"dpp_money_drift_usd_micros NaN", "dpp_money_tenants_unproved 1.0"} <= scraped()
    assert JobReport.objects.latest("started_at").detail["standing"]["unproved"] == {tenant_id: "closed"}
    rebuild.rebuild_all()
    valkey.incrby(keys.balance_key(tenant_id), 3)
    runner.run_job_pass(JOB)
    assert {"dpp_money_drift_usd_micros 3.0", "dpp_money_tenants_unproved 0.0"} <= scraped()


def test_a_tenant_that_never_stands_still_has_no_drift_of_zero(
    runs: RunsTable, tenant_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_attempt", lambda *_args, **_more: None)
    assert (verify.verify_tenant_money(tenant_id).verdict, verify.verify_tenant_money(tenant_id).drift_micros) == (
        Verdict.UNSETTLED,
        None,
    )
    runner.run_job_pass(JOB)
    assert {"dpp_money_drift_usd_micros NaN", "dpp_money_tenants_unproved 1.0"} <= scraped()


def test_a_pass_that_failed_is_not_told_as_no_drift(runs: RunsTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_arguments: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(verify_pass, "run_verify_pass", fails)
    runner.run_job_pass(JOB)
    assert "dpp_money_drift_usd_micros NaN" in scraped()


def test_a_pass_that_failed_forgets_nothing(
    runs: RunsTable, tenant_id: str, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass after it goes on where the last good one ended, and knows what that one knew."""
    first, _ = sorted([tenant_id, funded()])
    valkey.incrby(keys.balance_key(first), 3)
    assert report().detail["after"] == first

    def fails(**_arguments: Any) -> Any:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(verify_pass, "run_verify_pass", fails)
        assert report().detail == {"error": "RuntimeError"}
    found = report()
    assert (found.detail["after"], found.detail["drift_usd_micros"]) == ("", 3)


def test_entries_of_one_instant_are_all_audited(runs: RunsTable) -> None:
    tenant_id = a_tenant().tenant_id
    for _ in range(8):
        dated(tenant_id, 5, DAY)
    assert daily_snapshots.sum_up(now=DAY + timedelta(days=1, hours=1), limit=10) == 1
    assert [chunk.rows for chunk in ledger_audit.audit_ledger(tenant_id)] == [3, 3, 2, 0]
    assert audited(tenant_id) == []


# What is still being written.


def test_what_is_being_written_bounds_what_is_settled(runs: RunsTable, tenant_id: str) -> None:
    before = clock.now() - timedelta(seconds=30)
    assert ledger.settled_until() > before
    with transaction.atomic():
        entry = ledger.append_credit(
            tenant_id=tenant_id,
            kind=LedgerEntry.Kind.TOPUP,
            amount_micros=5,
            reference="on its way",
            reason="",
            actor="test",
        )
        entry.refresh_from_db()
        rival = OnAnotherConnection(ledger.settled_until)
        until = rival.answer()
    assert before < until <= entry.created_at
    wait_until(lambda: ledger.settled_until() > entry.created_at, what="the writer to be gone")
