"""A program that the devstack runs, and starting it."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from signal import SIGTERM, Signals
from typing import IO, Literal

REPOSITORY = Path(__file__).resolve().parents[2]
LAUNCHER = Path(__file__).with_name("launcher.py")
DEVSTACK_VENV = REPOSITORY / ".venv-devstack"

Privilege = Literal["plain", "userns", "setpriv"]


class DevstackError(Exception):
    """A fault that a person must repair; the message says which."""


@dataclass(frozen=True)
class Program:
    """A command, its readiness check and how to stop it."""

    name: str
    command: Sequence[str]
    ready: Callable[[], bool]
    before: Callable[[], None] = lambda: None  # called ahead of each start
    environ: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    needs: tuple[str, ...] = ()
    settles_seconds: float = 0.0  # it must have lived so long before `ready` is asked
    privilege: Privilege = "plain"
    stop_signal: Signals = SIGTERM
    stop_seconds: float = 10.0


def spawn_program(
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    output: IO[bytes] | None = None,
    privilege: Privilege = "plain",
    session: bool = True,
) -> subprocess.Popen[bytes]:
    """Start a command that dies with this process, in a session of its own so that its group can be killed whole."""
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), privilege, *command],
        env=dict(environ),
        cwd=REPOSITORY,
        stdin=None if output is None else subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        start_new_session=session,
    )


@cache
def unprivileged_start() -> Privilege:
    """How a program that refuses root is started here."""
    if os.geteuid() != 0:
        return "plain"
    ways: tuple[Privilege, ...] = ("userns", "setpriv")
    for privilege in ways:
        probe = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), privilege, "true"]
        done = subprocess.run(probe, capture_output=True, check=False)  # noqa: S603
        if done.returncode == 0:
            return privilege
    raise DevstackError(
        "Postgres does not run as root, and neither a user namespace nor setpriv works here.\n"
        "Run make as an ordinary user, or: apt-get install util-linux"
    )


def from_wheel(pattern: str) -> Path:
    """A file that a package of requirements/devstack.txt brought along."""
    found = sorted(DEVSTACK_VENV.glob(f"lib/python3*/site-packages/{pattern}"))
    if not found:
        raise DevstackError(f"{DEVSTACK_VENV} has no {pattern}: run `make setup`.")
    return found[0]


def answers_at(port: int, said: bytes, expected: bytes, *, seconds: float = 0.5) -> bool:
    """Whether the server on a loopback port answers in its protocol."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
            connection.sendall(said)
            return connection.recv(len(expected)) == expected
    except OSError:
        return False


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
