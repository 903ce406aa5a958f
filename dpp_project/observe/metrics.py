"""Prometheus metrics: counts of the processes, and levels read from the services at a scrape.

Counters and histograms live in prometheus_client's registry. Each service, of which there may be several processes,
keeps a folder of its own in DPP_METRICS_DIR (serve.py), and every page adds all of them up. What a killed child
counted stays in the sums; what a service counted goes when it starts again, which a scraper takes for the reset it is.

Levels (queue depth, job ages) are read at the scrape by collectors that each `metrics.py` registers here; a collector
that fails is counted, and the rest of the page stands. `dpp_project.discovery` finds every `metrics.py`.
"""

import hashlib
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

log = structlog.get_logger("dpp.metrics")

FRESH_SECONDS = 1.0
Collect = Callable[[], Iterable[Metric]]
_collectors: dict[str, Collect] = {}


def metrics_collector(name: str) -> Callable[[Collect], Collect]:
    """Register a function that reads levels at the scrape."""

    def register(collect: Collect) -> Collect:
        _collectors[name] = collect
        return collect

    return register


class _Levels(Collector):
    def collect(self) -> Iterable[Metric]:
        failed = GaugeMetricFamily(
            "dpp_collector_failed", "1 where a source of levels did not answer.", labels=["name"]
        )
        for name, collect in sorted(_collectors.items()):
            try:
                found = list(collect())
            except Exception as error:  # one source that is away hides no other's levels
                log.warning("collector failed", collector=name, exc_info=error)
                failed.add_metric([name], 1)
            else:
                failed.add_metric([name], 0)
                yield from found
        yield failed


class CountsOfProcesses(Collector):
    def __init__(self, root: Path) -> None:
        self._root = root

    def collect(self) -> Iterable[Metric]:
        files = [str(path) for path in sorted(self._root.glob("*/*.db"))]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return merged


def default_root(identity: str) -> Path:
    """For the processes of one platform and one user on this machine, in the folder for temporary files.

    Its name can be foreseen, so another user might have made it: then it is refused.
    """
    name = hashlib.sha256(identity.encode()).hexdigest()[:16]
    root = Path(tempfile.gettempdir()) / f"dpp-metrics-{os.getuid()}-{name}"
    root.mkdir(mode=0o700, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{root} is not a folder of this user alone; set DPP_METRICS_DIR")
    return root


def own_folder(root: Path, part: str) -> Path:
    """An empty one for this service, which is about to become its process; what its dead predecessors left goes."""
    mine = f"{part}-{socket.gethostname()}-"
    for folder in root.glob(f"{mine}*"):
        pid = folder.name.removeprefix(mine)
        if pid == str(os.getpid()) or not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)
    folder = root / f"{mine}{os.getpid()}"
    folder.mkdir(parents=True)
    return folder


class _LatestPage:
    """One computing a second and process, however many ask: a page asks Postgres, Redis and SQS."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at = float("-inf")
        self._page = b""

    def get(self) -> bytes:
        with self._lock:
            if time.monotonic() - self._at >= FRESH_SECONDS:
                self._page = render_metrics()
                self._at = time.monotonic()
            return self._page


_latest = _LatestPage()


def latest_metrics() -> bytes:
    return _latest.get()


def render_metrics() -> bytes:
    """The scrape: counts of all processes, then the levels."""
    counts: CollectorRegistry = REGISTRY
    if own := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        counts = CollectorRegistry()
        counts.register(CountsOfProcesses(Path(own).parent))
    levels = CollectorRegistry()
    levels.register(_Levels())
    return generate_latest(counts) + generate_latest(levels)
