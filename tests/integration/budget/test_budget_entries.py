"""Top-ups and adjustments: once by reference, spendable at once, never lost or doubled by a crash (DPP-57)."""

import threading
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.db import connections
from django.db.models import F

from budget import entries, jobs, ledger, services
from budget.entries import Entered
from budget.models import LedgerEntry, PendingCredit
from budget.money import MAX_MICROS
from budget.outcomes import Closed, CreditAnswer, Credited, Held, Unavailable
from budget.rebuild import rebuild
from budget.redis import keys, scripts
from budget.verification import verify
from budget.verification.verify import Verdict
from dpp_project import clock
from dpp_project.clock import FixedClock
from dpp_project.jobs import deadline
from dpp_project.jobs.deadline import Pass
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants.scopes import OPERATOR_TENANT_ID
from tests.gear.builders import recovery
from tests.gear.builders.money import standing_balance
from tests.gear.builders.open_runs import RunsTable, runs_table
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.proxy import Mode

__all__ = ["runs_table"]
pytestmark = pytest.mark.contract("DPP-57")


@pytest.fixture(autouse=True)
def _money(runs_table: RunsTable, valkey: redis.Redis) -> None:
    rebuild.rebuild_all()


def top_up(tenant_id: str, micros: Any = 500_000, reference: str = "invoice 7", **more: Any) -> Entered | Refusal:
    values = {"reason": "", "actor": "test"} | more
    return entries.top_up(tenant_id=tenant_id, amount_micros=micros, reference=reference, **values)


def adjust(tenant_id: str, micros: Any, reference: str = "ticket 7", reason: str = "was wrong") -> Entered | Refusal:
    return entries.adjust_balance(
        tenant_id=tenant_id, amount_micros=micros, reference=reference, reason=reason, actor="test"
    )


def entered(answer: Entered | Refusal) -> Entered:
    assert isinstance(answer, Entered), answer
    return answer


LIMITED = Refusal(
    ReasonCode.VALIDATION_FAILED, f"the tenant's money must stay between 0 and {MAX_MICROS} micros", "amount"
)


def refused(answer: Entered | Refusal) -> Refusal:
    assert isinstance(answer, Refusal), answer
    assert PendingCredit.objects.count() == 0
    return answer


def test_dpp_57_a_top_up_is_spendable_at_once(runs_table: RunsTable) -> None:
    tenant_id = a_tenant().tenant_id
    made = entered(top_up(tenant_id))
    assert (made.is_new, made.balance_micros) == (True, 500_000)
    assert PendingCredit.objects.count() == 0
    run_id = runs_table.accept(tenant_id, 500_000)
    held = services.hold(tenant_id=tenant_id, run_id=run_id, reserved_micros=500_000, created_at_ms=1)
    assert held == Held(balance_micros=0)


def test_dpp_57_the_same_reference_enters_once(valkey: redis.Redis) -> None:
    tenant_id = a_tenant().tenant_id
    first, again = entered(top_up(tenant_id)), entered(top_up(tenant_id))
    assert (again.is_new, again.entry, again.balance_micros) == (False, first.entry, 500_000)
    valkey.delete(keys.credit_key(str(first.entry.entry_id)))  # its receipt has expired
    assert entered(top_up(tenant_id)).balance_micros == 500_000
    assert standing_balance(tenant_id) == ledger.sums_of(tenant_id).total_micros == 500_000


@pytest.mark.parametrize("other", [{"micros": 500_001}, {"micros": 1}])
def test_dpp_57_a_reference_is_not_used_for_another_amount(other: dict[str, Any]) -> None:
    tenant_id = a_tenant().tenant_id
    top_up(tenant_id)
    assert refused(top_up(tenant_id, **other)).reason is ReasonCode.IDEMPOTENCY_CONFLICT
    assert refused(adjust(tenant_id, 500_000, reference="invoice 7")).reason is ReasonCode.IDEMPOTENCY_CONFLICT
    assert standing_balance(tenant_id) == 500_000


@pytest.mark.parametrize("micros", [0, -1, MAX_MICROS + 1, 1.5, "500000", True, None])
def test_a_wrong_amount_changes_nothing(micros: object) -> None:
    tenant_id = a_tenant().tenant_id
    assert refused(top_up(tenant_id, micros)).field == "amount"
    if micros != -1:
        assert refused(adjust(tenant_id, micros)).field == "amount"
    assert not LedgerEntry.objects.filter(tenant_id=tenant_id).exists()


