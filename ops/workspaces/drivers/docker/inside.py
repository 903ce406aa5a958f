"""What lies on the host for each container: its init, its config, its control socket, its ring of logs.

    run/NAME.RANDOM/init.py control config ring state stopping
    starts/VOLUME                  how often a container was started on it

The folder is made before the container, which names it in a label; one that none names is removed an hour later.
It is root's: inside, a tenant's process is not root and cannot enter it.
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from dpp_project.env_file import write_whole
from ops.workspaces.drivers.base import HOME, LogPage, WorkspaceSpec
from ops.workspaces.drivers.init_client import InitClient
from ops.workspaces.drivers.process.starting import InitTimes, connect_control
from ops.workspaces.init import pid1
from ops.workspaces.init.pid1 import LogRing

TENANT: Final = (1_000, 1_000)
AT: Final = "/run/dpp"
RING_BYTES: Final = 1_048_576
LEFTOVER_SECONDS: Final = 3_600
COMMAND: Final = ("/bin/sh", "-c", f"exec python3 -I -S {AT}/init.py {AT}")
_ENVIRONMENT: Final = {
    "HOME": HOME,
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "USER": "user",
}


@dataclass(frozen=True, slots=True)
class Inside:
    root: Path
    times: InitTimes

    def make(self, name: str, spec: WorkspaceSpec) -> Path:
        folder = self.root / f"{name}.{os.urandom(8).hex()}"
        folder.mkdir(mode=0o700, parents=True)
        (folder / "init.py").write_bytes(Path(pid1.__file__).read_bytes())
        words = {
            "command": list(spec.command),
            "environment": {**_ENVIRONMENT, **spec.environment},
            "home": HOME,
            "run_as": list(TENANT),
            "rlimits": [],
            **asdict(self.times),
        }
        (folder / "config").write_text(json.dumps(words), encoding="utf-8")
        with (folder / "ring").open("w+b") as ring:
            LogRing(ring.fileno(), RING_BYTES).create()
        (folder / "state").touch(mode=0o600)
        return folder

    def client(self, folder: Path, *, answer_seconds: float) -> InitClient:
        return InitClient(lambda seconds: connect_control(folder, seconds), answer_seconds=answer_seconds)

    def logs(self, folder: Path, *, offset: int, bytes_max: int) -> LogPage:
        try:
            with (folder / "ring").open("rb") as ring:
                content, begin = LogRing(ring.fileno()).read(offset, bytes_max)
        except FileNotFoundError:
            return LogPage(b"", offset, dropped=False)
        return LogPage(content, begin + len(content), dropped=begin > offset)

    def state(self, folder: Path) -> Mapping[str, Any]:
        try:
            found = json.loads((folder / "state").read_bytes() or b"{}")
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def mark_stopping(self, folder: Path) -> None:
        (folder / "stopping").touch()

    def is_stopping(self, folder: Path) -> bool:
        return (folder / "stopping").exists()

    def starts(self, volume: str) -> int:
        try:
            return int((self.counts / volume).read_bytes())
        except (FileNotFoundError, ValueError):
            return 0

    def count_start(self, volume: str) -> None:
        """Before anything of the tenant runs on it. Died after it: counted once too often, which only asks for care."""
        self.counts.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.counts / ".lock").open("a", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            write_whole(self.counts / volume, str(self.starts(volume) + 1))

    def forget_starts(self, volume: str) -> None:
        (self.counts / volume).unlink(missing_ok=True)

    @property
    def counts(self) -> Path:
        return self.root.parent / "starts"

    def remove(self, folder: Path) -> None:
        if folder.parent == self.root:
            shutil.rmtree(folder, ignore_errors=True)

    def remove_leftovers(self, *, known: Iterable[str]) -> None:
        kept = set(known)
        if self.root.is_dir():
            for folder in self.root.iterdir():
                if str(folder) not in kept and time.time() - folder.stat().st_mtime > LEFTOVER_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)
