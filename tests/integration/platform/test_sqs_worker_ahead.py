"""A real worker under a backlog of short tasks: how many requests to SQS a task costs (DPP-88)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpp_project.settings import ENV
from tests.gear.builders.queues import Queues, queues
from tests.gear.faults.scripted import Scripted
from tests.gear.servers.worker import work, worker
from tests.gear.waiting import wait_until

SLOTS = 4
TASKS = 150
RECEIVES_MOST, DELETES_MOST = 0.16, 0.16


@pytest.fixture
def queue() -> Iterator[Queues]:
    with queues() as made:
        yield made


@pytest.mark.contract("DPP-88")
def test_dpp_88_of_short_tasks_ten_cost_one_receive_and_one_delete(tmp_path: Path, queue: Queues) -> None:
    """Whatever the number of slots. What ends the backlog, and what waits behind it, costs a few more."""
    for at in range(TASKS):
        queue.send(work(f"short-{at}", sleep_ms=20))
    with Scripted(str(ENV.SQS_ENDPOINT_URL)).running() as scripted:
        with worker(tmp_path, endpoint=scripted.url, queue_url=queue.runs_url, concurrency=SLOTS) as running:
            wait_until(lambda: len(running.events("ended")) == TASKS, seconds=60, what="all tasks")
            asked = Counter(scripted.actions)
            running.terminate()
            running.wait_exit(seconds=30)
        wait_until(lambda: queue.counts(queue.runs_url) == (0, 0), what="all messages to be deleted")
        deletes = Counter(scripted.actions)["DeleteMessageBatch"]
    assert asked["ReceiveMessage"] <= RECEIVES_MOST * TASKS, asked
    assert deletes <= DELETES_MOST * TASKS, asked


@pytest.mark.contract("DPP-88", "DPP-78")
def test_dpp_88_what_was_taken_ahead_is_left_to_others_when_tasks_turn_long(tmp_path: Path, queue: Queues) -> None:
    for at in range(20):
        queue.send(work(f"short-{at}", sleep_ms=20))
    with worker(tmp_path, endpoint=str(ENV.SQS_ENDPOINT_URL), queue_url=queue.runs_url, concurrency=SLOTS) as running:
        wait_until(lambda: len(running.events("ended")) == 20, seconds=60, what="the short tasks")
        for at in range(SLOTS + 9):
            queue.send(work(f"long-{at}", sleep_ms=60_000))
        wait_until(lambda: queue.counts(queue.runs_url) == (9, SLOTS), seconds=20, what="the others to be left")
        assert len(running.events("started")) == 20 + SLOTS
    assert queue.dead_bodies() == []