@pytest.mark.parametrize(
    "reference",
    ["", " ", "a\nb", "x" * 65, "run:7d0c", "dispute:1", "refund:1", "ticket-7d0c", "a\x00b", "a\ud800b"],
    ids=["empty", "blank", "line", "long", "run", "dispute", "refund", "ticket", "nul", "surrogate"],
)
@pytest.mark.contract("HRD-08")
def test_a_wrong_reference_changes_nothing(reference: str) -> None:
    tenant_id = a_tenant().tenant_id
    assert refused(top_up(tenant_id, reference=reference)).field == "reference"
    assert not LedgerEntry.objects.filter(tenant_id=tenant_id).exists()


def test_an_adjustment_says_why() -> None:
    assert refused(adjust(a_tenant().tenant_id, 5, reason=" ")).field == "reason"
    assert refused(top_up(a_tenant().tenant_id, reason="x" * 201)).field == "reason"
    assert refused(top_up(a_tenant().tenant_id, actor="")).field == "actor"


def test_dpp_11_the_operator_holds_no_money() -> None:
    assert refused(top_up(OPERATOR_TENANT_ID)).detail == "t_operator runs the platform and holds no money"
    assert refused(top_up("t_nobody")).reason is ReasonCode.NOT_FOUND


def test_the_ledger_stays_within_its_limits() -> None:
    tenant_id = a_tenant().tenant_id
    entered(top_up(tenant_id, MAX_MICROS))
    assert standing_balance(tenant_id) == MAX_MICROS
    assert refused(top_up(tenant_id, 1, reference="one more")) == LIMITED
    assert entered(adjust(tenant_id, -MAX_MICROS)).balance_micros == 0
    assert refused(adjust(tenant_id, -1, reference="one less")) == LIMITED
    assert standing_balance(tenant_id) == 0


def test_an_adjustment_may_take_what_is_held_and_leave_a_debt(runs_table: RunsTable) -> None:
    tenant_id = a_tenant().tenant_id
    top_up(tenant_id)
    run_id = runs_table.accept(tenant_id, 400_000)
    services.hold(tenant_id=tenant_id, run_id=run_id, reserved_micros=400_000, created_at_ms=1)
    runs_table.mark_reserved(run_id)
    assert entered(adjust(tenant_id, -500_000)).balance_micros == -400_000
    services.refund(tenant_id=tenant_id, run_id=run_id)
    assert standing_balance(tenant_id) == 0


@pytest.mark.contract("HRD-08")
def test_a_debt_is_paid_off_in_parts() -> None:
    """Charges are taken whatever the ledger holds: after a Postgres that went back in time a tenant may owe."""
    tenant_id = a_tenant().tenant_id
    LedgerEntry.objects.create(
        tenant_id=tenant_id, kind="CHARGE", amount_usd_micros=-10, run_id=uuid.uuid4(), actor="test"
    )
    rebuild.rebuild_tenant(tenant_id)
    assert entered(top_up(tenant_id, 4, reference="a part")).balance_micros == -6
    assert refused(adjust(tenant_id, -1, reference="deeper")) == LIMITED
    assert entered(adjust(tenant_id, 5, reference="another")).balance_micros == -1
    assert entered(top_up(tenant_id, 3, reference="the rest")).balance_micros == 2
    assert entered(adjust(tenant_id, -2, reference="all of it")).balance_micros == 0
    assert refused(adjust(tenant_id, -1, reference="once more")) == LIMITED
    assert (standing_balance(tenant_id), ledger.sums_of(tenant_id).total_micros) == (0, 0)


@pytest.mark.contract("HRD-08")
def test_a_tickets_reference_is_the_tickets_alone() -> None:
    tenant_id = a_tenant().tenant_id
    assert refused(adjust(tenant_id, 5, reference="ticket-1")).field == "reference"
    assert entered(top_up(tenant_id, 5, reference="ticket-1", of_ticket=True)).is_new
    assert refused(top_up(tenant_id, reference="run:1", of_ticket=True)).field == "reference"
    assert refused(top_up(tenant_id, 5, reference="ticket-1")).field == "reference"
    assert LedgerEntry.objects.filter(tenant_id=tenant_id).count() == 1


def test_a_dry_run_enters_nothing() -> None:
    tenant_id = a_tenant().tenant_id
    entered(top_up(tenant_id, dry_run=True))
    assert not LedgerEntry.objects.filter(tenant_id=tenant_id).exists()
    assert refused(top_up(OPERATOR_TENANT_ID, dry_run=True)).detail == "t_operator runs the platform and holds no money"


