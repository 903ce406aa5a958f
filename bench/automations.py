"""How long an event takes from being seen to its run being accepted, and which step takes the time.

    make bench B=automations

The API and the process `events` as the product starts them, one of each, and no worker: the runs stay queued. Events
come as signed hooks, at a steady pace and all at once; times are the database's own. The aim is a p95 of 1 s.

One run on two cores with nothing else to do:

    2 a second       p50  0.187 s   p95  0.292 s
    20 a second      p50  0.635 s   p95  0.804 s
    100 at once      p50  2.163 s   p95  3.511 s

What an event costs the process of filters, and with a child for each filter, as it was, at a load of 14 to 17:

    1 filter,  1 KiB      21 ms of a core     (38)     before    40 ms
    10 filters, 1 KiB     22 ms               (38)     before   459 ms
    1 filter,  256 KiB    23 ms               (41)     before    43 ms

An event costs the process `events` itself about 15 ms of a core, so that the machine decides how many a second are too
many: at a load of 11 to 16 twenty a second had a p95 of 1.2 to 2.4 s, and before the dispatcher woke the buyer 5 to
13 s.
"""

import base64
import hashlib
import hmac
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psycopg

from bench._cpu import with_children_ms
from bench._servers import REPOSITORY, Server, Stage, ours, stage
from ops.automations.rules.filtering import FilterWorker

SOURCE: Final = "bench"
SENDERS: Final = 8
AIM_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 120.0

_TIMES: Final = """
SELECT extract(epoch FROM task.created_at - event.seen_at)::float8,
       extract(epoch FROM attempt.began_at - task.created_at)::float8,
       extract(epoch FROM attempt.accepted_at - attempt.began_at)::float8,
       extract(epoch FROM attempt.accepted_at - event.seen_at)::float8
  FROM automation_event event JOIN automation_task task ON task.event_id = event.event_pk
  JOIN automation_attempt attempt USING (task_id)
 WHERE event.payload -> 'body' ->> 'scene' = %s AND attempt.accepted_at IS NOT NULL
"""
STEPS: Final = ("dispatched", "begun", "bought", "in all")


@dataclass(frozen=True)
class Scene:
    name: str
    events: int
    per_second: float | None
    """None: all at once."""


FILTERS: Final = ((1, 1), (10, 1), (1, 256))
"""How many rules' filters an event is asked by, the last of which matches, and of how many KiB it is."""
ASKED: Final = 50

SCENES: Final = (Scene("2 a second", 40, 2), Scene("20 a second", 200, 20), Scene("100 at once", 100, None))


@dataclass(frozen=True)
class Hooks:
    """A sender of signed hooks, as GitHub signs them."""

    server: Server
    secret: str

    def send(self, scene: str) -> None:
        """Until it is taken."""
        body = json.dumps({"scene": scene, "number": uuid.uuid4().hex}).encode()
        signature = f"sha256={hmac.digest(self.secret.encode(), body, hashlib.sha256).hex()}"
        headers = {"content-type": "application/json", "x-hub-signature-256": signature}
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
            try:
                connection.request("POST", f"/api/automations/hooks/{SOURCE}", body, headers)
                status = connection.getresponse().status
            finally:
                connection.close()
            if status == 202:
                return
            if status not in {429, 503}:
                raise SystemExit(f"a hook was answered {status}")
            time.sleep(0.5)


def main() -> None:
    measure_filters()
    os.environ.setdefault("DPP_ENCRYPTION_KEYS", base64.b64encode(os.urandom(32)).decode("ascii"))
    with stage() as here, ours(here) as server, events_process(here):
        hooks = Hooks(server, made_source(here))
        make_rule(here)
        measure(here, hooks, Scene("warming up", 10, 5), say=False)
        print(f"{os.cpu_count()} cores, load averages {_load()} before", flush=True)
        for scene in SCENES:
            measure(here, hooks, scene)
        print(f"load averages {_load()} after; the aim is a p95 of {AIM_SECONDS:.0f} s in all", flush=True)


