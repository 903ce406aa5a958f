"""How far a run is: from its pack to its document, its events and its envelope, and never in money's way (DPP-90)."""

import threading
import time
from typing import Any

import pytest
from redis import Redis, RedisError

from dpp_project.constants import LEASE_TTL_SECONDS
from dpp_project.stores import redis
from runs import metrics, progress
from runs.models import Run
from runs.worker import telling_progress
from runs.worker.execution import End
from tenants.models import Tenant
from tests.gear.builders import recovery, work
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import RUNS, Shop, a_body
from tests.gear.faults.rivals import OnAnotherConnection
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("DPP-90"), pytest.mark.usefixtures("worker_here")]
HANGS_SECONDS = 30.0


def entries(run: Run) -> list[Any]:
    found: Any = redis.redis_client().xrange(progress.progress_key(run.run_id))
    return list(found)


def test_dpp_90_what_a_pack_says_is_kept_short_and_its_tail_stands_in_the_envelope(tenant: Tenant) -> None:
    """A hundred words in a second: at most five frames of them, the last word among them, and no line lost."""
    run = work.queued(tenant, sleep_ms=1_000, tell=100)
    began = time.monotonic()
    assert work.execute(run) is End.COMMITTED
    seconds = time.monotonic() - began
    wait_until(lambda: 0 < redis.redis_client().ttl(progress.progress_key(run.run_id)) <= progress.ENDED_SECONDS)
    said = [progress.last_of([one]) for one in entries(run)]
    assert 2 <= len(said) <= seconds / telling_progress.EVERY_SECONDS + 2
    assert said[-1] is not None
    assert (said[-1].percent, said[-1].note) == (100, "step 100")
    assert said[-1].cost_usd_micros == work.PROBE_COST_MICROS
    lines = "".join(one.line or "" for one in said if one is not None)
    assert lines == "".join(f"line {step}\n" for step in range(1, 101))
    tail = work.stored_envelope(gear.row(run.run_id))["logs"]["progress_log"]
    assert len(tail) <= telling_progress.TAIL
    assert (tail[-1]["note"], tail[-1]["percent"]) == ("step 100", 100)


def test_dpp_90_a_pack_that_says_nothing_leaves_nothing(tenant: Tenant) -> None:
    run = work.queued(tenant, sleep_ms=1)
    assert work.execute(run) is End.COMMITTED
    assert entries(run) == []
    assert "progress_log" not in work.stored_envelope(gear.row(run.run_id))["logs"]


@pytest.mark.django_db(transaction=True)
def test_dpp_90_a_runs_document_shows_the_last_while_it_works(shop: Shop) -> None:
    body = a_body(inputs={"sleep_ms": 1_500, "tell": 3, "cost_usd": "0.0100"})
    run = gear.row(shop.submit(body).json()["run_id"])
    assert shop.get(f"{RUNS}/{run.run_id}").json()["progress"] is None
    working = OnAnotherConnection(lambda: work.execute(run))
    said = wait_until(lambda: shop.get(f"{RUNS}/{run.run_id}").json()["progress"], what="progress")
    assert said["note"].startswith("step ")
    assert said["cost_usd_micros"] == 10_000
    assert 0 < redis.redis_client().ttl(progress.progress_key(run.run_id)) <= LEASE_TTL_SECONDS
    assert working.answer() is End.COMMITTED
    ended = shop.get(f"{RUNS}/{run.run_id}").json()
    assert (ended["status"], ended["progress"]) == ("COMPLETED", None)


def test_dpp_90_a_redis_that_takes_none_of_it_holds_up_no_run(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Redis that answers an error, and one that does not answer: the run ends at its price, and in its time."""
    hangs, let_go = threading.Event(), threading.Event()

    def never(*_: object, **__: object) -> None:
        hangs.set()
        let_go.wait(HANGS_SECONDS)  # as a socket that is not answered
        raise RedisError

    monkeypatch.setattr(progress, "queue_write", never)
    before = metrics.PROGRESS_DROPPED._value.get()
    run = work.queued(tenant, sleep_ms=300, tell=30)
    began = time.monotonic()
    try:
        assert work.execute(run) is End.COMMITTED
        assert time.monotonic() - began < HANGS_SECONDS / 2, "the writer waits by itself"
        assert hangs.is_set()
    finally:
        let_go.set()
    assert recovery.charges(run) == [-work.PROBE_COST_MICROS]
    assert work.stored_envelope(gear.row(run.run_id))["logs"]["progress_log"][-1]["note"] == "step 30"
    wait_until(lambda: metrics.PROGRESS_DROPPED._value.get() > before, what="the frames to be counted as dropped")


def test_dpp_90_the_stream_holds_so_many_and_no_more(valkey: Redis) -> None:
    with valkey.pipeline(transaction=False) as pipeline:
        for number in range(3 * progress.KEPT):
            progress.queue_write(pipeline, "a-run", {"note": str(number), "at": "2026-03-01T12:00:00Z"})
        pipeline.execute()
    assert valkey.xlen("progress:a-run") == progress.KEPT
    found = list(progress.progress_after(valkey, {"a-run": progress.BEGINNING}))
    assert [said.note for _run, _mark, said in found] == [str(n) for n in range(2 * progress.KEPT, 3 * progress.KEPT)]
    assert list(progress.progress_after(valkey, {"a-run": found[-1][1]})) == []


def test_dpp_90_an_entry_that_is_none_of_ours_is_passed_over(valkey: Redis) -> None:
    valkey.xadd("progress:a-run", {"frame": '{"percent": 900}'})
    valkey.xadd("progress:a-run", {"other": "x"})
    assert list(progress.progress_after(valkey, {"a-run": progress.BEGINNING})) == []
