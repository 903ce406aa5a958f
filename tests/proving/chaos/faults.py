"""What can happen to the platform, and in what order: each kind once, shuffled by the seed, then again."""

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import TYPE_CHECKING, Any, Final

import boto3

from ops.workspaces.drivers.process.records import Containers
from tests.gear.faults.proxy import Mode
from tests.proving.chaos.customers import Customers
from tests.proving.chaos.stand import APPS, SERVICES, Stand

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

HOUR_SECONDS: Final = 3_600
BACK_WITHIN_SECONDS: Final = 60.0
"""DPP-39: what was away for half a minute is survived, and all is well a minute after it is back."""
PAST_THE_LEASE_SECONDS: Final = 135.0
DUPLICATES: Final = 10
RUNS_WITHIN_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Kind:
    """`strike` begins it and says what exactly; after `holds` seconds `lift` ends it."""

    name: str
    strike: Callable[["Scenery"], str]
    holds: tuple[float, float] = (0.0, 0.0)
    lift: Callable[["Scenery"], None] = lambda _scenery: None


@dataclass(frozen=True)
class Scenery:
    stand: Stand
    customers: Customers
    chance: random.Random


@dataclass
class Event:
    """One fault, as it went. Times in seconds; None: not seen before the next one came."""

    kind: str
    what: str
    at: float
    lasted: float = 0.0
    accepted_meanwhile: int = 0
    serving_after: float | None = None
    ending_after: float | None = None


def _killed(*names: str) -> Callable[[Scenery], str]:
    def strike(scenery: Scenery) -> str:
        scenery.stand.kill(*names)
        return ", ".join(names)

    return strike


def _some_killed(scenery: Scenery) -> str:
    names = scenery.chance.sample((*APPS, *SERVICES), k=scenery.chance.choice([2, 3]))
    return _killed(*sorted(names))(scenery)


def _cut(service: str, how: str, *modes: Mode) -> Kind:
    def strike(scenery: Scenery) -> str:
        mode = scenery.chance.choice(modes)
        scenery.stand.proxies[service].set(mode)
        return f"{service}: {mode.value}"

    def lift(scenery: Scenery) -> None:
        scenery.stand.proxies[service].set(Mode.PASS)

    return Kind(f"{service} {how}", strike, (4.0, 12.0), lift)


def _stopped(name: str, seconds: tuple[float, float]) -> Kind:
    def strike(scenery: Scenery) -> str:
        scenery.stand.signal_group(name, SIGSTOP)
        return name

    return Kind(f"{name} stopped", strike, seconds, lambda scenery: scenery.stand.signal_group(name, SIGCONT))


def _slow(service: str, ms: int) -> Kind:
    """Each piece of what it says comes so much later."""

    def strike(scenery: Scenery) -> str:
        scenery.stand.proxies[service].delay(ms=ms)
        return f"{service}: {ms} ms"

    return Kind(f"{service} slow", strike, (6.0, 12.0), lambda scenery: scenery.stand.proxies[service].delay(ms=0))


def _init_killed(scenery: Scenery) -> str:
    """Of a workspace that runs, with all that runs in it; soon one does."""
    kept = Containers(Path(scenery.stand.values["DPP_WORKSPACES_DIR"]) / "containers")
    until = time.monotonic() + RUNS_WITHIN_SECONDS
    while not (running := [record for record in kept.all() if record.runs()]):
        if time.monotonic() > until:
            return "none ran"
        time.sleep(0.1)
    chosen = scenery.chance.choice(running)
    with suppress(ProcessLookupError):
        os.kill(chosen.pid, SIGKILL)
    return chosen.name


def _clock(name: str) -> Kind:
    def strike(scenery: Scenery) -> str:
        offset = scenery.chance.choice([-HOUR_SECONDS, HOUR_SECONDS])
        scenery.stand.set_clock(name, offset)
        return f"{name} {offset:+d} s"

    return Kind(f"clock of {name} an hour off", strike, (8.0, 14.0), lambda scenery: scenery.stand.set_clock(name, 0))


def _flushed(scenery: Scenery) -> str:
    scenery.stand.redis().flushall()
    return "FLUSHALL"


def _rolled_back(scenery: Scenery) -> str:
    """To what it was some seconds ago: money has moved since then."""
    scenery.stand.save_image()
    before = len(scenery.customers.books.accepted())
    until = time.monotonic() + scenery.chance.uniform(2, 5)
    while time.monotonic() < until:
        time.sleep(0.1)
    scenery.stand.restore_image()
    return f"an image {len(scenery.customers.books.accepted()) - before} runs older"


def _duplicated(scenery: Scenery) -> str:
    """Messages of runs that wait, work and have ended, ten times each."""
    known = scenery.customers.books.accepted()
    chosen = known[-12:] + scenery.chance.sample(known, k=min(8, len(known)))
    queue = _queue(scenery.stand)
    runs = [[str(order.run_id), order.account.tenant_id, order.pack_type] for order in chosen]
    sealed = json.loads(scenery.stand.python(_SEALED, json.dumps(runs), str(DUPLICATES)))
    for bodies in sealed:
        queue.send_message_batch(
            QueueUrl=scenery.stand.values["DPP_QUEUE_URL"],
            Entries=[{"Id": str(number), "MessageBody": body} for number, body in enumerate(bodies)],
        )
    return f"{len(chosen)} runs x {DUPLICATES} messages"


