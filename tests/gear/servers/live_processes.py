"""Real workers, and a real beat, on this test process's own database, Redis, queue and bucket."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db import connection

from dpp_project.settings import ENV
from tests.gear.servers import worker as gear
from tests.gear.servers.worker import Worker


def database_url(*, host: str | None = None, port: int | None = None) -> str:
    """Of the database that the test writes to, which is not the one that the environment names."""
    found = connection.settings_dict
    user, password = quote(str(found["USER"])), quote(str(found["PASSWORD"]))
    return f"postgresql://{user}:{password}@{host or found['HOST']}:{port or found['PORT']}/{found['NAME']}"


@contextmanager
def a_worker(folder: Path, *, concurrency: int = 2, endpoint: str | None = None, **environ: Any) -> Iterator[Worker]:
    """Stopped in order at the end: the open poll of a killed one would swallow a message of the next test."""
    values = {"DATABASE_URL": database_url(), "DPP_DB_POOL_SIZE": "2"} | environ
    with gear.worker(
        folder,
        endpoint=endpoint or str(ENV.SQS_ENDPOINT_URL),
        queue_url=ENV.DPP_QUEUE_URL,
        concurrency=concurrency,
        environ={name: str(value) for name, value in values.items()},
    ) as running:
        yield running
        if running.alive():
            running.terminate()
            running.wait_exit(seconds=30)


@contextmanager
def a_beat(folder: Path) -> Iterator[None]:
    """All the jobs at their own pace; the first time each at once."""
    environ = os.environ | {"DATABASE_URL": database_url(), "DPP_SERVICE": "reaper", "DPP_LOG_LEVEL": "INFO"}
    with (folder / "beat.log").open("wb") as out:
        beat = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "dpp_project.celery", "--quiet", "beat"],
            cwd=gear.ROOT,
            env=environ,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
        beat.terminate()
        beat.wait(30)
    finally:
        beat.kill()
        beat.wait()
