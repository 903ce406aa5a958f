"""Tasks for workers under test: they leave a line in the file that GEAR_RECORD names, so that a test can count starts.

Loaded by the worker command line alone: `celery -A dpp_project.celery worker -I tests.gear.builders.tasks`.
"""

import json
import os
import signal
import time
from pathlib import Path

from celery import shared_task
from celery.exceptions import Reject

from dpp_project.observe import tracing


def note(event: str, **more: object) -> None:
    with Path(os.environ["GEAR_RECORD"]).open("a", encoding="utf-8") as record:
        record.write(json.dumps({"event": event, "pid": os.getpid(), "trace_id": tracing.current(), **more}) + "\n")


@shared_task(name="gear.work")
def work(*, name: str, sleep_ms: int = 0) -> None:
    note("started", name=name)
    time.sleep(sleep_ms / 1_000)
    note("ended", name=name)


@shared_task(name="gear.fail")
def fail(*, name: str, how: str) -> None:
    note("started", name=name)
    if how == "reject":
        raise Reject(name, requeue=False)
    if how == "memory":
        raise MemoryError
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError(how)
