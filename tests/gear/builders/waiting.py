"""Runs that somebody waits for at a live API, and the ends they come to meanwhile."""

import json
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from django.db import connection

from dpp_project.reasons import ReasonCode
from runs import transitions
from runs.finish.finalization import Committed, finish_claim
from runs.intents import Intent
from runs.models import Run
from tenants.services import IssuedKey
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import RUNS, Shop
from tests.gear.servers.live_api import Api, Client, Received
from tests.gear.waiting import wait_until


def a_get(path: str, issued: IssuedKey, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {issued.plaintext}", *headers, "", ""]
    return "\r\n".join(lines).encode()


def queued(shop: Shop) -> Run:
    return gear.row(uuid.UUID(shop.submit().json()["run_id"]))


def started(run: Run) -> Run:
    gear.won(transitions.start(run_id=run.run_id, version=run.version, lease_token="lease", actor="worker"))
    return gear.row(run.run_id)


def failed(run: Run) -> Run:
    """At work, and then ended at its fee."""
    run = started(run) if run.status == "QUEUED" else run
    intent = Intent.minimum_fee(minimum_fee_micros=5_000, reserved_micros=250_000, reason=ReasonCode.PACK_FAILED)
    claimed = gear.won(transitions.claim_worked(run=run, lease_token="lease", token="t", intent=intent, actor="worker"))
    assert finish_claim(claimed.claim) == Committed(run.version + 2)
    return gear.row(run.run_id)


def waiting(
    api: Api, stack: ExitStack, shop: Shop, run: Run, *headers: str, query: str = "?wait=20", count: int = 1
) -> list[Client]:
    """As many clients, each waiting for this run."""
    clients = [stack.enter_context(api.connect()) for _ in range(count)]
    before = begun(api)
    for client in clients:
        client.send(a_get(f"{RUNS}/{run.run_id}{query}", shop.issued, *headers))
    wait_until(lambda: begun(api) >= before + count, seconds=20, what=f"{count} waits, {before} before")
    return clients


def begun(api: Api) -> float:
    return _counted(api, "dpp_waits_begun_total{")


def left(api: Api) -> float:
    """Waits whose client has gone."""
    return _counted(api, 'dpp_waits_ended_total{end="left"')


def _counted(api: Api, name: str) -> float:
    page = api.ask(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").body.decode()
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name))


def wait_for_a_look() -> None:
    """A watcher's, that begins after the call, to its end."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (since,) = cursor.fetchone()

    def has_ended() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%%AS watched%%'"
                " AND pid <> pg_backend_pid() AND state = 'idle' AND query_start > %s",
                [since],
            )
            return cursor.fetchone() is not None

    wait_until(has_ended, seconds=10, what="a look")


def documents(clients: Sequence[Client]) -> list[dict[str, Any]]:
    return [read(client.receive()) for client in clients]


def read(received: Received) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(received.body)
    return document


@dataclass
class Event:
    """One server-sent event; `data` is read."""

    name: str
    event_id: int | None
    data: dict[str, Any]


class Following:
    """A client of the events' address, which reads one thing at a time."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._text = ""
        self._raw = b""
        self.ended = False
        while b"\r\n\r\n" not in self._raw:
            self._raw += self.client.socket.recv(65_536)
        head, _, self._raw = self._raw.partition(b"\r\n\r\n")
        self.head = Received(int(head[9:12]), head, b"")

    def block(self) -> str:
        """The next that is separated by an empty line: an event, a ping, the time to reconnect; "" at the end."""
        while "\n\n" not in self._text and not self.ended:
            self._more()
        found, _, self._text = self._text.partition("\n\n")
        return found

    def event(self) -> Event | None:
        """The next event; None at the end."""
        while block := self.block():
            if "event: " in block:
                return an_event(block)
        return None

    def events(self) -> list[Event]:
        """All until the end."""
        return list(iter(self.event, None))

    def _more(self) -> None:
        while b"\r\n" not in self._raw:
            self._receive()
        size, _, rest = self._raw.partition(b"\r\n")
        length = int(size, 16)
        while len(rest) < length + 2:
            self._receive()
            rest = self._raw.partition(b"\r\n")[2]
        self._text += rest[:length].decode()
        self._raw = rest[length + 2 :]
        self.ended = length == 0

    def _receive(self) -> None:
        data = self.client.socket.recv(65_536)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._raw += data


def an_event(block: str) -> Event:
    fields = dict(line.split(": ", 1) for line in block.splitlines())
    return Event(fields["event"], int(fields["id"]) if "id" in fields else None, json.loads(fields["data"]))


def following(api: Api, stack: ExitStack, shop: Shop, run: Run, *headers: str) -> Following:
    client = stack.enter_context(api.connect())
    client.send(a_get(f"{RUNS}/{run.run_id}/events", shop.issued, "Accept: text/event-stream", *headers))
    return Following(client)
