"""The process that zygotes are forked from: what all packs use is loaded here, what one pack uses in its own zygote.

A fork copies the tables of all the memory that its parent has mapped. With one zygote for all packs the smallest pack's
runs paid for the largest one's libraries, and that was half of what they cost. So each pack has a zygote, with a
control socket straight to the worker, and they share the pages of the interpreter.

They live and die together. The end of this process's own socket means that the worker is dead: the zygotes see the same
at theirs and end, and this process waits for them. A zygote that dies takes the others along; the next run gets a new
nursery.
"""

import contextlib
import gc
import mmap
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from dpp_project.processes import parent_death, process_tree
from runs.box import kernel, limits, namespaces, readable, zygote

IGNORED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LEAVING_SECONDS: Final = 2.0
"""How long the zygotes may take to end their pack processes when the worker is dead."""


def main(*, leash: int, scratch: str, controls: Mapping[str, int], may_read: Sequence[str]) -> NoReturn:
    """A zygote for each module, which serves its control socket; then wait for the end of the worker, or of one."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)
    limits.impose_limits_on_box()
    kernel.undumpable()
    parent_death.adopt_orphans()  # what a zygote leaves behind that dies itself
    folder, worker = Path(scratch), socket.socket(fileno=leash)
    allowed = readable.readable_paths(Path(__file__).resolve().parents[2], may_read)
    apart = _can_be_apart(allowed)
    gc.collect()
    gc.freeze()  # a child's collector would touch, and so copy, every page we share
    zygotes = _Zygotes(worker, folder, controls, may_read=allowed, apart=apart)
    if zygotes.outlive_worker():
        zygotes.end_unready()
        _let_them_leave()
    _kill_all()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _can_be_apart(allowed: Sequence[str]) -> bool:
    """Without namespaces nothing of the box needs a capability, and then it has none, whatever user it runs as."""
    if (refused := namespaces.namespaces_refusal(allowed)) is None:
        return True
    sys.stderr.write(f"box: jobs have no namespaces of their own: {refused}\n")
    kernel.drop_bounding_set()
    kernel.drop_capabilities()
    return False


class _Zygotes:
    """One for each module. A zygote that ends in its rehearsal is made anew without; the end of any other ends all."""

    def __init__(
        self, worker: socket.socket, folder: Path, controls: Mapping[str, int], *, may_read: Sequence[str], apart: bool
    ) -> None:
        self._worker = worker
        self._folder = folder
        self._may_read = may_read
        self._apart = apart
        self._own = os.pidfd_open(os.getpid())
        self._controls = list(controls.items())  # kept open: a zygote made anew serves the same
        self._rehearsed = mmap.mmap(-1, len(controls) or 1)  # a byte for each, shared with it
        self._places: dict[int, int] = {}
        self._born, self._wake = socket.socketpair()
        for one in (self._born, self._wake):
            one.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        for place in range(len(controls)):
            self._fork(place, rehearse=True)

    def _fork(self, place: int, *, rehearse: bool) -> None:
        outer = namespaces.Ids()
        pid = kernel.fork(namespaces.OF_ZYGOTE if self._apart else 0)
        if pid == 0:
            try:
                self._become_zygote(place, outer, rehearse=rehearse)
            finally:
                os._exit(1)
        self._places[pid] = place

    def _become_zygote(self, place: int, outer: namespaces.Ids, *, rehearse: bool) -> NoReturn:
        module, control = self._controls[place]
        if self._apart:
            namespaces.enter_as_zygote(outer, self._may_read)
        parent_death.die_with_parent(held=self._own)
        os.close(self._own)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (self._worker, self._born, self._wake):
            one.close()
        for _, other in self._controls:
            if other != control:
                os.close(other)
        zygote.main(
            control,
            module,
            self._folder / str(place),
            may_read=self._may_read,
            apart=self._apart,
            rehearse=rehearse,
            rehearsed=lambda: self._rehearsed.__setitem__(place, 1),
        )

    def end_unready(self) -> None:
        """Those that still load or rehearse would see late that their worker is gone, and have no job."""
        for pid, place in self._places.items():
            if not self._rehearsed[place]:
                process_tree.kill_process(pid)

    def outlive_worker(self) -> bool:
        """Wait; False when it is one of the zygotes that ended."""
        try:
            while not self._one_is_dead():
                ready, _, _ = select.select([self._worker, self._born], [], [])
                if self._worker in ready:
                    return True
                with contextlib.suppress(BlockingIOError):
                    self._born.recv(4096)
            return False
        finally:
            signal.set_wakeup_fd(-1)

    def _one_is_dead(self) -> bool:
        """Left unreaped: a zombie still tells its children from strangers."""
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            place = self._places.get(ended.si_pid)
            if place is not None and self._rehearsed[place]:
                return True
            os.waitpid(ended.si_pid, 0)
            if place is not None:
                del self._places[ended.si_pid]
                self._kill_strays()
                self._rehearsed[place] = 1
                self._fork(place, rehearse=False)
        return False

    def _kill_strays(self) -> None:
        """What a rehearsal left behind. Their own children follow them here."""
        while strays := [pid for pid in process_tree.child_processes(os.getpid()) if pid not in self._places]:
            for pid in strays:
                process_tree.kill_process(pid)
            for pid in strays:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def _let_them_leave() -> None:
    deadline = time.monotonic() + LEAVING_SECONDS
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.005)


def _kill_all() -> None:
    """The zygotes, and what a dead one's pack processes were handed up to us. Their own children follow them here."""
    while left := process_tree.child_processes(os.getpid()):
        for pid in left:
            process_tree.kill_process(pid)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