def test_dpp_57_two_at_once_with_one_reference_enter_once() -> None:
    tenant_id = a_tenant().tenant_id
    answers: list[Entered | Refusal] = []
    together = threading.Barrier(4)

    def enter() -> None:
        together.wait()
        answers.append(top_up(tenant_id))
        connections.close_all()

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entered(answer).is_new for answer in answers) == [False, False, False, True]
    assert LedgerEntry.objects.filter(tenant_id=tenant_id).count() == 1
    entries.replay_pending(limit=10, older_than=timedelta(0))
    assert standing_balance(tenant_id) == 500_000


def dying(outcome_lost: bool) -> Any:  # noqa: FBT001
    """The script's call, cut off before or after it ran."""
    real = scripts.Scripts.credit

    def credit(self: scripts.Scripts, **more: Any) -> CreditAnswer:
        if outcome_lost:
            real(self, **more)
        return Unavailable(Closed.REDIS)

    return credit


@pytest.mark.parametrize("outcome_lost", [True, False])
def test_dpp_57_what_a_crash_left_is_applied_once(monkeypatch: pytest.MonkeyPatch, *, outcome_lost: bool) -> None:
    tenant_id = a_tenant().tenant_id
    entered(top_up(tenant_id, 1, reference="first"))
    with monkeypatch.context() as patch:
        patch.setattr(scripts.Scripts, "credit", dying(outcome_lost))
        assert entered(top_up(tenant_id)).balance_micros is None
    assert PendingCredit.objects.count() == 1
    assert jobs.apply_pending(now=clock.now(), limit=10).seen == 0, "it may still be on its way"
    replayed = entries.replay_pending(limit=10, older_than=timedelta(0))
    assert (replayed.seen, replayed.applied) == (1, 1)
    assert standing_balance(tenant_id) == 500_001
    assert entries.replay_pending(limit=10, older_than=timedelta(0)).seen == 0


def test_dpp_57_a_credit_that_cannot_be_applied_keeps_no_other_from_its_balance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    poison, other = a_tenant().tenant_id, a_tenant().tenant_id
    for tenant_id in (poison, other):
        entered(top_up(tenant_id, 1, reference="first"))
        with monkeypatch.context() as patch:
            patch.setattr(scripts.Scripts, "credit", dying(outcome_lost=False))
            top_up(tenant_id)
    real = scripts.Scripts.credit

    def fails(self: scripts.Scripts, *, tenant_id: str, **more: Any) -> CreditAnswer:
        if tenant_id == poison:
            raise ValueError(tenant_id)
        return real(self, tenant_id=tenant_id, **more)

    with monkeypatch.context() as patch:
        patch.setattr(scripts.Scripts, "credit", fails)
        replayed = entries.replay_pending(limit=10, older_than=timedelta(0))
    assert (replayed.seen, replayed.applied, replayed.skipped.errors) == (2, 1, 1)
    assert (standing_balance(poison), standing_balance(other)) == (1, 500_001)
    assert entries.replay_pending(limit=10, older_than=timedelta(0)).applied == 1
    assert standing_balance(poison) == 500_001


@pytest.mark.parametrize("outcome_lost", [True, False])
def test_dpp_57_asked_again_after_a_crash_it_is_applied_once(
    monkeypatch: pytest.MonkeyPatch, *, outcome_lost: bool
) -> None:
    tenant_id = a_tenant().tenant_id
    entered(top_up(tenant_id, 1, reference="first"))
    with monkeypatch.context() as patch:
        patch.setattr(scripts.Scripts, "credit", dying(outcome_lost))
        top_up(tenant_id)
    assert entered(top_up(tenant_id)).is_new is False
    assert standing_balance(tenant_id) == 500_001
    assert PendingCredit.objects.count() == 0


def test_dpp_57_a_credit_left_for_half_a_day_is_counted_not_replayed(
    monkeypatch: pytest.MonkeyPatch, valkey: redis.Redis
) -> None:
    """Its receipt may be about to expire: a replay could come twice, a rebuild cannot."""
    tenant_id = a_tenant().tenant_id
    entered(top_up(tenant_id, 1, reference="first"))
    with monkeypatch.context() as patch:
        patch.setattr(scripts.Scripts, "credit", dying(outcome_lost=True))
        made = entered(top_up(tenant_id))
    valkey.delete(keys.credit_key(str(made.entry.entry_id)))
    PendingCredit.objects.update(created_at=clock.now() - timedelta(hours=13))
    assert entries.replay_pending(limit=10, older_than=timedelta(0)).applied == 1
    assert standing_balance(tenant_id) == 500_001


