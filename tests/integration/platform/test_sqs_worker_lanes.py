"""A real worker with two queues: a flood of one tenant, and another's first run beside it (DPP-87)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpp_project.celery_sqs.lanes import HELD_MOST
from dpp_project.settings import ENV
from tests.gear.builders.queues import Queues, queues
from tests.gear.servers.worker import Worker, work, worker
from tests.gear.waiting import wait_until

ENDPOINT = str(ENV.SQS_ENDPOINT_URL)
LONG_MS = 300_000
SLOTS = 2
AGAIN = "was sent again"


@pytest.fixture
def queue() -> Iterator[Queues]:
    with queues() as made:
        yield made


@pytest.fixture
def first_visibility_seconds() -> int:
    return 2


@pytest.fixture
def flooded(tmp_path: Path, queue: Queues, first_visibility_seconds: int) -> Iterator[Worker]:
    """All general slots at work for one tenant, whose next runs wait in both queues."""
    environ = {
        "DPP_EXPRESS_QUEUE_URL": queue.express_url,
        "DPP_SQS_FIRST_VISIBILITY_SECONDS": str(first_visibility_seconds),
    }
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, concurrency=SLOTS, environ=environ) as running:
        for at in range(SLOTS):
            queue.send(flood(f"flood-{at}"), express=True)
        running.wait_for(*(f"flood-{at}" for at in range(SLOTS)), event="started")
        for express in (True, False):
            queue.send(flood(f"more-{express}"), express=express)
        yield running


def flood(name: str) -> str:
    return work(name, sleep_ms=LONG_MS, tenant_id="t_flood")


@pytest.mark.contract("DPP-87")
def test_dpp_87_beside_a_flood_another_tenants_runs_start_one_after_the_other(flooded: Worker, queue: Queues) -> None:
    for at in range(3):
        queue.send(work(f"quiet-{at}", tenant_id="t_quiet"), express=True)
    flooded.wait_for(*(f"quiet-{at}" for at in range(3)))
    assert not {name for name in flooded.events("started") if name.startswith("more")}


@pytest.mark.contract("DPP-87", "DPP-45")
def test_dpp_87_what_waits_for_a_place_is_sent_again_and_never_becomes_a_dead_letter(
    flooded: Worker, queue: Queues
) -> None:
    """Four times, where the fourth receive of one message would have been its end."""
    wait_until(lambda: flooded.log().count(AGAIN) >= 4 or not flooded.alive(), seconds=30, what="four times")
    assert flooded.alive()
    assert queue.dead_bodies() == []
    assert "more-True" not in flooded.events("started")


@pytest.mark.contract("DPP-78")
@pytest.mark.parametrize("first_visibility_seconds", [120])
def test_dpp_78_a_worker_that_stops_gives_back_what_waits_inside(flooded: Worker, queue: Queues) -> None:
    """At once, and not by its visibility; what is at work is not given back."""
    inside = (0, SLOTS + 1)
    wait_until(lambda: queue.counts(queue.express_url) == inside, what="the third express message to wait inside")
    flooded.terminate()
    wait_until(lambda: queue.counts(queue.express_url) == (1, SLOTS), what="that one to be visible again")


@pytest.mark.contract("DPP-87")
@pytest.mark.parametrize("first_visibility_seconds", [120])
def test_dpp_87_what_busy_tenants_have_waiting_inside_keeps_no_other_tenant_out(flooded: Worker, queue: Queues) -> None:
    """As many as a worker holds, and more: of one tenant here, as of several that have each a run at work."""
    for at in range(HELD_MOST + 4):
        queue.send(flood(f"inside-{at}"), express=True)
    wait_until(lambda: flooded.log().count(AGAIN) >= 4, seconds=30, what="one too many to be sent again")
    queue.send(work("quiet", tenant_id="t_quiet"), express=True)
    flooded.wait_for("quiet", seconds=20)
    assert not {name for name in flooded.events("started") if name.startswith("inside")}
    assert queue.dead_bodies() == []
