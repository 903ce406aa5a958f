"""What a bench of the API compares, and what it stands on: a database and a Valkey of its own, and SQS in memory."""

import contextlib
import http.client
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from dpp_project import serve
from dpp_project.devstack import ports, valkey
from dpp_project.env import Environment

REPOSITORY = Path(__file__).resolve().parents[1]
# The defaults of the product.
_numbers = itertools.count()
WORKERS, THREADS = (Environment.model_fields[f"DPP_API_{name}"].default for name in ("WORKERS", "THREADS"))


@dataclass(frozen=True)
class Stage:
    """The environment of every server under test, and the key of its requests."""

    environ: dict[str, str]
    api_key: str
    tenant_id: str
    folder: Path


@dataclass
class Server:
    name: str
    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """Of the server and its children; the load and the services are not in it."""
        return sum(_cpu_seconds(pid) for pid in [self.pid, *_children(self.pid)])

    def pss_mb(self) -> float:
        """Of the server and its children: each shared page in equal parts to those that share it."""
        return sum(_pss_kb(pid) for pid in [self.pid, *_children(self.pid)]) / 1_024


@contextlib.contextmanager
def stage(*, sqs_latency_ms: float = 0.0, folder: Path = REPOSITORY) -> Iterator[Stage]:
    """`folder` is the checkout whose code prepares the database."""
    named = urlsplit(os.environ["DATABASE_URL"])
    name = f"dpp_bench_{os.getpid()}_{next(_numbers)}"
    with (
        tempfile.TemporaryDirectory() as state,
        valkey.running_valkey(Path(state)) as redis,
        _sqs(sqs_latency_ms) as sqs,
    ):
        with psycopg.connect(urlunsplit(named), autocommit=True) as postgres:
            postgres.execute(f'CREATE DATABASE "{name}"')
        environ = os.environ | {
            "DATABASE_URL": urlunsplit(named._replace(path=f"/{name}")),
            "REDIS_URL": redis.url,
            "SQS_ENDPOINT_URL": f"http://127.0.0.1:{sqs}",
            "DPP_QUEUE_URL": f"http://127.0.0.1:{sqs}/000000000000/dpp-runs",
            "DPP_DLQ_URL": f"http://127.0.0.1:{sqs}/000000000000/dpp-dlq",
            "DPP_SECRET_KEY": "a-key-for-the-bench-a-key-for-the-bench-a-key-for-the-bench",
            "DPP_ALLOWED_HOSTS": "127.0.0.1",
            "DPP_HTTPS": "0",
            "DPP_ENABLE_PROBE_PACK": "1",
            "DPP_DB_POOL_SIZE": str(THREADS),
            "DJANGO_SETTINGS_MODULE": "dpp_project.settings",
        }
        try:
            made = subprocess.run(
                [sys.executable, "-m", "bench._prepare"],
                cwd=folder,
                env=environ,
                check=True,
                capture_output=True,
                text=True,
            )
            told = json.loads(made.stdout.splitlines()[-1])
            yield Stage(environ, told["api_key"], told["tenant_id"], folder)
        finally:
            with psycopg.connect(urlunsplit(named), autocommit=True) as postgres:
                postgres.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextlib.contextmanager
def _sqs(latency_ms: float) -> Iterator[int]:
    command = [sys.executable, "-m", "tests.gear.servers.fakesqs", "--latency-ms", str(latency_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@contextlib.contextmanager
def ours(on: Stage, *, name: str = "ours") -> Iterator[Server]:
    """Our API as the product starts it where nothing is set; of the checkout that the stage was prepared for."""
    (on.folder / serve.STATIC_FOLDER).mkdir(exist_ok=True)
    port = ports.choose_port()
    environ = on.environ | {"DPP_API_PORT": str(port), "DPP_SERVICE": "api"}
    with _started(name, [sys.executable, "-m", "dpp_project.serve", "api"], port, environ, on.folder) as server:
        yield server


@contextlib.contextmanager
def running(name: str, app: str, on: Stage, *, interface: str = "wsgi", python: str | None = None) -> Iterator[Server]:
    """granian with one process for each core; what it logs goes nowhere."""
    port = ports.choose_port()
    command = [
        *(python or sys.executable, "-m", "granian", "--interface", interface, "--no-ws", "--no-access-log"),
        *("--log-level", "error", "--host", "127.0.0.1", "--port", str(port), "--workers", str(WORKERS)),
        *(["--blocking-threads", str(THREADS)] if interface == "wsgi" else []),
        app,
    ]
    with _started(name, command, port, on.environ, REPOSITORY) as server:
        yield server


@contextlib.contextmanager
def _started(name: str, command: list[str], port: int, environ: dict[str, str], folder: Path) -> Iterator[Server]:
    with subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            _wait_for(port)
            yield Server(name, port, process.pid)
        finally:
            process.terminate()
            process.wait()


def _wait_for(port: int) -> None:
    """Until any answer comes: the port is open long before an application is loaded."""
    for _ in range(600):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
        else:
            return
        finally:
            connection.close()
    raise SystemExit("the server does not come up")


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [one for child in map(int, found) for one in (child, *_children(child))]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pss_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