def test_dpp_57_a_rebuild_between_ledger_and_balance_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rival rebuilds at the worst moment: after the transaction, before the script."""
    tenant_id = a_tenant().tenant_id
    entered(top_up(tenant_id, 1, reference="first"))
    real = scripts.Scripts.credit

    def rebuilt_first(self: scripts.Scripts, **more: Any) -> CreditAnswer:
        rebuild.rebuild_all()
        return real(self, **more)

    with monkeypatch.context() as patch:
        patch.setattr(scripts.Scripts, "credit", rebuilt_first)
        assert entered(top_up(tenant_id)).balance_micros is None, "its epoch is over"
    assert standing_balance(tenant_id) == 500_001
    assert entries.replay_pending(limit=10, older_than=timedelta(0)).applied == 1
    assert standing_balance(tenant_id) == 500_001


# A pass over what was left, in which nobody's credits hide another's.


def left_on_its_way(tenant_id: str, *references: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripts.Scripts, "credit", dying(outcome_lost=False))
        for reference in references:
            assert entered(top_up(tenant_id, 5, reference=reference)).balance_micros is None


def two_tenants() -> list[str]:
    """In the order of their turns, each with a balance of 1."""
    found = sorted(a_tenant().tenant_id for _ in range(2))
    for tenant_id in found:
        entered(top_up(tenant_id, 1, reference="first"))
    return found


def gate_is_closed(tenant_id: str) -> str:
    money = scripts.shared_scripts()
    money.gate.close_tenant(money.client, tenant_id)
    return "gate"


def sequence_is_a_word(tenant_id: str) -> str:
    """Redis answers this tenant's scripts with an error, and everybody else's as ever."""
    scripts.shared_scripts().client.set(keys.seq_key(tenant_id), "x")
    return "redis"


@pytest.mark.parametrize("fault", [gate_is_closed, sequence_is_a_word], ids=lambda fault: fault.__name__)
def test_dpp_57_credits_of_a_tenant_whose_money_cannot_move_hide_no_others(
    fault: Callable[[str], str], valkey: redis.Redis
) -> None:
    stuck, other = two_tenants()
    left_on_its_way(stuck, "second", "third", "fourth")
    left_on_its_way(other, "second")
    PendingCredit.objects.update(created_at=F("created_at") - timedelta(minutes=1))
    why = fault(stuck)
    report = jobs.apply_pending(now=clock.now(), limit=3)
    assert (standing_balance(other), valkey.get(keys.balance_key(stuck))) == (6, "1")
    assert (report.seen, report.changed, report.errors) == (2, 1, 0)
    assert report.detail == {"tenants_waiting": 1, "waiting": {stuck: why}}
    valkey.delete(keys.gate_key(stuck), keys.seq_key(stuck))
    assert jobs.apply_pending(now=clock.now(), limit=3).changed == 3
    assert (standing_balance(stuck), PendingCredit.objects.count()) == (16, 0)


def test_dpp_57_the_next_pass_goes_on_behind_credits_that_filled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    bad, other = two_tenants()
    left_on_its_way(bad, "second", "third", "fourth")
    left_on_its_way(other, "second")
    real = scripts.Scripts.credit

    def fails(self: scripts.Scripts, *, tenant_id: str, **more: Any) -> CreditAnswer:
        if tenant_id == bad:
            raise ValueError(tenant_id)
        return real(self, tenant_id=tenant_id, **more)

    with monkeypatch.context() as patch:
        patch.setattr(scripts.Scripts, "credit", fails)
        passes = [entries.replay_pending(limit=3, older_than=timedelta(0)) for _ in range(2)]
    assert (standing_balance(other), standing_balance(bad)) == (6, 1)
    assert [(done.seen, done.applied, done.skipped.errors) for done in passes] == [(3, 0, 3), (3, 1, 2)]
    assert entries.replay_pending(limit=3, older_than=timedelta(0)).applied == 3


def test_dpp_57_a_pass_whose_time_is_over_leaves_the_rest_to_the_next() -> None:
    for tenant_id in two_tenants():
        left_on_its_way(tenant_id, "second", "third")
    with deadline.within_deadline(Pass(seconds=0)):
        passes = [entries.replay_pending(limit=10, older_than=timedelta(0)) for _ in range(2)]
    assert [(done.seen, done.applied) for done in passes] == [(1, 1), (1, 1)]
    assert PendingCredit.objects.values("tenant_id").distinct().count() == 2, "the second pass was the other's"
    assert entries.replay_pending(limit=10, older_than=timedelta(0)).applied == 2


def test_dpp_57_a_redis_that_goes_away_is_asked_for_one_credit_in_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for tenant_id in two_tenants():
        left_on_its_way(tenant_id, *(f"invoice {number}" for number in range(10)))
    with recovery.redis_through_proxy(monkeypatch) as proxy:
        real = entries.open_epoch

        def goes_away() -> str | None:
            epoch = real()
            proxy.set(Mode.RESET)
            return epoch

        with monkeypatch.context() as patch:
            patch.setattr(entries, "open_epoch", goes_away)
            before = proxy.connections
            done = entries.replay_pending(limit=100, older_than=timedelta(0))
        assert proxy.connections - before <= 4
        assert (done.seen, done.applied, done.detail["waits_for"]) == (1, 0, "money")
        before = proxy.connections
        assert entries.replay_pending(limit=100, older_than=timedelta(0)).detail == {"waits_for": "money"}
        assert proxy.connections - before <= 1
    assert entries.replay_pending(limit=100, older_than=timedelta(0)).applied == 20


def test_dpp_57_old_credits_of_a_tenant_are_counted_by_one_rebuild(
    monkeypatch: pytest.MonkeyPatch, valkey: redis.Redis
) -> None:
    tenant_id, other = two_tenants()
    left_on_its_way(tenant_id, "second", "third", "fourth")
    PendingCredit.objects.update(created_at=F("created_at") - timedelta(hours=13))
    left_on_its_way(tenant_id, "young")
    rebuilt, real = [], rebuild.rebuild_tenant

    def counted(which: str) -> rebuild.Rebuilt | rebuild.Busy:
        rebuilt.append(which)
        return real(which)

    monkeypatch.setattr(rebuild, "rebuild_tenant", counted)
    done = entries.replay_pending(limit=10, older_than=timedelta(0))
    assert rebuilt == [tenant_id]
    assert (done.seen, done.applied, PendingCredit.objects.count()) == (4, 4, 0)
    assert (standing_balance(tenant_id), standing_balance(other)) == (21, 1)
    told = valkey.lrange(keys.EVIDENCE, 0, -1)
    old = LedgerEntry.objects.filter(tenant_id=tenant_id, reference__in=["second", "third", "fourth"])
    for entry_id in old.values_list("entry_id", flat=True):
        assert f"entry:{entry_id}" in told
        assert 86_390 <= int(str(valkey.ttl(keys.credit_key(str(entry_id))))) <= 86_400
    assert verify.verify_tenant_money(tenant_id).verdict is Verdict.PROVED


def test_dpp_57_a_credit_that_would_pass_the_limit_is_named_and_left(valkey: redis.Redis) -> None:
    tenant_id, other = two_tenants()
    left_on_its_way(tenant_id, "second", "third")
    left_on_its_way(other, "second")
    valkey.set(keys.balance_key(tenant_id), str(MAX_MICROS))
    done = entries.replay_pending(limit=10, older_than=timedelta(0))
    assert (done.seen, done.applied, done.detail) == (3, 1, {"tenants_waiting": 1, "waiting": {tenant_id: "limit"}})
    rebuild.rebuild_tenant(tenant_id)
    assert entries.replay_pending(limit=10, older_than=timedelta(0)).applied == 2
    assert (standing_balance(tenant_id), standing_balance(other)) == (11, 6)


# Clocks and receipts (HRD-05).


def clock_wrong_by(*, days: int) -> AbstractContextManager[object]:
    """This process's; the database's is right."""
    return clock.use_clock(FixedClock(clock.now() + timedelta(days=days)))


def left_pending(monkeypatch: pytest.MonkeyPatch, tenant_id: str, *, hours: int = 0) -> str:
    """Applied, but its process died before the row went; so many hours ago by the database's clock."""
    entered(top_up(tenant_id, 1, reference="first"))
    with monkeypatch.context() as patch:
        patch.setattr(scripts.Scripts, "credit", dying(outcome_lost=True))
        made = entered(top_up(tenant_id))
    PendingCredit.objects.update(created_at=F("created_at") - timedelta(hours=hours))
    return str(made.entry.entry_id)


