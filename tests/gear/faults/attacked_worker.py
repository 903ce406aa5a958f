"""A worker whose jobs attack it: runs the table of tests/gear/faults/attacks/ and says what came of each.

    python -m tests.gear.faults.attacked_worker FOLDER [open]

Beside the attacker there are a worker with secrets in its environment, its nursery and zygote, another tenant's job at
work, files that are nobody's business, and servers on every kind of socket. One line of JSON an attack: what it
reached, and what was not as before when it was over. `open` takes the layers away (they are what is tested), and tries
only what does no harm.
"""

import ctypes
import json
import os
import resource
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpp_project.processes import process_tree
from runs.box import launch
from runs.box.box import Box
from runs.box.outcomes import Done
from runs.box.running import PackRequest
from runs.packs.pack import MEBIBYTE
from tests.gear.builders.box import lives
from tests.gear.builders.packs import PackLog, no_upload
from tests.gear.faults import attacks, unsealed
from tests.gear.waiting import wait_until

MODULE = attacks.__name__
OUTSIDE = [Path(path) for path in ("/tmp", "/var/tmp", "/run", "/dev/shm")]  # noqa: S108


class Surroundings:
    """What an attack could reach, and whether it did."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("state", "env"):
            (folder / name).write_text(attacks.CANARY, encoding="ascii")
        home = Path("/root/.profile")
        mark = f"dpp-attacked-{os.getpid()}"
        self._shm = Path("/dev/shm") / mark  # noqa: S108
        self._shm.write_text(attacks.CANARY, encoding="ascii")
        self._tcp = socket.create_server(("127.0.0.1", 0))
        port = self._tcp.getsockname()[1]
        self._servers = [self._tcp]
        if socket.has_ipv6:
            self._servers.append(socket.create_server(("::1", port), family=socket.AF_INET6))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", port))
        for address in (str(folder / "socket"), "\0" + mark):
            unix = socket.socket(socket.AF_UNIX)
            unix.bind(address)
            unix.listen()
            self._servers.append(unix)
        for one in (*self._servers, self._udp):
            one.setblocking(False)
        self._sysv = ctypes.CDLL(None).shmget(0, 4096, 0o1600)
        self.target: dict[str, Any] = {
            "worker": os.getpid(),
            "state": str(folder / "state"),
            "env": str(folder / "env"),
            "home": str(home),
            "code": str(Path(launch.ROOT) / "pyproject.toml"),
            "folder": str(folder),
            "unix": str(folder / "socket"),
            "abstract": mark,
            "tcp": port,
            "sysv": self._sysv,
            "shm": str(self._shm),
        }

    def meet(self, box: Box, log: PackLog) -> None:
        wait_until(lambda: log.events, what="the other tenant's job")
        nursery = box.nursery_pid()
        assert nursery is not None
        (zygote,) = process_tree.child_processes(nursery)
        (sibling,) = process_tree.child_processes(zygote)
        self.target |= {"nursery": nursery, "zygote": zygote, "sibling": sibling}
        self.before = self._look()

    def close(self) -> None:
        for left in (self._shm, *self._left()):
            left.unlink(missing_ok=True)
        ctypes.CDLL(None).shmctl(self._sysv, 0, None)

    def differs(self) -> list[str]:
        now = self._look()
        return [f"{what}: {self.before[what]} -> {now[what]}" for what in self.before if self.before[what] != now[what]]

    def _look(self) -> Mapping[str, object]:
        who = [self.target[name] for name in attacks.WHO.split()]
        files = [path.lstat() for path in (self._folder, *sorted(self._folder.iterdir()))]
        return {
            "alive": [lives(pid) and _state(pid) != "T" for pid in who],
            "priorities": [(os.getpriority(os.PRIO_PROCESS, pid), sorted(os.sched_getaffinity(pid))) for pid in who],
            "limits": resource.getrlimit(resource.RLIMIT_CORE),
            "files": [(one.st_mode, one.st_size, one.st_mtime, one.st_nlink) for one in files],
            "names": sorted(path.name for path in self._folder.iterdir()),
            "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
            "called": [self._called(one) for one in (*self._servers, self._udp)],
            "strays": [pid for pid in _processes() if _name(pid) == attacks.STRAY.format(worker=os.getpid())],
            "left": sorted(path.name for path in self._left()),
        }

    def _left(self) -> list[Path]:
        return [path for folder in OUTSIDE for path in folder.glob(attacks.LEFT.format(worker=os.getpid()) + "*")]

    def _called(self, one: socket.socket) -> bool:
        try:
            one.recv(1) if one is self._udp else one.accept()[0].close()
        except BlockingIOError:
            return False
        return True


def _processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _name(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def _attacked(box: Box, around: Surroundings, name: str) -> dict[str, Any]:
    outcome = box.start(_job("ATTACK", around.target | {"name": name}), fetch_upload=no_upload, log=PackLog()).wait()
    found = dict(outcome.data) if isinstance(outcome, Done) else {"reached": None, "ended": str(outcome)}
    return found | {"name": name, "after": around.differs()}


def _job(attribute: str, target: Mapping[str, Any], *, seconds: float = 15.0) -> PackRequest:
    return PackRequest(
        run_id="a-run",
        module=MODULE,
        attribute=attribute,
        inputs={"key": json.dumps(target)},
        timebox_seconds=seconds,
        ceiling_micros=1_000,
        memory_bytes=512 * MEBIBYTE,
    )


def main(folder: str, *words: str) -> None:
    names = list(attacks.ATTACKS)
    if "open" in words:
        unsealed.install_in_worker()
        names = [name for name in names if name not in attacks.DESTRUCTIVE]
    around = Surroundings(Path(folder))
    box = Box([MODULE])
    log = PackLog()
    victim = box.start(_job("VICTIM", {}, seconds=300), fetch_upload=no_upload, log=log)
    waiting = threading.Thread(target=victim.wait)
    waiting.start()
    try:
        around.meet(box, log)
        for name in [word for word in words if word != "open"] or names:
            sys.stdout.write(json.dumps(_attacked(box, around, name)) + "\n")
            sys.stdout.flush()
    finally:
        victim.stop()
        waiting.join()
        box.close()
        around.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
