"""Rotates the log files of a host: by renaming, never by copying, so that a line that is just written is lost to none.

    system, tasks, metrics   above DPP_LOG_MAX_MB, to `system-20260301T120000Z.log`; `system.log.old` leads to it
    events                   at a local date's first instant, to `events-20260301.log`; above DPP_LOG_MAX_MB before it,
                             to `events-20260301.1.log` and so on

A renamed file stays DPP_LOGS_DAYS after its last line, and is never written over. Above DPP_LOGS_TOTAL_MB the oldest go
earlier, which is logged and counted. One process of the host rotates: it holds a lock that ends with it. What dies
between two steps leaves a renamed file without its link, or one that should be gone: the next look mends both.
"""

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import structlog

from dpp_project.lifecycle.metrics import LOG_FILES_CUT
from dpp_project.observe import log_files

log = structlog.get_logger("dpp.data")

LOCK: Final = ".rotator.lock"
BY_SIZE: Final = ("system", "tasks", "metrics")
DAILY: Final = "events"
_ROTATED: Final = re.compile(r"^(system|tasks|metrics)-\d{8}T\d{6}Z(\.\d+)?\.log$|^events-\d{8}(\.\d+)?\.log$")
_FIRST_LINE_BYTES: Final = 65_536
YOUNG: Final = timedelta(seconds=60)
"""A writer may still be at a line of a file that was renamed so lately: it is not deleted for want of room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationLimits:
    max_bytes: int
    total_bytes: int
    days: int


class LogRotator:
    def __init__(self, folder: Path, limits: RotationLimits, zone: ZoneInfo) -> None:
        self._folder = folder
        self._limits = limits
        self._zone = zone
        self._lock: int | None = None

    def is_ours(self) -> bool:
        """Whether this process rotates: the first to ask, until it ends. The kernel gives the lock of a dead one on."""
        if self._lock is not None:
            return True
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._lock = descriptor
        return True

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def look(self, now: datetime) -> list[Path]:
        """What was renamed."""
        renamed = [made for name in BY_SIZE if (made := self._by_size(name, now)) is not None]
        if (made := self._events(now)) is not None:
            renamed.append(made)
        self._delete_old(now)
        self._keep_within_total(now)
        for name in log_files.NAMES:
            self._link_newest(name)
        return renamed

    def rotated(self, name: str | None = None) -> list[Path]:
        """The oldest first, by their last line."""
        found = []
        for entry in self._entries():
            if _ROTATED.match(entry.name) and (name is None or entry.name.startswith(f"{name}-")):
                with contextlib.suppress(FileNotFoundError):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
        return [self._folder / found_name for _, found_name in sorted(found)]

    def total_bytes(self) -> int:
        files = [entry for entry in self._entries() if entry.is_file(follow_symlinks=False)]
        return sum(entry.stat(follow_symlinks=False).st_size for entry in files)

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        if not self._folder.is_dir():
            return
        with os.scandir(self._folder) as found:
            yield from list(found)

    def _by_size(self, name: str, now: datetime) -> Path | None:
        path = log_files.path_of(self._folder, name)
        if _log_file_size(path) < self._limits.max_bytes:
            return None
        return self._rename(path, f"{name}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}")

    def _events(self, now: datetime) -> Path | None:
        """A file that was begun on another date is that date's, however late it is looked at."""
        path = log_files.path_of(self._folder, DAILY)
        if not _log_file_size(path):
            return None
        begun = self._date_of(path)
        if begun == now.astimezone(self._zone).date():
            return self._rename(path, f"{DAILY}-{begun:%Y%m%d}", first=1) if self._is_large(path) else None
        return self._rename(path, f"{DAILY}-{begun:%Y%m%d}")

    def _is_large(self, path: Path) -> bool:
        return _log_file_size(path) >= self._limits.max_bytes

    def _date_of(self, path: Path) -> date:
        """Of its first line; where that says nothing, of its last."""
        with path.open("rb") as file:
            line = file.readline(_FIRST_LINE_BYTES)
        try:
            at = datetime.fromisoformat(json.loads(line)["timestamp"])
        except (ValueError, KeyError, TypeError):
            at = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC)
        return at.astimezone(self._zone).date()

    def _rename(self, path: Path, stem: str, *, first: int = 0) -> Path:
        """To a name that none has: this process alone renames here."""
        number = first
        while (target := self._folder / (f"{stem}.{number}.log" if number else f"{stem}.log")).exists():
            number += 1
        path.rename(target)
        return target

    def _link_newest(self, name: str) -> None:
        newest = self.rotated(name)[-1:]
        link = self._folder / f"{name}.log.old"
        if not newest:
            link.unlink(missing_ok=True)
            return
        if link.is_symlink() and os.readlink(link) == newest[0].name:  # noqa: PTH115  the name, not the path
            return
        draft = self._folder / f".{name}.log.old.new"
        draft.unlink(missing_ok=True)
        draft.symlink_to(newest[0].name)
        draft.replace(link)

    def _delete_old(self, now: datetime) -> None:
        oldest = (now - timedelta(days=self._limits.days)).timestamp()
        for path in self.rotated():
            if path.stat().st_mtime < oldest:
                path.unlink()

    def _keep_within_total(self, now: datetime) -> None:
        left = self.total_bytes()
        young = (now - YOUNG).timestamp()
        for path in self.rotated():
            if left <= self._limits.total_bytes:
                return
            found = path.stat()
            if found.st_mtime > young:
                continue
            path.unlink()
            left -= found.st_size
            LOG_FILES_CUT.inc()
            log.warning("log file deleted before its days: all log files hold too much", file=path.name)


def _log_file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
