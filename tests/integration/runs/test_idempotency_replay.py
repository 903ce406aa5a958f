"""The same key again: what is answered, from Redis, from the database alone, and to whoever comes second."""

import threading
import uuid
from typing import Any

import pytest
from django.db import connections

from budget import services
from dpp_project.constants import IDEMPOTENCY_MAPPING_TTL_SECONDS
from dpp_project.reasons import ReasonCode
from dpp_project.stores import redis
from runs import transitions
from runs.finish.finalization import Committed, finish_claim
from runs.intents import Intent
from runs.models import Run
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import (
    PRICE_MICROS,
    Shop,
    a_body,
    a_request_key,
    a_shop,
    close_money,
    messages,
    take_balance_to,
)

OTHER = a_body(reservation={"max_cost_usd": "0.2501"})


def reason(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["reason_code"]


def mapping(shop: Shop, key: str) -> str:
    return f"idem:{shop.tenant.tenant_id}:{key}"


def one_of_everything(shop: Shop) -> None:
    """One run, one hold, one message, and the books agree."""
    (run,) = shop.runs()
    assert (run.status, run.money_state) == ("QUEUED", "RESERVED")
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}
    assert [message["run_id"] for message in messages()] == [str(run.run_id)]
    assert shop.redis_keys("idem_lock*") == []
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("DPP-06")
def test_dpp_04_the_same_request_is_answered_with_the_same_bytes(shop: Shop) -> None:
    key = a_request_key()
    first = shop.submit(key=key, headers={"X-Trace-Id": "first"})
    again = shop.submit(key=key, headers={"X-Trace-Id": "second"})
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.content == first.content
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["X-Trace-Id"] == "second"
    assert again.headers["X-DPP-Cost-Reserved"] == "0.2500"
    one_of_everything(shop)


def test_dpp_04_the_same_bytes_come_from_the_database_alone(shop: Shop) -> None:
    key = a_request_key()
    body = a_body(
        reservation={"max_cost_usd": "0.2500", "timebox_sec": 7, "min_reliability_score": 0.30000000000000004},
        meta={"profile_version": "PROFILE_X", "trace_id": "of-body"},
    )
    first = shop.submit(body, key=key)
    redis.redis_client().delete(mapping(shop, key))
    again = shop.submit(body, key=key)
    assert again.content == first.content
    assert again.headers["Idempotent-Replayed"] == "true"
    assert redis.redis_client().hget(mapping(shop, key), "run_id") == first.json()["run_id"]
    one_of_everything(shop)


def test_dpp_04_a_replay_needs_no_money(shop: Shop) -> None:
    key = a_request_key()
    first = shop.submit(key=key)
    take_balance_to(shop.tenant, 0)
    assert shop.submit(key=key).content == first.content
    redis.redis_client().delete(mapping(shop, key))
    assert shop.submit(key=key).content == first.content


def test_dpp_04_a_replay_is_answered_while_money_is_closed(shop: Shop) -> None:
    key = a_request_key()
    first = shop.submit(key=key)
    redis.redis_client().flushall()
    again = shop.submit(key=key)
    assert again.content == first.content
    assert again.headers["X-DPP-Budget-Remaining"] == "0.0000"
    assert reason(shop.submit()) == (503, "BUDGET_UNAVAILABLE")


def test_dpp_04_a_replay_of_an_ended_run_is_the_receipt_with_its_costs(shop: Shop) -> None:
    key = a_request_key()
    first = shop.submit(key=key)
    assert shop.cancel(first.json()["run_id"]).status_code == 200
    again = shop.submit(key=key)
    assert again.content == first.content
    assert (again.headers["X-DPP-Cost-Used"], again.headers["X-DPP-Budget-Remaining"]) == ("0.0000", "10.0000")


def test_dpp_04_another_request_under_the_key_is_a_conflict(shop: Shop) -> None:
    key = a_request_key()
    first = shop.submit(key=key)
    conflict = shop.submit(OTHER, key=key)
    assert reason(conflict) == (409, "IDEMPOTENCY_CONFLICT")
    assert conflict.json()["run_id"] == first.json()["run_id"]
    redis.redis_client().delete(mapping(shop, key))
    assert reason(shop.submit(OTHER, key=key)) == (409, "IDEMPOTENCY_CONFLICT")
    one_of_everything(shop)


