"""Keeps programs running: starts them in order, restarts those that die, stops them in order, leaves no process behind.

One thread and one loop. What happens when a process dies:
- a program: its group is killed, orphans it left come to us (PR_SET_CHILD_SUBREAPER) and are killed, it starts again.
- one that held workspaces: these are orphans that go on, for the process that starts again finds them as they are.
- the supervisor by SIGTERM: it ends all, apps before the services they need, and workspaces after the apps.
- the supervisor by SIGKILL: the kernel kills each program (dpp_project/processes/parent_death.py); what escapes that is
  found by the next start: by the identity written beside the pid, or by DEVSTACK_STATE in its environment. Never by a
  pid alone.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal

from dpp_project import env_file
from dpp_project.devstack import backoff, process_identity
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.programs import Program, spawn_program
from dpp_project.env_file import write_whole
from dpp_project.processes.identity import process_identity_of
from dpp_project.processes.parent_death import adopt_orphans, disown_orphans

MARK = "DEVSTACK_STATE"
WORKSPACES_MARK = "DPP_WORKSPACES_OF"
"""What the process driver of workspaces gives to each of them (ops/workspaces/drivers/process/starting.py)."""
HEARD = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
LOG_BYTES = 20_000_000
LOG_CHECK_SECONDS = 10.0
ASK_SECONDS = 0.1

State = Literal["waiting", "starting", "ready", "backoff", "stopping", "down"]


@dataclass
class Unit:
    """A program and its current process."""

    program: Program
    state: State = "waiting"
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    not_before: float = 0.0
    not_asked_before: float = 0.0
    failures: int = 0
    restarts: int = -1

    def is_up(self) -> bool:
        return self.state == "ready"


class Supervisor:
    """Owns the programs of one folder. Its holder calls `tick` again and again, then `stop`."""

    def __init__(self, folder: Folder, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.environ = {**environ, MARK: str(folder.root)}
        self.units: dict[str, Unit] = {}
        self.stop_requests = 0
        self._said = ""
        self._logs_checked = 0.0
        self._guests = set(process_identity.child_pids(os.getpid()))  # children from before are not ours to end
        adopt_orphans()
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)

    def add(self, programs: Iterable[Program]) -> None:
        for program in programs:
            _bound(self.folder, program.name)
            self.units[program.name] = Unit(program)

    def all_ready(self, names: Iterable[str] | None = None) -> bool:
        return all(self.units[name].is_up() for name in (self.units if names is None else names))

    def tick(self, seconds: float = 0.05) -> None:
        """Wait for a signal, at most so long, and bring every unit one step further."""
        self._listen(seconds)
        for unit in self.units.values():
            self._notice_end(unit)
        for unit in self.units.values():
            self._start_if_due(unit)
            self._notice_ready(unit)
        self._reap_strangers()
        self._say()
        if time.monotonic() - self._logs_checked > LOG_CHECK_SECONDS:
            self._logs_checked = time.monotonic()
            for name in self.units:
                _bound(self.folder, name)

    def run(self, command: Sequence[str], environ: Mapping[str, str], output: IO[bytes] | None = None) -> int:
        """Run a command to its end while the units are kept running; its exit code, as a shell gives it.

        A request to stop is passed on to the command.
        """
        process = spawn_program(command, environ=environ, output=output, session=output is not None)
        self._guests.add(process.pid)
        passed_on = self.stop_requests
        while process.poll() is None:
            self.tick()
            if self.stop_requests > passed_on:
                passed_on = self.stop_requests
                process.terminate()
        self._guests.remove(process.pid)
        return process.returncode if process.returncode >= 0 else 128 - process.returncode

    def stop(self, order: Sequence[str]) -> None:
        """End the units in this order, each within its grace; a second request ends the rest at once."""
        requests = self.stop_requests
        for name in order:
            unit = self.units[name]
            if unit.process is not None and unit.process.poll() is None:
                unit.state = "stopping"
                self._say()
                unit.process.send_signal(unit.program.stop_signal)
                end = time.monotonic() + unit.program.stop_seconds
                while unit.process.poll() is None and time.monotonic() < end and self.stop_requests <= requests:
                    self._listen(0.05)
            self._bury(unit)
            unit.state = "down"
            self._say()
        self._end_orphans()

    def close(self) -> None:
        """Restore signal handlers and the handling of orphans."""
        disown_orphans()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _listen(self, seconds: float) -> None:
        heard = signal.sigtimedwait(HEARD, seconds)
        if heard is not None and heard.si_signo != signal.SIGCHLD:
            self.stop_requests += 1

    def _notice_end(self, unit: Unit) -> None:
        if unit.process is None or not _has_ended(unit.process.pid):
            return
        lived = time.monotonic() - unit.started_at
        self._bury(unit)
        self._end_orphans(but_workspaces=True)
        unit.failures = backoff.failures_after(unit.failures, lived_seconds=lived)
        unit.not_before = time.monotonic() + backoff.restart_delay(unit.failures)
        unit.state = "backoff"

    def _bury(self, unit: Unit) -> None:
        """End the group while its leader, dead or not, still holds the pid; then let the pid go."""
        if unit.process is not None:
            process_identity.kill_group(unit.process.pid)
            unit.process.wait()
            unit.process = None
        self.folder.pid_file(unit.program.name).unlink(missing_ok=True)

    def _end_orphans(self, *, but_workspaces: bool = False) -> None:
        """Children of ours that we did not start were left by one of ours that died; their own follow them to us."""
        known = {unit.process.pid for unit in self.units.values() if unit.process is not None} | self._guests
        workspaces = self.environ.get("DPP_WORKSPACES_DIR") if but_workspaces else None
        while orphans := {
            pid
            for pid in set(process_identity.child_pids(os.getpid())) - known
            if workspaces is None or not process_identity.pid_carries(pid, WORKSPACES_MARK, workspaces)
        }:
            for pid in orphans:
                process_identity.kill_group(pid)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def _reap_strangers(self) -> None:
        """Reap adopted orphans that ended by themselves; they would stay as zombies."""
        known = self._guests | {unit.process.pid for unit in self.units.values() if unit.process is not None}
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if ended.si_pid in known:
                    return
                os.waitpid(ended.si_pid, 0)

    def _start_if_due(self, unit: Unit) -> None:
        if unit.process is not None or unit.state not in {"waiting", "backoff"}:
            return
        if time.monotonic() < unit.not_before or not self.all_ready(unit.program.needs):
            return
        program = unit.program
        program.before()
        with self.folder.log(program.name).open("ab") as output:
            unit.process = spawn_program(
                program.command,
                environ={**self.environ, **program.environ, **env_file.read_env_file(self.folder.drill(program.name))},
                output=output,
                privilege=program.privilege,
            )
        unit.started_at = time.monotonic()
        unit.state = "starting"
        unit.restarts += 1
        write_whole(self.folder.pid_file(program.name), f"{unit.process.pid}\n", mode=0o644)
        self._remember()

    def _notice_ready(self, unit: Unit) -> None:
        now = time.monotonic()
        if unit.state != "starting" or now < max(unit.started_at + unit.program.settles_seconds, unit.not_asked_before):
            return
        unit.not_asked_before = now + ASK_SECONDS
        if unit.program.ready():
            unit.state = "ready"

    def _remember(self) -> None:
        living = {
            name: process_identity_of(unit.process.pid) for name, unit in self.units.items() if unit.process is not None
        }
        write_whole(self.folder.root / "processes.json", json.dumps(living, indent=1))

    def status(self) -> dict[str, Any]:
        return {
            "supervisor": process_identity_of(os.getpid()),
            "ready": self.all_ready(),
            "processes": {
                name: {
                    "pid": unit.process.pid if unit.process is not None else None,
                    "state": unit.state,
                    "port": unit.program.port,
                    "restarts": max(unit.restarts, 0),
                }
                for name, unit in self.units.items()
            },
        }

    def _say(self) -> None:
        status = self.status()
        said = json.dumps(status)
        if said != self._said:
            self._said = said
            self.folder.write_status(status)


def end_leftovers(folder: Folder) -> list[int]:
    """End what an earlier supervisor of this folder left behind; call it with the folder's lock held."""
    try:
        remembered = json.loads((folder.root / "processes.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        remembered = {}
    found = {int(known.split("/")[1]): known for known in remembered.values() if known}
    left = {pid: known for pid, known in found.items() if process_identity_of(pid) == known}
    marks = ((MARK, str(folder.root)), (WORKSPACES_MARK, str(folder.root / "workspaces")))
    for pid in (pid for mark in marks for pid in process_identity.pids_carrying(*mark)):
        known = process_identity_of(pid)
        if known is not None:
            left[pid] = known
    for pid in left:
        process_identity.kill_group(pid)
    for known in left.values():
        process_identity.wait_gone(known, seconds=10)
    for path in folder.pids.glob("*.pid"):
        path.unlink(missing_ok=True)
    return sorted(left)


def _has_ended(pid: int) -> bool:
    """Whether a child is dead, leaving it unreaped: until it is reaped its pid is not reused."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _bound(folder: Folder, name: str) -> None:
    """Keep one old log and empty the file in place: the program appends, so it goes on at the start."""
    path = folder.log(name)
    if path.exists() and path.stat().st_size > LOG_BYTES:
        path.with_suffix(".log.1").write_bytes(path.read_bytes())
        os.truncate(path, 0)
