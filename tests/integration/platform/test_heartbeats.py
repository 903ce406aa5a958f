"""Every process says that it lives, and one that fell silent is shown everywhere a person looks (HRD-28)."""

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client

from dpp_project.heartbeats import processes, pulse
from dpp_project.heartbeats.metrics import collect_processes
from dpp_project.heartbeats.models import ProcessHeartbeat
from dpp_project.heartbeats.pulse import FORGET_SECONDS, STALE_SECONDS, STILL_SECONDS, Pulse
from dpp_project.lifecycle import alarming
from dpp_project.pages import health
from dpp_project.processes.identity import process_identity_of
from runs import transitions
from runs.operators import explain_run
from tests.gear.builders import runs as gear
from tests.gear.servers.live_api import an_api
from tests.gear.servers.live_processes import a_beat, a_worker
from tests.gear.waiting import wait_until
from tests.proving import proofs

pytestmark = [pytest.mark.contract("HRD-28"), pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def forget_the_last_probing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_latest", health._Latest())


@pytest.fixture
def beating() -> Iterator[Pulse]:
    made = Pulse(service="api", slots=6, progress=lambda: 7, address="127.0.0.1:8000")
    made.start()
    wait_until(ProcessHeartbeat.objects.exists, what="the first beat")
    yield made
    made.stop()


def silence(key: str, seconds: int) -> None:
    ProcessHeartbeat.objects.filter(key=key).update(beat_at=Now() - timedelta(seconds=seconds))


def a_process(**fields: Any) -> ProcessHeartbeat:
    given = {
        "key": "another",
        "service": "worker",
        "host": "elsewhere",
        "pid": 7,
        "identity": "a-boot/7/1",
        "release": "0.0.0",
        "slots": 8,
    }
    return ProcessHeartbeat.objects.create(**given | fields)


def test_a_process_writes_one_row_and_takes_it_along(beating: Pulse) -> None:
    (row,) = ProcessHeartbeat.objects.all()
    assert (row.service, row.host, row.pid) == ("api", socket.gethostname(), os.getpid())
    assert (row.identity, row.key) == (process_identity_of(os.getpid()), pulse.own_key())
    assert (row.slots, row.progress, row.address) == (6, 7, "127.0.0.1:8000")
    beating.beat()
    (again,) = ProcessHeartbeat.objects.all()
    assert again.beat_at > row.beat_at
    assert (again.started_at, again.progressed_at) == (row.started_at, row.progressed_at)
    beating.stop()
    assert not ProcessHeartbeat.objects.exists()


def test_progress_is_dated_when_it_moves(beating: Pulse) -> None:
    before = ProcessHeartbeat.objects.get().progressed_at
    beating.progress = lambda: 8
    beating.beat()
    row = ProcessHeartbeat.objects.get()
    assert (row.progress, row.progressed_at > before) == (8, True)


def test_a_silent_process_is_stale_by_the_databases_clock(beating: Pulse) -> None:
    a_process()
    silence("another", STALE_SECONDS - 5)
    assert {process.row.key: process.is_stale for process in processes.known_processes()} == {
        pulse.own_key(): False,
        "another": False,
    }
    silence("another", STALE_SECONDS + 1)
    assert processes.process_counts() == {"api": {"alive": 1, "stale": 0}, "worker": {"alive": 0, "stale": 1}}


@pytest.mark.contract("LIF-08")
def test_lif_08_a_process_that_lives_and_gets_nothing_done_is_told(beating: Pulse, console: Client) -> None:
    """Its thread beats on; its loop has not turned for longer than anything that a loop waits for."""
    turned = [0]
    beating.turns = lambda: turned[0]
    beating.beat()
    key = pulse.own_key()
    ProcessHeartbeat.objects.update(turned_at=Now() - timedelta(seconds=STILL_SECONDS - 5))
    assert processes.standing_still() == {"api": 0}
    ProcessHeartbeat.objects.update(turned_at=Now() - timedelta(seconds=STILL_SECONDS + 1))
    beating.beat()
    (still,) = processes.known_processes()
    assert (still.row.key, still.state, still.is_stale) == (key, "stands still", False)
    assert processes.process_counts() == {"api": {"alive": 1, "stale": 0}}
    _, family = collect_processes()
    assert [(sample.labels["service"], sample.value) for sample in family.samples] == [("api", 1.0)]
    alarming.look_at_all()
    (alarm,) = [alarm for alarm in alarming.standing_alarms() if alarm.name == "process_silent"]
    assert (alarm.subject, alarm.said) == (
        f"api {os.getpid()} at {socket.gethostname()}",
        "it lives and gets nothing done",
    )
    page = " ".join(re.sub(r"<[^>]*>", " ", console.get("/admin/").content.decode()).split())
    assert "stands still api" in page
    turned[0] += 1
    beating.beat()
    assert (processes.known_processes()[0].state, alarming.look_at_all().detail["ended"]) == ("alive", 1)


@pytest.mark.contract("LIF-08")
def test_lif_08_a_heartbeat_by_mtime_calls_the_dead_alive_and_ours_does_not(tmp_path: Path) -> None:
    """The file of a process that died an hour ago, and was copied; or whose clock was ahead."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    file = tmp_path / "heartbeat"
    file.write_text(str(dead.pid), encoding="utf-8")
    copied = tmp_path / "restored"
    copied.write_bytes(file.read_bytes())
    os.utime(file, (time.time() - 3_600, time.time() - 3_600))

    def alive(path: Path) -> bool:
        return time.time() - path.stat().st_mtime < STALE_SECONDS

    assert (alive(file), alive(copied)) == (False, True)
    known = process_identity_of(os.getpid())
    assert known is not None
    boot = known.partition("/")[0]
    a_process(host=socket.gethostname(), pid=dead.pid, identity=f"{boot}/{dead.pid}/1")
    Pulse(service="api", slots=1, progress=lambda: 0)._forget_the_dead_of_this_host()
    assert not ProcessHeartbeat.objects.exists()


@pytest.mark.contract("LIF-08")
def test_lif_08_a_silent_process_is_an_alarm_until_it_is_back_or_forgotten() -> None:
    a_process()
    silence("another", STALE_SECONDS + 1)
    alarming.look_at_all()
    said = [(alarm.subject, alarm.said) for alarm in alarming.standing_alarms() if alarm.name == "process_silent"]
    assert said == [("worker 7 at elsewhere", "its heartbeat stopped")]
    silence("another", 0)
    alarming.look_at_all()
    assert alarming.standing_alarms() == []


@pytest.mark.contract("LIF-08")
def test_lif_08_a_process_of_a_release_that_does_not_say_stands_not_still() -> None:
    a_process()
    assert [process.state for process in processes.known_processes()] == ["alive"]
    assert ProcessHeartbeat.objects.get().turned_at is None


def test_readiness_metrics_and_console_show_a_stale_process(console: Client, client: Client) -> None:
    a_process()
    silence("another", STALE_SECONDS + 1)
    body = json.loads(client.get("/readyz").content)
    assert body["processes"] == {"worker": {"alive": 0, "stale": 1}}
    assert "elsewhere" not in json.dumps(body)
    family, _ = collect_processes()
    assert {(*sample.labels.values(), sample.value) for sample in family.samples} == {
        ("worker", "alive", 0.0),
        ("worker", "stale", 1.0),
    }
    page = " ".join(re.sub(r"<[^>]*>", " ", console.get("/admin/").content.decode()).split())
    assert "stale worker elsewhere, 7 0.0.0 0 done, 8 at once" in page
    assert "elsewhere" in console.get("/admin/heartbeats/processheartbeat/").content.decode()


def test_a_killed_process_is_forgotten_by_the_next_on_its_host_and_a_living_one_is_not() -> None:
    dead = subprocess.Popen(["true"])
    known = process_identity_of(os.getpid())
    assert known is not None
    boot = known.partition("/")[0]
    started = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    machine = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    assert known == f"{machine}/{os.getpid()}/{started}"
    dead.wait()
    here = socket.gethostname()
    a_process(key="dead", host=here, pid=dead.pid, identity=f"{boot}/{dead.pid}/1")
    a_process(key="pid used again", host=here, pid=os.getpid(), identity=f"{boot}/{os.getpid()}/1")
    a_process(key="living", host=here, pid=os.getpid(), identity=known)
    a_process(key="other boot", host=here, pid=dead.pid, identity=f"before/{dead.pid}/1")
    a_process(key="other host", pid=dead.pid, identity=f"{boot}/{dead.pid}/1")
    Pulse(service="api", slots=1, progress=lambda: 0)._forget_the_dead_of_this_host()
    assert set(ProcessHeartbeat.objects.values_list("key", flat=True)) == {"living", "other boot", "other host"}


def test_a_process_silent_for_an_hour_is_forgotten(beating: Pulse) -> None:
    a_process()
    silence("another", FORGET_SECONDS - 5)
    beating.beat()
    assert ProcessHeartbeat.objects.filter(key="another").exists()
    silence("another", FORGET_SECONDS + 1)
    beating.beat()
    assert not ProcessHeartbeat.objects.filter(key="another").exists()


def test_the_pulse_outlives_an_outage(beating: Pulse, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def away() -> int:
        asked.append(True)
        raise ConnectionError

    monkeypatch.setattr(pulse, "INTERVAL_SECONDS", 0.01)
    failing = Pulse(service="api", slots=1, progress=away)
    failing.start()
    wait_until(lambda: len(asked) > 3, what="further beats")
    failing.stop()
    assert beating._thread is not None


@pytest.mark.slow
def test_api_worker_and_beat_say_that_they_live_and_say_goodbye(tmp_path: Path, aws: str) -> None:
    assert aws
    with an_api(tmp_path, threads=2), a_worker(tmp_path, concurrency=3) as worker, a_beat(tmp_path):
        found = wait_until(
            lambda: (
                {row.service: row for row in ProcessHeartbeat.objects.all()}
                if ProcessHeartbeat.objects.count() == 3
                else None
            ),
            seconds=30,
            what="all three rows",
        )
        assert set(found) == {"api", "worker", "reaper"}
        assert (found["worker"].pid, found["worker"].slots) == (worker.process.pid, 3)
    assert not ProcessHeartbeat.objects.exists()
    proofs.report(cases=1)


def test_the_story_of_a_run_names_its_worker_and_whether_it_is_heard_of() -> None:
    run = gear.reserved()
    gear.won(transitions.start(run_id=run.run_id, version=1, lease_token="another-1234", actor="worker"))
    run.refresh_from_db()
    now = run.updated_at
    assert "A worker is at it" in explain_run.explain(run, now=now).stands
    a_process()
    assert "A worker (pid 7 at elsewhere, alive) is at it" in explain_run.explain(run, now=now).stands
    silence("another", 45)
    assert "pid 7 at elsewhere, stale, last heard of 4" in explain_run.explain(run, now=now).stands
