"""What the product is compared with: each peer is a module of bench/peers with a lock of its own beside it.

    bench/peers/NAME.py     the peer
    bench/peers/NAME.in     what it needs; NAME.txt is its lock (`make locks`)
    .venv-bench/NAME        its virtual environment, made from the lock where that has changed

None of it is in the product's requirements. A peer that works off tasks is a program with two commands:

    send COUNT    so many tasks that do nothing
    work          a worker that works them off until it is stopped

and finds in its environment BENCH_BROKER (where its queue is), BENCH_SLOTS (how many at once) and BENCH_DONE (a file
that each task makes one byte longer). So one counter serves all of them, and none pays for it more than another.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench._servers import REPOSITORY
from dpp_project.processes import process_tree

LOCKS: Final = REPOSITORY / "bench" / "peers"
ENVIRONMENTS: Final = REPOSITORY / ".venv-bench"
INSTALL_SECONDS: Final = 240
SEND_SECONDS: Final = 60
PROGRESS_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
NOT_COUNTED: Final = 10
"""The first tenth is not: a worker starts and warms up in it."""


class PeerFailed(Exception):  # noqa: N818  named for what happened
    """It could not be installed, or does not work. What else is measured goes on."""


def names() -> list[str]:
    return sorted(lock.stem for lock in LOCKS.glob("*.in"))


def python(name: str) -> str:
    """The interpreter of the peer's environment, which is made or renewed here."""
    folder, lock = ENVIRONMENTS / name, LOCKS / f"{name}.txt"
    ENVIRONMENTS.mkdir(exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as only_one:
        fcntl.flock(only_one, fcntl.LOCK_EX)
        stamp = folder / "stamp"
        if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
            print(f"{name}: installing bench/peers/{name}.txt", flush=True)
            _run([sys.executable, "-m", "venv", "--clear", str(folder)], seconds=INSTALL_SECONDS)
            options = (
                "--require-hashes",
                "--only-binary=:all:",
                "--no-input",
                "--quiet",
                "--disable-pip-version-check",
            )
            pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", *options, "-r", str(lock)]
            _run(pip, seconds=INSTALL_SECONDS)
            stamp.write_bytes(lock.read_bytes())
    return str(folder / "bin" / "python")


def environ_of(*, broker: str, slots: int, done: Path) -> dict[str, str]:
    own = {"BENCH_BROKER": broker, "BENCH_SLOTS": str(slots), "BENCH_DONE": str(done), "PYTHONPATH": str(REPOSITORY)}
    return os.environ | own


def rate(name: str, *, broker: str, tasks: int, slots: int, environ: Mapping[str, str] | None = None) -> float:
    """Tasks a second of a peer that works off a backlog. Raises PeerFailed."""
    with tempfile.TemporaryDirectory() as folder:
        done, log = Path(folder) / "done", Path(folder) / "log"
        done.touch()
        around = environ_of(broker=broker, slots=slots, done=done) | dict(environ or {})
        _run([python(name), "-m", f"bench.peers.{name}", "send", str(tasks)], environ=around, seconds=SEND_SECONDS)
        with worker(name, environ=around, log=log) as process:

            def count() -> int:
                if process.poll() is not None:
                    raise PeerFailed(f"{name}: its worker ended:\n{log.read_text(errors='replace')[-2_000:]}")
                return done.stat().st_size

            return rate_of(count, tasks)


def rate_of(count: Callable[[], int], tasks: int) -> float:
    """Tasks a second from the first tenth to the last, by a counter that goes from 0 to `tasks`."""
    began, first, seen = time.monotonic(), 0, 0
    last = began
    while seen < tasks:
        time.sleep(0.005)
        now, found = time.monotonic(), count()
        if found > seen:
            if seen < tasks // NOT_COUNTED <= found:
                began, first = now, found
            seen, last = found, now
        if now - last > PROGRESS_SECONDS:
            raise PeerFailed(f"{tasks - seen} of {tasks} tasks were never finished")
    return (tasks - first) / (last - began)


@contextmanager
def worker(name: str, *, environ: Mapping[str, str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [python(name), "-m", f"bench.peers.{name}", "work"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=dict(environ), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process_tree.kill_tree(process.pid)
            process.wait()


def _run(command: list[str], *, seconds: float, environ: Mapping[str, str] | None = None) -> None:
    try:
        subprocess.run(
            command, cwd=REPOSITORY, env=environ, check=True, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.CalledProcessError as error:
        raise PeerFailed(f"{' '.join(command)}:\n{error.stderr[-2_000:]}") from error
    except subprocess.TimeoutExpired as error:
        raise PeerFailed(f"{' '.join(command)}: not done after {seconds:.0f} s") from error
