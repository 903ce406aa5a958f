"""Loaded before Django: gives each test process its own Valkey, queue names and bucket, then tells the time by kind.

Postgres, SQS and S3 are shared servers with a database, queues and a bucket per process; `make test` starts them and
names them in the environment.
"""

import gc
import os
import shutil
import subprocess
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpp_project.devstack import valkey
from tests.gear import first_imports, stalls

WORKER = os.environ.get("PYTEST_XDIST_WORKER") or f"p{os.getpid()}"
KINDS = ("unit", "integration", "contract", "stateful", "race", "crash", "acceptance", "image")

_NEEDED = ("DATABASE_URL", "SQS_ENDPOINT_URL", "S3_ENDPOINT_URL")


FOLDER = Path(tempfile.mkdtemp(prefix=f"dpp-tests-{WORKER}-"))


def _prepare() -> subprocess.Popen[bytes]:
    missing = [name for name in _NEEDED if not os.environ.get(name)]
    if missing:
        raise pytest.UsageError(f"{', '.join(missing)} not set: the suite needs real services. Run `make test`.")
    server, process = valkey.start_valkey(FOLDER)
    queues = os.environ["SQS_ENDPOINT_URL"].rstrip("/") + "/000000000000"
    os.environ |= {
        "REDIS_URL": server.url,
        "DPP_QUEUE_URL": f"{queues}/dpp-runs-{WORKER}",
        "DPP_DLQ_URL": f"{queues}/dpp-runs-{WORKER}-dlq",
        "DPP_EVENTS_QUEUE_URL": f"{queues}/dpp-events-{WORKER}",
        "DPP_EVENTS_DLQ_URL": f"{queues}/dpp-events-{WORKER}-dlq",
        "DPP_BUCKET": f"dpp-test-{WORKER}",
        "DPP_ARCHIVE_BUCKET": f"dpp-test-archives-{WORKER}",
        "DPP_ENCRYPTION_KEYS": "Zm9yIHRoZSB0ZXN0cyBvZiB3ZWJob29rcyBhbG9uZSE=",
        "DPP_SECRET_KEY": "a-key-for-the-tests-a-key-for-the-tests-a-key-for-the-tests-0",
        "DPP_ALLOWED_HOSTS": "127.0.0.1,localhost,testserver",
        "DPP_HTTPS": "0",
        "DPP_SOLO_LIMIT_USD": "9999999999.9999",  # above all amounts; tests of the limit set their own
        "DPP_ENABLE_PROBE_PACK": "1",
        "DPP_SERVICE": "command",
        "DPP_LOG_LEVEL": "INFO",
        "AWS_REGION": os.environ.get("AWS_REGION", "us-east-1"),
        "AWS_ACCESS_KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID", "test"),
        "AWS_SECRET_ACCESS_KEY": os.environ.get("AWS_SECRET_ACCESS_KEY", "test"),
    }
    return process


VALKEY = _prepare()

# All tests at once are a million objects that stay. Looked through again and again, and written to by it, they cost
# each process that collects, counts memory or forks up to a second a time; so no collection is to meet them.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("PYTEST_XDIST_WORKER") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(stalls.Plugin(), "stalls")
    if os.environ.get("PYTEST_XDIST_WORKER_COUNT"):  # a test process beside others; one that plants faults is alone
        config.pluginmanager.register(first_imports.Plugin(), "first-imports")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Modules in an order without meaning, the same each time; pytest-django then puts those first whose database is
    rolled back: others leave tables without the rows that migrations made.

    By name, those that wait (for processes, timeouts, a browser) come one after the other, and so do those that
    calculate: all test processes wait at once, and later all want the processor. Acceptance begins: its tests are the
    longest, and one at the end would keep the others' processes idle.
    """
    items.sort(key=lambda item: _place(item.nodeid.partition("::")[0]))
    return (yield)


def _place(path: str) -> tuple[bool, int]:
    return not path.startswith("tests/acceptance/"), zlib.crc32(path.encode())


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    VALKEY.kill()
    VALKEY.wait()
    shutil.rmtree(FOLDER, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The suite's seconds by kind, added up over all processes."""
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for report in _reports(terminalreporter):
        parts = report.nodeid.split("/")
        kind = parts[1] if len(parts) > 2 and parts[1] in KINDS else "other"
        seconds[kind] += report.duration
        counts[kind] += report.when == "call"
    if seconds:
        terminalreporter.section("time by kind")
        for kind, total in sorted(seconds.items(), key=lambda item: -item[1]):
            terminalreporter.line(f"{kind:12s} {counts[kind]:5d} tests {total:7.1f} s")
    for line in stalls.summary(_reports(terminalreporter)):
        terminalreporter.line(line)


def _reports(terminalreporter: Any) -> Iterator[Any]:
    for outcome in ("passed", "failed", ""):
        for report in terminalreporter.stats.get(outcome, []):
            if hasattr(report, "duration") and hasattr(report, "when"):
                yield report