_SEALED: Final = """
import json, sys
from dpp_project.celery_sqs import celery_message
def sealed(run_id, tenant_id, pack_type):
    kwargs = {"run_id": run_id, "tenant_id": tenant_id, "pack_type": pack_type,
              "enqueued_at": "2026-03-01T12:00:00Z", "schema_version": "1"}
    return celery_message.pack_celery_message(task="runs.tasks.execute", kwargs=kwargs, queue="runs", trace_id=None)
print(json.dumps([[sealed(*run) for _ in range(int(sys.argv[2]))] for run in json.loads(sys.argv[1])]))
"""
"""Run with the platform's settings: its messages are sealed with its secret."""


def _queue(stand: Stand) -> "SQSClient":
    made: Any = boto3.client(
        "sqs",
        endpoint_url=stand.values["SQS_ENDPOINT_URL"],
        region_name=stand.values["AWS_REGION"],
        aws_access_key_id=stand.values["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=stand.values["AWS_SECRET_ACCESS_KEY"],
    )
    return made  # type: ignore[no-any-return]


KINDS: Final = (
    *(Kind(f"{name} killed", _killed(name)) for name in (*APPS, *SERVICES)),
    Kind("some killed together", _some_killed),
    Kind("all killed together", _killed(*APPS, *SERVICES)),
    Kind("init of a workspace killed", _init_killed),
    Kind("redis flushed", _flushed),
    Kind("redis rolled back", _rolled_back),
    Kind("messages doubled ten times", _duplicated),
    *(_cut(name, "cut off", Mode.REFUSE, Mode.RESET) for name in SERVICES),
    *(_cut(name, "in a black hole", Mode.BLACK_HOLE) for name in SERVICES),
    _slow("aws", 400),
    _stopped("worker", (8.0, 14.0)),
    _stopped("api", (5.0, 10.0)),
    _stopped("events", (8.0, 14.0)),
    _stopped("workspaces", (8.0, 14.0)),
    _stopped("beat", (22.0, 28.0)),  # past the leases of its jobs
    *(_stopped(name, (3.0, 8.0)) for name in SERVICES),
    *(_clock(name) for name in APPS),
)

LEAST_FAULTS: Final = 2
"""However slow the machine: a day on which the platform came back from one fault shows little."""
QUICK: Final = (
    "api killed",
    "beat killed",
    "workspaces killed",
    "init of a workspace killed",
    "redis killed",
    "redis flushed",
    "redis rolled back",
    "messages doubled ten times",
)
"""What leaves nothing to a lease or a claim, mostly: for a short look."""


def deck(chance: random.Random, kinds: tuple[Kind, ...]) -> Iterator[Kind]:
    while True:
        yield from chance.sample(kinds, k=len(kinds))


class Injector:
    """Deals faults until the time is up. After each it waits until all is well, and says how long that took."""

    def __init__(self, scenery: Scenery, *, kinds: tuple[Kind, ...]) -> None:
        self._scenery = scenery
        self._kinds = kinds
        self._began = time.monotonic()
        self.events: list[Event] = []

    def run(self, *, seconds: float) -> None:
        until = self._began + seconds
        stopped = self._stop_second_ones() if seconds > PAST_THE_LEASE_SECONDS else None
        for number, kind in enumerate(deck(self._scenery.chance, self._kinds)):
            if number >= LEAST_FAULTS and time.monotonic() >= until:
                break
            self._one(kind)
            if stopped is not None and time.monotonic() - self._began - stopped.at > PAST_THE_LEASE_SECONDS:
                self._continue_second_ones(stopped)
                stopped = None
            time.sleep(self._scenery.chance.uniform(0.5, 3.0))
        if stopped is not None:
            self._continue_second_ones(stopped)

    def _one(self, kind: Kind) -> None:
        scenery, books = self._scenery, self._scenery.customers.books
        began, before = time.monotonic(), len(books.accepted())
        what = kind.strike(scenery)
        event = Event(kind.name, what, began - self._began)
        self.events.append(event)
        time.sleep(scenery.chance.uniform(*kind.holds))
        kind.lift(scenery)
        lifted = time.monotonic()
        event.lasted, event.accepted_meanwhile = lifted - began, len(books.accepted()) - before
        while time.monotonic() < lifted + BACK_WITHIN_SECONDS and event.ending_after is None:
            time.sleep(0.05)
            served, ended = books.first_served(lifted), books.first_ended(lifted)
            event.serving_after = None if served is None else served - lifted
            event.ending_after = None if ended is None else ended - lifted
        for name, after in (("accepts", event.serving_after), ("ends", event.ending_after)):
            if after is None:
                books.complain(f"{BACK_WITHIN_SECONDS:.0f} s after {kind.name} ({what}) the platform {name} no run yet")
        print(f"{event.at:6.1f} s  {kind.name}: {what}{_said(event)}", flush=True)  # noqa: T201

    def _stop_second_ones(self) -> Event:
        """With work in their hands, for longer than any lease: others end it, and they come back to nothing."""
        self._scenery.customers.order_long_ones(8)
        time.sleep(1.0)
        self._scenery.stand.second_ones(SIGSTOP)
        event = Event("second ones stopped past their leases", "SIGSTOP", time.monotonic() - self._began)
        self.events.append(event)
        return event

    def _continue_second_ones(self, event: Event) -> None:
        self._scenery.stand.second_ones(SIGCONT)
        event.lasted = time.monotonic() - self._began - event.at
        event.what = f"SIGSTOP for {event.lasted:.0f} s, the others went on"


def _said(event: Event) -> str:
    parts = [f"lasted {event.lasted:.1f} s"] if event.lasted > 1 else []
    if event.serving_after is not None:
        parts.append(f"accepts after {event.serving_after:.1f} s")
    if event.ending_after is not None:
        parts.append(f"ends after {event.ending_after:.1f} s")
    return "; " + ", ".join(parts)
