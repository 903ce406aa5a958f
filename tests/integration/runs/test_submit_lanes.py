"""Which queue a run waits in: beside a flood, the few runs of another tenant have one of their own (DPP-87)."""

import uuid
from typing import Any

import pytest

from dpp_project.aws import queue_depth
from dpp_project.settings import ENV
from reaper import requeuer
from runs import tasks
from runs.models import Run
from runs.submit import wake_worker
from runs.submit.wake_worker import EXPRESS_BELOW, Lane
from runs.worker import execution
from runs.worker.leases import WakingMessage
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.queues import Queues
from tests.gear.builders.shop import Shop

pytestmark = pytest.mark.contract("DPP-87")


def waiting(express: Queues) -> tuple[int, int]:
    """In the express queue, and in that of the runs."""
    return express.counts(express.express_url)[0], queue_depth.queue_depth_of(ENV.DPP_QUEUE_URL)[0]


def test_dpp_87_a_tenants_first_four_open_runs_are_express_and_the_next_are_not(shop: Shop, express: Queues) -> None:
    for at in range(EXPRESS_BELOW + 2):
        assert shop.submit().status_code == 202
        assert waiting(express) == (min(at + 1, EXPRESS_BELOW), max(0, at + 1 - EXPRESS_BELOW))


def test_dpp_87_a_run_that_ended_makes_room_for_an_express_one(shop: Shop, express: Queues) -> None:
    first, *_ = [shop.submit().json()["run_id"] for _ in range(EXPRESS_BELOW)]
    assert shop.cancel(first).status_code == 200
    shop.submit()
    assert waiting(express) == (EXPRESS_BELOW + 1, 0)


def test_dpp_87_without_an_express_queue_all_wait_in_one(shop: Shop) -> None:
    before = queue_depth.queue_depth_of(ENV.DPP_QUEUE_URL)[0]
    shop.submit()
    assert queue_depth.queue_depth_of(ENV.DPP_QUEUE_URL)[0] == before + 1


@pytest.mark.contract("DPP-43")
def test_dpp_43_a_lost_message_is_sent_again_where_its_tenants_runs_wait(shop: Shop, express: Queues) -> None:
    """The tenant with one run is not put behind the flood that the other has made."""
    quiet = recovery.unsent(shop.tenant)
    greedy = recovery.funded()
    flood = [recovery.unsent(greedy) for _ in range(EXPRESS_BELOW + 1)]
    assert recovery.run_loop(requeuer.requeue_runs).changed == 1 + len(flood)
    assert waiting(express) == (1, len(flood))
    assert {gear.row(run.run_id).send_count for run in [quiet, *flood]} == {1}


@pytest.mark.parametrize("lane", list(Lane))
def test_dpp_31_a_heartbeat_extends_the_message_in_the_queue_that_it_came_from(
    lane: Lane, express: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the queue of runs it stands for one start, in the express queue for its own run."""
    heard: list[tuple[WakingMessage | None, bool]] = []
    monkeypatch.setattr(execution, "execute_run", lambda _run_id, *, message, in_turn: heard.append((message, in_turn)))
    task: Any = tasks.execute
    task.push_request(delivery_info={"routing_key": lane.value}, properties={"delivery_tag": "tag"})
    try:
        names = {"tenant_id": "", "pack_type": "", "enqueued_at": "", "schema_version": "1"}
        task.run(run_id=str(uuid.uuid4()), **names)
    finally:
        task.pop_request()
    urls = {Lane.EXPRESS: express.express_url, Lane.RUNS: ENV.DPP_QUEUE_URL}
    assert heard == [(WakingMessage(queue_url=urls[lane], receipt="tag"), lane is Lane.RUNS)]


def test_a_batch_that_one_queue_refuses_is_told_by_its_runs_alone(
    shop: Shop, express: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    express_one, other = recovery.unsent(shop.tenant), recovery.unsent(shop.tenant)
    express.sqs.delete_queue(QueueUrl=express.express_url)
    failed = wake_worker.send_wakeups([_wakeup(express_one, Lane.EXPRESS), _wakeup(other, Lane.RUNS)])
    assert list(failed) == [express_one.run_id]
    assert queue_depth.queue_depth_of(ENV.DPP_QUEUE_URL)[0] == 1


def _wakeup(run: Run, lane: Lane) -> wake_worker.Wakeup:
    return wake_worker.Wakeup.of(run, lane=lane)
