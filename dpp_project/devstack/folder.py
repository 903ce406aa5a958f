"""The folder of a devstack: data, ports, secrets, pids, logs."""

import fcntl
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dpp_project.devstack.programs import REPOSITORY
from dpp_project.env_file import write_whole

TAIL_BYTES = 200_000
DEFAULT = REPOSITORY / ".devstack"


@dataclass(frozen=True)
class Folder:
    root: Path

    def make(self) -> None:
        for folder in (self.root, self.pids, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o700)

    @property
    def pids(self) -> Path:
        return self.root / "pids"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def env(self) -> Path:
        return self.root / "env"

    @property
    def ports(self) -> Path:
        return self.root / "ports.json"

    @property
    def supervisor_pid(self) -> Path:
        return self.root / "supervisor.pid"

    def pid_file(self, name: str) -> Path:
        return self.pids / f"{name}.pid"

    def drill(self, name: str) -> Path:
        """KEY=VALUE lines over the environment of one program from its next start on; no file, no change."""
        return self.root / "drills" / f"{name}.env"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def end_of_log(self, name: str, lines: int = 20) -> str:
        path = self.log(name)
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return "\n".join(log.read().decode("utf-8", errors="replace").splitlines()[-lines:])

    def try_lock(self, name: str) -> IO[str] | None:
        """Take an exclusive lock that ends with its process; None while another holds it. Keep the returned object."""
        holder = (self.root / f"{name}.lock").open("a", encoding="ascii")
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder.close()
            return None
        return holder

    def lock_within(self, name: str, *, seconds: float) -> IO[str] | None:
        """As `try_lock`, retried for a while: a process that only checks the lock holds it for a moment."""
        end = time.monotonic() + seconds
        while (holder := self.try_lock(name)) is None and time.monotonic() < end:
            time.sleep(0.02)
        return holder

    def write_status(self, status: dict[str, Any]) -> None:
        write_whole(self.root / "status.json", json.dumps(status, indent=1))

    def read_status(self) -> dict[str, Any]:
        try:
            loaded = json.loads((self.root / "status.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return loaded if isinstance(loaded, dict) else {}
