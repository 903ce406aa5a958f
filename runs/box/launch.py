"""Starting a nursery with its zygotes, and ending it with all that came from it."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from dpp_project.processes import pidfd
from runs.box import readable

ROOT: Final = Path(__file__).resolve().parents[2]
READY_SECONDS: Final = 30.0
LEAVING_SECONDS: Final = 2.0
"""How long the nursery may take to end what a zygote without namespaces leaves behind."""
KEPT: Final = ("PATH", "TZ", *readable.NAMED_BY)
_ONE_THREAD: Final = ("OMP_THREAD_LIMIT", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_LAUNCH: Final = (
    "import json, sys; sys.path.insert(0, sys.argv[1]); from runs.box import nursery;"
    " nursery.main(**json.loads(sys.argv[2]))"
)


class BoxBroken(Exception):  # noqa: N818  named for what it is
    """No zygote comes up on this machine."""


class Nursery:
    """The process, and our ends of the sockets: one that says we live, and one to the zygote of each module.

    Making one does not wait for it.
    """

    def __init__(self, modules: Iterable[str], *, may_read: Iterable[str] = ()) -> None:
        self._may_read = [*may_read]
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
        arguments = {
            "leash": leash.fileno(),
            "scratch": str(self.scratch),
            "controls": {module: control.fileno() for module, control in far.items()},
            "may_read": self._may_read,
        }
        return subprocess.Popen(  # noqa: S603  ourselves
            [sys.executable, "-I", "-c", _LAUNCH, str(ROOT), json.dumps(arguments)],
            env=_box_launch_environment(),
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
        """With everything that was started from it, wherever that hides.

        The end of a zygote with namespaces is the end of all in them. What one without leaves behind falls to the
        nursery, which ends it, and then itself.
        """
        for zygote in self._zygotes.values():
            zygote.kill()
        self.leave()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LEAVING_SECONDS)
        self.process.kill()
        self.process.wait()
        for zygote in self._zygotes.values():
            zygote.bury()
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
        self._process: int | None = None
        self._lock = threading.Lock()

    def wait_ready(self) -> None:
        with self._lock:
            if self._process is not None:
                return
            self.control.settimeout(READY_SECONDS)
            said, held = b"", list[int]()
            with contextlib.suppress(OSError):
                said, held, _, _ = socket.recv_fds(self.control, 1, 1)
            if said != b"r" or not held:
                raise BoxBroken("the process that packs are forked from does not come up")
            (self._process,) = held
            self.control.settimeout(None)

    def kill(self) -> None:
        """One that is not ready yet ends with its nursery."""
        if self._process is not None:
            pidfd.kill_held_process(self._process)

    def bury(self) -> None:
        """Wait until it is gone, with its namespaces; nobody asks for it any more."""
        with self._lock:
            held, self._process = self._process, None
        if held is not None:
            pidfd.has_ended(held, seconds=LEAVING_SECONDS)
            os.close(held)

    def order(self, connection: socket.socket, status: socket.socket) -> None:
        with self._lock:
            socket.send_fds(self.control, [b"j"], [connection.fileno(), status.fileno()])


def _box_launch_environment() -> dict[str, str]:
    """Nothing of the worker's own: the keys to everything lie there. And one thread for a library that would like more.

    OpenBLAS starts one for each core when it is loaded. No pack process inherits them; each run has its core.
    """
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return kept | {"LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "2"} | dict.fromkeys(_ONE_THREAD, "1")
