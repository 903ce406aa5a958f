"""The worker's side of the box: start a run, follow it, end it.

    box = Box(modules=registry.modules().values())
    running = box.start(job, fetch_upload=..., log=...)
    outcome = running.wait()          # in the thread that works for the run
    running.stop()                    # from any other: the lease is lost, or the run was canceled

Three clocks end a pack that is over its time: the zygote at the deadline, the kernel's alarm in the job half a second
later, and this side a second later, should the zygote itself be sick. A zygote that dies takes its jobs with it
(PR_SET_PDEATHSIG), and what they left is found by its mark; the next run gets a new zygote.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Iterable

import structlog

from runs.box.launch import BoxBroken, ZygoteProcess
from runs.box.running import FetchUpload, Job, Log, Running

log = structlog.get_logger("dpp.box")


class Box:
    """One zygote, started when first needed, for as many threads as like. A forked child gets one of its own."""

    def __init__(self, modules: Iterable[str] = ()) -> None:
        self._modules = tuple(modules)
        self._lock = threading.Lock()
        self._zygote: ZygoteProcess | None = None
        _boxes.add(self)

    def warm(self) -> None:
        """Begin to start the zygote, and do not wait for it: the first run finds it there."""
        with contextlib.suppress(OSError):
            self._living()

    def start(self, job: Job, *, fetch_upload: FetchUpload, log: Log) -> Running:
        return Running(self, job, fetch_upload=fetch_upload, log=log)

    def close(self) -> None:
        with self._lock:
            zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.end()

    def zygote_pid(self) -> int | None:
        return None if self._zygote is None else self._zygote.pid

    def ready_zygote(self) -> ZygoteProcess:
        zygote = self._living()
        try:
            zygote.wait_ready()
        except BoxBroken:
            self.discard(zygote)
            raise
        return zygote

    def discard(self, zygote: ZygoteProcess) -> None:
        with self._lock:
            if self._zygote is not zygote:
                return
            self._zygote = None
        log.warning("zygote lost", zygote=zygote.pid)
        zygote.end()

    def _living(self) -> ZygoteProcess:
        with self._lock:
            dead = self._zygote
            if dead is not None and dead.alive():
                return dead
            self._zygote = ZygoteProcess(self._modules)
            made = self._zygote
        if dead is not None:
            dead.end()
        return made

    def forget_parents(self) -> None:
        """In a forked child."""
        self._lock = threading.Lock()
        if self._zygote is not None:
            self._zygote.leave()
            self._zygote = None


_boxes: "weakref.WeakSet[Box]" = weakref.WeakSet()


def _after_fork() -> None:
    for box in list(_boxes):
        box.forget_parents()


os.register_at_fork(after_in_child=_after_fork)
