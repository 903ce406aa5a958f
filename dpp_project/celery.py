"""Celery: the worker that executes runs, and the beat whose process runs the jobs.

    celery -A dpp_project.celery worker
    celery -A dpp_project.celery beat

Two queues carry runs and nothing else; celery_sqs/lanes.py says which run takes which. Jobs do not travel through
them: a job that must recover from a lost or a full queue cannot wait behind 10,000 runs for it, so beat's scheduler
runs them in its own process (dpp_project/jobs/scheduler.py).

A worker is one process whose slots are threads (celery_sqs/slots.py); the packs run in processes of their own, in its
box. What the slots share is made before they start: `worker_init` is sent once, on the main thread.

Stopping a worker (DPP-78): the first SIGTERM stops receiving, returns what was received and not started, and waits for
the packs that run; a second one, or the end of WORKER_GRACE_SECONDS, kills the process, its packs end with it, and
recovery does the rest. A worker that has grown beyond DPP_WORKER_MEMORY_MB sends itself the first one.
"""

import atexit
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import celery
import kombu
import structlog
from celery import signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")

import django
from django.apps import apps
from django.db import connections

from dpp_project import clock, constants
from dpp_project.celery_sqs import lanes
from dpp_project.observe import logging as dpp_logging
from dpp_project.observe import spans, tracing
from dpp_project.observe.log_files import AppendedFile, path_of
from dpp_project.process_env import ENV
from dpp_project.processes.loading import without_collections

log = structlog.get_logger("dpp.task")

QUEUES = {lanes.RUNS: ENV.DPP_QUEUE_URL} | (
    {lanes.EXPRESS: ENV.DPP_EXPRESS_QUEUE_URL} if ENV.DPP_EXPRESS_QUEUE_URL else {}
)
SLOTS = ENV.DPP_WORKER_CONCURRENCY + (lanes.express_slots(ENV.DPP_WORKER_CONCURRENCY) if len(QUEUES) > 1 else 0)


class Task(celery.Task):  # type: ignore[type-arg]
    Request = "dpp_project.celery_sqs.consumer:Request"


# Without Celery's own Django fixup: it closes the whole Postgres pool before and after each task.
app = celery.Celery("dpp", task_cls=Task, fixups=[])
app.conf.update(
    broker_url="sqs://",
    broker_transport="dpp_project.celery_sqs.transport:Transport",
    broker_transport_options={
        "predefined_queues": {name: {"url": url} for name, url in QUEUES.items()},
        "polling_interval": 0,
    },
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    task_default_queue=lanes.RUNS,
    task_create_missing_queues=False,
    task_queues=[kombu.Queue(name) for name in QUEUES],
    task_acks_late=True,
    task_acks_on_failure=False,  # an unforeseen exception is redriven, and ends where someone sees it
    task_ignore_result=True,
    task_serializer="json",
    result_serializer="json",
    accept_content=["json"],
    task_protocol=2,
    worker_consumer="dpp_project.celery_sqs.consumer:Consumer",
    worker_pool="dpp_project.celery_sqs.slots:TaskPool",
    worker_max_memory_per_child=ENV.DPP_WORKER_MEMORY_MB * 1_024,  # the pool takes it for the process
    worker_concurrency=SLOTS,
    worker_prefetch_multiplier=1,  # in flight = concurrency exactly: a message must not grow old inside a worker
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    beat_scheduler="dpp_project.jobs.scheduler:JobScheduler",
    enable_utc=True,
    timezone="UTC",
)


@signals.import_modules.connect
def set_up_django(sender: Any, **_: Any) -> None:
    if sender is app:
        with without_collections():
            django.setup()
            sender.autodiscover_tasks([config.name for config in apps.get_app_configs()], force=True)


@signals.celeryd_init.connect
def speak_in_lines(**_: Any) -> None:
    """Celery announces a shutdown from its signal handler in plain text; every line of ours is JSON (DPP-73)."""
    from celery.apps import worker

    announcer: Any = worker
    announcer.safe_say = _say_past_celery_logging


def _say_past_celery_logging(message: str, _stream: Any = None) -> None:
    """Past `logging`, whose stream may be in the middle of a line when the signal comes."""
    line = {"event": message, "level": "info", "logger": "celery", "timestamp": clock.now().isoformat()}
    said = (json.dumps(line | {"service": ENV.DPP_SERVICE}) + "\n").encode()
    if ENV.DPP_LOG_DIR is None:
        os.write(sys.stdout.fileno(), said)
    else:
        AppendedFile(path_of(Path(ENV.DPP_LOG_DIR), "system")).write(said)  # of its own: no lock is taken


@signals.setup_logging.connect
def configure_logging(**_: Any) -> None:
    dpp_logging.set_up_logging(service=ENV.DPP_SERVICE, level=ENV.DPP_LOG_LEVEL, folder=ENV.DPP_LOG_DIR)
    # One line for each task is ours (end_task); Celery's own would repeat it, and quote what a task raised.
    logging.getLogger("celery.worker.strategy").setLevel(logging.WARNING)
    logging.getLogger("celery.app.trace").setLevel(logging.CRITICAL)


@signals.worker_init.connect
@signals.beat_init.connect
def start_spans(**_: Any) -> None:
    spans.start_span_export(ENV.DPP_SERVICE)


@signals.worker_ready.connect
def say_that_the_worker_lives(**_: Any) -> None:
    from celery.worker import state

    from dpp_project.celery_sqs import transport

    done = state.all_total_count
    _live(
        slots=SLOTS,
        progress=lambda: done[0],
        turns=lambda: done[0] + transport.polls_answered(),
    )


@signals.beat_init.connect
def say_that_beat_lives(sender: Any, **_: Any) -> None:
    entries = sender.scheduler.schedule
    _live(slots=len(entries), progress=lambda: sum(entry.total_run_count for entry in list(entries.values())))


def _live(*, slots: int, progress: Callable[[], int], turns: Callable[[], int] | None = None) -> None:
    from dpp_project.heartbeats.pulse import Pulse  # a table: it needs the apps
    from dpp_project.lifecycle.host_care import HostCare

    pulse = Pulse(service=ENV.DPP_SERVICE, slots=slots, progress=progress, turns=turns)
    pulse.start()
    atexit.register(pulse.stop)
    care = HostCare()
    care.start()
    atexit.register(care.stop)


@signals.worker_shutting_down.connect
def bound_the_shutdown(**_: Any) -> None:
    """From here on a second SIGTERM, and the alarm at the end of the grace, do what they do to any process: end it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(constants.WORKER_GRACE_SECONDS)


@signals.task_prerun.connect
def begin_task(task: Any, **_: Any) -> None:
    task.request.dpp_started = time.monotonic()
    tracing.bind_trace_id(tracing.sanitise_trace_id(task.request.get("trace_id")))


@signals.task_postrun.connect
def end_task(task_id: str, task: Any, state: str | None = None, **_: Any) -> None:
    started = task.request.get("dpp_started") or time.monotonic()
    log.info("task", task=task.name, task_id=task_id, state=state, ms=round((time.monotonic() - started) * 1_000, 1))
    tracing.bind_trace_id(None)
    connections.close_all()  # back to the pool


@signals.task_failure.connect
def log_failure(sender: Any, task_id: str, exception: BaseException, **_: Any) -> None:
    log.error("task failed", task=sender.name, task_id=task_id, exc_info=exception)
