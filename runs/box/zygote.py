"""The process that a pack's runs are forked from: its modules are loaded here once, so that a run costs a fork.

One thread, one loop. For each pack process it holds a socket to the worker that started it: a report goes out when the
pack process has begun and when it and all its descendants are gone, and the end of that socket is the order to end the
pack process. The end of the control socket means that the worker is dead: all pack processes are ended, then the zygote
itself. (nursery.py holds all of a worker's zygotes.)

Where it has no namespaces it is the adoptive parent of everything its pack processes leave behind
(PR_SET_CHILD_SUBREAPER), so that a child it does not know is a stray, and is killed. Stopping signals are ignored, here
and in the nursery: a service manager sends them to all processes of a worker, and a worker that drains needs its packs
to finish (DPP-78).
"""

import contextlib
import gc
import importlib
import os
import resource
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from dpp_project.processes import parent_death, process_tree
from dpp_project.processes.loading import without_collections
from runs.box import disk_use, namespaces, pack_process, rehearsal, sealing, wire
from runs.box.limits import DISK_BYTES_MAX, FILES_MAX, PROCESSES_MAX, Limits
from runs.box.sealing import Seal
from runs.packs.pack import Pack, reach_nowhere

WATCH_SECONDS: Final = 0.1


@dataclass
class ForkedPack:
    """`why` is what the zygote ended it for, if it did. Its number means something to this zygote alone."""

    pid: int
    limits: Limits
    status: socket.socket
    scratch: Path
    why: str | None = None