def test_dpp_04_the_loser_of_the_lock_is_told_of_the_conflict_too(shop: Shop) -> None:
    key = a_request_key()
    shop.submit(key=key)
    redis.redis_client().set(f"idem_lock:{shop.tenant.tenant_id}:{key}", "another", ex=5)
    assert reason(shop.submit(OTHER, key=key)) == (409, "IDEMPOTENCY_CONFLICT")
    assert shop.submit(key=key).status_code == 202
    assert redis.redis_client().get(f"idem_lock:{shop.tenant.tenant_id}:{key}") == "another"


def test_dpp_04_keys_of_two_tenants_do_not_meet(shop: Shop) -> None:
    key, other = a_request_key(), a_shop()
    assert shop.submit(key=key).json()["run_id"] != other.submit(OTHER, key=key).json()["run_id"]


def test_dpp_05_the_loser_of_the_lock_without_a_mapping_is_asked_to_come_again(shop: Shop) -> None:
    key = a_request_key()
    lock = f"idem_lock:{shop.tenant.tenant_id}:{key}"
    redis.redis_client().set(lock, "another", ex=5)
    response = shop.submit(key=key)
    assert reason(response) == (409, "IDEMPOTENCY_IN_PROGRESS")
    assert response.headers["Retry-After"] == "1"
    assert shop.runs() == []
    assert redis.redis_client().get(lock) == "another", "a lock is released by its owner alone"


