"""A client that does what the product advises is never refused, and the headers say what comes true."""

import pytest
from redis import Redis

from dpp_project.constants import POLL_RECOMMENDED_INTERVAL_MS, RATE_LIMIT_PER_MINUTE_DEFAULT, WAIT_SECONDS_MAX
from dpp_project.http.problems import Problem
from tenants import rate_limits
from tenants.authentication import authenticate_header
from tenants.principals import Principal
from tenants.rate_limits import Bucket, Decision
from tests.gear.builders.shop import RUNS, a_shop
from tests.gear.builders.tenants import a_key, bearer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-10", "DPP-80")]

RUNS_AT_ONCE = 10
LONG_SECONDS = 600


@pytest.fixture
def principal(valkey: Redis) -> Principal:
    found = authenticate_header(bearer(a_key())["Authorization"])
    assert found.poll_rate_per_minute == RATE_LIMIT_PER_MINUTE_DEFAULT == 60
    return found


def take(principal: Principal, count: int = 1) -> list[Decision]:
    return [rate_limits.check_rate_limit(principal, Bucket.POLL) for _ in range(count)]


def later(valkey: Redis, principal: Principal, seconds: float) -> None:
    """The bucket as it stands after so long: its clock is the server's own, so its last time is moved back."""
    key = rate_limits.bucket_key(principal.tenant_id, Bucket.POLL)
    at = valkey.hget(key, "at")
    valkey.hset(key, "at", int(str(at)) - round(seconds * 1_000_000))


def test_dpp_80_ten_runs_waited_for_at_once_never_meet_429(valkey: Redis, principal: Principal) -> None:
    """Each asks again as soon as its wait is over, for ten minutes; and all ten end and begin anew meanwhile, twice."""
    allowed = []
    for _ in range(0, LONG_SECONDS, WAIT_SECONDS_MAX):
        allowed += take(principal, RUNS_AT_ONCE)
        later(valkey, principal, WAIT_SECONDS_MAX / 2)
        allowed += take(principal, 2 * RUNS_AT_ONCE)
        later(valkey, principal, WAIT_SECONDS_MAX / 2)
    assert all(decision.allowed for decision in allowed)


def test_dpp_80_polled_at_the_recommended_interval_they_do(valkey: Redis, principal: Principal) -> None:
    allowed = []
    for _ in range(0, 60_000, POLL_RECOMMENDED_INTERVAL_MS):
        allowed += take(principal, RUNS_AT_ONCE)
        later(valkey, principal, POLL_RECOMMENDED_INTERVAL_MS / 1_000)
    assert not all(decision.allowed for decision in allowed)


@pytest.mark.parametrize("taken", [1, 2, 30, 59, 60, 61, 90])
def test_dpp_10_after_the_seconds_of_reset_the_whole_limit_is_there_and_not_before(
    valkey: Redis, principal: Principal, taken: int
) -> None:
    last = take(principal, taken)[-1]
    assert last.allowed == (taken <= 60)
    seconds = last.reset_seconds
    assert last.headers()["X-RateLimit-Reset"] == str(seconds)
    later(valkey, principal, seconds)
    assert take(principal)[0].remaining == 59, "all sixty were there"
    again = take(principal, taken - 1)
    last = again[-1] if again else last
    later(valkey, principal, last.reset_seconds - 1.5)
    assert take(principal)[0].remaining < 59


def test_dpp_10_a_refusal_says_how_to_need_fewer(valkey: Redis) -> None:
    poor = a_shop(poll_rate_per_minute=1, opens=True)
    assert poor.get(RUNS).status_code == 200
    refused = poor.get(RUNS)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "30")
    assert "GET /v1/runs/{run_id}?wait=55" in refused.json()["detail"]
    assert 58 <= int(refused.headers["X-RateLimit-Reset"]) <= 60


def test_dpp_10_a_submit_is_not_advised_to_wait(valkey: Redis) -> None:
    poor = a_shop(submit_rate_per_minute=1, opens=True)
    poor.submit()
    refused = poor.submit()
    assert refused.status_code == 429
    assert "wait" not in refused.json()["detail"].lower()


def test_dpp_10_an_unknown_key_has_no_bucket(valkey: Redis) -> None:
    with pytest.raises(Problem):
        authenticate_header("Bearer dpp_nobody")
    assert valkey.keys("rate:*") == []
