"""When a delivery is tried again, and when its endpoint is paused or given up (HOOK-03, HOOK-05)."""

from datetime import UTC, datetime, timedelta

import pytest

from tenants.webhooks.dispatch import breaker, schedule
from tenants.webhooks.dispatch.breaker import GivenUp, Health

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.mark.contract("HOOK-03")
def test_hook_03_ten_attempts_over_about_75_hours() -> None:
    waits = [schedule.seconds_until_next(attempts, chance=0.5) for attempts in range(11)]
    assert waits == [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400, None]
    assert 74 < sum(wait or 0 for wait in waits) / 3_600 < 76


@pytest.mark.contract("HOOK-03")
def test_hook_03_each_wait_is_spread_by_a_tenth() -> None:
    assert schedule.seconds_until_next(2, chance=0.0) == pytest.approx(270)
    assert schedule.seconds_until_next(2, chance=0.999999) == pytest.approx(330, abs=0.01)


@pytest.mark.contract("HOOK-03")
def test_hook_03_a_receiver_may_ask_for_longer_and_not_for_shorter() -> None:
    assert schedule.seconds_until_next(1, chance=0.5, retry_after=60) == 60
    assert schedule.seconds_until_next(2, chance=0.5, retry_after=60) == 300
    assert schedule.seconds_until_next(10, chance=0.5, retry_after=60) is None


@pytest.mark.contract("HOOK-03")
@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("0", 0),
        ("86401", 86_400),
        ("9" * 400, 86_400),
        ("Sun, 01 Mar 2026 12:02:00 GMT", 120),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
        ("Sun, 01 Mar 2036 11:00:00 GMT", 86_400),
        ("Sun, 01 Mar 2026 12:02:00 -0000", 120),
        ("Sun, 01 Mar 2026 21:02:00 +0900", 120),
        ("", 0),
        ("-5", 0),
        ("1.5", 0),
        ("nan", 0),
        ("soon", 0),
        ("٣", 0),
        ("1e9", 0),
        ("Sun, 99 Mar 2026 12:02:00 GMT", 0),
        ("Sun, 01 Mar 0000 12:02:00 GMT", 0),
    ],
)
def test_hook_03_retry_after_is_seconds_or_a_date_and_bounded(said: str, seconds: float) -> None:
    assert schedule.retry_after_seconds(said, now=NOW) == seconds


def failed(
    times: int, *, status_code: int | None = 500, retry_after: float = 0.0, before: Health | None = None
) -> Health:
    health = before or Health(last_success_at=NOW - DAY)
    for _ in range(times):
        health = breaker.after_failure(health, now=NOW, status_code=status_code, retry_after=retry_after, ms=9)
    return health


@pytest.mark.contract("HOOK-04")
@pytest.mark.parametrize(
    ("failures", "seconds"), [(4, None), (5, 30), (6, 60), (7, 120), (11, 1_920), (12, 3_600), (1_000, 3_600)]
)
def test_hook_04_five_failures_in_a_row_pause_and_the_pause_doubles_to_an_hour(
    failures: int, seconds: int | None
) -> None:
    paused = failed(failures).paused_until
    assert paused == (None if seconds is None else NOW + timedelta(seconds=seconds))


@pytest.mark.contract("HOOK-03")
@pytest.mark.parametrize("status_code", [429, 502, 504])
def test_hook_03_what_asks_for_less_pauses_from_the_first_on(status_code: int) -> None:
    assert failed(1, status_code=status_code).paused_until == NOW + timedelta(seconds=30)
    assert failed(2, status_code=status_code).paused_until == NOW + timedelta(seconds=60)


@pytest.mark.contract("HOOK-03")
def test_hook_03_retry_after_pauses_the_endpoint_for_an_hour_at_most() -> None:
    assert failed(1, status_code=503, retry_after=90).paused_until == NOW + timedelta(seconds=90)
    assert failed(1, status_code=429, retry_after=5).paused_until == NOW + timedelta(seconds=30)
    assert failed(1, status_code=429, retry_after=86_400).paused_until == NOW + HOUR