@pytest.mark.contract("HRD-05")
@pytest.mark.parametrize("days", [-3, 3], ids=["slow", "fast"])
def test_hrd_05_no_clock_of_a_process_applies_a_top_up_twice(
    monkeypatch: pytest.MonkeyPatch, valkey: redis.Redis, days: int
) -> None:
    tenant_id = a_tenant().tenant_id
    entry_id = left_pending(monkeypatch, tenant_id, hours=25)
    valkey.delete(keys.credit_key(entry_id))  # as an older release let it expire
    with clock_wrong_by(days=days):
        assert entries.replay_pending(limit=10, older_than=timedelta(0)).applied == 1
    assert standing_balance(tenant_id) == 500_001


@pytest.mark.contract("HRD-05")
@pytest.mark.parametrize("whole", [None, True, False], ids=["no rebuild", "all rebuilt", "one rebuilt"])
def test_hrd_05_a_receipt_stands_as_long_as_its_pending_row(
    monkeypatch: pytest.MonkeyPatch, valkey: redis.Redis, *, whole: bool | None
) -> None:
    tenant_id = a_tenant().tenant_id
    entry_id = left_pending(monkeypatch, tenant_id)
    if whole is not None:
        valkey.delete(keys.credit_key(entry_id))
        assert isinstance(rebuild.rebuild_all() if whole else rebuild.rebuild_tenant(tenant_id), rebuild.Rebuilt)
    assert valkey.ttl(keys.credit_key(entry_id)) == -1
    assert verify.verify_tenant_money(tenant_id).verdict is Verdict.PROVED
    assert entries.replay_pending(limit=10, older_than=timedelta(0)).applied == 1
    assert 86_390 <= int(str(valkey.ttl(keys.credit_key(entry_id)))) <= 86_400
    assert (standing_balance(tenant_id), verify.verify_tenant_money(tenant_id).verdict) == (500_001, Verdict.PROVED)


