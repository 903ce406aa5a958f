"""A real worker, SQS away or full of poison: it comes back by itself, and loses nothing (DPP-38, 39, 78)."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dpp_project.settings import ENV
from tests.gear.builders.queues import Queues, queues
from tests.gear.faults.proxy import Mode, Proxy
from tests.gear.faults.scripted import Scripted
from tests.gear.servers.worker import ROOT, envelope, work, worker
from tests.gear.waiting import wait_until
from tests.proving import proofs

ENDPOINT = str(ENV.SQS_ENDPOINT_URL)
BACK_WITHIN_SECONDS = 10
"""After the endpoint is back. The promise is 60 s."""

PICKLE = "application/x-python-serialize"
FORBIDDEN = b'{"__type": "com.amazonaws.sqs#AccessDenied", "message": "no"}'


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    target = urlsplit(ENDPOINT)
    with Proxy(str(target.hostname), target.port or 80) as running:
        yield running


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with Scripted(ENDPOINT).running() as running:
        yield running


@pytest.fixture
def queue() -> Iterator[Queues]:
    with queues() as made:
        yield made


SOON_AGAIN = {"DPP_SQS_FIRST_VISIBILITY_SECONDS": "1"}
"""Three receives take three seconds."""


@pytest.mark.contract("DPP-39")
def test_dpp_39_a_worker_comes_back_each_time_sqs_was_unreachable(tmp_path: Path, proxy: Proxy, queue: Queues) -> None:
    """A poll open at the cut may have taken the message along; it is bounded by the first visibility."""
    environ = {"DPP_SQS_FIRST_VISIBILITY_SECONDS": "3"}
    modes = [Mode.REFUSE, Mode.RESET, Mode.BLACK_HOLE]
    with worker(tmp_path, endpoint=proxy.url, queue_url=queue.runs_url, environ=environ) as running:

        def outlives(mode: Mode) -> None:
            noticed = running.log().count("does not answer")
            with proxy.outage(mode):
                wait_until(lambda: running.log().count("does not answer") > noticed, what=f"it to notice: {mode}")
                queue.send(work(mode.name))
                assert running.alive()
            running.wait_for(mode.name, seconds=BACK_WITHIN_SECONDS)
            wait_until(lambda: queue.counts(queue.runs_url) == (0, 0), what="its message to be deleted")

        queue.send(work("before"))
        running.wait_for("before")
        for mode in modes:
            outlives(mode)
        queue.send(work("after"))
        running.wait_for("after")
        assert running.events("started") == ["before", *(mode.name for mode in modes), "after"]


@pytest.mark.slow
@pytest.mark.contract("DPP-39")
def test_dpp_39_a_worker_comes_back_each_time_sqs_answered_errors(
    tmp_path: Path, scripted: Scripted, queue: Queues
) -> None:
    answers = [(403, FORBIDDEN), (500, b"oops"), (503, b""), (400, b"not json")]
    with worker(tmp_path, endpoint=scripted.url, queue_url=queue.runs_url) as running:

        def outlives(status: int, body: bytes) -> None:
            before = scripted.refused
            with scripted.answering(status, body):
                wait_until(lambda: scripted.refused >= before + 2, what=f"two polls refused with {status}")
                queue.send(work(str(status)))
                assert running.alive()
            running.wait_for(str(status), seconds=BACK_WITHIN_SECONDS)

        for status, body in answers:
            outlives(status, body)
        assert running.events("started") == [str(status) for status, _ in answers]
    proofs.report(cases=1)


@pytest.mark.slow
@pytest.mark.contract("DPP-39")
def test_dpp_39_a_worker_starts_while_sqs_is_away(tmp_path: Path, proxy: Proxy, queue: Queues) -> None:
    proxy.set(Mode.REFUSE)
    with worker(tmp_path, endpoint=proxy.url, queue_url=queue.runs_url) as running:
        wait_until(lambda: "does not answer" in running.log(), what="the worker to notice")
        queue.send(work("first"))
        proxy.set(Mode.PASS)
        running.wait_for("first", seconds=BACK_WITHIN_SECONDS)
    proofs.report(cases=1)


@pytest.mark.slow
@pytest.mark.contract("DPP-39")
def test_dpp_39_the_open_poll_of_a_killed_worker_delays_one_message_at_most(tmp_path: Path, queue: Queues) -> None:
    environ = {"DPP_SQS_FIRST_VISIBILITY_SECONDS": "3", "DPP_SQS_WAIT_SECONDS": "20"}
    names = [f"n{number}" for number in range(6)]
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, concurrency=4, environ=environ) as killed:
        queue.send(work("first"))
        killed.wait_for("first")
        wait_until(lambda: queue.counts(queue.runs_url) == (0, 0), what="an idle worker")
        killed.process.kill()
        killed.wait_exit(seconds=5)
    for name in names:
        queue.send(work(name))
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, concurrency=4) as running:
        wait_until(lambda: len(set(names) & set(running.events("ended"))) >= len(names) - 1, what="all but one")
        running.wait_for(*names)
        assert sorted(running.events("started")) == ["first", *names]
    proofs.report(cases=1)


def all_of(wanted: Iterable[str], found: list[str]) -> list[str]:
    """What was found, once it holds all that is wanted."""
    return found if set(wanted) <= set(found) else []


@pytest.mark.contract("DPP-38")
def test_dpp_38_poison_ends_in_the_dlq_and_the_worker_goes_on(tmp_path: Path, queue: Queues) -> None:
    poison = {
        "not base64, not json": "\u00e9\u00e9 this is no message",
        "base64 of no json": "bm8ganNvbg==",
        "properties that are none": '{"properties": 7, "body": "x"}',
        "no id": envelope("gear.work", {"name": "never"}, without=("id",)),
        "unknown task": envelope("gear.unheard_of", {}),
        "undecodable arguments": envelope("gear.work", {}, body=b"{not json"),
        "forbidden content": envelope("gear.work", {}, body=b"cos\nsystem\n.", content_type=PICKLE),
        "wrong arguments": envelope("gear.work", {"nobody": "expects this"}),
        "rejects": envelope("gear.fail", {"name": "rejects", "how": "reject"}),
        "raises": envelope("gear.fail", {"name": "raises", "how": "value"}),
        "out of memory": envelope("gear.fail", {"name": "memory", "how": "memory"}),
        "leaves": envelope("gear.fail", {"name": "leaves", "how": "exit"}),
        "no seal": envelope("gear.work", {"name": "never"}, sealed=False),
        "another's seal": envelope("gear.work", {"name": "never"}, dpp_seal="0" * 64),
        "a seal that is no text": envelope("gear.work", {"name": "never"}, dpp_seal=7),
        "sealed for another task": envelope("gear.fail", {"name": "never", "how": "kill"}, task="gear.work"),
        "Celery's own task": envelope("celery.starmap", {"task": "gear.work", "it": [["never"]]}),
    }  # fmt: skip
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, environ=SOON_AGAIN) as running:
        for body in poison.values():
            queue.send(body)
        queue.send(meanwhile := work("meanwhile"))
        running.wait_for("meanwhile")
        dead = wait_until(lambda: all_of(poison.values(), queue.dead_bodies()), seconds=40, what="dead letters")
        # On a slow machine it may have come three times before it was deleted: then it is a dead letter by the rule.
        assert sorted(body for body in dead if body != meanwhile) == sorted(poison.values())
        assert queue.counts(queue.runs_url) == (0, 0)
        queue.send(work("afterwards"))
        running.wait_for("afterwards")
        assert "never" not in running.events("started")
        # A message that is seen again after a second may come twice: its delete waits for company so long.
        assert list(dict.fromkeys(running.events("ended"))) == ["meanwhile", "afterwards"]
        assert "cos\\nsystem" not in running.log()


@pytest.mark.slow
@pytest.mark.contract("DPP-37", "DPP-38")
def test_dpp_38_a_lost_delete_only_repeats_the_message(tmp_path: Path, scripted: Scripted) -> None:
    """However often: the queue is a patient one, which takes nothing for poison meanwhile."""
    with (
        queues(receives=1_000) as queue,
        worker(tmp_path, endpoint=scripted.url, queue_url=queue.runs_url, environ=SOON_AGAIN) as running,
    ):
        with scripted.answering(500, b"", only="DeleteMessageBatch"):
            queue.send(work("twice"))
            wait_until(lambda: running.events("ended").count("twice") >= 2, what="the repetition")
        wait_until(lambda: queue.counts(queue.runs_url) == (0, 0), what="the delete")
        assert set(running.events("ended")) == {"twice"}
        assert queue.dead_bodies() == []
    proofs.report(cases=1)


OBEYED_BY_CELERY: dict[str, dict[str, Any]] = {
    "timelimit": {"timelimit": [0.2, 0.1]},
    "eta": {"eta": "2999-01-01T00:00:00+00:00"},
    "expires": {"expires": "2000-01-01T00:00:00+00:00"},
    "retries": {"retries": 1_000_000},
    "group and chord": {"group": "g", "chord": {"task": "gear.work", "kwargs": {"name": "never"}}},
    "callbacks": {"callbacks": [{"task": "gear.work", "kwargs": {"name": "never"}}], "link": []},
    "chain": {"chain": [{"task": "gear.work", "kwargs": {"name": "never"}}]},
    "reply": {"reply_to": "runs", "correlation_id": "x", "ignore_result": False},
    "compression": {"compression": "application/x-bz2"},
    "stamps": {"stamped_headers": ["task"], "stamps": {"task": ["x"]}, "shadow": "x", "replaced_task_nesting": 9},
    "parents": {"parent_id": "p", "root_id": "r", "origin": "o", "hostname": "h", "utc": False, "argsrepr": "x"},
}


@pytest.mark.contract("HRD-19")
@pytest.mark.parametrize("sealed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_hrd_19_of_a_message_only_task_id_and_trace_are_obeyed(tmp_path: Path, queue: Queues, *, sealed: bool) -> None:
    """Each header that Celery obeys, in a message of ours, and of a sender before there were seals."""
    environ = {"DPP_QUEUE_UNSEALED": "refuse" if sealed else "accept"}
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, environ=environ) as running:
        for name, said in OBEYED_BY_CELERY.items():
            arguments: dict[str, object] = {"name": name, "sleep_ms": 300 if name == "timelimit" else 0}
            queue.send(envelope("gear.work", arguments, sealed=sealed, **said))
        if not sealed:
            embedded = {"callbacks": [], "chain": [["gear.work", [], {"name": "never"}]], "chord": None}
            body = json.dumps([[], {"name": "embedded"}, embedded]).encode()
            queue.send(envelope("gear.work", {}, body=body, sealed=False))
        names = [*OBEYED_BY_CELERY, *([] if sealed else ["embedded"])]
        running.wait_for(*names)
        wait_until(lambda: queue.counts(queue.runs_url) == (0, 0), what="every message to be deleted")
        assert sorted(running.events("started")) == sorted(names)
    proofs.report(cases=1)


@pytest.mark.slow
@pytest.mark.contract("DPP-38")
def test_dpp_38_finished_messages_are_deleted_in_batches(tmp_path: Path, scripted: Scripted, queue: Queues) -> None:
    names = [f"n{number}" for number in range(40)]
    for name in names:
        queue.send(work(name))
    with worker(tmp_path, endpoint=scripted.url, queue_url=queue.runs_url, concurrency=4) as running:
        running.wait_for(*names)
        wait_until(lambda: queue.counts(queue.runs_url) == (0, 0), what="all deleted")
        assert "DeleteMessage" not in scripted.actions
        assert scripted.actions.count("DeleteMessageBatch") <= len(names) / 2
        assert sorted(running.events("started")) == sorted(names)
    proofs.report(cases=1)


@pytest.mark.slow
@pytest.mark.contract("DPP-25")
def test_dpp_25_the_trace_id_of_the_message_is_the_tasks_and_is_logged(tmp_path: Path, queue: Queues) -> None:
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url) as running:
        queue.send(work("traced", trace_id="t_4bf92f"))
        queue.send(work("untraced"))
        running.wait_for("traced", "untraced")
        wait_until(lambda: len(running.log_lines("dpp.task")) == 2, what="two lines")
        line = next(line for line in running.log_lines("dpp.task") if line.get("trace_id") == "t_4bf92f")
        assert (line["task"], line["state"], line["service"]) == ("gear.work", "SUCCESS", "worker")
        assert line["ms"] >= 0
        assert {entry["name"]: entry["trace_id"] for entry in running.lines()} == {
            "traced": "t_4bf92f",
            "untraced": None,
        }
    proofs.report(cases=1)


@pytest.mark.slow
@pytest.mark.contract("DPP-78")
def test_dpp_78_a_poll_left_open_at_sigterm_loses_nothing(tmp_path: Path, queue: Queues) -> None:
    """The worker waits for its poll, which takes the message sent meanwhile, and gives it back."""
    with worker(
        tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, environ={"DPP_SQS_WAIT_SECONDS": "5"}
    ) as running:
        queue.send(work("first"))
        running.wait_for("first")
        wait_until(lambda: queue.counts(queue.runs_url) == (0, 0), what="the first to be gone")
        running.terminate()
        wait_until(lambda: "Warm shutdown" in running.log(), what="the signal to arrive")
        queue.send(work("second"))
        assert running.wait_exit(seconds=15) == 0
        assert running.events("started") == ["first"]
    assert queue.counts(queue.runs_url) == (1, 0)
    proofs.report(cases=1)


@pytest.mark.slow
@pytest.mark.contract("DPP-78")
def test_dpp_78_a_second_sigterm_kills_and_the_message_comes_again(tmp_path: Path, queue: Queues) -> None:
    environ = {"DPP_SQS_FIRST_VISIBILITY_SECONDS": "2"}
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, environ=environ) as running:
        queue.send(work("long", sleep_ms=60_000))
        running.wait_for("long", event="started")
        running.terminate()
        wait_until(lambda: "Warm shutdown" in running.log(), what="the first signal to arrive")
        running.terminate()
        assert running.wait_exit(seconds=5) == -signal.SIGTERM
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url) as second:
        wait_until(lambda: second.events("started") == ["long", "long"], what="the message to come again")
    proofs.report(cases=1)


@pytest.mark.slow
@pytest.mark.contract("DPP-38")
def test_dpp_38_poison_that_kills_the_process_does_so_three_times_at_most(tmp_path: Path, queue: Queues) -> None:
    """Each time its supervisor starts another. A poll that died with its worker may take one of the three receives."""
    poison, kills = envelope("gear.fail", {"name": "kills", "how": "kill"}), 0
    queue.send(poison)
    while queue.dead_bodies() != [poison]:
        with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, environ=SOON_AGAIN) as running:
            wait_until(lambda: not running.alive() or queue.dead_bodies(), seconds=30, what="a death or a dead letter")
            if not running.alive():
                kills += 1
                assert running.wait_exit(seconds=1) == -signal.SIGKILL
                continue
            queue.send(work("afterwards"))
            running.wait_for("afterwards")
    assert 1 <= kills <= 3
    assert running.events("started") == ["kills"] * kills + ["afterwards"]
    proofs.report(cases=1)


@pytest.mark.slow
@pytest.mark.contract("DPP-38", "DPP-78")
def test_dpp_38_a_worker_killed_at_once_by_sigquit_costs_no_message(tmp_path: Path, queue: Queues) -> None:
    """Celery would end the tasks one by one; a thread cannot be ended, so its process is, as by SIGKILL."""
    names = [f"n{number}" for number in range(4)]
    for name in names:
        queue.send(work(name, sleep_ms=2_000))
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, concurrency=4, environ=SOON_AGAIN) as killed:
        killed.wait_for(*names, event="started")
        killed.process.send_signal(signal.SIGQUIT)
        assert killed.wait_exit(seconds=5) == -signal.SIGKILL
        assert killed.events("ended") == []
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, concurrency=4) as running:
        running.wait_for(*names, seconds=20)
        assert sorted(running.events("started")) == sorted(names * 2)
        assert sorted(running.events("ended")) == names
    proofs.report(cases=1)


@pytest.mark.slow
@pytest.mark.contract("DPP-38")
def test_dpp_38_tasks_that_leave_cost_neither_their_slot_nor_its_connection(tmp_path: Path, queue: Queues) -> None:
    """More of them than slots and than connections; stock threads would have lost each slot for good."""
    environ = SOON_AGAIN | {"DPP_DB_POOL_SIZE": "1"}
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, concurrency=2, environ=environ) as running:
        for number in range(3):
            queue.send(envelope("gear.fail", {"name": f"leaves {number}", "how": "exit"}))
        wait_until(lambda: len(queue.dead_bodies()) == 3, seconds=30, what="three dead letters")
        for number in range(4):
            queue.send(envelope("gear.ask", {"name": f"asks {number}"}))
        running.wait_for(*(f"asks {number}" for number in range(4)), seconds=20)
    proofs.report(cases=1)


@pytest.mark.contract("DPP-78")
def test_dpp_78_a_slot_that_hangs_stops_neither_another_nor_a_signal(tmp_path: Path, queue: Queues) -> None:
    """In native code, where nothing reaches it: the others go on, SIGTERM drains, a second one ends the process."""
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, concurrency=2) as running:
        queue.send(envelope("gear.hang", {"name": "hangs", "seconds": 600}))
        running.wait_for("hangs", event="started")
        names = [f"n{number}" for number in range(20)]
        for name in names:
            queue.send(work(name))
        running.wait_for(*names, seconds=30)
        running.terminate()
        wait_until(lambda: "Warm shutdown" in running.log(), what="the first signal to arrive")
        running.terminate()
        assert running.wait_exit(seconds=5) == -signal.SIGTERM


@pytest.mark.slow
@pytest.mark.contract("DPP-78")
def test_dpp_78_a_drain_that_a_hanging_slot_holds_up_ends_with_its_grace(tmp_path: Path, queue: Queues) -> None:
    """Python hears no signal in native code, and no thread can be ended: the kernel's alarm ends the process."""
    environ = SOON_AGAIN | {"GEAR_GRACE_SECONDS": "3"}
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, concurrency=2, environ=environ) as running:
        queue.send(envelope("gear.hang", {"name": "hangs", "seconds": 600}))
        queue.send(work("ends", sleep_ms=1_000))
        running.wait_for("hangs", "ends", event="started")
        running.terminate()
        assert running.wait_exit(seconds=15) == -signal.SIGALRM
        assert running.events("ended") == ["ends"], "what could end in the grace has ended"
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, concurrency=2) as another:
        wait_until(lambda: another.events("started").count("hangs") == 2, seconds=20, what="its message to come again")
        assert another.events("started").count("ends") == 1, "it was acknowledged before the process died"
    proofs.report(cases=1)


