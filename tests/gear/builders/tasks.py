"""Tasks for workers under test: they leave a line in the file that GEAR_RECORD names, so that a test can count starts.

Loaded by the worker command line alone: `celery -A dpp_project.celery worker -I tests.gear.builders.tasks`.
"""

import ctypes
import json
import os
import signal
import time
from pathlib import Path

from celery import shared_task
from celery.exceptions import Reject
from celery.worker import state
from django.db import connection

from dpp_project import constants
from dpp_project.celery_sqs.slots import TaskPool
from dpp_project.observe import tracing

TaskPool.weigh_seconds = float(os.environ.get("GEAR_WEIGH_SECONDS", TaskPool.weigh_seconds))

constants.WORKER_GRACE_SECONDS = int(os.environ.get("GEAR_GRACE_SECONDS", constants.WORKER_GRACE_SECONDS))  # type: ignore[misc]


def note(event: str, **more: object) -> None:
    with Path(os.environ["GEAR_RECORD"]).open("a", encoding="utf-8") as record:
        record.write(
            json.dumps({"event": event, "pid": os.getpid(), "trace_id": tracing.current_trace_id(), **more}) + "\n"
        )


@shared_task(name="gear.work")
def work(*, name: str, sleep_ms: int = 0, tenant_id: str = "") -> None:
    del tenant_id  # the transport reads it
    note("started", name=name)
    time.sleep(sleep_ms / 1_000)
    note("ended", name=name)


@shared_task(name="gear.hang")
def hang(*, name: str, seconds: int) -> None:
    """In native code, which no signal handler of Python and no exception reaches."""
    note("started", name=name)
    ctypes.CDLL(None).sleep(seconds)
    note("ended", name=name)


@shared_task(name="gear.grow")
def grow(*, name: str, megabytes: int) -> None:
    """Until the worker has noticed, and drains."""
    held = bytearray(b"x" * megabytes * 1_000_000)
    until = time.monotonic() + 60
    while state.should_stop is None and time.monotonic() < until:
        time.sleep(0.05)
    note("ended", name=name, held=len(held))


@shared_task(name="gear.ask")
def ask(*, name: str) -> None:
    """Needs the database, and leaves the giving back to the worker."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    note("ended", name=name)


@shared_task(name="gear.fail")
def fail(*, name: str, how: str) -> None:
    note("started", name=name)
    if how == "reject":
        raise Reject(name, requeue=False)
    if how == "memory":
        raise MemoryError
    if how == "exit":
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        raise SystemExit(3)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError(how)
