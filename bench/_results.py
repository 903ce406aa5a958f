"""What `make bench` keeps: bench/results/latest.json, with the machine and the versions that it was measured on."""

import json
import os
import platform
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import psycopg
import redis

from bench._figures import Figure
from dpp_project import clock

PATH: Final = Path(__file__).resolve().parent / "results" / "latest.json"
PACKAGES: Final = ("Django", "djangorestframework", "celery", "granian", "psycopg", "redis")
_SAMPLE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Kept:
    """One bench's figures, when it ran and beside what."""

    figures: tuple[Figure, ...]
    measured: str
    seconds: float
    busy_cores: float
    """Of the machine, just before, by all that ran on it."""
    failed: str | None = None

    @classmethod
    def now(cls, figures: list[Figure], seconds: float, busy: float, failed: str | None) -> "Kept":
        return cls(tuple(figures), f"{clock.now().astimezone(UTC):%Y-%m-%d}", round(seconds), round(busy, 1), failed)

    def document(self) -> dict[str, Any]:
        head = {"measured": self.measured, "seconds": self.seconds, "busy_cores": self.busy_cores}
        return {**head, "failed": self.failed, "figures": [figure.document() for figure in self.figures]}


@dataclass(frozen=True, slots=True)
class Results:
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    benches: Mapping[str, Kept] = field(default_factory=dict)

    @classmethod
    def anew(cls) -> "Results":
        return cls(this_machine(), these_versions())

    def with_one(self, name: str, kept: Kept) -> "Results":
        """Beside the others, if those are of this machine; versions are those of the last bench."""
        here = this_machine()
        others = self.benches if here == self.machine else {}
        return Results(here, these_versions(), {**others, name: kept})

    def document(self) -> dict[str, Any]:
        benches = {name: self.benches[name].document() for name in sorted(self.benches)}
        return {"machine": dict(self.machine), "versions": dict(self.versions), "benches": benches}


def read(path: Path = PATH) -> Results:
    """Those of another machine, or none, where nothing was kept on this one."""
    if not path.exists():
        return Results({}, {})
    found = json.loads(path.read_text(encoding="utf-8"))
    benches = {}
    for name, kept in found["benches"].items():
        figures = tuple(Figure(**figure) for figure in kept.pop("figures"))
        benches[name] = Kept(figures, **kept)
    return Results(found["machine"], found["versions"], benches)


def write(results: Results, path: Path = PATH) -> None:
    path.parent.mkdir(exist_ok=True)
    whole = path.with_suffix(".new")
    whole.write_text(json.dumps(results.document(), indent=1) + "\n", encoding="utf-8")
    whole.replace(path)


def this_machine() -> dict[str, Any]:
    cpus = re.findall(r"^model name\s*: (.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    kib = re.search(r"^MemTotal:\s+(\d+)", _read("/proc/meminfo"), re.MULTILINE)
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": cpus[0] if cpus else platform.machine(),
        "memory_gib": round(int(kib[1]) / 1_048_576) if kib else 0,
        "system": f"{platform.system()} {platform.machine()}",
    }


def these_versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        found[name] = metadata.version(name)
    with psycopg.connect(os.environ["DATABASE_URL"]) as postgres:
        (found["Postgres"],) = postgres.execute("SHOW server_version").fetchone() or ("",)
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as server:
        found["Valkey"] = str(server.info("server")["valkey_version"])
    return found


def busy_cores() -> float:
    """How many cores all processes of the machine use, over one second."""
    before = _cpu_times()
    time.sleep(_SAMPLE_SECONDS)
    busy, total = (now - then for now, then in zip(_cpu_times(), before, strict=True))
    return busy / total * (os.cpu_count() or 1) if total else 0.0


def _cpu_times() -> tuple[int, int]:
    ticks = [int(one) for one in _read("/proc/stat").splitlines()[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