@pytest.mark.contract("DPP-78")
def test_dpp_78_sigterm_finishes_what_runs_and_returns_what_does_not(
    tmp_path: Path, scripted: Scripted, queue: Queues
) -> None:
    """What ends early in the drain is acknowledged before the drain is over."""
    with worker(tmp_path, endpoint=scripted.url, queue_url=queue.runs_url, concurrency=2) as running:
        queue.send(work("late", sleep_ms=5_000))
        running.wait_for("late", event="started")
        queue.send(work("early", sleep_ms=1_000))
        running.wait_for("early", event="started")
        running.terminate()
        wait_until(lambda: "Warm shutdown" in running.log(), what="the signal to arrive")
        queue.send(work("left"))
        wait_until(lambda: "DeleteMessageBatch" in scripted.actions, what="the early one to be deleted")
        assert running.events("ended") == ["early"]
        assert running.wait_exit(seconds=20) == 0
        assert running.events("ended") == ["early", "late"]
        assert running.events("started") == ["late", "early"]
        assert "worker: Warm shutdown (MainProcess)" in [line["event"] for line in running.log_lines("celery")]
        assert [line for line in running.log().splitlines() if "shutdown" in line and not line.startswith("{")] == []
    assert queue.counts(queue.runs_url) == (1, 0)