def measure_filters() -> None:
    """What an event costs the process of filters, its children included, and how long it is waited for."""
    worker = FilterWorker()
    for count, kib in FILTERS:
        filters = [*(['event.action == "closed"'] * (count - 1)), 'event.action == "opened"']
        event = {"action": "opened", "text": "x" * kib * 1_024}
        worker.ask(filters, event)
        pid = worker.pid
        assert pid is not None  # it was asked
        before, waits = with_children_ms(pid), []
        for _ in range(ASKED):
            began = time.monotonic()
            worker.ask(filters, event)
            waits.append(time.monotonic() - began)
        spent = (with_children_ms(pid) - before) / ASKED
        print(f"{count:2} filters, {kib:3} KiB  {spent:6.2f} ms of a core an event   {_figures(waits)}", flush=True)
    worker.end()


@contextmanager
def events_process(here: Stage) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-m", "dpp_project.serve", "events"],
        cwd=REPOSITORY,
        env=here.environ | {"DPP_SERVICE": "events"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.terminate()


def made_source(here: Stage) -> str:
    """Its signing secret."""
    _automations(here, "tenant", here.tenant_id, "--by", "bench")
    said = _automations(here, "source", "make", SOURCE, "--kind", "HOOK", "--config", '{"form": "github"}', "--json")
    return str(json.loads(said)["secret"])


def make_rule(here: Stage) -> None:
    rule = {
        "name": "bench",
        "source": SOURCE,
        "tenant": here.tenant_id,
        "filter": 'event.body.scene != "none"',
        "pack_type": "probe",
        "inputs": {"sleep_ms": 1},
        "max_cost_usd": "0.0100",
        "runs_per_hour": 100_000,
        "usd_per_day": "1000.0000",
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(rule, file)
        file.flush()
        _automations(here, "add", "--file", file.name, "--by", "bench")


def _automations(here: Stage, *arguments: str) -> str:
    command = [sys.executable, "manage.py", "automations", *arguments]
    environ = here.environ | {"DPP_LOG_LEVEL": "WARNING"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"automations {arguments}: {done.stdout} {done.stderr}")
    return done.stdout


def measure(here: Stage, hooks: Hooks, scene: Scene, *, say: bool = True) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor(SENDERS) as senders:
        for number in range(scene.events):
            if scene.per_second is not None:
                time.sleep(max(0.0, began + number / scene.per_second - time.monotonic()))
            senders.submit(hooks.send, scene.name).add_done_callback(_raised)
    found = accepted(here, scene)
    if not say:
        return
    for step, values in zip(STEPS, zip(*found, strict=True), strict=True):
        if step != STEPS[-1]:
            print(f"    {step:12} {_figures(values)}", flush=True)
    print(f"{scene.name:16} {_figures([row[-1] for row in found])}   n {len(found)}", flush=True)


def accepted(here: Stage, scene: Scene) -> list[tuple[float, ...]]:
    """The steps of each event, once all of them have a run."""
    until = time.monotonic() + PATIENCE_SECONDS
    with psycopg.connect(here.environ["DATABASE_URL"], autocommit=True) as connection:
        while len(found := connection.execute(_TIMES, [scene.name]).fetchall()) < scene.events:
            if time.monotonic() > until:
                raise SystemExit(f"{scene.name}: {len(found)} of {scene.events} events have a run")
            time.sleep(0.25)
    return found


def _raised(sent: Future[None]) -> None:
    if (error := sent.exception()) is not None:
        print(f"a sender failed: {error!r}", flush=True)


def _figures(seconds: Sequence[float]) -> str:
    p95 = statistics.quantiles(seconds, n=20)[-1]
    return f"p50 {statistics.median(seconds):6.3f} s   p95 {p95:6.3f} s   worst {max(seconds):6.3f} s"


def _load() -> str:
    return " ".join(f"{one:.1f}" for one in os.getloadavg())


if __name__ == "__main__":
    main()
