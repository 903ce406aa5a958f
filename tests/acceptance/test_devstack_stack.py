"""`make up` as a person meets it: a whole platform in a folder of its own, and whatever may be killed killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpp_project import env_file, serve
from dpp_project.devstack import environment, http, process_identity
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.programs import REPOSITORY
from dpp_project.devstack.supervisor import MARK
from dpp_project.processes.identity import identity
from tests.gear.waiting import wait_until
from tests.proving import proofs

NAMES = ("postgres", "redis", "aws", "api", "worker", "beat", "events")
BACK_SECONDS = 60.0


class Stack:
    """A devstack driven by its commands, in an environment that names no service."""

    def __init__(self, root: Path) -> None:
        self.folder = Folder(root)
        ours = ("DPP_", "AWS_")
        self.environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(ours) and name not in {*environment.ADDRESSES, "S3_PUBLIC_ENDPOINT_URL"}
        } | {"DPP_API_WORKERS": "1", "DPP_WORKER_CONCURRENCY": "1"}

    def start(self, command: str, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "dpp_project.devstack", command, "--state", str(self.folder.root), *more],
            cwd=REPOSITORY,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str, *more: str) -> tuple[int, str]:
        process = self.start(command, *more)
        said, _ = process.communicate(timeout=100)
        return process.returncode, said

    def up(self) -> str:
        code, said = self.run("up")
        assert code == 0, said
        return said

    def values(self) -> dict[str, str]:
        return env_file.read(self.folder.env)

    def pid(self, name: str) -> int:
        return int(self.folder.pid_file(name).read_text(encoding="ascii"))

    def processes(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self.folder.read_status()["processes"]
        return found

    def await_back(self, old: dict[str, int]) -> None:
        """Each of these lives again under another pid, and the whole answers."""

        def are_back() -> bool:
            rows = self.processes()
            return all(rows[name]["state"] == "ready" and rows[name]["pid"] not in {None, old[name]} for name in old)

        wait_until(are_back, seconds=BACK_SECONDS, what=f"{', '.join(old)} to be back")
        url = f"{self.values()['DPP_API_URL']}/readyz"
        wait_until(lambda: http.answers(url), seconds=BACK_SECONDS, what="/readyz to be green")

    def living(self) -> list[int]:
        """Every process of this stack: by the mark they carry, or by the folder in their command line."""
        root = str(self.folder.root)
        found = set(process_identity.carrying(MARK, root))
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if root in (entry / "cmdline").read_text(encoding="utf-8", errors="replace"):
                        found.add(int(entry.name))
                except OSError:
                    continue
        return sorted(pid for pid in found if identity(pid) is not None)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path / "state")
    try:
        yield made
    finally:
        made.run("down", "--now")
        assert made.living() == []


def get(url: str) -> tuple[int, bytes]:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
        return answer.status, answer.read()


@pytest.mark.contract("DPP-77")
@pytest.mark.timeout(180)
def test_dpp_77_one_command_brings_everything_up_and_whatever_is_killed_comes_back(stack: Stack) -> None:
    stack.up()
    values = stack.values()
    assert all(values[name] for name in ("DPP_API_KEY", "DPP_OPERATOR_KEY", "DPP_ADMIN_PASSWORD"))
    assert get(f"{values['DPP_API_URL']}/readyz")[0] == 200
    assert b"csrfmiddlewaretoken" in get(f"{values['DPP_ADMIN_URL']}login/")[1]
    assert get(f"{values['DPP_API_URL']}/static/admin/css/base.css")[0] == 200
    assert sorted(path.stem for path in stack.folder.pids.iterdir()) == sorted(NAMES)
    code, said = stack.run("status")
    assert code == 0
    assert all(name in said for name in NAMES)

    for name in NAMES:
        old = {name: stack.pid(name)}
        os.kill(old[name], signal.SIGKILL)
        stack.await_back(old)
        assert stack.processes()[name]["restarts"] >= 1
    every = {name: stack.pid(name) for name in NAMES}
    for pid in every.values():
        os.kill(pid, signal.SIGKILL)
    stack.await_back(every)

    assert stack.values() == values
    code, _ = stack.run("down")
    assert code == 0
    assert stack.living() == []
    assert not list(stack.folder.pids.iterdir())
    for name in ("api", "beat", "events"):
        for line in stack.folder.log(name).read_text(encoding="utf-8").splitlines():
            assert json.loads(line)["service"] == serve.SERVICE_NAMES[name], line
    code, said = stack.run("status")
    assert code == 1
    assert "no supervisor runs" in said


@pytest.mark.contract("DPP-77")
@pytest.mark.timeout(180)
def test_dpp_77_a_killed_supervisor_leaves_nobody_and_the_next_up_finds_the_data(stack: Stack) -> None:
    first, second = stack.start("up"), stack.start("up")
    said = [process.communicate(timeout=100)[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), said
    assert sum("it runs already" in each for each in said) == 1
    values = stack.values()
    supervisor = int(stack.folder.supervisor_pid.read_text(encoding="ascii"))

    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not stack.living(), seconds=5, what="every process of the stack to end")

    said_again = stack.up()
    assert "prepared" not in said_again, "nothing had changed"
    assert stack.values() == values
    assert http.answers(f"{values['DPP_ADMIN_URL']}login/")


@pytest.mark.slow
def test_an_up_that_cannot_succeed_says_why_and_leaves_nobody(stack: Stack) -> None:
    stack.environ["DPP_WORKER_CONCURRENCY"] = "many"
    code, said = stack.run("up")
    assert code == 1
    assert "DPP_WORKER_CONCURRENCY" in said
    assert stack.living() == []
    proofs.report(cases=1)


@pytest.mark.slow
def test_a_second_with_services_in_one_folder_is_refused_and_a_kill_leaves_nobody(stack: Stack, tmp_path: Path) -> None:
    told = tmp_path / "told"
    tell = f"env > {told}.new; mv {told}.new {told}; exec sleep 60"
    around = stack.start("with-services", "--", "sh", "-c", tell)
    wait_until(told.exists, seconds=30, what="the command to run among its services")
    given = env_file.read(told)
    assert {"DATABASE_URL", "REDIS_URL", "SQS_ENDPOINT_URL", "S3_ENDPOINT_URL", "DPP_QUEUE_URL"} <= set(given)
    assert MARK not in given
    code, said = stack.run("with-services", "--", "true")
    assert code == 1
    assert "is in use by another devstack" in said
    around.kill()
    around.communicate()
    wait_until(lambda: not stack.living(), seconds=5, what="the services to end")
    proofs.report(cases=1)


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_with_services_ends_as_its_command_does(stack: Stack, command: str, code: int) -> None:
    assert stack.run("with-services", "--", "sh", "-c", command)[0] == code
    assert stack.living() == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dpp_77_all_killed_again_and_again_come_back_each_time(stack: Stack) -> None:
    stack.up()
    for _ in range(8):
        every = {name: stack.pid(name) for name in NAMES}
        for pid in every.values():
            os.kill(pid, signal.SIGKILL)
        stack.await_back(every)
        proofs.report(cases=1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dpp_77_a_supervisor_killed_at_any_moment_of_its_start_is_followed_by_a_good_one(stack: Stack) -> None:
    for hundredths in range(0, 260, 13):
        starting = stack.start("up")
        with contextlib.suppress(subprocess.TimeoutExpired):
            starting.wait(timeout=hundredths / 100)
        status = stack.folder.read_status()
        if stack.folder.supervisor_pid.exists() and status.get("supervisor"):
            known = status["supervisor"]
            if identity(int(known.split("/")[1])) == known:
                os.kill(int(known.split("/")[1]), signal.SIGKILL)
        starting.communicate(timeout=100)
        proofs.report(cases=1)
    stack.up()
    assert json.loads((stack.folder.root / "ports.json").read_text(encoding="utf-8"))
