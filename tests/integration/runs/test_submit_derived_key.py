"""A submit without a key of the caller's: the same purchase within ten minutes is bought once (DPP-82)."""

import threading
from typing import Any

import pytest
from django.db import connection

from dpp_project.aws.sqs_sender import Unreachable
from dpp_project.stores import redis
from reaper import hold_auditor
from runs import transitions
from runs.models import Run
from runs.submit import derived_key, key_lock, submission, wake_worker
from tests.gear import round_trips
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.recovery import FUNDS_MICROS, Died
from tests.gear.builders.shop import PRICE_MICROS, RUNS, Shop, a_body, a_shop, messages, take_balance_to, top_up
from tests.gear.builders.tenants import bearer

pytestmark = pytest.mark.contract("DPP-82", "DPP-01")


def buy(shop: Shop, body: Any = None, **headers: str) -> Any:
    return shop.client.post(
        RUNS,
        data=a_body() if body is None else body,
        content_type="application/json",
        headers=bearer(shop.issued) | {"DPP-Derive-Key": "1"} | headers,
    )


def generation(answer: Any) -> int:
    return int(answer.headers["DPP-Derived-Key"].rpartition("-")[2])


def lock_lapses() -> None:
    for lock in redis.redis_client().keys("idem_lock:*"):
        redis.redis_client().delete(lock)


def test_dpp_82_a_retry_without_a_key_pays_once_and_says_how_to_buy_a_second(shop: Shop) -> None:
    first, again = buy(shop), buy(shop)
    (run,) = shop.runs()
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.content == first.content
    assert run.idempotency_key == f"auto-{run.payload_hash[:40]}-1" == first.headers["DPP-Derived-Key"]
    assert again.headers["DPP-Derived-Key"] == run.idempotency_key
    assert "DPP-Derived-Key-Hint" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "send an idempotency key of your own" in again.headers["DPP-Derived-Key-Hint"]
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}
    assert len(messages()) == 1


def test_dpp_82_ten_minutes_later_it_is_another_purchase(shop: Shop) -> None:
    first = shop_run(buy(shop))
    gear.aged(first, created_at=599)
    assert shop_run(buy(shop)) == first
    gear.aged(first, created_at=601)
    second = buy(shop)
    assert (shop_run(second) != first, generation(second)) == (True, 2)
    assert shop_run(buy(shop)) == shop_run(second)
    assert len(shop.runs()) == 2


def shop_run(answer: Any) -> Run:
    assert answer.status_code == 202, answer.content
    return Run.objects.get(run_id=answer.json()["run_id"])


def test_dpp_82_another_purchase_another_tenant_or_a_key_of_ones_own_is_another_run(shop: Shop) -> None:
    neighbour = a_shop()
    runs = {
        shop_run(answer).run_id
        for answer in (
            buy(shop),
            buy(shop, a_body(inputs={"sleep_ms": 2})),
            buy(neighbour),
            shop.submit(key="one-of-my-own"),
        )
    }
    assert len(runs) == 4
    assert buy(shop).headers["Idempotent-Replayed"] == "true"


def test_dpp_82_the_key_that_was_told_may_be_sent_as_ones_own(shop: Shop) -> None:
    first = buy(shop)
    again = shop.submit(key=first.headers["DPP-Derived-Key"])
    assert (again.content, "DPP-Derived-Key" in again.headers) == (first.content, False)
    assert len(shop.runs()) == 1


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"DPP-Derive-Key": "true"}, "send 1, or leave it out"),
        ({"DPP-Derive-Key": ""}, "send 1, or leave it out"),
        ({"Idempotency-Key": "one-of-my-own"}, "send it or Idempotency-Key, not both"),
    ],
)
def test_dpp_82_a_wish_that_is_not_clear_is_refused(shop: Shop, headers: dict[str, str], said: str) -> None:
    answer = buy(shop, None, **headers)
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"field": "header.DPP-Derive-Key", "detail": said}]
    shop.nothing_happened()


def test_dpp_82_a_wrong_body_costs_a_token_and_nothing_else(shop: Shop) -> None:
    answer = buy(shop, a_body(colour="blue"))
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "colour")
    assert int(answer.headers["X-RateLimit-Remaining"]) < int(answer.headers["X-RateLimit-Limit"])
    shop.nothing_happened()


def test_dpp_82_beyond_the_rate_no_statement_is_spent(valkey: Any, aws: str, transactional_db: None) -> None:
    recovery.empty_queues()
    shop = a_shop(submit_rate_per_minute=1, opens=True)
    buy(shop)
    with round_trips.counted() as seen:
        assert buy(shop).status_code == 429
    assert (seen.sql, seen.redis) == ([], 1)


def test_dpp_82_a_derived_key_costs_one_statement_and_one_trip_more(shop: Shop) -> None:
    buy(shop, a_body(inputs={"sleep_ms": 2}))
    with round_trips.counted() as first:
        assert buy(shop).status_code == 202
    with round_trips.counted() as again:
        assert buy(shop).headers["Idempotent-Replayed"] == "true"
    assert [sql.strip().split()[0] for sql in first.sql] == ["SELECT", "WITH", "UPDATE"]
    assert (first.redis, first.sqs) == (4, 1)
    assert [sql.strip().split()[0] for sql in again.sql] == ["SELECT", "SELECT"]
    assert (again.redis, again.sqs) == (3, 0)


