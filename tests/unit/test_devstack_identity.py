"""A number is no reason to send a signal: processes are known by when they started, too."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpp_project.devstack import backoff, process_identity
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.supervisor import MARK, end_leftovers
from dpp_project.env_file import write_whole
from dpp_project.processes.identity import process_identity_of
from tests.gear.waiting import wait_until


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "state")
    made.make()
    return made


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    yield from _sleeper(dict(os.environ))


def _sleeper(environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"], env=environ, start_new_session=True)
    try:
        wait_until(lambda: b"sleep" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_living_process_is_the_same_as_before() -> None:
    assert process_identity_of(os.getpid()) == process_identity_of(os.getpid()) is not None


def test_a_dead_process_and_a_zombie_are_nobody() -> None:
    process = subprocess.Popen(["true"])
    wait_until(lambda: process_identity_of(process.pid) is None, what="the zombie to be nobody")
    process.wait()
    assert process_identity_of(process.pid) is None


def test_what_carries_our_mark_is_found(folder: Folder) -> None:
    for process in _sleeper({MARK: str(folder.root)}):
        assert process_identity.pids_carrying(MARK, str(folder.root)) == [process.pid]
        assert process_identity.pids_carrying(MARK, str(folder.root) + "x") == []


def test_children_are_found(sleeper: subprocess.Popen[bytes]) -> None:
    assert sleeper.pid in process_identity.child_pids(os.getpid())


def test_leftovers_are_ended(folder: Folder, sleeper: subprocess.Popen[bytes]) -> None:
    known = process_identity_of(sleeper.pid)
    write_whole(folder.root / "processes.json", f'{{"worker": "{known}"}}')
    folder.pid_file("worker").write_text(f"{sleeper.pid}\n", encoding="ascii")
    assert end_leftovers(folder) == [sleeper.pid]
    assert sleeper.wait(timeout=5) == -9
    assert not folder.pid_file("worker").exists()


def test_leftovers_that_only_carry_our_mark_are_ended(folder: Folder) -> None:
    for process in _sleeper({MARK: str(folder.root)}):
        assert end_leftovers(folder) == [process.pid]
        assert process.wait(timeout=5) == -9


def test_a_stranger_who_has_the_pid_now_is_left_alone(folder: Folder, sleeper: subprocess.Popen[bytes]) -> None:
    known = process_identity_of(sleeper.pid)
    assert known is not None
    boot, pid, started = known.split("/")
    write_whole(folder.root / "processes.json", f'{{"worker": "{boot}/{pid}/{int(started) - 1}", "api": null}}')
    folder.pid_file("worker").write_text(f"{sleeper.pid}\n", encoding="ascii")
    assert end_leftovers(folder) == []
    assert sleeper.poll() is None


def test_a_stranger_of_another_boot_is_left_alone(folder: Folder, sleeper: subprocess.Popen[bytes]) -> None:
    known = process_identity_of(sleeper.pid)
    assert known is not None
    write_whole(folder.root / "processes.json", f'{{"worker": "another-boot/{known.split("/", 1)[1]}"}}')
    assert end_leftovers(folder) == []
    assert sleeper.poll() is None


def test_the_first_failure_is_mended_at_once_and_the_next_ones_ever_later() -> None:
    assert [backoff.restart_delay(failures) for failures in range(1, 9)] == [0.0, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert backoff.restart_delay(100_000) == backoff.LONGEST_SECONDS


def test_a_program_that_ran_well_starts_over_and_one_that_did_not_goes_on_counting() -> None:
    assert backoff.failures_after(7, lived_seconds=backoff.STEADY_SECONDS) == 1
    assert backoff.failures_after(7, lived_seconds=backoff.STEADY_SECONDS - 0.1) == 8
