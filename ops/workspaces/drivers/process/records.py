"""What is written down of containers: a folder each, outside of all that a tenant sees.

    containers/NAME/record.json   whose it is, and the process: replaced whole, never changed
                    control       the init's socket
                    ring          the last output of its command
                    state         what the init says of its command
                    ended         how bubblewrap saw it end
                    errors        what bubblewrap said when it did not start

A folder without a record is nothing. A record without a process is a placeholder.
"""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from dpp_project.env_file import write_whole
from dpp_project.processes.identity import process_identity_of
from ops.workspaces.drivers.base import Label, SeenContainer

RECORD: Final = "record.json"
LEFTOVER_SECONDS: Final = 3_600


@dataclass(frozen=True, slots=True)
class Record:
    container_id: str
    name: str
    label: Label
    volume: str | None = None
    spec_hash: str | None = None
    process: str | None = None
    """Boot, pid and start time of the init; None for a placeholder."""
    started_at: str | None = None
    stopping: bool = False
    cgroups: tuple[str, ...] = ()

    @property
    def placeholder(self) -> bool:
        return self.process is None

    @property
    def pid(self) -> int:
        """Of what may run; a placeholder has none."""
        return int(self.process.split("/")[1]) if self.process else -1

    def runs(self) -> bool:
        return self.process is not None and process_identity_of(self.pid) == self.process


class Containers:
    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, name: str) -> Path:
        return self._root / name

    def read(self, name: str) -> Record | None:
        """None also for one that a power cut left empty: nothing runs then."""
        try:
            given: dict[str, Any] = json.loads((self._root / name / RECORD).read_bytes())
            given["label"] = Label(**given["label"])
            given["cgroups"] = tuple(given["cgroups"])
            return Record(**{field.name: given[field.name] for field in fields(Record) if field.name in given})
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return None

    def by_id(self, container_id: str) -> Record | None:
        found = self.read(name_of(container_id))
        return found if found is not None and found.container_id == container_id else None

    def all(self) -> Iterator[Record]:
        try:
            names = sorted(folder.name for folder in self._root.iterdir())
        except FileNotFoundError:
            return
        for name in names:
            if (found := self.read(name)) is not None:
                yield found

    def write(self, record: Record) -> None:
        folder = self.folder(record.name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(folder / RECORD, json.dumps(asdict(record)))

    def mark_stopping(self, record: Record) -> None:
        self.write(replace(record, stopping=True))

    def remove(self, name: str) -> None:
        """The record first: from then on there is no such container."""
        (self.folder(name) / RECORD).unlink(missing_ok=True)
        shutil.rmtree(self.folder(name), ignore_errors=True)

    def remove_leftovers(self) -> None:
        """Folders whose maker died before it wrote a record."""
        for folder in self._root.iterdir():
            with contextlib.suppress(FileNotFoundError):
                self._remove_leftover(folder)

    @staticmethod
    def _remove_leftover(folder: Path) -> None:
        if not (folder / RECORD).exists() and time.time() - folder.stat().st_mtime > LEFTOVER_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)

    def seen(self, record: Record, *, out_of_memory: bool) -> SeenContainer:
        folder = self.folder(record.name)
        running = record.runs()
        exit_code, ended_at = (None, None) if running else _bubblewrap_exit(folder / "ended")
        state = _state(folder / "state")
        return SeenContainer(
            container_id=record.container_id,
            name=record.name,
            label=record.label,
            volume=record.volume,
            running=running,
            placeholder=record.placeholder,
            spec_hash=record.spec_hash,
            started_at=datetime.fromisoformat(record.started_at) if record.started_at else None,
            ended_at=ended_at,
            exit_code=exit_code,
            out_of_memory=out_of_memory,
            restarts=state.get("restarts", 0),
            crashes_in_a_row=state.get("crashes_in_a_row", 0),
            command_exit_code=state.get("command_exit_code"),
        )


def name_of(container_id: str) -> str:
    return container_id.partition(".")[2]


def new_id(name: str) -> str:
    return f"{os.urandom(8).hex()}.{name}"


def _state(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes() or b"{}")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _bubblewrap_exit(path: Path) -> tuple[int | None, datetime | None]:
    """Bubblewrap adds a line of JSON when the inside has ended; where it was killed itself, nobody knows."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        ended_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return None, None
    for line in lines:
        if '"exit-code"' in line:
            return int(json.loads(line)["exit-code"]), ended_at
    return None, None