@pytest.mark.parametrize("at_least", [2, 6])
def test_dpp_82_racers_derive_one_key_and_make_one_run(shop: Shop, at_least: int) -> None:
    """All have derived before the first inserts."""
    gate, answers = threading.Barrier(at_least), []
    real = derived_key.derived_key_of

    def together(**named: Any) -> str:
        key = real(**named)
        gate.wait(20)
        return key

    def go() -> None:
        try:
            answers.append(buy(Shop(shop.tenant, shop.issued)))
        finally:
            connection.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(derived_key, "derived_key_of", together)
        threads = [threading.Thread(target=go) for _ in range(at_least)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    (run,) = shop.runs()
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}
    codes = sorted(answer.status_code for answer in answers)
    assert codes[0] == 202
    assert set(codes) <= {202, 409}
    assert {answer.json()["reason_code"] for answer in answers if answer.status_code == 409} <= {
        "IDEMPOTENCY_IN_PROGRESS"
    }
    assert shop_run(buy(shop)) == run
    recovery.law_holds(shop.tenant)


def test_dpp_82_who_dies_after_deriving_leaves_nothing_and_the_retry_derives_the_same(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(**_named: Any) -> Any:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(submission, "submit_run", dies)
        with pytest.raises(Died):
            buy(shop)
    shop.nothing_happened()
    assert generation(buy(shop)) == 1


@pytest.mark.parametrize(("module", "step"), [(transitions, "accept"), (key_lock, "write_mapping")])
def test_dpp_82_a_death_half_way_is_resumed_by_the_derived_key(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    real = getattr(module, step)

    def dies(*arguments: Any, **named: Any) -> Any:
        real(*arguments, **named)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(module, step, dies)
        patch.setattr(key_lock, "release_key_lock", lambda _lock: None)
        with pytest.raises(Died):
            buy(shop)
    lock_lapses()
    assert generation(buy(shop)) == 1
    (run,) = shop.runs()
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}
    recovery.law_holds(shop.tenant)


def test_dpp_82_a_purchase_that_was_never_queued_gives_its_key_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_wakeup: object) -> None:
        raise Unreachable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(wake_worker, "send_wakeup", away)
        assert buy(shop).json()["reason_code"] == "QUEUE_ENQUEUE_FAILED"
    again = buy(shop)
    assert (again.status_code, generation(again)) == (202, 1)
    assert "Idempotent-Replayed" not in again.headers
    recovery.law_holds(shop.tenant)


def test_dpp_82_an_abandoned_purchase_gives_its_key_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(**_named: Any) -> Any:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(transitions, "reserve", dies)
        with pytest.raises(Died):
            buy(shop)
    lock_lapses()
    (abandoned,) = shop.runs()
    gear.aged(abandoned, created_at=200, updated_at=200)
    recovery.run_loop(hold_auditor.audit_holds)
    assert gear.row(abandoned.run_id).last_error_reason_code == "SUBMIT_ABANDONED"
    again = buy(shop)
    assert (generation(again), shop_run(again) != abandoned) == (1, True)
    assert shop.balance_micros() == FUNDS_MICROS - PRICE_MICROS
    recovery.law_holds(shop.tenant)


def test_dpp_82_no_money_no_row_and_the_same_key_after_a_top_up(shop: Shop) -> None:
    take_balance_to(shop.tenant, 0)
    assert buy(shop).json()["reason_code"] == "BUDGET_DRAINED"
    assert shop.runs() == []
    top_up(shop.tenant, FUNDS_MICROS)
    assert generation(buy(shop)) == 1


def test_dpp_82_a_clock_that_was_set_back_replays_and_never_sells_a_retry_twice(shop: Shop) -> None:
    """The first purchase seems to lie an hour ahead, the second before it: the higher generation is the newest."""
    first = shop_run(buy(shop))
    gear.aged(first, created_at=601)
    second = shop_run(buy(shop))
    gear.aged(first, created_at=-3_600)
    assert shop_run(buy(shop)) == second
    gear.aged(second, created_at=601)
    third = buy(shop)
    assert (generation(third), len(shop.runs())) == (3, 3)
    assert shop_run(buy(shop)) == shop_run(third)


@pytest.mark.parametrize("last", ["999999999999999999", "12x", "0000000000000000001"])
def test_dpp_82_keys_of_that_form_that_a_caller_made_up_break_nothing(shop: Shop, last: str) -> None:
    stem = buy(shop).headers["DPP-Derived-Key"].removesuffix("1")
    odd = shop_run(shop.submit(key=(stem + last)[:64]))
    for run in shop.runs():
        gear.aged(run, created_at=601)
    answer = buy(shop)
    assert answer.status_code == 202
    assert len(answer.headers["DPP-Derived-Key"]) <= 64
    assert odd.idempotency_key == (stem + last)[:64]


@pytest.mark.django_db
def test_dpp_82_only_derived_keys_stand_in_their_index_and_it_is_read(shop: Shop) -> None:
    stem = buy(shop).headers["DPP-Derived-Key"].removesuffix("1")
    (run,) = shop.runs()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off") if connection.in_atomic_block else None
        cursor.execute(
            f"EXPLAIN {derived_key._NEWEST}", [derived_key.YOUNG_SECONDS, run.tenant_id, run.payload_hash, stem]
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute("SELECT pg_get_indexdef('idx_runs_derived'::regclass)")
        [(definition,)] = cursor.fetchall()
    assert "(tenant_id, payload_hash) WHERE (idempotency_key ~~ 'auto-%'::text)" in definition
    assert "idx_runs_derived" in plan, plan
