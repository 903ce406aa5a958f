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
from dpp_project.devstack.supervisor import MARK, WORKSPACES_MARK
from dpp_project.processes.identity import process_identity_of
from tests.gear.waiting import wait_until
from tests.proving import proofs

NAMES = ("postgres", "redis", "aws", "api", "worker", "beat", "events", "workspaces")
BACK_SECONDS = 60.0
SAY_THAT_THEY_LIVE = {"api": 1, "worker": 1, "reaper": 1, "events": 1, "workspaces": 1}


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
        return env_file.read_env_file(self.folder.env)

    def pid(self, name: str) -> int:
        return int(self.folder.pid_file(name).read_text(encoding="ascii"))

    def processes(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self.folder.read_status()["processes"]
        return found

    def kill(self, *names: str) -> None:
        """Each of these, all at once; it lives again under another pid, and the whole answers."""
        old = {name: self.pid(name) for name in names}
        for pid in old.values():
            os.kill(pid, signal.SIGKILL)

        def are_back() -> bool:
            rows = self.processes()
            return all(rows[name]["state"] == "ready" and rows[name]["pid"] not in {None, old[name]} for name in old)

        wait_until(are_back, seconds=BACK_SECONDS, what=f"{', '.join(old)} to be back")
        url = f"{self.values()['DPP_API_URL']}/readyz"
        wait_until(lambda: http.url_answers(url), seconds=BACK_SECONDS, what="/readyz to be green")

    def living(self) -> list[int]:
        """Every process of this stack: by the mark they carry, or by the folder in their command line."""
        root = str(self.folder.root)
        found = set(process_identity.pids_carrying(MARK, root))
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if root in (entry / "cmdline").read_text(encoding="utf-8", errors="replace"):
                        found.add(int(entry.name))
                except OSError:
                    continue
        return sorted(pid for pid in found if process_identity_of(pid) is not None)


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


def alive(ready: str) -> dict[str, int]:
    processes: dict[str, dict[str, int]] = json.loads(get(ready)[1])["processes"]
    return {service: counts["alive"] for service, counts in processes.items()}


def _made(values: dict[str, str]) -> str:
    asked = {"name": "kept", "spec": {"command": ["/usr/bin/python3", "-m", "http.server", "8080"], "ports": [8080]}}
    answer = http.call_api("POST", f"{values['DPP_API_URL']}/v1/workspaces", key=values["DPP_API_KEY"], send=asked)
    assert answer.status == 201, answer
    found: str = answer.body["workspace_id"]
    return found


def _ran(values: dict[str, str], workspace: str, script: str) -> str:
    """By and by: it may have to come up, or its host to come back."""
    asked = {"argv": ["/bin/sh", "-c", script]}

    def answered() -> dict[str, Any] | None:
        answer = http.call_api("POST", f"{workspace}/exec", key=values["DPP_API_KEY"], send=asked)
        assert answer.status in {200, 409, 503}, answer
        return answer.body if answer.status == 200 else None

    try:
        said: str = wait_until(answered, seconds=60, pause_seconds=0.2, what="a command in the workspace")["stdout"]
    except AssertionError:
        sys.stderr.write(f"{http.call_api('GET', workspace, key=values['DPP_API_KEY']).body}\n")
        raise
    return said


def _rested(values: dict[str, str], workspace: str) -> None:
    key = values["DPP_API_KEY"]
    wanted = {"desired_state": "STANDBY"}
    assert http.call_api("PATCH", workspace, key=key, send=wanted, headers={"If-Match": "*"}).status == 200
    wait_until(
        lambda: http.call_api("GET", workspace, key=key).body["phase"] == "STANDBY",
        seconds=30,
        pause_seconds=0.2,
        what="the workspace to rest",
    )


def _served(values: dict[str, str], workspace: str, path: str) -> dict[str, Any]:
    """By the workspace's own server, which a request wakes."""
    address = f"http://127.0.0.1:{values['DPP_WORKSPACES_PROXY_PORT']}/w/{workspace.rpartition('/')[2]}/8080/{path}"

    def answered() -> dict[str, Any] | None:
        answer = http.call_api("GET", address, key=values["DPP_API_KEY"])
        assert answer.status in {200, 503}, answer
        return answer.body if answer.status == 200 else None

    return wait_until(answered, seconds=30, pause_seconds=0.2, what="an answer from the workspace")


def _inits(stack: Stack) -> list[int]:
    return sorted(process_identity.pids_carrying(WORKSPACES_MARK, str(stack.folder.root / "workspaces")))


@pytest.mark.contract("DPP-77", "WSP-11", "WSP-12")
@pytest.mark.timeout(180)
def test_dpp_77_one_command_brings_everything_up_and_whatever_is_killed_comes_back(stack: Stack) -> None:
    """One platform for all of it, for each start of one costs as much as a hundred other tests."""
    first, second = stack.start("up"), stack.start("up")
    said = [process.communicate(timeout=100)[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), said
    assert sum("it runs already" in each for each in said) == 1
    assert sum("prepared" in each for each in said) == 1
    values = stack.values()
    assert all(values[name] for name in ("DPP_API_KEY", "DPP_OPERATOR_KEY", "DPP_ADMIN_PASSWORD"))
    ready = f"{values['DPP_API_URL']}/readyz"
    assert get(ready)[0] == 200
    wait_until(lambda: alive(ready) == SAY_THAT_THEY_LIVE, seconds=30, what="each to say that it lives")
    assert b"csrfmiddlewaretoken" in get(f"{values['DPP_ADMIN_URL']}login/")[1]
    assert get(f"{values['DPP_API_URL']}/static/admin/css/base.css")[0] == 200
    assert sorted(path.stem for path in stack.folder.pids.iterdir()) == sorted(NAMES)
    code, told = stack.run("status")
    assert code == 0
    assert all(name in told for name in NAMES)
    assert values["DPP_WORKSPACES_PROXY_PORT"] in told

    stack.kill("postgres", "redis", "aws", "api")  # the others, and each of them alone: the slow one below
    restarted = {name for name, row in stack.processes().items() if row["restarts"]}
    assert restarted >= {"postgres", "redis", "aws", "api"}
    assert stack.values() == values

    workspace = f"{values['DPP_API_URL']}/v1/workspaces/{_made(values)}"
    assert _ran(values, workspace, "echo '{\"kept\": 1}' >kept.json; cat kept.json") == '{"kept": 1}\n'
    inits = _inits(stack)
    stack.kill("workspaces")
    assert _inits(stack) == inits, "what a killed process held goes on"
    _rested(values, workspace)
    assert _served(values, workspace, "kept.json") == {"kept": 1}

    code, _ = stack.run("down")
    assert code == 0
    assert stack.living() == []
    assert not list(stack.folder.pids.iterdir())
    for name in ("api", "beat", "events", "workspaces"):
        for line in stack.folder.log(name).read_text(encoding="utf-8").splitlines():
            assert json.loads(line)["service"] == serve.SERVICE_NAMES[name], line
    code, told = stack.run("status")
    assert code == 1
    assert "no supervisor runs" in told


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
    given = env_file.read_env_file(told)
    assert {"DATABASE_URL", "REDIS_URL", "SQS_ENDPOINT_URL", "S3_ENDPOINT_URL", "DPP_QUEUE_URL"} <= set(given)
    assert MARK not in given
    code, said = stack.run("with-services", "--", "true")
    assert code == 1
    assert "is in use by another devstack" in said
    around.kill()
    around.communicate()
    wait_until(lambda: not stack.living(), seconds=5, what="the services to end")
    proofs.report(cases=1)


def test_with_services_ends_as_its_command_does(stack: Stack) -> None:
    """How a command ends that was killed, or ended well: tests/acceptance/test_devstack_services.py."""
    assert stack.run("with-services", "--", "sh", "-c", "exit 7")[0] == 7
    assert stack.living() == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dpp_77_each_killed_alone_and_all_again_and_again_come_back_each_time(stack: Stack) -> None:
    stack.up()
    values = stack.values()
    for count, names in enumerate([*((name,) for name in NAMES), *[NAMES] * 8], start=1):
        before = {name: row["restarts"] for name, row in stack.processes().items()}
        stack.kill(*names)
        after = {name: row["restarts"] for name, row in stack.processes().items()}
        assert all(after[name] > before[name] for name in names), count
        assert stack.values() == values
        proofs.report(cases=1)

    os.kill(int(stack.folder.supervisor_pid.read_text(encoding="ascii")), signal.SIGKILL)
    wait_until(lambda: not stack.living(), seconds=5, what="every process of the stack to end")
    assert "prepared" not in stack.up(), "nothing had changed"
    assert stack.values() == values
    assert http.url_answers(f"{values['DPP_ADMIN_URL']}login/")
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
            if process_identity_of(int(known.split("/")[1])) == known:
                os.kill(int(known.split("/")[1]), signal.SIGKILL)
        starting.communicate(timeout=100)
        proofs.report(cases=1)
    stack.up()
    assert json.loads((stack.folder.root / "ports.json").read_text(encoding="utf-8"))