@pytest.mark.contract("HRD-05")
def test_hrd_05_a_fast_clock_takes_no_credit_from_the_process_that_is_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    left_pending(monkeypatch, a_tenant().tenant_id)
    with clock_wrong_by(days=2):
        assert jobs.apply_pending(now=clock.now(), limit=10).seen == 0


@pytest.mark.contract("HRD-05")
def test_hrd_05_a_rebuild_by_a_fast_clock_leaves_the_receipts_of_the_day(
    valkey: redis.Redis,
) -> None:
    """A double of the credit may still be on its way; its receipt is all that stops it."""
    tenant_id = a_tenant().tenant_id
    entry_id = str(entered(top_up(tenant_id)).entry.entry_id)
    valkey.delete(keys.credit_key(entry_id))
    with clock_wrong_by(days=2):
        assert isinstance(rebuild.rebuild_tenant(tenant_id), rebuild.Rebuilt)
    late = scripts.shared_scripts().credit(
        tenant_id=tenant_id, entry_id=entry_id, amount_micros=500_000, epoch=scripts.shared_scripts().gate.renewed()
    )
    assert late == Credited(500_000, again=True)
    assert standing_balance(tenant_id) == 500_000
    assert 86_390 <= int(str(valkey.ttl(keys.credit_key(entry_id)))) <= 86_400


@pytest.mark.contract("HRD-05")
def test_hrd_05_a_pending_credit_is_not_forgotten_where_its_tenant_cannot_be_rebuilt(
    monkeypatch: pytest.MonkeyPatch, valkey: redis.Redis
) -> None:
    tenant_id = a_tenant().tenant_id
    entered(top_up(tenant_id, 1, reference="first"))
    with monkeypatch.context() as patch:
        patch.setattr(scripts.Scripts, "credit", dying(outcome_lost=False))
        top_up(tenant_id)
    PendingCredit.objects.update(created_at=F("created_at") - timedelta(hours=13))
    with monkeypatch.context() as patch:
        patch.setattr(rebuild, "rebuild_tenant", lambda _tenant_id: rebuild.Busy())
        assert entries.replay_pending(limit=10, older_than=timedelta(0)).applied == 0
    assert (PendingCredit.objects.count(), standing_balance(tenant_id)) == (1, 1)
    assert entries.replay_pending(limit=10, older_than=timedelta(0)).applied == 1
    assert (PendingCredit.objects.count(), standing_balance(tenant_id)) == (0, 500_001)
