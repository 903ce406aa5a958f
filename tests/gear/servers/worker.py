"""A real Celery worker in a process of its own, with the tasks of tests/gear/builders/tasks.py."""

import base64
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpp_project.celery_sqs import message_seal
from tests.gear.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


class Worker:
    def __init__(self, process: "subprocess.Popen[bytes]", *, log: Path, record: Path) -> None:
        self.process = process
        self._log = log
        self._record = record

    def events(self, event: str) -> list[str]:
        """Names of what started or ended, in order, from all workers that share the record."""
        return [line["name"] for line in self.lines() if line["event"] == event]

    def lines(self) -> list[dict[str, Any]]:
        if not self._record.exists():
            return []
        return [json.loads(line) for line in _whole_lines(self._record.read_text(encoding="utf-8"))]

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def log_lines(self, logger: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in _whole_lines(self.log()) if line.startswith("{")]
        return [line for line in found if line.get("logger") == logger]

    def alive(self) -> bool:
        return self.process.poll() is None

    def wait_for(self, *names: str, event: str = "ended", seconds: float = 10.0) -> None:
        wait_until(
            lambda: set(names) <= set(self.events(event)) or not self.alive(), seconds=seconds, what=f"{event} {names}"
        )
        assert set(names) <= set(self.events(event)), f"the worker is gone:\n{self.log()[-3000:]}"

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait_exit(self, *, seconds: float) -> int:
        return self.process.wait(timeout=seconds)


def _whole_lines(text: str) -> list[str]:
    """Without the one that is being written."""
    return text[: text.rfind("\n") + 1].splitlines()


@contextmanager
def worker(
    folder: Path, *, endpoint: str, queue_url: str, concurrency: int = 2, environ: dict[str, str] | None = None
) -> Iterator[Worker]:
    """Running and listening; killed at the end if it still lives."""
    log, record = folder / f"worker-{uuid.uuid4().hex[:8]}.log", folder / "record.jsonl"
    changes = {
        "SQS_ENDPOINT_URL": endpoint,
        "DPP_QUEUE_URL": queue_url,
        "DPP_SQS_WAIT_SECONDS": "1",
        "DPP_SQS_TIMEOUT_MS": "1000",
        "DPP_SQS_FIRST_VISIBILITY_SECONDS": "60",
        "DPP_WORKER_CONCURRENCY": str(concurrency),
        "DPP_SERVICE": "worker",
        "DPP_LOG_LEVEL": "INFO",
        "GEAR_RECORD": str(record),
    }
    command = [sys.executable, "-m", "celery", "-A", "dpp_project.celery", "worker", "-I", "tests.gear.builders.tasks"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | changes | (environ or {}), stdout=out, stderr=subprocess.STDOUT
        )
    running = Worker(process, log=log, record=record)
    try:
        wait_until(lambda: " ready." in running.log() or not running.alive(), seconds=60, what="worker ready")
        assert running.alive(), running.log()
        yield running
    finally:
        if running.alive():
            process.kill()
        process.wait()


def envelope(
    task: str, kwargs: dict[str, object], /, *, body: bytes | None = None, content_type: str = "application/json",
    without: tuple[str, ...] = (), trace_id: str | None = None, sealed: bool = True, **headers_more: Any,
) -> str:  # fmt: skip
    """A Celery message, protocol 2, as kombu puts it on SQS, sealed as ours; `without` leaves headers out."""
    task_id = str(uuid.uuid4())
    if body is None:
        body = json.dumps([[], kwargs, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]).encode()
    headers: dict[str, object] = {
        "lang": "py", "task": task, "id": task_id, "root_id": task_id, "parent_id": None, "group": None,
        "retries": 0, "eta": None, "expires": None, "timelimit": [None, None], "ignore_result": True,
        "argsrepr": "", "kwargsrepr": "", "trace_id": trace_id,
    }  # fmt: skip
    if sealed:
        text = base64.b64encode(body).decode()
        headers["dpp_seal"] = message_seal.seal_message(task=task, task_id=task_id, trace_id=trace_id, body=text)
    headers |= headers_more
    for name in without:
        del headers[name]
    document = {
        "body": base64.b64encode(body).decode(),
        "content-encoding": "utf-8",
        "content-type": content_type,
        "headers": headers,
        "properties": {
            "correlation_id": task_id,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "runs"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": task_id,
        },
    }
    return base64.b64encode(json.dumps(document).encode()).decode()


def work(name: str, *, sleep_ms: int = 0, trace_id: str | None = None, tenant_id: str = "") -> str:
    more = {"tenant_id": tenant_id} if tenant_id else {}
    return envelope("gear.work", {"name": name, "sleep_ms": sleep_ms} | more, trace_id=trace_id)
