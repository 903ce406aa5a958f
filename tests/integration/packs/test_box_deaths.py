"""Stopping, and the deaths of those who watch: nothing goes on that nobody looks after."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpp_project.processes import process_tree
from runs.box.box import Box
from runs.box.outcomes import Done, Failed, Stopped
from tests.gear.builders.box import MODULE, a_job, begin, lives, run, with_argument
from tests.gear.builders.packs import PackLog
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("DPP-32")

ROOT = Path(__file__).resolve().parents[3]
STOPPED_WITHIN_SECONDS = 2.0


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    made = Box([MODULE])
    yield made
    made.close()


@pytest.mark.contract("DPP-31", "DPP-27")
@pytest.mark.parametrize("attribute", ["SWALLOW_ALL", "DEAF", "BACKTRACK"])
def test_dpp_31_a_stop_from_another_thread_ends_the_pack_at_once(attribute: str, box: Box) -> None:
    assert isinstance(run(box, "FREE"), Done)
    running = begin(box, a_job(attribute, timebox_seconds=60))
    stopper = threading.Timer(0.3, running.stop)
    stopper.start()
    begun = time.monotonic()
    assert isinstance(running.wait(), Stopped)
    assert time.monotonic() - begun < 0.3 + STOPPED_WITHIN_SECONDS
    stopper.join()


def test_box_a_run_stopped_before_it_began_does_nothing(box: Box) -> None:
    log = PackLog()
    running = begin(box, a_job("FAMILY_THEN_BUSY", timebox_seconds=60), log=log)
    running.stop()
    assert running.wait() == Stopped()
    assert log.events == []


def test_box_stopping_what_is_over_changes_nothing(box: Box) -> None:
    running = begin(box, a_job("FREE"))
    assert isinstance(running.wait(), Done)
    running.stop()
    assert isinstance(run(box, "FREE"), Done)


def watchers(box: Box) -> tuple[int, int]:
    """The nursery, and the zygote of its one module."""
    nursery = box.nursery_pid()
    assert nursery is not None
    (zygote,) = process_tree.child_processes(nursery)
    return nursery, zygote


@pytest.mark.parametrize("killed", [0, 1], ids=["nursery", "zygote"])
def test_box_a_killed_watcher_ends_its_jobs_with_their_children_and_is_replaced(killed: int, box: Box) -> None:
    assert isinstance(run(box, "FREE"), Done)
    before, key = watchers(box), f"family-of-{killed}"
    found: list[Any] = []
    running = begin(box, a_job("FAMILY_THEN_BUSY", timebox_seconds=60, inputs={"key": key}))
    waiting = threading.Thread(target=lambda: found.append(running.wait()))
    waiting.start()
    wait_until(lambda: len(with_argument(key)) == 2, what="the family")
    os.kill(before[killed], signal.SIGKILL)
    waiting.join()
    assert [outcome.reason for outcome in found] == ["PACK_CRASHED"]
    assert with_argument(key) + [pid for pid in before if lives(pid)] == []
    assert isinstance(run(box, "FREE"), Done)
    assert not set(watchers(box)) & set(before)


@pytest.mark.parametrize("killed", [0, 1], ids=["nursery", "zygote"])
def test_box_a_watcher_killed_while_idle_costs_no_run(killed: int, box: Box) -> None:
    for _ in range(3):
        assert isinstance(run(box, "FREE"), Done)
        before = watchers(box)
        os.kill(before[killed], signal.SIGKILL)
        wait_until(lambda: not any(lives(pid) for pid in before), what="both to be gone")  # noqa: B023  at once
    assert isinstance(run(box, "FREE"), Done)


def test_box_a_pack_is_loaded_by_its_own_zygote_alone() -> None:
    """A fork copies the tables of all that is mapped: a small pack must not pay for another's libraries."""
    box = Box([MODULE, "runs.packs.eval"])
    try:
        assert isinstance(run(box, "FREE"), Done)
        box.ready("runs.packs.eval")
        nursery = box.nursery_pid()
        assert nursery is not None
        mapped = {pid: Path(f"/proc/{pid}/maps").read_text() for pid in process_tree.child_processes(nursery)}
        assert sorted("rapidfuzz" in text for text in mapped.values()) == [False, True]
    finally:
        box.close()


def test_box_stopping_signals_do_not_reach_the_packs(box: Box) -> None:
    """A service manager that stops a worker signals all its processes; the worker drains, and needs its packs."""
    assert isinstance(run(box, "FREE"), Done)
    running = begin(box, a_job("SWALLOW_ALL", timebox_seconds=1))
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(running.wait()))
    waiting.start()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        for pid in watchers(box):
            os.kill(pid, number)
    waiting.join()
    assert [outcome.reason for outcome in found] == ["TIMEBOX_EXCEEDED"]


_WORKER = """
import json, sys
sys.path.insert(0, {root!r})
from runs.box.box import Box
from tests.gear.builders.box import MODULE, a_job, begin

def tell(event, /, **values):
    print(json.dumps({{"nursery": box.nursery_pid()}}), flush=True)

box = Box([MODULE])
begin(box, a_job("FREE")).wait()
box.start(a_job({attribute!r}, timebox_seconds=60, inputs={{"key": {key!r}}}), fetch_upload=None, log=tell).wait()
"""


def a_worker(attribute: str, key: str) -> "subprocess.Popen[str]":
    script = _WORKER.format(root=str(ROOT), attribute=attribute, key=key)
    return subprocess.Popen([sys.executable, "-W", "ignore", "-c", script], stdout=subprocess.PIPE, text=True)


def test_dpp_32_when_the_worker_dies_everything_dies() -> None:
    with a_worker("FAMILY_THEN_BUSY", "family-of-worker") as worker:
        assert worker.stdout is not None
        said = json.loads(worker.stdout.readline())
        wait_until(lambda: len(with_argument("family-of-worker")) == 2, what="the family")
        assert lives(said["nursery"])
        worker.kill()
    wait_until(lambda: not lives(said["nursery"]) and not with_argument("family-of-worker"), what="all to be gone")


def test_box_a_worker_that_dies_before_its_nursery_is_ready_leaves_nothing() -> None:
    script = (
        f"import os, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from runs.box.box import Box\n"
        "box = Box(['pydantic']); box.warm()\n"
        "print(box._nursery.pid, box._nursery.scratch, flush=True); os._exit(0)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    wait_until(lambda: not lives(int(said[0])) and not Path(said[1]).exists(), what="nursery and folder to be gone")


def test_box_a_machine_without_room_for_a_process_charges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with contextlib.closing(Box([MODULE])) as box:
        outcome = run(box, "FREE")
    assert isinstance(outcome, Failed)
    assert outcome.reason == "ENGINE_UNAVAILABLE"


def test_box_a_module_that_cannot_be_loaded_fails_its_own_runs_only() -> None:
    box = Box(["tests.gear.nowhere", MODULE])
    try:
        outcome = run(box, "FREE", module="tests.gear.nowhere")
        assert isinstance(outcome, Failed)
        assert (outcome.reason, outcome.detail) == (
            "ENGINE_UNAVAILABLE",
            "The pack cannot be loaded: tests.gear.nowhere",
        )
        assert isinstance(run(box, "FREE"), Done)
    finally:
        box.close()
