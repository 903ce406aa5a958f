"""Rivals let in at a named step of a submit: a second handler, a rebuild, a sweep, a worker, an owner who cancels."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from budget import services
from budget.outcomes import Held
from budget.rebuild import rebuild
from budget.redis import keys
from dpp_project.aws.sqs_sender import Unreachable
from dpp_project.stores import redis
from reaper import hold_auditor
from runs import transitions
from runs.cancel import cancellation
from runs.models import Run
from runs.submit import key_lock, wake_worker
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.recovery import FUNDS_MICROS
from tests.gear.builders.shop import PRICE_MICROS, Shop, a_body, a_request_key, messages, take_balance_to, top_up

STEPS: dict[str, tuple[Any, str]] = {
    "accept": (transitions, "accept"),
    "hold": (services, "hold"),
    "reserve": (transitions, "reserve"),
    "write_mapping": (key_lock, "write_mapping"),
    "send": (wake_worker, "send_wakeup"),
}
every_step = pytest.mark.parametrize("step", STEPS)


@pytest.fixture
def let_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`rival` runs once, before (or after) the next call of this step; the step then goes on as if nothing had been."""

    def prepare(step: str, rival: Callable[[], object], *, after: bool = False) -> None:
        module, name = STEPS[step]
        real, waiting = getattr(module, name), [rival]

        def act(*arguments: Any, **named: Any) -> Any:
            if waiting and not after:
                waiting.pop()()
            answer = real(*arguments, **named)
            if waiting and after:
                waiting.pop()()
            return answer

        monkeypatch.setattr(module, name, act)

    return prepare


LetIn = Callable[..., None]


def lock_lapses(shop: Shop) -> None:
    for lock in shop.redis_keys("idem_lock:*"):
        redis.redis_client().delete(lock)


def one_run(shop: Shop) -> Run:
    """One run, one hold, one message at least and none for another run, and the books agree."""
    (run,) = shop.runs()
    assert (run.status, run.money_state) == ("QUEUED", "RESERVED")
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}
    assert shop.balance_micros() == FUNDS_MICROS - PRICE_MICROS
    assert [message["run_id"] for message in messages()] == [str(run.run_id)]
    recovery.law_holds(shop.tenant)
    return run


@pytest.mark.contract("DPP-06")
@every_step
def test_dpp_06_a_second_handler_under_a_lapsed_lock_makes_no_second_run(shop: Shop, let_in: LetIn, step: str) -> None:
    key, seen = a_request_key(), []

    def rival() -> None:
        lock_lapses(shop)
        seen.append(shop.submit(key=key))

    let_in(step, rival)
    mine = shop.submit(key=key)
    (theirs,) = seen
    assert (mine.status_code, theirs.status_code) == (202, 202)
    assert mine.content == theirs.content
    one_run(shop)


@pytest.mark.contract("DPP-06", "DPP-04")
@every_step
def test_dpp_04_a_second_handler_with_another_request_is_told(shop: Shop, let_in: LetIn, step: str) -> None:
    """Whoever inserts first has the key; the other is a conflict, whichever lock he held."""
    key, seen = a_request_key(), []

    def rival() -> None:
        lock_lapses(shop)
        seen.append(shop.submit(a_body(inputs={"sleep_ms": 2}), key=key))

    let_in(step, rival)
    mine = shop.submit(key=key)
    (theirs,) = seen
    assert sorted([mine.status_code, theirs.status_code]) == [202, 409]
    loser = mine if mine.status_code == 409 else theirs
    assert loser.json()["reason_code"] == "IDEMPOTENCY_CONFLICT"
    one_run(shop)


@pytest.mark.contract("DPP-55")
@pytest.mark.parametrize("after", [False, True])
@every_step
def test_dpp_55_a_rebuild_at_any_step_costs_no_micro_and_no_run(
    shop: Shop, let_in: LetIn, step: str, *, after: bool
) -> None:
    let_in(step, rebuild.rebuild_all, after=after)
    assert shop.submit().status_code == 202
    one_run(shop)


