"""One run of a job at a time, over all machines: its open report row is the lease, `beat_at` the heartbeat.

A thread of this process renews the rows of its passes that get on, and gives up those of passes that hang. A process
that died, froze or lost the database renews nothing; LEASE_SECONDS later the next one to ask takes the job over. All is
measured by the database's clock. A pass that comes back behind its lease runs beside the next one until its next row:
every job is safe for that.
"""

import os
import socket
import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog
from django.db import Error, connection, connections, transaction

from dpp_project.jobs.deadline import Pass
from dpp_project.processes.per_process import PerProcess

log = structlog.get_logger("dpp.job")

BEAT_SECONDS: Final = 5.0
LEASE_SECONDS: Final = 20
"""Three beats may be late."""

_LAPSE: Final = """
UPDATE job_reports SET beat_at = NULL
 WHERE job = %s AND beat_at < clock_timestamp() - make_interval(secs => %s)
"""
_TAKE: Final = """
INSERT INTO job_reports (job, started_at, dry_run, host, pid, beat_at, seen, changed, errors, detail)
VALUES (%s, %s, %s, %s, %s, clock_timestamp(), 0, 0, 0, '{}')
ON CONFLICT (job) WHERE beat_at IS NOT NULL DO NOTHING
RETURNING id
"""
_BEAT: Final = """
UPDATE job_reports SET beat_at = CASE WHEN id = ANY(%s) THEN NULL ELSE clock_timestamp() END
 WHERE id = ANY(%s) AND beat_at IS NOT NULL
RETURNING id
"""


def take_job_lease(job: str, *, started_at: datetime, dry_run: bool) -> int | None:
    """The report row of a pass that begins, or None where the job is at work elsewhere."""
    row = (job, started_at, dry_run, socket.gethostname()[:128], os.getpid())
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LAPSE, (job, LEASE_SECONDS))
        if cursor.rowcount:
            log.warning("job taken over, its lease has run out", job=job)
        cursor.execute(_TAKE, row)
        taken = cursor.fetchone()
    return None if taken is None else int(taken[0])


@dataclass(slots=True)
class JobLeaseKeeper:
    """Renews what this process runs, in a thread and on a connection of its own, as long as there is anything."""

    _running: dict[int, Pass] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def keep(self, row: int, running: Pass) -> None:
        with self._guard:
            self._running[row] = running
            if self._thread is None:
                self._ended = threading.Event()
                self._thread = threading.Thread(target=self._beat, args=(self._ended,), name="job leases", daemon=True)
                self._thread.start()

    def let_go(self, row: int) -> None:
        with self._guard:
            self._running.pop(row, None)
            if not self._running and self._thread is not None:
                self._ended.set()
                self._thread = None

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT_SECONDS):
            try:
                self.beat()
            except Error as error:
                log.warning("leases of jobs not renewed, the database is away", exc_info=error)
            finally:
                connections.close_all()  # back to the pool

    def beat(self) -> None:
        """The lease of a pass that hangs ends. One whose row is no longer a lease learns that it was taken over."""
        with self._guard:
            running = dict(self._running)
        hung = [row for row, one in running.items() if one.hangs()]
        with connection.cursor() as cursor:
            cursor.execute(_BEAT, (hung, list(running)))
            kept = {row for (row,) in cursor.fetchall()}
        for row in running.keys() - kept:
            running[row].lost = True


@PerProcess
def job_lease_keeper() -> JobLeaseKeeper:
    return JobLeaseKeeper()
