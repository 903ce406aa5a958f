"""/healthz (this process lives) and /readyz (what it needs answers, each with its state and milliseconds).

Ready means that most requests can be answered: Postgres and Redis are there, and the database is migrated. S3 and SQS
are shown as degraded: a balancer that dropped every replica for a bucket would turn a small outage into a whole one.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

import structlog
from django.db import ProgrammingError, connection
from django.db.migrations.loader import MigrationLoader
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from budget.rebuild import evidence
from budget.rebuild.evidence import LedgerBehind
from budget.redis import scripts
from budget.redis.gate import GateClosed
from dpp_project.aws import clients
from dpp_project.env import Environment
from dpp_project.heartbeats import processes
from dpp_project.http import problems
from dpp_project.http.problems import Problem
from dpp_project.process_env import ENV
from dpp_project.processes.per_process import PerProcess
from dpp_project.reasons import ReasonCode
from dpp_project.stores import redis
from dpp_project.stores.postgres import DATABASE_AWAY
from runs.packs import registry

log = structlog.get_logger("dpp.health")

PATIENCE_SECONDS = 3.0
FRESH_SECONDS = 1.0
ProbeResult = dict[str, Any]


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _redis() -> None:
    redis.redis_client().ping()


def _s3(env: Environment = ENV) -> None:
    clients.s3_client(env.S3_ENDPOINT_URL).head_bucket(Bucket=env.DPP_BUCKET)


def _sqs(env: Environment = ENV) -> None:
    clients.sqs_client().get_queue_attributes(QueueUrl=env.DPP_QUEUE_URL, AttributeNames=["QueueArn"])


class NotMigrated(Exception):  # noqa: N818  a finding
    """The message is for the operator: it names the cure."""


@PerProcess
def _newest_migrations() -> list[tuple[str, str]]:
    return sorted(MigrationLoader(None).graph.leaf_nodes())


def _migrations() -> None:
    with connection.cursor() as cursor:
        try:
            cursor.execute("SELECT app, name FROM django_migrations")
        except ProgrammingError:
            raise NotMigrated("run `manage.py migrate`: the database is empty") from None
        applied = set(cursor.fetchall())
    missing = [f"{app}.{name}" for app, name in _newest_migrations() if (app, name) not in applied]
    if missing:
        raise NotMigrated(f"run `manage.py migrate`: {', '.join(missing)} not applied")


def _ledger() -> None:
    """A Postgres that went back in time answers with customers' past: no replica may be sent requests."""
    try:
        scripts.shared_scripts().gate.renewed()
    except GateClosed as closed:
        if closed.ledger_is_behind:
            evidence.require_commits(scripts.shared_scripts().client)
    except redis.RedisError:
        return  # said by its own probe


PROBES: dict[str, Callable[[], None]] = {
    "database": _database,
    "migrations": _migrations,
    "redis": _redis,
    "ledger": _ledger,
    "s3": _s3,
    "sqs": _sqs,
}
NEEDED = ("database", "migrations", "redis", "ledger")


@PerProcess
def _pool() -> ThreadPoolExecutor:
    """A probe that hangs keeps its thread until its own timeout; the rest go on."""
    return ThreadPoolExecutor(max_workers=2 * len(PROBES), thread_name_prefix="readyz")


def _timed(probe: Callable[[], None]) -> ProbeResult:
    started = time.perf_counter()
    try:
        probe()
    except (NotMigrated, LedgerBehind) as error:
        result: ProbeResult = {"state": "down", "error": str(error)}
    except Exception as error:  # noqa: BLE001  whatever the probe raises is the finding
        result = {"state": "down", "error": type(error).__name__}
    else:
        result = {"state": "up"}
    finally:
        connection.close()  # back to the pool: probe threads must not keep what requests need
    return result | {"ms": round((time.perf_counter() - started) * 1_000, 1)}


def probe_all() -> dict[str, ProbeResult]:
    """Every dependency side by side; one that does not answer in time is down."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    waiting: dict[str, Future[ProbeResult]] = {name: _pool().submit(_timed, probe) for name, probe in PROBES.items()}
    found = {}
    for name, future in waiting.items():
        try:
            found[name] = future.result(timeout=max(0.0, deadline - time.monotonic()))
        except FutureTimeout:
            future.cancel()
            found[name] = {"state": "down", "error": "no answer in time", "ms": PATIENCE_SECONDS * 1_000}
    return found


class _Latest:
    """One probing a second and process, however many ask: /readyz must not become a lever against S3 or SQS."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at = 0.0
        self._found: dict[str, ProbeResult] = {}
        self._down: list[str] = []
        self.processes: dict[str, dict[str, int]] = {}

    def get(self) -> dict[str, ProbeResult]:
        with self._lock:
            if time.monotonic() - self._at >= FRESH_SECONDS:
                self._found = probe_all()
                self.processes = _processes() if is_up(self._found, "migrations") else {}
                self._at = time.monotonic()
                self._say_what_changed()
            return self._found

    def _say_what_changed(self) -> None:
        """Log an outage once: a caller that polls every second would fill the log with what the answer says anyway."""
        down = names_down(self._found)
        if down and down != self._down:
            log.warning("not ready" if set(down) & set(NEEDED) else "degraded", down=down)
        elif self._down and not down:
            log.info("ready again", up=self._down)
        self._down = down


_latest = _Latest()


def latest_probes() -> dict[str, ProbeResult]:
    return _latest.get()


def names_down(found: dict[str, ProbeResult]) -> list[str]:
    return [name for name, result in found.items() if result["state"] != "up"]


def is_up(found: dict[str, ProbeResult], name: str) -> bool:
    return found.get(name, {}).get("state") == "up"


def _processes() -> dict[str, dict[str, int]]:
    """Counts alone: the address is open to all, and names of hosts are not for all."""
    try:
        return processes.process_counts()
    except DATABASE_AWAY:
        return {}


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    del request
    return JsonResponse({"status": "alive"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    dependencies = latest_probes()
    missing = {name: list(pack.missing()) for name, pack in registry.packs_for_sale().items() if pack.missing()}
    down = names_down(dependencies)
    found = {
        "dependencies": dependencies,
        "degraded": [name for name in down if name not in NEEDED],
        "missing": missing,
        "processes": _latest.processes,
    }
    needed = [name for name in down if name in NEEDED]
    if not needed:
        return JsonResponse({"status": "ready", **found})
    return problems.problem_response(
        request,
        Problem(
            ReasonCode.SERVICE_UNAVAILABLE,
            f"Not ready: {', '.join(needed)}.",
            headers={"Retry-After": "2"},
            extensions=found,
        ),
    )
