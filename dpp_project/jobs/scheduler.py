"""Beat's scheduler, which runs the jobs itself instead of sending messages about them.

The queue carries runs. A reaper whose wake-up waited behind 10,000 of them, or in a queue that is away, would be late
exactly when it is needed; so jobs need Postgres and whatever each of them touches, but no queue. Beat may run twice:
the runner's lock keeps a job from running beside itself, and a job that runs twice as often as it must does no harm.

Each run of a job has a thread and a database connection of its own, so a job that hangs delays no other. A job still
running when it is due again is not started a second time. At start every job is due at once.
"""

import threading
from typing import Any

import structlog
from celery.beat import ScheduleEntry, Scheduler
from django.db import connections

from dpp_project.jobs import registry, runner

log = structlog.get_logger("dpp.job")

LOOP_SECONDS = 1


class JobScheduler(Scheduler):
    producer = None  # type: ignore[assignment]  # nothing is ever sent

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._running: dict[str, threading.Thread] = {}
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        super().__init__(*args, **kwargs)
        self.max_interval = LOOP_SECONDS

    def setup_schedule(self) -> None:
        jobs = registry.jobs().values()
        make_room(len(jobs))
        for job in jobs:
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
            thread = self._running[name] = threading.Thread(target=self._run, args=(name,), name=f"job {name}")
            thread.start()

    def _run(self, name: str) -> None:
        try:
            runner.run(registry.job(name), stopping=self._stopping)
        except Exception:  # the end of the thread would hide it
            log.exception("job runner failed", job=name)
        finally:
            connections.close_all()  # back to the pool
            with self._guard:
                del self._running[name]

    def close(self) -> None:
        """Each job that runs finishes the row it is at; the rest of its rows keep until beat is back."""
        self._stopping.set()
        with self._guard:
            threads = list(self._running.values())
        for thread in threads:
            thread.join()
        super().close()


def make_room(jobs: int) -> None:
    """A job holds a connection for as long as it runs (its lock lives on it), so the pool holds one for each job."""
    pool: Any = getattr(connections["default"], "pool", None)
    if pool is not None and pool.max_size < jobs + 1:
        pool.resize(min_size=pool.min_size, max_size=jobs + 1)
