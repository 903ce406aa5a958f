"""The token bucket against a real Valkey: exact grants, exact refill, nothing lost to rounding (DPP-10)."""

import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
import redis as redis_library

from tenants import rate_limits
from tenants.principals import Principal
from tenants.rate_limits import Bucket, Decision

pytestmark = pytest.mark.contract("DPP-10")

TOKEN = 60_000_000
MINUTE = 60_000_000
KEY = "rate:t_a:poll"


def a_principal(*, poll: int = 60, submit: int = 60) -> Principal:
    return Principal("t_a", uuid4(), "abcdefgh", frozenset(), None, poll, submit)


def take(limit: int = 60) -> Decision:
    return rate_limits.check_rate_limit(a_principal(poll=limit), Bucket.POLL)


def server_now(valkey: redis_library.Redis) -> int:
    seconds, micros = valkey.time()
    return int(seconds) * 1_000_000 + int(micros)


def leave(valkey: redis_library.Redis, *, level: int, age: int) -> None:
    """The bucket as it stood `age` microseconds ago."""
    valkey.hset(KEY, mapping={"level": level, "at": server_now(valkey) - age})


def test_rate_limit_first_request_finds_a_full_bucket(valkey: redis_library.Redis) -> None:
    assert take() == Decision(Bucket.POLL, 60, allowed=True, remaining=59, reset_seconds=1)
    assert valkey.keys() == [KEY]


def test_rate_limit_grants_the_limit_and_not_one_more(valkey: redis_library.Redis) -> None:
    granted = [take(5) for _ in range(7)]
    assert [decision.allowed for decision in granted] == [True] * 5 + [False] * 2
    assert [decision.remaining for decision in granted] == [4, 3, 2, 1, 0, 0, 0]
    assert 58 <= granted[-1].reset_seconds <= 60


def test_rate_limit_a_refusal_takes_nothing(valkey: redis_library.Redis) -> None:
    leave(valkey, level=TOKEN - 40_000_000, age=20_000_000)  # 40 s short of a token, 20 s ago
    assert take(1).allowed is False
    level = int(valkey.hget(KEY, "level") or 0)
    assert TOKEN - 20_000_000 <= level < TOKEN


def test_rate_limit_one_second_brings_one_token_of_sixty(valkey: redis_library.Redis) -> None:
    leave(valkey, level=0, age=1_000_000)
    assert take() == Decision(Bucket.POLL, 60, allowed=True, remaining=0, reset_seconds=60)


def test_rate_limit_a_bucket_of_one_refills_in_a_minute_and_not_before(valkey: redis_library.Redis) -> None:
    leave(valkey, level=0, age=MINUTE // 2)
    assert take(1).allowed is False
    leave(valkey, level=0, age=MINUTE)
    assert [take(1).allowed, take(1).allowed] == [True, False]


def test_rate_limit_an_idle_minute_fills_the_bucket_and_no_more(valkey: redis_library.Redis) -> None:
    for age in (MINUTE, 50 * MINUTE):
        leave(valkey, level=0, age=age)
        assert take().remaining == 59


def test_rate_limit_greatest_limit_is_exact(valkey: redis_library.Redis) -> None:
    leave(valkey, level=0, age=MINUTE)
    assert take(1_000_000).remaining == 999_999
    assert valkey.hget(KEY, "level") == str(999_999 * TOKEN)


def test_rate_limit_numbers_are_written_whole(valkey: redis_library.Redis) -> None:
    take(1_000_000)
    kept = valkey.hgetall(KEY)
    assert all(value.isdigit() for value in kept.values())
    assert abs(int(kept["at"]) - server_now(valkey)) < 5_000_000


def test_rate_limit_clock_set_back_gives_nothing_and_blocks_nothing(valkey: redis_library.Redis) -> None:
    leave(valkey, level=TOKEN, age=-3_600_000_000)
    assert take(1).allowed is True
    assert take(1).allowed is False
    assert int(valkey.hget(KEY, "at") or 0) <= server_now(valkey)


def test_rate_limit_lowered_limit_holds_at_once(valkey: redis_library.Redis) -> None:
    take(6_000)
    assert take(10).remaining == 9


def test_rate_limit_raised_limit_fills_at_the_new_pace(valkey: redis_library.Redis) -> None:
    leave(valkey, level=0, age=30_000_000)
    assert take(4).remaining == 1


def test_rate_limit_key_goes_when_it_says_nothing_more(valkey: redis_library.Redis) -> None:
    take()
    assert 60 <= int(valkey.ttl(KEY)) <= 61


def test_rate_limit_tenants_and_buckets_draw_from_their_own(valkey: redis_library.Redis) -> None:
    principal = a_principal(poll=1, submit=2)
    assert rate_limits.check_rate_limit(principal, Bucket.POLL).allowed is True
    assert rate_limits.check_rate_limit(principal, Bucket.POLL).allowed is False
    assert rate_limits.check_rate_limit(principal, Bucket.SUBMIT).remaining == 1
    neighbour = Principal("t_b", uuid4(), "abcdefgh", frozenset(), None, 1, 1)
    assert rate_limits.check_rate_limit(neighbour, Bucket.POLL).allowed is True
    assert sorted(valkey.keys()) == ["rate:t_a:poll", "rate:t_a:submit", "rate:t_b:poll"]


def test_rate_limit_fifty_threads_get_capacity_and_refill_and_no_more(valkey: redis_library.Redis) -> None:
    limit, threads, each = 120, 50, 10
    started = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        answers = list(pool.map(lambda _: take(limit), range(threads * each)))
    elapsed = time.monotonic() - started
    granted = sum(answer.allowed for answer in answers)
    assert limit <= granted <= limit + int(elapsed * limit / 60) + 1
    assert min(answer.remaining for answer in answers) == 0


def test_rate_limit_in_a_pipeline_costs_one_round_trip_and_answers_alike(valkey: redis_library.Redis) -> None:
    valkey.script_flush()
    principal = a_principal(submit=2)
    pipeline = valkey.pipeline(transaction=False)
    rate_limits.queue_check(pipeline, principal, Bucket.SUBMIT)
    pipeline.set("another", "command")
    answer, stored = pipeline.execute()
    assert rate_limits.rate_limit_decision(answer, bucket=Bucket.SUBMIT, limit=2) == Decision(
        Bucket.SUBMIT, 2, allowed=True, remaining=1, reset_seconds=30
    )
    assert stored is True
    assert rate_limits.check_rate_limit(principal, Bucket.SUBMIT).remaining == 0


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "nan", "inf", "1000001", "many", ""])
def test_rate_limit_script_refuses_a_limit_that_is_none_and_writes_nothing(
    valkey: redis_library.Redis, limit: str
) -> None:
    with pytest.raises(redis_library.ResponseError, match="ERR_LIMIT"):
        valkey.eval(rate_limits.TAKE_TOKEN.text, 1, KEY, limit)
    assert valkey.keys() == []


def test_rate_limit_headers_come_in_both_families() -> None:
    decision = Decision(Bucket.SUBMIT, 60, allowed=True, remaining=59, reset_seconds=1)
    assert decision.headers() == {
        "X-RateLimit-Limit": "60",
        "X-RateLimit-Remaining": "59",
        "X-RateLimit-Reset": "1",
        "RateLimit-Policy": '"submit";q=60;w=60',
        "RateLimit": '"submit";r=59;t=1',
    }
