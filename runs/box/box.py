"""The worker's side of the box: start a run, follow it, end it.

    box = Box(modules=registry.pack_modules().values())
    running = box.start(request, fetch_upload=..., log=...)
    outcome = running.wait()          # in the thread that works for the run
    running.stop()                    # from any other: the lease is lost, or the run was canceled

Three clocks end a pack that is over its time: the zygote at the deadline, the kernel's alarm in the pack process half a
second later, and this side a second later, should the zygote itself be sick. A zygote that dies takes its processes
with it: it is the first process of their namespaces (namespaces.py). Where there are none, the kernel ends each job
with its zygote (PR_SET_PDEATHSIG), and the job's group, which no child can leave, is ended by the zygote, or else by
nursery and worker. The next run gets a new nursery.
"""

import contextlib
import threading
from collections.abc import Iterable

import structlog

from dpp_project.outbound.network import Network
from runs.box import kernel
from runs.box.broker import Broker
from runs.box.launch import BoxBroken, Nursery, ZygoteEnd
from runs.box.running import FetchUpload, Log, PackRequest, RunningPack, Tell, tell_nobody

log = structlog.get_logger("dpp.box")


class Box:
    """One nursery, started when first needed, for as many threads as like.

    `modules` are the packs that it has zygotes for; `may_read` the files and folders, beside the system's and our code,
    that jobs may open. This process closes itself to its jobs: no other of the same user can look into it (proc(5)).
    """

    def __init__(
        self, modules: Iterable[str] = (), *, may_read: Iterable[str] = (), network: Network | None = None
    ) -> None:
        kernel.undumpable()
        self.broker = Broker(network)
        self._modules = tuple(modules)
        self._may_read = tuple(may_read)
        self._lock = threading.Lock()
        self._nursery: Nursery | None = None

    def warm(self) -> None:
        """Begin to start the zygotes, and do not wait for them: the first run finds its own there."""
        with contextlib.suppress(OSError):
            self._living()

    def start(self, job: PackRequest, *, fetch_upload: FetchUpload, log: Log, tell: Tell = tell_nobody) -> RunningPack:
        return RunningPack(self, job, fetch_upload=fetch_upload, log=log, tell=tell)

    def close(self) -> None:
        with self._lock:
            nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.end()
        self.broker.close()

    def nursery_pid(self) -> int | None:
        return None if self._nursery is None else self._nursery.pid

    def ready(self, module: str) -> tuple[Nursery, ZygoteEnd]:
        """The zygote of this module, and the nursery it must be discarded with."""
        nursery = self._living()
        try:
            return nursery, nursery.zygote(module)
        except BoxBroken:
            self.discard(nursery)
            raise

    def discard(self, nursery: Nursery) -> None:
        with self._lock:
            if self._nursery is not nursery:
                return
            self._nursery = None
        log.warning("zygotes lost", nursery=nursery.pid)
        nursery.end()

    def _living(self) -> Nursery:
        with self._lock:
            dead = self._nursery
            if dead is not None and dead.alive():
                return dead
            self._nursery = Nursery(self._modules, may_read=self._may_read)
            made = self._nursery
        if dead is not None:
            dead.end()
        return made