def test_a_shorter_pause_never_ends_a_longer_one() -> None:
    before = Health(consecutive_failures=1, failing_since=NOW, paused_until=NOW + HOUR)
    assert failed(1, status_code=429, before=before).paused_until == NOW + HOUR


@pytest.mark.contract("HOOK-05")
def test_hook_05_a_success_forgets_all_failures() -> None:
    before = failed(7, before=Health(failing_since=NOW - 6 * DAY, failed_again_at=NOW - DAY, consecutive_failures=3))
    later = NOW + DAY
    assert breaker.after_success(before, now=later, ms=2_000) == Health(last_success_at=later)
    assert breaker.after_success(before, now=later, ms=2_001) == Health(last_success_at=later, slow_at=later)


def test_a_success_that_was_under_way_does_not_end_the_pause() -> None:
    paused = failed(1, status_code=429, retry_after=600)
    soon = NOW + timedelta(seconds=1)
    assert breaker.after_success(paused, now=soon, ms=5) == Health(
        last_success_at=soon, paused_until=NOW + timedelta(seconds=600)
    )


@pytest.mark.contract("HOOK-05")
@pytest.mark.parametrize(
    ("since", "again", "why"),
    [
        (5 * DAY, HOUR, GivenUp.FAILING),
        (5 * DAY - timedelta(seconds=1), HOUR, None),
        (9 * DAY, None, None),
        (None, None, None),
    ],
)
def test_hook_05_five_days_of_failing_give_it_up_and_one_outage_does_not(
    since: timedelta | None, again: timedelta | None, why: GivenUp | None
) -> None:
    health = Health(
        failing_since=None if since is None else NOW - since, failed_again_at=None if again is None else NOW - again
    )
    assert breaker.given_up(health, now=NOW, status_code=500) is why


def test_hook_05_the_second_failure_counts_twelve_hours_after_the_first() -> None:
    first = failed(1)
    assert (first.failing_since, first.failed_again_at) == (NOW, None)
    early = breaker.after_failure(
        first, now=NOW + 12 * HOUR - timedelta(seconds=1), status_code=500, retry_after=0, ms=9
    )
    assert (early.failing_since, early.failed_again_at) == (NOW, None)
    late = breaker.after_failure(early, now=NOW + 12 * HOUR, status_code=500, retry_after=0, ms=9)
    assert (late.failing_since, late.failed_again_at) == (NOW, NOW + 12 * HOUR)
    assert (
        breaker.after_failure(late, now=NOW + DAY, status_code=500, retry_after=0, ms=9).failed_again_at
        == NOW + 12 * HOUR
    )


@pytest.mark.contract("HOOK-03")
def test_hook_03_gone_is_given_up_at_once() -> None:
    assert breaker.given_up(Health(last_success_at=NOW), now=NOW, status_code=410) is GivenUp.GONE
    assert breaker.given_up(Health(last_success_at=NOW), now=NOW, status_code=404) is None


@pytest.mark.contract("HOOK-04")
def test_hook_04_what_was_slow_is_so_until_it_has_been_quick_for_five_minutes() -> None:
    """One quick answer between hangings would give it all its room again."""
    hung = breaker.after_failure(Health(last_success_at=NOW), now=NOW, status_code=None, retry_after=0, ms=15_000)
    assert hung.slow_at == NOW
    soon = NOW + timedelta(minutes=5) - timedelta(seconds=1)
    quick = breaker.after_success(hung, now=soon, ms=10)
    assert (quick.consecutive_failures, quick.slow_at) == (0, NOW)
    failed_quickly = breaker.after_failure(quick, now=soon, status_code=500, retry_after=0, ms=10)
    assert failed_quickly.slow_at == NOW
    assert breaker.after_success(failed_quickly, now=NOW + timedelta(minutes=5), ms=10).slow_at is None
    assert breaker.after_success(quick, now=soon, ms=2_001).slow_at == soon