class Zygote:
    def __init__(self, control: socket.socket, scratch: Path, seal: Seal) -> None:
        parent_death.adopt_orphans()
        self._control = control
        self._scratch = scratch
        self._seal = seal
        self._running: dict[int, ForkedPack] = {}
        self._started = 0
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._order)
        self._born, self._wake = socket.socketpair()
        for one in (self._born, self._wake):
            one.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._selector.register(self._born, selectors.EVENT_READ, self._child_changed)
        self._own = process_tree.process_memory()
        self._weigh_at = 0.0

    def serve(self) -> NoReturn:
        try:
            own = os.pidfd_open(os.getpid())
            socket.send_fds(self._control, [b"r"], [own])
            os.close(own)
        except OSError:  # the worker died while the packs were loaded
            self._end_everything()
        while True:
            for key, _ in self._selector.select(self._patience()):
                key.data()
            self._end_what_is_over()

    # Starting

    def _order(self) -> None:
        try:
            order, descriptors, _, _ = socket.recv_fds(self._control, 1, 2)
        except ConnectionError:
            order, descriptors = b"", []
        if not order:
            self._end_everything()
        connection, status = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        try:
            limits = Limits(**wire.receive_frame(status).document)
            self._start(connection, status, limits)
        except (EOFError, OSError) as error:
            with contextlib.suppress(OSError):
                status.sendall(wire.encode_frame({"kind": "not started", "error": type(error).__name__}))
            status.close()
        finally:
            connection.close()

    def _start(self, connection: socket.socket, status: socket.socket, limits: Limits) -> None:
        self._started += 1
        scratch = self._scratch / str(self._started)
        pid = pack_process.start_pack_process(
            connection,
            limits,
            seal=self._seal,
            own=self._own,
            scratch=scratch,
            forget=lambda: self._forget(status),
        )
        running = ForkedPack(pid=pid, limits=limits, status=status, scratch=scratch)
        if not self._running:
            self._weigh_at = time.monotonic() + WATCH_SECONDS
        self._running[pid] = running
        status.set_inheritable(False)
        status.setblocking(False)
        self._selector.register(status, selectors.EVENT_READ, lambda: self._worker_said(running))
        held = os.pidfd_open(pid)
        try:
            socket.send_fds(status, [wire.encode_frame({"kind": "started"})], [held])
        except OSError:  # nobody waits for it any more
            self._end(running, "stopped")
        finally:
            os.close(held)

    def _forget(self, status: socket.socket) -> None:
        """In the new pack process: nothing of the zygote's, and nothing of its other pack processes."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for one in (self._control, self._born, self._wake, status, *(it.status for it in self._running.values())):
            one.close()
        self._running.clear()

    # Watching

    def _patience(self) -> float | None:
        if not self._running:
            return None
        nearest = min(running.limits.deadline for running in self._running.values())
        return max(0.0, min(WATCH_SECONDS, nearest - time.monotonic()))

    def _end_what_is_over(self) -> None:
        now = time.monotonic()
        weigh = now >= self._weigh_at
        if weigh:
            self._weigh_at = now + WATCH_SECONDS
        for running in list(self._running.values()):
            if now >= running.limits.deadline:
                self._end(running, "timebox")
            elif weigh:
                self._weigh(running)

    def _weigh(self, running: ForkedPack) -> None:
        """What the kernel does not limit: the sum over a tree, and how many it are."""
        members = process_tree.process_tree_of(running.pid)
        private = sum(max(0, process_tree.process_memory(pid).private - self._own.private) for pid in members)
        if private > running.limits.memory_bytes:
            self._end(running, "memory")
        elif len(members) > PROCESSES_MAX:
            self._end(running, "processes")
        elif not self._seal.apart and not disk_use.disk_use_is_within(running.scratch, DISK_BYTES_MAX, FILES_MAX):
            self._end(running, "disk")

    def _worker_said(self, running: ForkedPack) -> None:
        """It says nothing; the end of its side is the order to stop."""
        self._end(running, "stopped")

    # Ending

    def _end(self, running: ForkedPack, why: str) -> None:
        """Kill. The report follows when the kernel says that it is dead."""
        if running.why is None:
            running.why = why
            with contextlib.suppress(KeyError):
                self._selector.unregister(running.status)
        process_tree.kill_process(running.pid)

    def _child_changed(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._born.recv(4096):
                pass
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            process_tree.kill_group(ended.si_pid)  # while the number is its own
            pid, status, usage = os.wait4(ended.si_pid, 0)
            if (running := self._running.pop(pid, None)) is not None:
                self._finish(running, os.waitstatus_to_exitcode(status), usage)

    def _finish(self, running: ForkedPack, code: int, usage: resource.struct_rusage) -> None:
        if not self._seal.apart:
            self._kill_strays()
            try:
                running.scratch.rmdir()  # most packs leave it empty
            except OSError:
                shutil.rmtree(running.scratch, ignore_errors=True)
        with contextlib.suppress(KeyError):
            self._selector.unregister(running.status)
        report = {
            "kind": "ended",
            "code": self._told(code, running),
            "why": running.why,
            "private_bytes": max(0, usage.ru_maxrss * 1024 - self._own.private),
        }
        with contextlib.suppress(OSError):
            running.status.sendall(wire.encode_frame(report))
        running.status.close()

    def _told(self, code: int, running: ForkedPack) -> int:
        """Below zero for a signal, as for any process. (The first of a namespace left by itself on these.)"""
        if not self._seal.apart or code not in namespaces.SPARED:
            return code
        is_alarm = code == signal.SIGALRM
        return code if is_alarm and time.monotonic() < running.limits.deadline else -code

    def _kill_strays(self) -> None:
        """Children of dead pack processes, handed up to the zygote. Their own children follow them here."""
        while strays := [pid for pid in process_tree.child_processes(os.getpid()) if pid not in self._running]:
            for pid in strays:
                process_tree.kill_process(pid)
            for pid in strays:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def _end_everything(self) -> None:
        for running in list(self._running.values()):
            process_tree.kill_tree(running.pid)
        self._running.clear()
        self._kill_strays()
        shutil.rmtree(self._scratch, ignore_errors=True)
        os._exit(0)


def main(
    control: int,
    module: str,
    scratch: Path,
    *,
    may_read: Sequence[str],
    apart: bool,
    rehearse: bool,
    rehearsed: Callable[[], None],
) -> NoReturn:
    """Load the pack, then serve. A module that cannot be loaded fails its own runs, and no other's.

    Whatever ends this process before it has called `rehearsed` was its rehearsal. `apart`: it is in namespaces of its
    own, and has no other folder for its jobs than a mount for each.
    """
    pack = _loaded(module)
    if rehearse and pack is not None and not rehearsal.rehearsal_went_well(pack, module):
        os._exit(1)
    rehearsed()
    tempfile.tempdir = None  # a pack process's own folder, not where the rehearsal would have written
    if apart:
        scratch = Path(namespaces.SCRATCH)
    else:
        scratch.mkdir()
    pack_process.prepare_randomness()
    gc.collect()
    gc.freeze()
    connection = socket.socket(fileno=control)
    connection.set_inheritable(False)
    Zygote(connection, scratch, sealing.seal_of_jobs(may_read, apart=apart)).serve()


def _loaded(module: str) -> Pack[Any] | None:
    try:
        with without_collections():
            pack: Pack[Any] | None = getattr(importlib.import_module(module), "PACK", None)
            for wanted in () if pack is None else pack.preload:
                importlib.import_module(wanted)
            if pack is not None and (pack.reach is not reach_nowhere or pack.command is not None):
                importlib.import_module("runs.box.worker_calls")
    except Exception as error:  # noqa: BLE001  said again, as ENGINE_UNAVAILABLE, by each pack process that needs it
        sys.stderr.write(f"box: {module} cannot be loaded: {type(error).__name__}\n")
        return None
    return pack
