"""Whoever works a driver of processes dies at any moment, again and again; the next one ends all it had begun."""

import contextlib
import os
import random
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from dpp_project.processes import pidfd
from ops.workspaces.drivers.base import DriverError, ExecRequest, Label, VerbAnswer, WorkspaceSpec
from ops.workspaces.drivers.process import cgroups
from ops.workspaces.drivers.process.driver import ProcessDriver
from tests.gear.builders.workspace_drivers import Tenancy, process_driver
from tests.gear.waiting import wait_until
from tests.proving import proofs

pytestmark = [pytest.mark.slow, pytest.mark.contract("WSP-11")]

LIVES: Final = 150
COMING_AND_GOING: Final = 100
SECONDS_MAX: Final = 0.45
SPEC: Final = WorkspaceSpec(command=("/bin/sleep", "7777"))


def inits(root: Path) -> set[int]:
    """Pid 1 of each workspace that has a volume of this folder mounted, by what the kernel says alone."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                mounted = str(root) in (entry / "mountinfo").read_text(encoding="utf-8")
                first = (entry / "status").read_text(encoding="utf-8").split("NSpid:")[1].splitlines()[0].split()[-1]
                if mounted and first == "1" and b"/run/pid1.py" in words:
                    found.add(int(entry.name))
    return found


def cycle(driver: ProcessDriver, label: Label) -> None:
    """Each verb, as one operation after the other would ask them."""
    volume, name = f"ws-{label.workspace_id}-home-{label.op_id[:8]}-1", f"ws-{label.workspace_id}"
    driver.ensure_volume(volume, label)
    driver.start(name=name, volume=volume, spec=SPEC, label=label, spec_hash="1")
    seen = driver.look_container(name)
    assert seen is not None
    driver.put_file(seen.container_id, "kept", b"whole" * 1_000)
    running = driver.exec_start(seen.container_id, ExecRequest(uuid.uuid4().hex, ("/bin/cat", "kept"), 5))
    result = running.wait(5)
    assert result is not None
    assert result.stdout == b"whole" * 1_000
    with driver.export(volume) as stream:
        content = stream.read()
    another = f"{volume[:-1]}2"
    driver.ensure_volume(another, label)
    if not any((driver._volumes.home(another)).iterdir()):
        driver.import_(another, iter([content]))
    driver.remove_container(seen.container_id, grace_seconds=0.01)
    driver.delete_volume(volume)
    driver.delete_volume(another)


def killed_after(seconds: float, action: Callable[[], object]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            os._exit(0)
    held = os.pidfd_open(pid)
    pidfd.has_ended(held, seconds=seconds)  # or it is in time
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(held)


def test_killed_at_any_moment_it_leaves_nothing_unknown() -> None:
    seed = random.SystemRandom().randrange(10**6)
    moments = random.Random(seed)  # noqa: S311
    met = {"running": 0, "recorded": 0, "nothing": 0}
    with process_driver() as driver:
        driver.place_sentinel("here")
        for _ in range(LIVES):
            label = Tenancy.label()
            killed_after(moments.uniform(0, SECONDS_MAX), lambda: cycle(driver, label))  # noqa: B023  called at once
            name = f"ws-{label.workspace_id}"
            record = driver._containers.read(name)
            met["nothing" if record is None else "running" if record.runs() else "recorded"] += 1
            wait_until(
                lambda: inits(driver._root) <= {one.pid for one in driver._containers.all()}, what=f"seed {seed}"
            )
            _end_what_was_begun(driver, label)
            assert inits(driver._root) == set()
            assert _left(driver) == [], f"seed {seed}"
    proofs.report(cases=LIVES, seed=seed, met=met)


def _end_what_was_begun(driver: ProcessDriver, label: Label) -> None:
    """As the next operation does: remove what holds the name, then the whole cycle."""

    def again() -> bool:
        try:
            seen = driver.look_container(f"ws-{label.workspace_id}")
            if seen is not None:
                assert driver.remove_container(seen.container_id, grace_seconds=0) is VerbAnswer.DONE
            for volume in driver.list().volumes:  # a new attempt fills a new one
                assert driver.delete_volume(volume.name) is not VerbAnswer.IN_USE
            cycle(driver, label)
        except (DriverError, AssertionError):
            return False  # a tar of the dead one still reads
        return True

    wait_until(again, seconds=20)


def _left(driver: ProcessDriver) -> list[str]:
    root = driver._root
    found = [str(path) for folder in ("volumes", "containers", "doomed") for path in (root / folder).iterdir()]
    found += [path.name for path in (root / "locks").iterdir() if path.name != "sentinel"]
    prefix = cgroups.name_of(root / "containers", "")
    for parent in (cgroups.ROOT / part / cgroups.PARENT for part in ("memory", "cpu", ".")):
        found += [str(path) for path in parent.glob(f"{prefix}*")]
    return found


def test_a_hundred_come_and_go_and_nothing_is_left() -> None:
    with process_driver() as driver:
        tenancy = Tenancy(driver)
        for _ in range(COMING_AND_GOING):
            made = tenancy.inhabited(SPEC)
            made.remove()
            assert driver.delete_volume(made.volume) is VerbAnswer.DONE
        assert _left(driver) == []
        assert inits(driver._root) == set()
    proofs.report(cases=COMING_AND_GOING)
