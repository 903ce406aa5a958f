"""Starting a nursery with its zygotes, and ending it with all that came from it."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from dpp_project.processes import process_tree

ROOT: Final = Path(__file__).resolve().parents[2]
READY_SECONDS: Final = 30.0
KEPT: Final = ("PATH", "TESSDATA_PREFIX", "TZ")
_ONE_THREAD: Final = ("OMP_THREAD_LIMIT", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_LAUNCH: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from runs.box import nursery;"
    " nursery.main(int(sys.argv[2]), sys.argv[3], dict(zip(sys.argv[4::2], map(int, sys.argv[5::2]))))"
)


class BoxBroken(Exception):  # noqa: N818  named for what it is
    """No zygote comes up on this machine."""


class Nursery:
    """The process, and our ends of the sockets: one that says we live, and one to the zygote of each module.

    Making one does not wait for it.
    """

    def __init__(self, modules: Iterable[str]) -> None:
        self.mark = secrets.token_hex(16)
        self.scratch = Path(tempfile.mkdtemp(prefix="dpp-box-"))
        self._leash, far_leash = socket.socketpair()
        self._zygotes: dict[str, ZygoteEnd] = {}
        with far_leash, contextlib.ExitStack() as far_ends:
            far: dict[str, socket.socket] = {}
            for module in modules:
                control, far[module] = socket.socketpair()
                far_ends.enter_context(far[module])
                self._zygotes[module] = ZygoteEnd(control)
            try:
                self.process = self._launch(far_leash, far)
            except OSError:
                self.leave()
                shutil.rmtree(self.scratch, ignore_errors=True)
                raise

    def _launch(self, leash: socket.socket, far: Mapping[str, socket.socket]) -> "subprocess.Popen[bytes]":
        controls = [word for module, control in far.items() for word in (module, str(control.fileno()))]
        return subprocess.Popen(  # noqa: S603  ourselves
            [sys.executable, "-I", "-c", _LAUNCH, str(ROOT), str(leash.fileno()), str(self.scratch), *controls],
            env=_environment() | {process_tree.MARK: self.mark},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[leash.fileno(), *(control.fileno() for control in far.values())],
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        return self.process.poll() is None

    def zygote(self, module: str) -> "ZygoteEnd":
        """When it is ready. Raises BoxBroken where it does not come up."""
        try:
            zygote = self._zygotes[module]
        except KeyError:
            raise BoxBroken(f"this box was not made for {module}") from None
        zygote.wait_ready()
        return zygote

    def end(self) -> None:
        """With everything that was started from it, wherever that hides."""
        self.process.kill()
        self.process.wait()
        self.leave()
        process_tree.kill_marked(self.mark)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def leave(self) -> None:
        """Let go of our ends: to the nursery and to its zygotes that is the end of their worker."""
        self._leash.close()
        for zygote in self._zygotes.values():
            zygote.control.close()


class ZygoteEnd:
    """Our end of one zygote's control socket, for as many threads as like."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self._ready = False
        self._lock = threading.Lock()

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


def _environment() -> dict[str, str]:
    """Nothing of the worker's own: the keys to everything lie there. And one thread for a library that would like more.

    OpenBLAS starts one for each core when it is loaded. No pack process inherits them; each run has its core.
    """
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return kept | {"LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "2"} | dict.fromkeys(_ONE_THREAD, "1")