@pytest.mark.contract("DPP-78")
def test_dpp_78_a_worker_that_grew_drains_and_leaves(tmp_path: Path, queue: Queues) -> None:
    """Weighed while it works: it finishes that, takes nothing more and exits in order, to be started anew."""
    environ = {"GEAR_WEIGH_SECONDS": "0.2", "DPP_WORKER_MEMORY_MB": "256"}
    with worker(tmp_path, endpoint=ENDPOINT, queue_url=queue.runs_url, concurrency=2, environ=environ) as running:
        queue.send(envelope("gear.grow", {"name": "grows", "megabytes": 300}))
        assert running.wait_exit(seconds=60) == 0
        assert running.events("ended") == ["grows"]
        assert [line["event"] for line in running.log_lines("dpp.sqs") if "has grown" in line["event"]] != []
        queue.send(work("left"))
    assert queue.counts(queue.runs_url) == (1, 0)


@pytest.mark.contract("DPP-78")
def test_dpp_78_a_shutdown_that_outlasts_its_grace_is_killed() -> None:
    code = """
import signal, sys
from dpp_project import celery, constants
assert constants.WORKER_GRACE_SECONDS == 110
constants.WORKER_GRACE_SECONDS = 1
celery.bound_the_shutdown()
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE) as stuck:
        assert stuck.wait(10) == -signal.SIGALRM
