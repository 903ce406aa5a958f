"""Leases at work: renewed everywhere by one thread, lost for good, and watched (DPP-31)."""

import threading
import uuid
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from django.db import OperationalError, connection
from redis import Redis

from dpp_project.aws import receipt_handles
from dpp_project.constants import LEASE_TTL_SECONDS, QUEUE_VISIBILITY_SECONDS
from dpp_project.reasons import ReasonCode
from dpp_project.settings import ENV
from dpp_project.stores import redis
from runs import transitions
from runs.claims import Lease
from runs.lease_key import lease_key
from runs.models import Run
from runs.worker import leases
from runs.worker.leases import HeldLease, Keeper, WakingMessage
from tests.gear.builders import runs as gear
from tests.gear.builders.recovery import redis_through_proxy
from tests.gear.faults.proxy import Mode
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-31")]

NEVER = 3_600.0
SOON = 0.05


def lease_of(run: Run) -> Lease:
    assert run.lease_token is not None
    return Lease(run.run_id, run.lease_token)


def held(run: Run, *, stop: Callable[[], None] = lambda: None, message: WakingMessage | None = None) -> HeldLease:
    lease = lease_of(run)
    return HeldLease(lease=lease, message=message, stop=stop, has_signal=leases.take_run_lease(lease), since=0.0)


def seconds_left(run: Run) -> float:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM lease_expires_at - clock_timestamp()) FROM runs WHERE run_id = %s", [run.run_id]
        )
        return float(cursor.fetchone()[0])


def canceled(run: Run) -> None:
    intent = gear.fee(ReasonCode.CANCELED_BY_OWNER)
    gear.won(transitions.claim_canceled(run=run, intent=intent, actor="tenant"))


@pytest.fixture
def keeper() -> Keeper:
    """One that is told when to look."""
    return Keeper(watch_seconds=NEVER, beat_seconds=NEVER)


@pytest.fixture
def watching() -> Keeper:
    """One that looks all the time, and beats never."""
    return Keeper(watch_seconds=SOON, beat_seconds=NEVER)


class Stops:
    """Counts the calls of `stop`, from whatever thread."""

    def __init__(self) -> None:
        self.called = threading.Event()
        self.times = 0

    def __call__(self) -> None:
        self.times += 1
        self.called.set()


Kept = list[tuple[str, list[str], int]]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    """What the queue was asked to keep."""
    calls: Kept = []
    monkeypatch.setattr(
        receipt_handles, "keep_receipts", lambda url, handles, *, seconds: calls.append((url, handles, seconds))
    )
    return calls


# Taking.


def test_dpp_30_a_lease_is_taken_once_for_120_seconds(valkey: Redis) -> None:
    lease = Lease(uuid.uuid4(), "mine")
    assert leases.take_run_lease(lease)
    assert valkey.get(f"lease:{lease.run_id}") == "mine"
    assert valkey.ttl(f"lease:{lease.run_id}") == LEASE_TTL_SECONDS
    assert not leases.take_run_lease(Lease(lease.run_id, "theirs"))
    assert valkey.get(f"lease:{lease.run_id}") == "mine"


