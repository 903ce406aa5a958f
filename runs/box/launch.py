"""Starting a zygote and ending it with all that came from it."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from runs.box import processes

ROOT: Final = Path(__file__).resolve().parents[2]
READY_SECONDS: Final = 30.0
KEPT: Final = ("PATH", "TESSDATA_PREFIX", "TZ")
_LAUNCH: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from runs.box import zygote;"
    " zygote.main(int(sys.argv[2]), sys.argv[4:], sys.argv[3])"
)


class BoxBroken(Exception):  # noqa: N818  named for what it is
    """No zygote comes up on this machine."""


class ZygoteProcess:
    """The process, and our end of its control socket. Making one does not wait for it."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.mark = secrets.token_hex(16)
        self.scratch = Path(tempfile.mkdtemp(prefix="dpp-box-"))
        self.control, far = socket.socketpair()
        self._ready = False
        self._lock = threading.Lock()
        with far:
            try:
                self.process = self._launch(far, modules)
            except OSError:
                self.control.close()
                shutil.rmtree(self.scratch, ignore_errors=True)
                raise

    def _launch(self, far: socket.socket, modules: Iterable[str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603  ourselves
            [sys.executable, "-I", "-c", _LAUNCH, str(ROOT), str(far.fileno()), str(self.scratch), *modules],
            env=_environment() | {processes.MARK: self.mark},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[far.fileno()],
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        return self.process.poll() is None

    def wait_ready(self) -> None:
        with self._lock:
            if self._ready:
                return
            self.control.settimeout(READY_SECONDS)
            with contextlib.suppress(OSError):
                self._ready = self.control.recv(1) == b"r"
            if not self._ready:
                raise BoxBroken("the process that packs are forked from does not come up")
            self.control.settimeout(None)

    def order(self, connection: socket.socket, status: socket.socket) -> None:
        with self._lock:
            socket.send_fds(self.control, [b"j"], [connection.fileno(), status.fileno()])

    def end(self) -> None:
        """With everything that was started from it, wherever that hides."""
        self.process.kill()
        self.process.wait()
        self.control.close()
        processes.kill_marked(self.mark)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def leave(self) -> None:
        """In a forked child: the zygote is the parent's, and must notice when that dies."""
        self.control.close()


def _environment() -> dict[str, str]:
    """Nothing of the worker's own: the keys to everything lie there."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return kept | {"LANG": "C.UTF-8", "OMP_THREAD_LIMIT": "1", "MALLOC_ARENA_MAX": "2"}
