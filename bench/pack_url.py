"""A url run of 30 pages on loopback, two of them too slow: seconds beyond the deadline of a page.

    make bench B=pack_url

Through the box, with TLS and text extraction, servers and pack on the same cores. Promised: deadline + 1 s. The memory
is the largest private memory of the job and of all it started. The processor's time is the job's, children included,
and beside it what its worker spent, servers left out.
"""

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

from dpp_project.processes import process_tree
from runs.box.box import Box
from runs.box.outcomes import Done
from runs.box.running import PackRequest
from runs.packs import url
from runs.packs.pack import MEBIBYTE
from tests.gear.builders.packs import no_upload
from tests.gear.servers.web import Web

PAGES = 30
SLOW = 2


class Watch(threading.Thread):
    """The most that a process and its descendants held at once."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._base = process_tree.process_memory(pid).private
        self._over = threading.Event()
        self.most = 0

    def run(self) -> None:
        while not self._over.wait(0.02):
            members = [pid for pid in process_tree.process_tree_of(self._pid) if pid != self._pid]
            self.most = max(
                self.most, sum(max(0, process_tree.process_memory(pid).private - self._base) for pid in members)
            )

    def end(self) -> int:
        self._over.set()
        self.join()
        return self.most


def job(web: Web, timeout: int) -> PackRequest:
    names = [f"p{number}.many.example" for number in range(PAGES)]
    paths = ["slow"] * SLOW + ["ok"] * (PAGES - SLOW)
    allowance = {
        "DPP_URL_PRIVATE_HOSTS": ",".join(f"{name}=127.0.0.1:{web.good}" for name in names),
        "DPP_URL_CA_FILE": str(web.ca_file),
    }
    return PackRequest(
        run_id="bench",
        module=url.__name__,
        inputs={
            "urls": [f"https://{name}/{path}" for name, path in zip(names, paths, strict=True)],
            "fetch_timeout_sec": timeout,
        },
        timebox_seconds=60,
        ceiling_micros=1_000_000,
        memory_bytes=url.PACK.memory_bytes,
        reach=url.PACK.reach(allowance),
        environment=url.PACK.job_environment(allowance),
    )


def job_milliseconds(zygote: int) -> float:
    """Of all jobs of this zygote that have ended."""
    after_name = Path(f"/proc/{zygote}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(after_name[13]) + int(after_name[14])) * 1_000 / os.sysconf("SC_CLK_TCK")


def worker_milliseconds(*others: int | None) -> float:
    """Of this process's threads but those that serve the pages and watch."""
    return sum(
        int((task / "schedstat").read_text(encoding="utf-8").split()[0]) / 1e6
        for task in Path("/proc/self/task").iterdir()
        if int(task.name) not in others
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--timeout", type=int, default=2)
    chosen = parser.parse_args()
    web = Web(Path(tempfile.mkdtemp()))
    box = Box([url.__name__], may_read=[str(web.ca_file)])
    nursery, _ = box.ready(url.__name__)
    (zygote,) = process_tree.child_processes(nursery.pid)
    print(f"{'pages':>6} {'seconds':>8} {'beyond the deadline':>20} {'MiB':>5} {'job ms':>7} {'worker ms':>9}")
    for _ in range(chosen.runs):
        watch = Watch(zygote)
        watch.start()
        others = web.thread_id, watch.native_id
        of_job, of_worker = job_milliseconds(zygote), worker_milliseconds(*others)
        started = time.monotonic()
        found = box.start(job(web, chosen.timeout), fetch_upload=no_upload, log=lambda *_args, **_values: None).wait()
        seconds = time.monotonic() - started
        of_job, of_worker = job_milliseconds(zygote) - of_job, worker_milliseconds(*others) - of_worker
        most = watch.end()
        assert isinstance(found, Done), found
        results = found.data["results"]
        assert isinstance(results, list)
        late = seconds - chosen.timeout
        print(f"{len(results):6d} {seconds:8.2f} {late:20.2f} {most // MEBIBYTE:5d} {of_job:7.0f} {of_worker:9.1f}")
    box.close()
    web.close()


if __name__ == "__main__":
    main()
