"""The process `events`: its loops do not harm each other, a hung one ends it, a signal ends it in order."""

import json
import threading
from pathlib import Path
from typing import Final

import pytest
import redis as redis_library
from django.db import connection

from dpp_project.heartbeats import processes
from dpp_project.heartbeats.models import ProcessHeartbeat
from dpp_project.loops_server.supervised_loop import HANG_SECONDS, SupervisedLoop
from dpp_project.observe import metrics
from dpp_project.outbox.events import Loop
from tests.gear.servers.events_process import SERVED, an_events_process
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("AUT-05"), pytest.mark.django_db(transaction=True)]

NASTY: Final = ("-m", "tests.gear.faults.nasty_loops")


def test_a_loop_that_raises_exits_or_returns_takes_no_other_along_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(metrics.own_folder(tmp_path, "api")))
    counts = str(metrics.own_folder(tmp_path, "events"))
    with an_events_process(tmp_path, *NASTY, "raises", "exits", "returns", PROMETHEUS_MULTIPROC_DIR=counts) as events:
        failed = events.wait_for("loop failed and starts again", count=6)
        assert {line["loop"] for line in failed} == {"raises", "exits", "returns"}
        (first, second, *_) = (line for line in failed if line["loop"] == "raises")
        assert (first["in_seconds"], second["in_seconds"]) == (0.25, 0.5)
        assert first["exception"]["type"] == "builtins.RuntimeError"
        assert (first["service"], first["level"]) == ("events", "error")
        count = len(events.lines("good came round"))
        events.wait_for("good came round", count=count + 3)
        page = metrics.render_metrics().decode()  # as the API of this machine gives it
        for name in ("raises", "exits", "returns"):
            assert f'dpp_events_loop_failures_total{{loop="{name}"}} ' in page
        events.terminate()
        assert events.wait_exit() == 0


def test_a_turn_of_many_statements_is_none_that_hangs() -> None:
    """A Postgres that takes seconds for each: the loop comes to its next question late, and gets on all the same."""
    asks, asked, ends = threading.Event(), threading.Event(), threading.Event()

    def run(_stop: threading.Event) -> None:
        asks.wait()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        asked.set()
        ends.wait()

    loop = SupervisedLoop(Loop("slow", run))
    loop.start()
    try:
        wait_until(lambda: loop.stop.questions == 1, what="the thread's own question")
        for seconds in (1, HANG_SECONDS):
            loop.look(seconds=seconds)
        assert loop.hangs
        asks.set()
        assert asked.wait(10)
        loop.look(seconds=1)
        assert not loop.hangs
    finally:
        loop.stop.set()
        ends.set()
        assert loop.ended(seconds=10)


def test_a_loop_that_hangs_ends_the_process_and_the_others_give_back(tmp_path: Path) -> None:
    with an_events_process(tmp_path, *NASTY, "hangs", "gives_back_late", GEAR_HANG_SECONDS="0.5") as events:
        assert events.wait_exit() == 70
        (said,) = events.lines("a loop hangs, the process ends")
        assert said["loops"] == ["hangs"]
        assert any("nasty_loops.py" in frame and frame.endswith(" hangs") for frame in said["threads"]["events hangs"])
        assert [len(events.lines(f"{name} gave back")) for name in ("good", "late")] == [1, 1]
        assert not ProcessHeartbeat.objects.exists()


def test_a_process_that_was_stopped_for_longer_than_the_bound_has_not_hung(tmp_path: Path) -> None:
    with an_events_process(tmp_path, *NASTY, GEAR_HANG_SECONDS="1") as events:
        events.freeze(seconds=1.5)
        count = len(events.lines("good came round"))
        events.wait_for("good came round", count=count + 20)
        assert events.process.poll() is None
        assert not events.lines("a loop hangs, the process ends")


@pytest.mark.contract("DPP-78")
def test_sigterm_is_waited_for_within_the_grace_and_a_second_one_is_not(tmp_path: Path) -> None:
    late = {"GEAR_GRACE_SECONDS": "0.5", "GEAR_STACKS_SECONDS": "1"}
    with an_events_process(tmp_path, *NASTY, "is_slow_to_stop", **late) as events:
        events.wait_for("the slow one is at work")
        events.terminate()
        assert events.wait_exit() == 1
        (said,) = events.lines("did not end in time")
        assert said["loops"] == ["is_slow_to_stop"]
    with an_events_process(tmp_path, *NASTY, "is_slow_to_stop", name="second") as events:
        events.wait_for("the slow one is at work")
        events.terminate()
        events.wait_for("slow to stop")
        assert len(events.wait_for("good gave back")) == 1
        events.terminate()
        assert events.wait_exit(seconds=5) == 1


@pytest.mark.contract("AUT-06")
def test_as_it_is_served_it_lives_and_says_goodbye(tmp_path: Path, aws: str) -> None:
    """Two at once, and one without queues: test_outbox_processes."""
    assert aws
    with an_events_process(tmp_path) as events:
        found = wait_until(lambda: list(ProcessHeartbeat.objects.filter(service="events")), what="its heartbeat")
        assert events.lines("DPP_EVENTS_QUEUE_URL is not set: events wait in Postgres until it is") == []
        assert processes.process_counts() == {"events": {"alive": 1, "stale": 0}}, "what /readyz shows"
        assert [row.pid for row in found] == [events.process.pid]
        (ready,) = events.lines("loops ready")
        assert {row.slots for row in found} == {len(ready["loops"])}
        folders = {path.name.split("-")[0] for path in (tmp_path / "metrics").iterdir()}
        assert folders == {"events"}
        events.terminate()
        assert events.wait_exit() == 0
        assert events.lines("loop failed and starts again") == []
        assert not ProcessHeartbeat.objects.exists()
        for line in events.log().splitlines():
            assert json.loads(line)["service"] == "events", line


def test_it_does_not_start_on_a_redis_that_evicts(tmp_path: Path, valkey: redis_library.Redis) -> None:
    valkey.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(AssertionError, match=r"dpp\.E001"), an_events_process(tmp_path, *SERVED):
            pytest.fail("it started")
    finally:
        valkey.config_set("maxmemory-policy", "noeviction")
