"""Log files: rotated by renaming, no line lost, none overwritten within its days, bounded in all (LIF-07)."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dpp_project import clock
from dpp_project.clock import FixedClock
from dpp_project.lifecycle.host_care import HostCare, limits_of
from dpp_project.lifecycle.log_rotation import LogRotator, RotationLimits
from dpp_project.observe import log_files
from dpp_project.observe import logging as dpp_logging
from dpp_project.observe.log_files import LogFiles
from dpp_project.process_env import ENV
from tests.gear.source import REPOSITORY
from tests.gear.waiting import wait_until
from tests.proving import proofs

pytestmark = pytest.mark.contract("LIF-07")

SEOUL = ZoneInfo("Asia/Seoul")
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LIMITS = RotationLimits(max_bytes=1_000, total_bytes=1_000_000, days=7)


def a_rotator(folder: Path, limits: RotationLimits = LIMITS, zone: ZoneInfo = SEOUL) -> LogRotator:
    return LogRotator(folder, limits, zone)


def write(folder: Path, name: str, text: str, *, at: datetime = NOON) -> Path:
    path = folder / f"{name}.log"
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
    os.utime(path, (at.timestamp(), at.timestamp()))
    return path


def event(at: datetime, **more: Any) -> str:
    return json.dumps({"event": "something happened", "timestamp": at.isoformat()} | more) + "\n"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_lif_07_a_file_above_its_size_is_renamed_and_old_leads_to_the_newest(tmp_path: Path) -> None:
    rotator = a_rotator(tmp_path)
    write(tmp_path, "system", "x" * 999)
    assert rotator.look(NOON) == []
    write(tmp_path, "system", "y")
    assert [path.name for path in rotator.look(NOON)] == ["system-20260301T120000Z.log"]
    assert names(tmp_path) == ["system-20260301T120000Z.log", "system.log.old"]
    assert (tmp_path / "system.log.old").read_text(encoding="utf-8") == "x" * 999 + "y"


def test_lif_07_two_rotations_within_the_days_keep_both(tmp_path: Path) -> None:
    """With one `.old`, written over, the first hundred megabytes would be gone long before their week."""
    rotator = a_rotator(tmp_path)
    for count in range(3):
        write(tmp_path, "system", str(count) * 1_000, at=NOON + timedelta(seconds=count))
        rotator.look(NOON)
    kept = [path.read_text(encoding="utf-8")[0] for path in rotator.rotated("system")]
    assert kept == ["0", "1", "2"]
    assert (tmp_path / "system.log.old").read_text(encoding="utf-8") == "2" * 1_000

    the_documents_way = tmp_path / "other"
    the_documents_way.mkdir()
    for count in range(3):
        write(the_documents_way, "system", str(count) * 1_000).replace(the_documents_way / "system.log.old")
    assert [path.read_text(encoding="utf-8")[0] for path in the_documents_way.iterdir()] == ["2"]


def test_lif_07_events_go_by_the_local_date_of_their_first_line(tmp_path: Path) -> None:
    rotator = a_rotator(tmp_path)
    midnight = datetime(2026, 3, 1, 15, 0, tzinfo=UTC)  # in Seoul
    write(tmp_path, "events", event(NOON))
    assert rotator.look(midnight - timedelta(microseconds=1)) == []
    assert [path.name for path in rotator.look(midnight)] == ["events-20260301.log"]
    write(tmp_path, "events", event(midnight))
    assert rotator.look(midnight) == []
    found = rotator.look(midnight + timedelta(days=3))  # nobody rotated for three days
    assert [path.name for path in found] == ["events-20260302.log"]


def test_lif_07_events_split_at_their_size_too_and_overwrite_nothing(tmp_path: Path) -> None:
    rotator = a_rotator(tmp_path)
    for count in range(2):
        write(tmp_path, "events", event(NOON, text=str(count) * 1_000))
        rotator.look(NOON)
    write(tmp_path, "events", event(NOON, text="last"))
    rotator.look(NOON + timedelta(days=1))
    write(tmp_path, "events", event(NOON, text="clock set back"))
    rotator.look(NOON + timedelta(days=1))
    assert names(tmp_path) == [
        *("events-20260301.1.log", "events-20260301.2.log", "events-20260301.3.log", "events-20260301.log"),
        "events.log.old",
    ]
    texts = [path.read_text(encoding="utf-8") for path in rotator.rotated("events")]
    assert {json.loads(text)["text"][:1] for text in texts} == {"0", "1", "l", "c"}


def test_lif_07_a_date_of_25_hours_and_one_of_23_are_one_file_each(tmp_path: Path) -> None:
    zone = ZoneInfo("America/New_York")
    rotator = a_rotator(tmp_path, zone=zone)
    for day in (datetime(2026, 3, 8, tzinfo=zone), datetime(2026, 11, 1, tzinfo=zone)):
        last = day.replace(hour=23, minute=59)
        write(tmp_path, "events", event(day.astimezone(UTC)))
        assert rotator.look(last.astimezone(UTC)) == []
        assert [path.name for path in rotator.look((last + timedelta(minutes=1)).astimezone(UTC))] == [
            f"events-{day:%Y%m%d}.log"
        ]


def test_lif_07_a_rotated_file_goes_seven_days_after_its_last_line(tmp_path: Path) -> None:
    rotator = a_rotator(tmp_path)
    write(tmp_path, "tasks", "x" * 1_000)
    rotator.look(NOON)
    rotator.look(NOON + timedelta(days=7))
    assert names(tmp_path) == ["tasks-20260301T120000Z.log", "tasks.log.old"]
    rotator.look(NOON + timedelta(days=7, seconds=1))
    assert names(tmp_path) == []


def test_lif_07_above_the_total_the_oldest_go_first_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rotator = a_rotator(tmp_path, RotationLimits(max_bytes=1_000, total_bytes=2_500, days=7))
    for count, name in enumerate(("system", "tasks", "system", "metrics")):
        at = NOON + timedelta(minutes=count)
        write(tmp_path, name, str(count) * 1_000, at=at)
        rotator.look(at)
    rotator.look(NOON + timedelta(minutes=10))
    assert [path.name for path in rotator.rotated()] == ["system-20260301T120200Z.log", "metrics-20260301T120300Z.log"]
    said = [record.msg["file"] for record in caplog.records if isinstance(record.msg, dict) and "file" in record.msg]
    assert said == ["system-20260301T120000Z.log", "tasks-20260301T120100Z.log"]


def test_lif_07_a_file_that_a_writer_may_still_be_at_is_not_cut(tmp_path: Path) -> None:
    rotator = a_rotator(tmp_path, RotationLimits(max_bytes=1_000, total_bytes=1, days=7))
    write(tmp_path, "system", "x" * 1_000)
    rotator.look(NOON)
    assert len(rotator.rotated()) == 1
    rotator.look(NOON + timedelta(seconds=61))
    assert rotator.rotated() == []


def test_lif_07_files_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in ("notes.log", "system-of-theirs.log", "events-2026.log"):
        (tmp_path / name).write_text("theirs", encoding="utf-8")
        os.utime(tmp_path / name, (0, 0))
    a_rotator(tmp_path).look(NOON)
    assert names(tmp_path) == ["events-2026.log", "notes.log", "system-of-theirs.log"]


def test_lif_07_one_rotator_a_host_and_the_next_when_it_ends(tmp_path: Path) -> None:
    first, second = a_rotator(tmp_path), a_rotator(tmp_path)
    assert (first.is_ours(), first.is_ours(), second.is_ours()) == (True, True, False)
    first.release()
    assert (second.is_ours(), first.is_ours()) == (True, False)
    second.release()


def test_lif_07_a_death_between_renaming_and_linking_is_mended_by_the_next_look(tmp_path: Path) -> None:
    rotator = a_rotator(tmp_path)
    path = write(tmp_path, "system", "x" * 1_000)
    path.rename(tmp_path / "system-20260301T120000Z.log")
    (tmp_path / ".system.log.old.new").symlink_to("nowhere")
    rotator.look(NOON)
    assert str((tmp_path / "system.log.old").readlink()) == "system-20260301T120000Z.log"
    assert names(tmp_path) == ["system-20260301T120000Z.log", "system.log.old"]


@pytest.fixture
def handler(tmp_path: Path) -> Any:
    made = LogFiles(str(tmp_path / "logs"))
    made.setFormatter(logging.Formatter("%(message)s"))
    yield made
    made.close()


def said(logger: str, text: str) -> logging.LogRecord:
    return logging.LogRecord(logger, logging.INFO, "", 0, text, None, None)


def test_lif_07_each_line_goes_to_its_file(handler: LogFiles, tmp_path: Path) -> None:
    lines = {"dpp.request": "system", "dpp.task": "tasks", "dpp.job": "tasks", "dpp.events": "events"}
    lines |= {"dpp.alarm": "events", "dpp.host": "metrics", "django": "system", "dpp.run": "tasks"}
    for logger in lines:
        handler.handle(said(logger, logger))
    found = {
        name: log_files.path_of(tmp_path / "logs", name).read_text(encoding="utf-8").split() for name in log_files.NAMES
    }
    assert found == {name: [one for one in lines if lines[one] == name] for name in log_files.NAMES}


def test_lif_07_after_a_rename_the_next_line_is_in_a_new_file(handler: LogFiles, tmp_path: Path) -> None:
    handler.handle(said("dpp.request", "before"))
    path = log_files.path_of(tmp_path / "logs", "system")
    path.rename(path.with_name("renamed"))
    handler.handle(said("dpp.request", "after"))
    path.unlink()
    handler.handle(said("dpp.request", "again"))
    assert (path.with_name("renamed").read_text(), path.read_text()) == ("before\n", "again\n")


def test_lif_07_a_line_that_the_disk_does_not_take_goes_to_standard_error(
    handler: LogFiles, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def full(_descriptor: int, _line: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    handler.handle(said("dpp.request", "the disk is full"))
    assert capfdbinary.readouterr().err == b"the disk is full\n"


def test_lif_07_services_log_into_the_folder_and_commands_do_not(tmp_path: Path) -> None:
    of = {
        service: dpp_logging.logging_configuration(service=service, level="INFO", folder=str(tmp_path))
        for service in SERVICES
    }
    kinds = {service: one["handlers"]["lines"].get("()") for service, one in of.items()}
    assert kinds == {"api": LogFiles, "worker": LogFiles, "command": None}
    unset = dpp_logging.logging_configuration(service="api", level="INFO")["handlers"]["lines"]
    assert unset["stream"] == "ext://sys.stdout"


SERVICES = ("api", "worker", "command")


def many_writers(folder: Path, *, writers: int, lines: int, rotations: int, least: int = 2) -> Counter[str]:
    """Each writes its numbered lines while the files are rotated; answers how often each line stands.

    Room for three times as many `rotations`; how many of them come in before quick writers are done is the machine's.
    """
    max_bytes = writers * lines * 70 // (3 * rotations)
    rotator = a_rotator(folder, RotationLimits(max_bytes=max_bytes, total_bytes=10**12, days=7))
    command = [sys.executable, "-m", "tests.gear.servers.log_writer", str(folder)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": REPOSITORY, "text": True}
    processes = [subprocess.Popen([*command, f"w{number}", str(lines)], **pipes) for number in range(writers)]
    for one in processes:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    over = threading.Event()
    rotating = threading.Thread(target=lambda: [rotator.look(clock.now()) for _ in iter(over.is_set, True)])
    rotating.start()
    for one in processes:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.close()
    for one in processes:
        assert one.wait(600) == 0
        assert one.stdout is not None
        one.stdout.close()
    over.set()
    rotating.join()
    assert len(rotator.rotated("system")) >= least
    found: Counter[str] = Counter()
    for path in (*rotator.rotated("system"), folder / "system.log"):
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                who, number, filling = line.split(" ")
                assert filling == "x" * 60
                found[f"{who} {number}"] += 1
    return found


def every_line_once(found: Counter[str], *, writers: int, lines: int) -> None:
    assert len(found) == writers * lines
    assert set(found.values()) == {1}


def test_lif_07_no_line_of_four_writers_is_lost_through_rotations(tmp_path: Path) -> None:
    every_line_once(many_writers(tmp_path, writers=4, lines=2_000, rotations=5), writers=4, lines=2_000)


@pytest.mark.slow
def test_lif_07_no_line_of_eight_writers_is_lost_through_twenty_rotations(tmp_path: Path) -> None:
    found = many_writers(tmp_path, writers=8, lines=100_000, rotations=20, least=20)
    every_line_once(found, writers=8, lines=100_000)
    proofs.report(cases=len(found))


def test_lif_07_a_service_rotates_its_hosts_logs_and_says_how_the_host_is(tmp_path: Path, clock: FixedClock) -> None:
    env = ENV.model_copy(update={"DPP_LOG_DIR": str(tmp_path), "DPP_LOG_MAX_MB": 1})
    assert limits_of(env) == RotationLimits(max_bytes=1_000_000, total_bytes=4_000_000_000, days=7)
    write(tmp_path, "system", "x" * 1_000_000)
    care = HostCare(env)
    beside = HostCare(env)
    care.start()
    try:
        wait_until(lambda: list(tmp_path.glob("system-*.log")), seconds=20, what="the rotation")
        assert beside._rotator is not None
        assert not beside._rotator.is_ours()
    finally:
        care.stop()
    assert beside._rotator.is_ours()
    beside.stop()
