"""The log files of a host (DPP_LOG_DIR): each line one write at the end of a file that another process may rename.

    system    everything else
    tasks     what runs, jobs and tasks came to
    events    the outbox, webhooks and alarms
    metrics   one line a minute about the host

Many processes append to one file: the kernel lets each write have its place. The rotator (lifecycle/log_rotation.py)
renames a file and touches nothing else; a writer sees before its next line that the name leads elsewhere, and opens it
anew. What it wrote meanwhile stands in the renamed file: no line is lost, and none is cut.
"""

import logging
import os
import sys
from pathlib import Path
from typing import Final

NAMES: Final = ("system", "tasks", "metrics", "events")
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_FILE_OF: Final = {
    "dpp.task": "tasks",
    "dpp.job": "tasks",
    "dpp.run": "tasks",
    "dpp.events": "events",
    "dpp.webhooks": "events",
    "dpp.alarm": "events",
    "dpp.host": "metrics",
}


def path_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.log"


def file_of(logger: str) -> str:
    """By the logger's first two parts."""
    return _FILE_OF.get(".".join(logger.split(".")[:2]), "system")


class AppendedFile:
    """One process's hand on one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._identity: tuple[int, int] | None = None

    def write(self, line: bytes) -> None:
        """Raises OSError where the disk is full or gone. What the kernel took is not taken back."""
        if self._is_elsewhere():
            self._open()
        left = memoryview(line)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor, self._identity = -1, None

    def _is_elsewhere(self) -> bool:
        if self._identity is None:
            return True
        try:
            found = os.stat(self._path)  # noqa: PTH116  once a line
        except FileNotFoundError:
            return True
        return (found.st_dev, found.st_ino) != self._identity

    def _open(self) -> None:
        self.close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._path, _FLAGS, 0o640)
        found = os.fstat(self._descriptor)
        self._identity = found.st_dev, found.st_ino


class LogFiles(logging.Handler):
    """A line that its file does not take goes to standard error, so that a full disk can be read of somewhere."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._files = {name: AppendedFile(path_of(Path(folder), name)) for name in NAMES}

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
            try:
                self._files[file_of(record.name)].write(line)
            except OSError:
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()
        except Exception:  # noqa: BLE001  as every handler of the library: a line must end nothing
            self.handleError(record)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        super().close()