@pytest.mark.contract("DPP-55")
@every_step
def test_dpp_55_a_flush_at_any_step_is_answered_503_or_a_good_run(shop: Shop, let_in: LetIn, step: str) -> None:
    key = a_request_key()
    let_in(step, lambda: redis.redis_client().flushall())
    first = shop.submit(key=key)
    rebuild.rebuild_all()
    lock_lapses(shop)
    if first.status_code != 202:
        assert (first.status_code, first.json()["reason_code"]) == (503, "BUDGET_UNAVAILABLE")
    assert shop.submit(key=key).status_code == 202
    one_run(shop)


@pytest.mark.contract("DPP-55")
def test_dpp_55_a_lost_balance_is_rebuilt_on_the_way(shop: Shop) -> None:
    redis.redis_client().delete(keys.balance_key(shop.tenant.tenant_id))
    assert shop.submit().status_code == 202
    one_run(shop)


@pytest.mark.contract("DPP-55")
def test_dpp_55_a_hold_that_redis_lost_is_made_again_on_the_way(shop: Shop, let_in: LetIn) -> None:
    """The first attempt died before it marked its row; the retry finds the reserve key, and no hold."""
    key = a_request_key()

    def die() -> None:
        redis.redis_client().delete(keys.holds_key(shop.tenant.tenant_id))
        raise recovery.Died

    let_in("reserve", die)
    with pytest.raises(recovery.Died):
        shop.submit(key=key)
    lock_lapses(shop)
    assert shop.submit(key=key).status_code == 202
    one_run(shop)


