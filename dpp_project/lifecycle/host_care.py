"""What each host does for itself, in a thread of every service's process: rotate logs, say how the host is.

One process of a host does it, the one that holds the rotator's lock; when it ends, the next one does within seconds.
Rotation needs no Postgres: logs are rotated while it is away. How full the host's disks are is written there each hour.
"""

import os
import shutil
import threading
import time
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import structlog
from django.db import connections

from dpp_project import clock
from dpp_project.env import Environment
from dpp_project.lifecycle import measuring
from dpp_project.lifecycle.log_rotation import LogRotator, RotationLimits
from dpp_project.process_env import ENV
from dpp_project.stores.postgres import DATABASE_AWAY

log = structlog.get_logger("dpp.host")

LOOK_SECONDS: Final = 1.0
WAIT_SECONDS: Final = 5.0
SAY_SECONDS: Final = 60.0
MEASURE_SECONDS: Final = 3_600.0
_MB: Final = 1_000_000


def limits_of(env: Environment) -> RotationLimits:
    return RotationLimits(
        max_bytes=env.DPP_LOG_MAX_MB * _MB, total_bytes=env.DPP_LOGS_TOTAL_MB * _MB, days=env.DPP_LOGS_DAYS
    )


class HostCare:
    def __init__(self, env: Environment = ENV) -> None:
        folder = env.DPP_LOG_DIR
        self._folder = Path(folder) if folder else None
        self._rotator = (
            None
            if self._folder is None
            else LogRotator(self._folder, limits_of(env), ZoneInfo(env.DPP_REPORT_TIME_ZONE))
        )
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._said_at = float("-inf")
        self._measured_at = float("-inf")

    def start(self) -> None:
        self._thread = threading.Thread(target=self._go_on, name="host care", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._rotator is not None:
            self._rotator.release()

    def _go_on(self) -> None:
        seconds = LOOK_SECONDS
        while not self._stopping.wait(seconds):
            seconds = self._rotate()
            self._measure()

    def _rotate(self) -> float:
        """How long to wait before the next look."""
        if self._rotator is None:
            return WAIT_SECONDS
        try:
            if not self._rotator.is_ours():
                return WAIT_SECONDS
            self._rotator.look(clock.now())
            self._say(self._rotator)
        except Exception:  # the thread must go on: without it the files grow until the disk is full
            log.exception("log files not looked after")
            return WAIT_SECONDS
        return LOOK_SECONDS

    def _measure(self) -> None:
        """By each process of the host: they write one row, and none needs to know which of them does it."""
        if time.monotonic() - self._measured_at < MEASURE_SECONDS:
            return
        self._measured_at = time.monotonic()
        try:
            measuring.measure_host(clock.now())
        except DATABASE_AWAY as error:
            log.warning("disks not measured", exc_info=error)
        except Exception:  # as above
            log.exception("disks not measured")
        finally:
            connections.close_all()  # back to the pool

    def _say(self, rotator: LogRotator) -> None:
        if time.monotonic() - self._said_at < SAY_SECONDS or self._folder is None:
            return
        self._said_at = time.monotonic()
        disk = shutil.disk_usage(self._folder)
        log.info(
            "host",
            load=round(os.getloadavg()[0], 2),
            memory_available_bytes=memory_available_bytes(),
            log_bytes=rotator.total_bytes(),
            log_disk_free_bytes=disk.free,
            log_disk_bytes=disk.total,
        )


def memory_available_bytes() -> int | None:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1_024
    return None
