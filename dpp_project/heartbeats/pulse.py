"""A process says that it lives: one row, written every few seconds by a thread of its own.

A process that hangs, is stopped, or loses its host or its link falls silent; after STALE_SECONDS it is shown as stale.
One whose loop does not turn any more, while this thread goes on, stands still after STILL_SECONDS.
All times are the database's. The row of a process that was killed is removed by the next one to start on its host, and
by any other process after FORGET_SECONDS. Nothing of recovery rests on these rows: leases and locks have their own
clocks.
"""

import os
import socket
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog
from django.conf import settings
from django.db import connections
from django.db.models.functions import Now

from dpp_project.heartbeats.models import ProcessHeartbeat
from dpp_project.processes import identity
from dpp_project.processes.per_process import PerProcess
from dpp_project.stores.postgres import DATABASE_AWAY

log = structlog.get_logger("dpp.heartbeat")

INTERVAL_SECONDS: Final = 10.0
STALE_SECONDS: Final = 30
STILL_SECONDS: Final = 180
"""Longer than anything that a loop waits for: a run of 90 s in each slot, a long poll of 20 s."""
FORGET_SECONDS: Final = 3_600


@PerProcess
def own_key() -> str:
    """Names this process in its heartbeat and in what it holds, as long as it lives."""
    return uuid.uuid4().hex[:12]


@dataclass
class Pulse:
    service: str
    slots: int
    progress: Callable[[], int]
    """Counts up with what the process gets done."""
    address: str = ""
    turns: Callable[[], int] | None = None
    """Counts up as long as its loop turns, also where there is nothing to do; where none is given, `progress` does."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _told: int = -1
    _turned: int = -1

    def start(self) -> None:
        self._thread = threading.Thread(target=self._beat_on, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """At an orderly end: nothing is left that could look dead."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _beat_on(self) -> None:
        self._try(self._forget_the_dead_of_this_host)
        while True:
            self._try(self.beat)
            if self._stopping.wait(INTERVAL_SECONDS):
                break
        self._try(lambda: ProcessHeartbeat.objects.filter(key=own_key()).delete())

    def _try(self, write: Callable[[], object]) -> None:
        try:
            write()
        except DATABASE_AWAY as error:
            log.debug("heartbeat not written", error=type(error).__name__)
        except Exception:  # the thread must go on: a process without a pulse is taken for dead
            log.exception("heartbeat failed")
        finally:
            connections.close_all()  # back to the pool

    def beat(self) -> None:
        progress = self.progress()
        turns = progress if self.turns is None else self.turns()
        moved = [
            *(["progressed_at"] if progress != self._told else []),
            *(["turned_at"] if turns != self._turned else []),
        ]
        mine = ProcessHeartbeat(
            key=own_key(),
            service=self.service,
            host=socket.gethostname()[:128],
            pid=os.getpid(),
            identity=_own_identity(),
            release=settings.RELEASE,
            address=self.address,
            slots=self.slots,
            progress=progress,
            progressed_at=Now(),
            turned_at=Now(),
            started_at=Now(),
            beat_at=Now(),
        )
        ProcessHeartbeat.objects.bulk_create(
            [mine],
            update_conflicts=True,
            unique_fields=["key"],
            update_fields=["progress", "beat_at", *moved],
        )
        self._told, self._turned = progress, turns
        ProcessHeartbeat.objects.filter(beat_at__lt=Now() - timedelta(seconds=FORGET_SECONDS)).delete()

    def _forget_the_dead_of_this_host(self) -> None:
        """A host name and a boot together are one place: containers have host names of their own."""
        here = ProcessHeartbeat.objects.filter(host=socket.gethostname()[:128]).exclude(key=own_key())
        boot = _own_identity().partition("/")[0]
        dead = [row.key for row in here if row.identity.startswith(f"{boot}/") and _is_gone(row.identity)]
        ProcessHeartbeat.objects.filter(key__in=dead).delete()


def _own_identity() -> str:
    return identity.process_identity_of(os.getpid()) or f"unknown/{os.getpid()}/{own_key()}"


def _is_gone(known: str) -> bool:
    return identity.process_identity_of(int(known.split("/")[1])) != known
