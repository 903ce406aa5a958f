"""Receivers of webhooks on loopback: one that keeps what it took, and hostile ones, each by the path of its URL.

Every address that is dialled ends here (web.Loopback), so a check that lets something through is seen.
"""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connections

from dpp_project.outbound.connecting import Rules
from tenants.webhooks.dispatch.sending import SenderReach, WebhookSender
from tests.gear.servers.web import PUBLIC, Loopback, Web, plain_answers

HEAD = b"HTTP/1.1 200 OK\r\n"


@dataclass(frozen=True)
class Taken:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float
    """When it was taken, by the wall clock."""

    @property
    def webhook_id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def told(self) -> Any:
        return json.loads(self.body)


class Receivers(Web):
    """`good.example` and its neighbours over TLS. What a path answers, `_serve` says; `letters` is what came."""

    def __init__(self, folder: Path) -> None:
        self.letters: list[Taken] = []
        self.at_work = 0
        self.most_at_work = 0
        self.let_go = threading.Event()
        """Ends the hanging of /hang."""
        self.answers: dict[str, bytes] = {}
        """What a path answers, before its usual answer."""
        super().__init__(folder)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            letter = Taken(first.split(" ")[1], headers, body, time.time())
            self.letters.append(letter)
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
            try:
                await self._answer(letter.path, writer)
                await writer.drain()
            finally:
                self.at_work -= 1
        writer.close()

    async def _answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        name, _, number = path.strip("/").partition("/")
        if path in self.answers:
            writer.write(self.answers[path])
        elif name == "status":
            writer.write(f"HTTP/1.1 {number} As asked\r\ncontent-length: 0\r\n\r\n".encode())
        elif name == "reset":
            writer.transport.abort()
        elif name == "hang":
            while not self.let_go.is_set():  # noqa: ASYNC110  it is set by another thread
                await asyncio.sleep(0.05)
            writer.write(HEAD + b"content-length: 0\r\n\r\n")
        elif name in ENDLESS:
            await _for_ever(writer, *ENDLESS[name])
        else:
            writer.write(WHOLE.get(name, HEAD + b"content-length: 2\r\n\r\nok"))


WHOLE = {
    "lies": HEAD + b"content-length: 500\r\n\r\nshort",
    "old": b"<html>an answer of HTTP/0.9</html>\r\n\r\n",
    "bomb": plain_answers()["/bomb"],
}
ENDLESS = {
    "headers-for-ever": (HEAD, b"x-more: " + b"a" * 1_000 + b"\r\n", 0.0),
    "floods": (HEAD + b"\r\n", b"a" * 65_536, 0.0),
    "drips": (HEAD + b"content-length: 100000\r\n\r\n", b"a", 0.02),
}


async def _for_ever(writer: asyncio.StreamWriter, head: bytes, piece: bytes, pause_seconds: float) -> None:
    """As long as the other side listens."""
    writer.write(head)
    while not writer.is_closing():
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(pause_seconds)  # drain alone may never let the loop go


NAMES = {"good.example": [PUBLIC], "six.example": [PUBLIC]}


def a_world(
    receivers: Receivers, names: Mapping[str, list[str]] = NAMES, ports: Mapping[str, int] | None = None
) -> SenderReach:
    """Where the sender's every connection ends at the receivers."""
    network = Loopback(receivers, names, ports)
    return SenderReach(rules=Rules(), tls=network.tls, proven=network, doubtful=network)


@contextmanager
def a_sender(world: SenderReach) -> Iterator[threading.Event]:
    """One at work in a thread; what it yields ends it."""
    stop = threading.Event()
    thread = threading.Thread(target=_run, args=(world, stop), daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive(), "the sender does not end"


def _run(world: SenderReach, stop: threading.Event) -> None:
    try:
        WebhookSender(world).run(stop)
    finally:
        connections.close_all()
