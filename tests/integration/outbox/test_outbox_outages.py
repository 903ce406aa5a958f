"""Queue or database away: the loops wait in pauses, count nothing, and go on by themselves."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import connection, connections

from dpp_project.aws import clients, sqs_sender
from dpp_project.outbox import consumer, pauses, queue
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage, ProcessedMessage
from dpp_project.settings import ENV
from tests.gear.builders import events as gear
from tests.gear.builders.events import EventWorld, effects_table, world
from tests.gear.faults.proxy import Mode, Proxy
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("AUT-05", "AUT-06")]
__all__ = ["effects_table", "world"]

EVENTS = 12
PAUSES = 6


class Paused:
    """How often a loop has paused: what a test waits for instead of a time."""

    def __init__(self) -> None:
        self.count = 0

    def next_seconds(self, error: BaseException) -> float:
        self.count += 1
        return 0.01

    def over(self) -> None:
        """Nothing to forget."""


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> Paused:
    made = Paused()
    for module in ("publisher", "consumer"):
        monkeypatch.setattr(f"dpp_project.outbox.{module}.Pauses", lambda: made)
    return made


@contextmanager
def loops(world: EventWorld) -> Iterator[None]:
    stop = threading.Event()
    threads = [threading.Thread(target=run, args=(stop,)) for run in (world.publisher().run, world.consumer().run)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)


def all_of_it_ends(count: int) -> None:
    def look() -> bool:
        ended = ProcessedMessage.objects.filter(status="DONE", retry_count=0).count()
        return ended == 2 * count and not OutboxMessage.objects.exclude(status="PUBLISHED").exists()

    wait_until(look, seconds=60, what="every event is handled, and none was retried")
    assert len(gear.effects()) == len(gear.effects(gear.FOLLOWED.event_type)) == count
    assert set(OutboxMessage.objects.values_list("retry_count", "last_error")) == {(0, "")}
    assert not EventDeadLetter.objects.exists()


def beyond(paused: Paused, more: int) -> Callable[[], bool]:
    least = paused.count + more
    return lambda: paused.count >= least


@pytest.mark.parametrize("mode", [Mode.REFUSE, Mode.RESET])
def test_aut_05_events_wait_while_the_queue_is_away(
    world: EventWorld, paused: Paused, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = urlsplit(str(ENV.SQS_ENDPOINT_URL))
    with Proxy(str(target.hostname), target.port or 80) as proxy:
        with monkeypatch.context() as patch:
            patch.setattr(clients, "ENV", ENV.model_copy(update={"SQS_ENDPOINT_URL": proxy.url}))
            client = clients.new_sqs(attempts=1)
            patch.setattr(clients, "sqs_client", lambda: client)
            world.senders.append(sqs_sender.sqs_sender_to(world.queues.runs_url))
        monkeypatch.setattr(queue, "event_poller", lambda: client)
        # A message whose answer was cut stays invisible for so long.
        monkeypatch.setattr(consumer, "VISIBILITY_SECONDS", 2)
        with loops(world):
            gear.written_many(EVENTS)
            with proxy.outage(mode):
                wait_until(beyond(paused, PAUSES), seconds=30, what="the loops pause")
                first = gear.written(gear.an_event("in the outage"))
                wait_until(beyond(paused, PAUSES), seconds=30, what="the loops pause")
                assert gear.row(first).status in {"PENDING", "PROCESSING"}
            all_of_it_ends(EVENTS + 1)


@contextmanager
def no_database() -> Iterator[None]:
    """This test's own database takes no connection, and those that stand are ended."""
    settings: dict[str, Any] = connection.settings_dict
    name = settings["NAME"]
    with psycopg.connect(
        host=settings["HOST"],
        port=settings["PORT"],
        user=settings["USER"],
        password=settings["PASSWORD"],
        dbname="postgres",
        autocommit=True,
    ) as other:
        other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            yield
        finally:
            other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def test_aut_06_events_wait_while_postgres_is_away(
    world: EventWorld, paused: Paused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpp_project.outbox.ledger.LEASE_SECONDS", 1)  # what it cut comes again when these are over
    monkeypatch.setattr("dpp_project.outbox.consumer.VISIBILITY_SECONDS", 1)
    gear.written_many(EVENTS)
    connections.close_all()
    with loops(world):
        pool: Any = connection
        with monkeypatch.context() as patch, no_database():
            patch.setattr(pool.pool, "timeout", 0.1)  # how long each waits for a connection
            wait_until(beyond(paused, PAUSES), seconds=60, what="the loops pause")
        pool.close_pool()  # its own pauses between tries grow to many seconds
        all_of_it_ends(EVENTS)


def test_aut_05_thirty_seconds_of_outage_are_seven_pauses() -> None:
    waits, spent = pauses.Pauses(), 0.0
    count = 0
    while spent < 30:
        spent += waits.next_seconds(ConnectionError())
        count += 1
    assert (count, spent) == (7, 31.75)