def test_dpp_05_a_lock_that_passed_to_another_is_left_to_him(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    key = a_request_key()
    lock = f"idem_lock:{shop.tenant.tenant_id}:{key}"
    hold = services.hold

    def slow_hold(**arguments: Any) -> Any:
        redis.redis_client().set(lock, "another", ex=5)
        return hold(**arguments)

    monkeypatch.setattr(services, "hold", slow_hold)
    assert shop.submit(key=key).status_code == 202
    assert redis.redis_client().get(lock) == "another"


@pytest.mark.parametrize("clients", [50])
def test_dpp_06_fifty_at_once_make_one_run(shop: Shop, clients: int) -> None:
    key = a_request_key()
    barrier = threading.Barrier(clients)
    answers: list[Any] = []

    def ask() -> None:
        mine = Shop(tenant=shop.tenant, issued=shop.issued)
        barrier.wait(30)
        answers.append(mine.submit(key=key))
        connections.close_all()

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == clients
    accepted = [answer for answer in answers if answer.status_code == 202]
    others = {reason(answer) for answer in answers if answer.status_code != 202}
    assert accepted
    assert others <= {(409, "IDEMPOTENCY_IN_PROGRESS")}
    assert len({answer.content for answer in accepted}) == 1
    assert sum("Idempotent-Replayed" not in answer.headers for answer in accepted) == 1
    one_of_everything(shop)


def test_dpp_06_the_mapping_lives_as_long_as_the_key(shop: Shop) -> None:
    """Written late, it still ends thirty days after the run began."""
    key = a_request_key()
    shop.submit(key=key)
    (run,) = shop.runs()
    gear.aged(run, created_at=86_400)
    redis.redis_client().delete(mapping(shop, key))
    shop.submit(key=key)
    left = redis.redis_client().ttl(mapping(shop, key))
    assert abs(left - (IDEMPOTENCY_MAPPING_TTL_SECONDS - 86_400)) < 10


def ended_as(shop: Shop, run: Run, code: ReasonCode, *, commit: bool = True) -> None:
    intent = Intent.full_refund(reason=code)
    claimed = gear.won(transitions.claim_unsent(run=run, intent=intent, actor="test"))
    if commit:
        assert finish_claim(claimed.claim) == Committed(run.version + 2)


@pytest.mark.parametrize("code", [ReasonCode.QUEUE_ENQUEUE_FAILED, ReasonCode.SUBMIT_ABANDONED])
@pytest.mark.parametrize("is_mapped", [True, False])
def test_dpp_06_the_key_of_a_run_that_never_was_is_free_again(shop: Shop, code: ReasonCode, *, is_mapped: bool) -> None:
    """Whether its mapping was dropped or stayed behind."""
    key = a_request_key()
    first = shop.submit(key=key)
    (run,) = shop.runs()
    ended_as(shop, run, code)
    if not is_mapped:
        redis.redis_client().delete(mapping(shop, key))
    messages()
    again = shop.submit(OTHER, key=key)
    assert again.status_code == 202
    assert again.json()["run_id"] != first.json()["run_id"]
    assert "Idempotent-Replayed" not in again.headers
    assert redis.redis_client().hget(mapping(shop, key), "run_id") == again.json()["run_id"]
    assert len(messages()) == 1
    recovery.law_holds(shop.tenant)


@pytest.mark.parametrize("is_mapped", [True, False])
def test_dpp_06_until_then_a_retry_is_in_progress(shop: Shop, *, is_mapped: bool) -> None:
    key = a_request_key()
    shop.submit(key=key)
    (run,) = shop.runs()
    ended_as(shop, run, ReasonCode.QUEUE_ENQUEUE_FAILED, commit=False)
    if not is_mapped:
        redis.redis_client().delete(mapping(shop, key))
    response = shop.submit(key=key)
    assert reason(response) == (409, "IDEMPOTENCY_IN_PROGRESS")
    assert response.headers["Retry-After"] == "1"


def test_dpp_06_a_key_is_free_again_after_the_retention(shop: Shop) -> None:
    key = a_request_key()
    first = shop.submit(key=key)
    assert shop.cancel(first.json()["run_id"]).status_code == 200
    run = gear.aged(gear.row(uuid.UUID(first.json()["run_id"])), retention_until=1)
    gear.won(transitions.expire(run_id=run.run_id, version=run.version, actor="test"))
    again = shop.submit(OTHER, key=key)
    assert again.status_code == 202
    assert again.json()["run_id"] != first.json()["run_id"]


@pytest.mark.contract("HRD-08")
@pytest.mark.parametrize("is_mapped", [True, False])
def test_dpp_06_between_the_retention_and_its_pass_a_retry_is_told_gone(shop: Shop, *, is_mapped: bool) -> None:
    """The receipt would send its reader to an address that answers 410."""
    key = a_request_key()
    first = shop.submit(key=key)
    assert shop.cancel(first.json()["run_id"]).status_code == 200
    run = gear.aged(gear.row(uuid.UUID(first.json()["run_id"])), retention_until=1)
    if not is_mapped:
        redis.redis_client().delete(mapping(shop, key))
    messages()
    before = gear.everything(run.run_id)
    again = shop.submit(key=key)
    assert reason(again) == (410, "GONE")
    assert again.json()["run_id"] == str(run.run_id)
    assert reason(shop.submit(OTHER, key=key)) == (409, "IDEMPOTENCY_CONFLICT")
    assert (gear.everything(run.run_id), messages(), shop.holds()) == (before, [], {})
    assert len(shop.runs()) == 1
    assert bool(redis.redis_client().exists(mapping(shop, key))) is is_mapped
    gear.won(transitions.expire(run_id=run.run_id, version=run.version, actor="test"))
    assert shop.submit(key=key).status_code == 202


def test_dpp_06_a_mapping_of_nonsense_is_overwritten(shop: Shop) -> None:
    key = a_request_key()
    redis.redis_client().hset(mapping(shop, key), mapping={"run_id": str(uuid.uuid4()), "payload_hash": "x"})
    response = shop.submit(key=key)
    assert response.status_code == 202
    assert redis.redis_client().hget(mapping(shop, key), "run_id") == response.json()["run_id"]
    one_of_everything(shop)


def test_dpp_06_closed_money_makes_no_row(shop: Shop) -> None:
    close_money()
    response = shop.submit()
    assert reason(response) == (503, "BUDGET_UNAVAILABLE")
    assert int(response.headers["Retry-After"]) > 0
    assert shop.runs() == []
    assert shop.redis_keys("idem*") == []