@pytest.mark.contract("DPP-53")
def test_dpp_53_a_submit_that_slept_through_its_sweep_holds_nothing_any_more(shop: Shop, let_in: LetIn) -> None:
    def sweep() -> None:
        (run,) = shop.runs()
        gear.aged(run, updated_at=61)
        recovery.run_loop(hold_auditor.audit_holds)

    let_in("hold", sweep)
    key = a_request_key()
    answer = shop.submit(key=key)
    assert (answer.status_code, answer.json()["reason_code"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
    (run,) = shop.runs()
    assert (run.status, run.last_error_reason_code) == ("FAILED", "SUBMIT_ABANDONED")
    assert (shop.holds(), shop.balance_micros(), messages()) == ({}, FUNDS_MICROS, [])
    assert shop.submit(key=key).status_code == 202


@pytest.mark.contract("DPP-53")
def test_dpp_53_a_sweep_after_the_hold_gives_it_back(shop: Shop, let_in: LetIn) -> None:
    def sweep() -> None:
        (run,) = shop.runs()
        gear.aged(run, updated_at=61)
        recovery.run_loop(hold_auditor.audit_holds)

    let_in("hold", sweep, after=True)
    answer = shop.submit()
    assert (answer.status_code, answer.json()["reason_code"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
    assert (shop.holds(), shop.balance_micros(), messages()) == ({}, FUNDS_MICROS, [])
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("DPP-08")
def test_dpp_08_a_refusal_cannot_drop_the_row_that_a_resumer_holds_money_for(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The balance is too low for the first; before it drops the row there is a top-up, and a retry resumes it."""
    key, seen, drop = a_request_key(), [], transitions.drop

    def rival_then_drop(**arguments: Any) -> Any:
        monkeypatch.setattr(transitions, "drop", drop)
        top_up(shop.tenant, PRICE_MICROS)
        lock_lapses(shop)
        seen.append(shop.submit(key=key))
        return drop(**arguments)

    def drain_then_hold(**arguments: Any) -> Any:
        monkeypatch.setattr(services, "hold", hold)
        take_balance_to(shop.tenant, 0)
        return hold(**arguments)

    hold = services.hold
    monkeypatch.setattr(services, "hold", drain_then_hold)
    monkeypatch.setattr(transitions, "drop", rival_then_drop)
    mine = shop.submit(key=key)
    (theirs,) = seen
    assert (mine.status_code, theirs.status_code) == (202, 202)
    assert mine.content == theirs.content
    (run,) = shop.runs()
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}
    assert len(messages()) == 1
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("DPP-08", "DPP-53")
def test_dpp_08_a_slow_handler_whose_row_was_dropped_can_hold_nothing(shop: Shop, let_in: LetIn) -> None:
    """Before its hold another resumed the row, was refused, and dropped it; then money came in."""
    key, seen = a_request_key(), []

    def rival() -> None:
        lock_lapses(shop)
        take_balance_to(shop.tenant, PRICE_MICROS - 1)
        seen.append(shop.submit(key=key).status_code)
        top_up(shop.tenant, 1)

    let_in("hold", rival)
    answer = shop.submit(key=key)
    assert (answer.status_code, answer.json()["reason_code"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
    assert seen == [402]
    assert (shop.runs(), shop.holds(), shop.balance_micros(), messages()) == ([], {}, PRICE_MICROS, [])
    recovery.law_holds(shop.tenant)
    assert shop.submit(key=key).status_code == 202


@pytest.mark.contract("DPP-08", "DPP-53")
def test_dpp_08_a_slow_hold_between_the_refusal_and_the_drop_goes_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = transitions.drop

    def hold_then_drop(**arguments: Any) -> Any:
        (run,) = shop.runs()
        top_up(shop.tenant, 1)
        held = services.hold(
            tenant_id=run.tenant_id, run_id=str(run.run_id), reserved_micros=PRICE_MICROS, created_at_ms=1
        )
        assert held == Held(0)
        return drop(**arguments)

    def drain_then_hold(**arguments: Any) -> Any:
        monkeypatch.setattr(services, "hold", hold)
        take_balance_to(shop.tenant, PRICE_MICROS - 1)
        return hold(**arguments)

    hold = services.hold
    monkeypatch.setattr(services, "hold", drain_then_hold)
    monkeypatch.setattr(transitions, "drop", hold_then_drop)
    assert shop.submit().status_code == 402
    assert (shop.runs(), shop.holds(), shop.balance_micros()) == ([], {}, PRICE_MICROS)
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("DPP-08")
def test_dpp_08_money_that_went_between_the_glance_and_the_hold_is_402_and_no_row(shop: Shop, let_in: LetIn) -> None:
    let_in("hold", lambda: take_balance_to(shop.tenant, PRICE_MICROS - 1))
    answer = shop.submit()
    assert (answer.status_code, answer.json()["reason_code"]) == (402, "BUDGET_DRAINED")
    assert answer.headers["X-DPP-Budget-Remaining"] == "0.2499"
    assert (shop.runs(), shop.inputs(), shop.holds(), messages()) == ([], 0, {}, [])
    assert shop.redis_keys("idem*") == []


@pytest.mark.contract("DPP-08")
def test_dpp_08_a_hold_that_stands_already_is_not_refused_for_an_empty_balance(shop: Shop, let_in: LetIn) -> None:
    """The first attempt held the last of the money and died; the retry sees an empty balance, and a row of its own."""
    take_balance_to(shop.tenant, PRICE_MICROS)
    key = a_request_key()

    def die() -> None:
        raise recovery.Died

    let_in("reserve", die)
    with pytest.raises(recovery.Died):
        shop.submit(key=key)
    lock_lapses(shop)
    assert shop.balance_micros() == 0
    assert shop.submit(key=key).status_code == 202
    (run,) = shop.runs()
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}


# DPP-09: the message that was not known to be sent.


@pytest.fixture
def queue_away(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Sending fails after all that is put into this list has happened."""
    before: list[Callable[[], object]] = []

    def refuse(_wakeup: object) -> None:
        for happen in before:
            happen()
        raise Unreachable("no answer")

    monkeypatch.setattr(wake_worker, "send_wakeup", refuse)
    return before


QueueAway = list[Callable[[], object]]


def test_dpp_09_a_failed_send_ends_the_run_and_frees_the_key(shop: Shop, queue_away: QueueAway) -> None:
    key = a_request_key()
    answer = shop.submit(key=key)
    (run,) = shop.runs()
    assert (answer.status_code, answer.json()["reason_code"]) == (503, "QUEUE_ENQUEUE_FAILED")
    assert answer.json()["run_id"] == str(run.run_id)
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.headers["X-DPP-Cost-Used"] == "0.0000"
    assert (run.status, run.money_state, run.last_error_reason_code) == ("FAILED", "REFUNDED", "QUEUE_ENQUEUE_FAILED")
    assert run.idempotency_key is None
    assert (shop.holds(), shop.balance_micros()) == ({}, FUNDS_MICROS)
    assert shop.redis_keys("idem*") == []
    recovery.law_holds(shop.tenant)


def test_dpp_09_the_claim_comes_before_the_refund(
    shop: Shop, queue_away: QueueAway, monkeypatch: pytest.MonkeyPatch
) -> None:
    refund = services.refund
    stages: list[str | None] = []

    def watched(**arguments: Any) -> Any:
        stages.extend(run.finalize_stage for run in shop.runs())
        return refund(**arguments)

    monkeypatch.setattr(services, "refund", watched)
    assert shop.submit().status_code == 503
    assert stages == ["CLAIMED"]


def test_dpp_09_a_worker_that_was_faster_keeps_the_run(shop: Shop, queue_away: QueueAway) -> None:
    """SQS had taken the message although no answer came."""

    def start() -> None:
        (run,) = shop.runs()
        gear.won(transitions.start(run_id=run.run_id, version=run.version, lease_token="lease", actor="worker"))

    queue_away.append(start)
    answer = shop.submit()
    (run,) = shop.runs()
    assert (answer.status_code, answer.json()["run_id"]) == (202, str(run.run_id))
    assert (run.status, run.money_state, run.finalize_stage) == ("PROCESSING", "RESERVED", None)
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}


def test_dpp_09_a_run_that_was_ended_meanwhile_stays_ended(shop: Shop, queue_away: QueueAway) -> None:
    def cancel() -> None:
        (run,) = shop.runs()
        cancellation.cancel_run(tenant_id=shop.tenant.tenant_id, run_id=run.run_id, actor="test")

    queue_away.append(cancel)
    assert shop.submit().status_code == 202
    (run,) = shop.runs()
    assert run.last_error_reason_code == "CANCELED_BY_OWNER"
    assert shop.balance_micros() == FUNDS_MICROS
    recovery.law_holds(shop.tenant)


def test_dpp_09_an_unclaimed_row_that_moved_is_claimed_at_its_new_version(
    shop: Shop, queue_away: QueueAway, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, tried = transitions.claim_unsent, []

    def once_late(**arguments: Any) -> Any:
        tried.append(arguments["run"])
        return claim(**(arguments | {"run": replace(tried[0], version=-1)} if len(tried) == 1 else arguments))

    monkeypatch.setattr(transitions, "claim_unsent", once_late)
    assert shop.submit().status_code == 503
    assert len(tried) == 2
    assert shop.runs()[0].status == "FAILED"


def test_dpp_09_without_redis_the_intent_waits_for_the_reconciler(
    shop: Shop, queue_away: QueueAway, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_away.append(lambda: redis.redis_client().delete(keys.EPOCH))
    key = a_request_key()
    answer = shop.submit(key=key)
    assert (answer.status_code, answer.json()["reason_code"]) == (503, "QUEUE_ENQUEUE_FAILED")
    (run,) = shop.runs()
    assert (run.status, run.finalize_stage, run.intent_reason_code) == ("QUEUED", "CLAIMED", "QUEUE_ENQUEUE_FAILED")
    rebuild.rebuild_all()
    assert shop.submit(key=key).json()["reason_code"] == "IDEMPOTENCY_IN_PROGRESS"
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}
    recovery.law_holds(shop.tenant)
