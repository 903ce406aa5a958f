"""Beat's scheduler, which runs the jobs itself instead of sending messages about them.

The queue carries runs. A reaper whose wake-up waited behind 10,000 of them, or in a queue that is away, would be late
exactly when it is needed; so jobs need Postgres and whatever each of them touches, but no queue. Beat may run twice:
the runner's lock keeps a job from running beside itself, and a job that runs twice as often as it must does no harm.

A job still running when it is due again is not started a second time. At start every job is due at once.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from celery.beat import ScheduleEntry, Scheduler
from django.db import connections

from dpp_project.jobs import registry, runner
from dpp_project.settings import ENV

log = structlog.get_logger("dpp.job")

LOOP_SECONDS = 1


class JobScheduler(Scheduler):
    producer = None  # type: ignore[assignment]  # nothing is ever sent

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._running: set[str] = set()
        self._guard = threading.Lock()
        self._threads = ThreadPoolExecutor(max_workers=ENV.DPP_DB_POOL_SIZE, thread_name_prefix="job")
        super().__init__(*args, **kwargs)
        self.max_interval = LOOP_SECONDS

    def setup_schedule(self) -> None:
        for job in registry.jobs().values():
            self.add(name=job.name, task=job.name, schedule=job.every_seconds)
            self.start(job.name)

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        del producer
        self.start(str(entry.name))

    def start(self, name: str) -> None:
        with self._guard:
            if name in self._running:
                log.warning("job is still running and is not started again", job=name)
                return
            self._running.add(name)
        self._threads.submit(self._run, name)

    def _run(self, name: str) -> None:
        try:
            runner.run(registry.job(name))
        except Exception:  # the end of the thread would hide it
            log.exception("job runner failed", job=name)
        finally:
            connections.close_all()  # back to the pool
            with self._guard:
                self._running.discard(name)

    def close(self) -> None:
        """Jobs that run are let finish; each is bounded by its limit."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        super().close()