def test_lease_a_run_goes_on_without_its_signal(valkey: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    redis.disconnect_redis()
    with redis_through_proxy(monkeypatch) as proxy, proxy.outage(Mode.REFUSE):
        redis.disconnect_redis()
        assert not leases.take_run_lease(Lease(uuid.uuid4(), "mine"))
    redis.disconnect_redis()


# The heartbeat.


def test_dpp_31_one_beat_renews_all_leases_everywhere(
    valkey: Redis, keeper: Keeper, kept: Kept, django_assert_num_queries: Callable[[int], ExitStack]
) -> None:  # fmt: skip
    runs = [gear.aged(gear.working(), lease_expires_at=-20) for _ in range(3)]
    mine = [held(run, message=WakingMessage("queue", f"receipt-{at}")) for at, run in enumerate(runs)]
    for run in runs:
        valkey.expire(lease_key(run.run_id), 20)
    with django_assert_num_queries(1):
        keeper.beat(mine)
    for run in runs:
        assert LEASE_TTL_SECONDS - 5 < seconds_left(run) <= LEASE_TTL_SECONDS
        assert int(str(valkey.ttl(lease_key(run.run_id)))) > LEASE_TTL_SECONDS - 5
        assert gear.row(run.run_id).version == run.version
    assert kept == [("queue", ["receipt-0", "receipt-1", "receipt-2"], QUEUE_VISIBILITY_SECONDS)]
    assert not any(one.lost for one in mine)


def test_dpp_31_a_beat_renews_no_signal_but_its_own(valkey: Redis, keeper: Keeper) -> None:
    run = gear.working()
    mine = held(run)
    valkey.set(lease_key(run.run_id), "another's", ex=20)
    keeper.beat([mine])
    assert int(str(valkey.ttl(lease_key(run.run_id)))) <= 20


def test_dpp_31_a_dead_lease_is_never_revived(valkey: Redis, keeper: Keeper, kept: Kept) -> None:
    run, stops = gear.aged(gear.working(), lease_expires_at=1), Stops()
    before = gear.everything(run.run_id)
    with keeper.holding(
        lease_of(run), message=WakingMessage("queue", "r"), stop=stops, has_signal=leases.take_run_lease(lease_of(run))
    ) as mine:
        valkey.expire(lease_key(run.run_id), 20)
        keeper.beat([mine])
        assert mine.lost
    assert stops.times == 1
    assert gear.everything(run.run_id) == before
    assert int(str(valkey.ttl(lease_key(run.run_id)))) <= 20
    assert kept == []


@pytest.mark.parametrize("what", ["claimed by another", "another's lease"])
def test_dpp_31_a_lost_lease_stops_its_pack_and_no_other(what: str, valkey: Redis, keeper: Keeper, kept: Kept) -> None:
    lost, good = gear.working(), gear.working()
    stops, others = Stops(), Stops()
    lease = lease_of(lost) if what == "claimed by another" else Lease(lost.run_id, "not the stored one")
    if what == "claimed by another":
        canceled(lost)
    with (
        keeper.holding(lease, message=None, stop=stops, has_signal=False) as gone,
        keeper.holding(lease_of(good), message=None, stop=others, has_signal=False) as mine,
    ):
        keeper.beat([gone, mine])
        assert (gone.lost, mine.lost) == (True, False)
    assert (stops.times, others.times) == (1, 0)


def test_lease_that_its_own_worker_gave_up_before_the_claim_is_not_lost(valkey: Redis, keeper: Keeper) -> None:
    run, stops = gear.working(), Stops()
    with keeper.holding(lease_of(run), message=None, stop=stops, has_signal=False) as mine:
        pass
    canceled(run)
    keeper.beat([mine])
    assert (mine.lost, stops.times) == (False, 0)


def test_lease_that_postgres_cannot_confirm_is_not_lost(
    valkey: Redis, keeper: Keeper, monkeypatch: pytest.MonkeyPatch, kept: Kept
) -> None:
    run, stops = gear.working(), Stops()

    def away(**_: object) -> set[uuid.UUID]:
        raise OperationalError("away")

    with keeper.holding(lease_of(run), message=WakingMessage("q", "r"), stop=stops, has_signal=True) as mine:
        with monkeypatch.context() as patch:
            patch.setattr(transitions, "renew", away)
            keeper.beat([mine])
            keeper.watch([mine])
        assert (mine.lost, stops.times, kept) == (False, 0, [])
        keeper.beat([mine])
    assert kept == [("q", ["r"], QUEUE_VISIBILITY_SECONDS)]


def test_lease_a_beat_without_redis_renews_in_postgres_and_keeps_the_message(
    valkey: Redis, keeper: Keeper, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, stops = gear.aged(gear.working(), lease_expires_at=-20), Stops()
    mine = held(run, stop=stops, message=WakingMessage("q", "r"))
    redis.disconnect_redis()
    with redis_through_proxy(monkeypatch) as proxy, proxy.outage(Mode.REFUSE):
        redis.disconnect_redis()
        keeper.beat([mine])
    redis.disconnect_redis()
    assert LEASE_TTL_SECONDS - 5 < seconds_left(run) <= LEASE_TTL_SECONDS
    assert (mine.lost, mine.has_signal, stops.times) == (False, True, 0)
    assert kept == [("q", ["r"], QUEUE_VISIBILITY_SECONDS)]


def test_lease_a_beat_without_its_queue_renews_the_lease(
    valkey: Redis, aws: str, keeper: Keeper, caplog: pytest.LogCaptureFixture
) -> None:
    run, stops = gear.aged(gear.working(), lease_expires_at=-20), Stops()
    mine = held(run, stop=stops, message=WakingMessage(f"{ENV.DPP_QUEUE_URL}-gone", "r"))
    keeper.beat([mine])
    assert LEASE_TTL_SECONDS - 5 < seconds_left(run) <= LEASE_TTL_SECONDS
    assert (mine.lost, stops.times) == (False, 0)
    assert "1 messages could not be kept" in [record.getMessage() for record in caplog.records]


# The watch.


@pytest.mark.contract("DPP-27")
def test_dpp_27_a_cancel_stops_the_pack_within_two_seconds(valkey: Redis) -> None:
    run, stops = gear.working(), Stops()
    keeper = Keeper()
    with keeper.holding(
        lease_of(run), message=None, stop=stops, has_signal=leases.take_run_lease(lease_of(run))
    ) as mine:  # fmt: skip
        canceled(run)
        valkey.delete(lease_key(run.run_id))
        assert stops.called.wait(2.0)
        assert mine.lost
    assert stops.times == 1


def test_lease_survives_a_redis_that_lost_everything_and_is_not_asked_about_again(
    valkey: Redis, watching: Keeper
) -> None:
    run, stops = gear.working(), Stops()
    with watching.holding(
        lease_of(run), message=None, stop=stops, has_signal=leases.take_run_lease(lease_of(run))
    ) as mine:  # fmt: skip
        valkey.flushall()
        wait_until(lambda: not mine.has_signal, what="the watch to notice")
        assert not mine.lost
    assert stops.times == 0
    assert valkey.get(lease_key(run.run_id)) is None


@pytest.mark.contract("DPP-27")
def test_dpp_27_without_its_signal_a_canceled_run_stops_at_the_next_heartbeat(valkey: Redis) -> None:
    run, stops = gear.working(), Stops()
    keeper = Keeper(watch_seconds=SOON, beat_seconds=2 * SOON)
    with keeper.holding(lease_of(run), message=None, stop=stops, has_signal=False):
        canceled(run)
        assert stops.called.wait(5)
    assert stops.times == 1


def test_lease_watch_goes_on_after_an_outage_of_redis(
    valkey: Redis, watching: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, stops = gear.working(), Stops()
    redis.disconnect_redis()
    with redis_through_proxy(monkeypatch) as proxy:
        redis.disconnect_redis()
        with watching.holding(
            lease_of(run), message=None, stop=stops, has_signal=leases.take_run_lease(lease_of(run))
        ) as mine:  # fmt: skip
            with proxy.outage(Mode.REFUSE):
                seen = threading.Event()
                monkeypatch.setattr(leases.log, "warning", lambda *_args, **_values: seen.set(), raising=False)
                assert seen.wait(5)
            assert not mine.lost
            canceled(run)
            valkey.delete(lease_key(run.run_id))
            assert stops.called.wait(5)
    redis.disconnect_redis()


def test_lease_one_thread_looks_after_all_and_sleeps_when_there_are_none(valkey: Redis) -> None:
    keeper = Keeper(watch_seconds=SOON, beat_seconds=SOON)

    def threads() -> int:
        return sum(thread.name == "leases" and thread.is_alive() for thread in threading.enumerate())

    before = threads()
    with ExitStack() as stack:
        for run in [gear.working() for _ in range(3)]:
            stack.enter_context(keeper.holding(lease_of(run), message=None, stop=Stops(), has_signal=False))
        assert threads() == before + 1
    run = gear.working()
    with keeper.holding(lease_of(run), message=None, stop=Stops(), has_signal=False):
        gear.aged(run, lease_expires_at=-10)
        wait_until(lambda: seconds_left(run) > 100, what="a heartbeat after a time without leases")
        assert threads() == before + 1
