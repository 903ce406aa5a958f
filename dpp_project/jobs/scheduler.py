"""Beat's scheduler, which runs the jobs itself instead of sending messages about them.

The queue carries runs. A reaper whose wake-up waited behind 10,000 of them, or in a queue that is away, would be late
exactly when it is needed; so jobs need Postgres and whatever each of them touches, but no queue. Beat may run twice:
the job's lease keeps it from running beside itself, and a job that runs twice as often as it must does no harm.

Each run of a job has a thread and a database connection of its own, so a job that hangs delays no other. A job still
running when it is due again is not started a second time, unless it hangs: then its thread is left to itself, its lease
is given up, and the job starts anew here or in another beat. A beat in which HUNG_MAX threads hang ends itself, for its
supervisor to start it again. At start every job is due at once.
"""

import os
import signal
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

import structlog
from celery.beat import ScheduleEntry, Scheduler
from django.db import connections

from dpp_project.jobs import registry, runner
from dpp_project.jobs.deadline import Pass
from dpp_project.jobs.registry import Job
from dpp_project.stores.postgres import make_room

log = structlog.get_logger("dpp.job")

LOOP_SECONDS = 1
BESIDE_JOBS: Final = 2
"""A job holds a connection for as long as it runs; beside them the leases are renewed, and a job's end reported."""
HUNG_MAX: Final = 5
STOP_SECONDS: Final = 60.0
"""How long a stop waits for passes that end at their next row. One that hangs is not waited for."""


@dataclass(frozen=True, slots=True)
class _Started:
    thread: threading.Thread
    running: Pass


class JobScheduler(Scheduler):
    producer = None  # type: ignore[assignment]  # nothing is ever sent

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._running: dict[str, _Started] = {}
        self._hung: list[_Started] = []
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        super().__init__(*args, **kwargs)
        self.max_interval = LOOP_SECONDS

    def setup_schedule(self) -> None:
        jobs = registry.declared_jobs().values()
        make_room(len(jobs) + BESIDE_JOBS)
        for job in jobs:
            self.add(name=job.name, task=job.name, schedule=job.every_seconds)
            self.start(job.name)

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        del producer
        self.start(str(entry.name))

    def start(self, name: str) -> None:
        with self._guard:
            before = self._running.get(name)
            if before is not None and not before.running.hangs():
                log.warning("job is still running and is not started again", job=name)
                return
            if before is not None:
                self._leave(name, before)
            job = registry.job_named(name)
            running = Pass(seconds=job.deadline_seconds, stopping=self._stopping)
            thread = threading.Thread(target=self._run, args=(job, running), name=f"job {name}", daemon=True)
            self._running[name] = _Started(thread, running)
            thread.start()

    def _leave(self, name: str, hung: _Started) -> None:
        """It keeps its connection as long as it hangs, so the pool gets one more."""
        self._hung = [one for one in (*self._hung, hung) if one.thread.is_alive()]
        log.error("job hangs and is started anew", job=name, hung=len(self._hung))
        make_room(len(registry.declared_jobs()) + len(self._hung) + BESIDE_JOBS)
        if len(self._hung) >= HUNG_MAX:
            log.critical("too many jobs hang, beat ends itself", hung=len(self._hung))
            os.kill(os.getpid(), signal.SIGTERM)

    def _run(self, job: Job, running: Pass) -> None:
        try:
            runner.run_job_pass(job, running=running)
        except Exception:  # the end of the thread would hide it
            log.exception("job runner failed", job=job.name)
        finally:
            connections.close_all()  # back to the pool
            with self._guard:
                if (now := self._running.get(job.name)) is not None and now.running is running:
                    del self._running[job.name]

    def close(self) -> None:
        """Each job that runs finishes the row it is at; the rest of its rows keep until beat is back."""
        self._stopping.set()
        until = time.monotonic() + STOP_SECONDS
        with self._guard:
            started = list(self._running.values())
        for one in started:
            while one.thread.is_alive() and not one.running.hangs() and time.monotonic() < until:
                one.thread.join(0.2)
        super().close()
