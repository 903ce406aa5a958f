# ruff: noqa: T201  its output is the progress that a person sees
"""`up` and `down`: start the supervisor and wait until all answers; ask it to stop and wait until all is gone."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

from dpp_project import env_file, serve
from dpp_project.devstack import http, process_identity
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.programs import REPOSITORY, DevstackError
from dpp_project.devstack.supervisor import end_leftovers
from dpp_project.processes.identity import process_identity_of

ALWAYS_THERE = serve.PARTS.keys() - {"workspaces"}
UP_SECONDS = 180.0
DOWN_SECONDS = 180.0
MONEY_SECONDS = 30.0
GONE_SECONDS = 10.0
POLL_SECONDS = 0.05


def bring_stack_up(folder: Folder) -> None:
    """Return when everything answers. Of two at once, one starts it and the other waits for the same."""
    folder.make()
    with _devstack_up_lock(folder):
        if _lives(folder):
            if not _is_stopping(folder):
                print("it runs already", flush=True)
                _await_ready(folder, None)
                _await_money(folder)
                return
            print("it is stopping; waiting for that", flush=True)
            _await_end(folder)
        _await_ready(folder, _start(folder))
        _await_money(folder)


def _await_money(folder: Folder) -> None:
    """Wait for the rebuild: balances in a restarted Redis count only after beat has rebuilt them from the ledger."""
    values = env_file.read_env_file(folder.env)
    end = time.monotonic() + MONEY_SECONDS
    while time.monotonic() < end:
        with suppress(OSError):
            answer = http.call_api("GET", f"{values['DPP_API_URL']}/v1/budget", key=values["DPP_API_KEY"])
            if answer.status == HTTPStatus.OK:
                return
        time.sleep(POLL_SECONDS)
    raise DevstackError(f"the budget is not served after {MONEY_SECONDS:.0f} s; `make logs S=beat` says why.")


def take_stack_down(folder: Folder, *, now: bool = False) -> bool:
    """Stop everything in order; whether all is gone. Interrupted, it tells the supervisor not to wait any longer."""
    if not folder.root.exists():
        print("nothing was ever started here")
        return True
    known = folder.read_status().get("supervisor")
    if not _lives(folder) or not isinstance(known, str):
        _sweep(folder)
        print("it is down")
        return True
    _signal(known)
    if now:
        time.sleep(0.2)  # two signals of one number that arrive together are one
        _signal(known)
    try:
        _await_end(folder)
    except KeyboardInterrupt:
        print("\nkilling what still works; recovery does the rest", flush=True)
        _signal(known)
        _await_end(folder)
    _sweep(folder)
    print("it is down; the data stay")
    return True


@contextmanager
def _devstack_up_lock(folder: Folder) -> Iterator[None]:
    with (folder.root / "up.lock").open("a", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("another `up` is at work here; waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _start(folder: Folder) -> subprocess.Popen[bytes]:
    log = folder.log("supervisor")
    if log.exists():
        log.replace(log.with_suffix(".log.1"))
    (folder.root / "status.json").unlink(missing_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "dpp_project.devstack", "supervise", "--state", str(folder.root)],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


def _await_ready(folder: Folder, started: subprocess.Popen[bytes] | None) -> None:
    said = 0 if started is not None else None
    end = time.monotonic() + UP_SECONDS
    while not _is_ready(folder):
        said = _pass_on(folder, said)
        gone = started.poll() is not None if started is not None else not _lives(folder)
        if gone:
            _pass_on(folder, said)
            raise DevstackError(
                f"it did not start; {folder.logs} says why. Where the machine was merely busy, the same command again "
                "goes on from here."
            )
        if time.monotonic() > end:
            late = [name for name, row in _processes(folder).items() if row["state"] != "ready"]
            raise DevstackError(
                f"not ready after {UP_SECONDS:.0f} s: {', '.join(late)}. It goes on trying; `make logs`, `make down`."
            )
        time.sleep(POLL_SECONDS)
    _pass_on(folder, said)


def _pass_on(folder: Folder, said: int | None) -> int | None:
    """Print the supervisor's new output; None prints nothing."""
    if said is None:
        return None
    with suppress(OSError):
        text = folder.log("supervisor").read_bytes()[said:]
        print(text.decode("utf-8", errors="replace"), end="", flush=True)
        return said + len(text)
    return said


def _await_end(folder: Folder) -> None:
    end = time.monotonic() + DOWN_SECONDS
    shown = ""
    while _lives(folder):
        stopping = next((name for name, row in _processes(folder).items() if row["state"] == "stopping"), "")
        if stopping and stopping != shown:
            print(f"stopping {stopping}", flush=True)
            shown = stopping
        if time.monotonic() > end:
            raise DevstackError(f"still stopping after {DOWN_SECONDS:.0f} s: `make down NOW=1` kills.")
        time.sleep(POLL_SECONDS)


def _sweep(folder: Folder) -> None:
    """End what is left. A supervisor frees its lock some moments before it is gone itself."""
    known = folder.read_status().get("supervisor")
    lock = folder.try_lock("supervisor")
    if lock is not None:
        with lock:
            end_leftovers(folder)
            folder.supervisor_pid.unlink(missing_ok=True)
        if isinstance(known, str) and not process_identity.wait_gone(known, seconds=GONE_SECONDS):
            raise DevstackError(f"the supervisor has stopped everything but does not end: pid {known.split('/')[1]}")


def _lives(folder: Folder) -> bool:
    """Whether a supervisor holds the folder; the kernel frees the lock with its holder."""
    lock = folder.try_lock("supervisor")
    if lock is None:
        return True
    lock.close()
    return False


def _signal(known: str) -> None:
    pid = int(known.split("/")[1])
    if process_identity_of(pid) == known:
        os.kill(pid, signal.SIGTERM)


def _processes(folder: Folder) -> dict[str, dict[str, Any]]:
    processes = folder.read_status().get("processes", {})
    return processes if isinstance(processes, dict) else {}


def _is_ready(folder: Folder) -> bool:
    status = folder.read_status()
    return bool(status.get("ready")) and status.get("processes", {}).keys() >= ALWAYS_THERE and _lives(folder)


def _is_stopping(folder: Folder) -> bool:
    return any(row["state"] in {"stopping", "down"} for row in _processes(folder).values())
