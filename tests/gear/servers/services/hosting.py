"""One server on loopback for several services, told apart by the name that was asked for; and the faults of each."""

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from dpp_project.outbound.connecting import Rules
from ops.automations.reach import Outside
from tests.gear.servers.web import PUBLIC, Loopback, Web

GITHUB = "api.github.com"
JIRA = "acme.atlassian.net"
SLACK = "slack.com"
CRM = "crm.example"
NAMES = {name: [PUBLIC] for name in (GITHUB, JIRA, SLACK, CRM)}


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = b""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def said(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def written(self) -> bytes:
        content = b"" if self.body is None else json.dumps(self.body).encode()
        fields = {"content-type": "application/json; charset=utf-8", "content-length": str(len(content))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in (fields | dict(self.headers)).items())
        return f"HTTP/1.1 {self.status} As it is\r\n{lines}\r\n".encode() + content


@dataclass(frozen=True)
class Mishap:
    """What goes wrong with one request. `is_done`: the service does what was asked, and only its answer goes wrong."""

    answer: bytes | None = None
    """None: the connection is cut."""
    is_done: bool = False
    hangs: bool = False


LOST = Mishap(is_done=True)
"""It was done, and the answer never came."""
CUT = Mishap()
HANGS = Mishap(hangs=True)
GARBAGE = Mishap(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n<html>a login</html>")


def refuses(status: int, body: Any = None, **headers: str) -> Mishap:
    return Mishap(Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()}).written())


class Service:
    """A subclass answers. `mishaps` befall the next requests whose path begins so, each one."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.mishaps: deque[tuple[str, Mishap]] = deque()
        self.let_go = threading.Event()

    def answer(self, asked: Asked) -> Reply:
        raise NotImplementedError

    def befalls(self, *mishaps: Mishap, at: str = "/") -> None:
        self.mishaps.extend((at, one) for one in mishaps)

    def paths(self) -> list[str]:
        return [one.path for one in self.asked]

    async def take(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self.asked.append(asked)
        mishap = self._mishap_of(asked)
        if mishap is None:
            writer.write(self.answer(asked).written())
            return
        if mishap.is_done:
            self.answer(asked)
        while mishap.hangs and not self.let_go.is_set():  # noqa: ASYNC110  another thread sets it
            await asyncio.sleep(0.02)
        if mishap.answer is None:
            writer.transport.abort()
        else:
            writer.write(mishap.answer)

    def _mishap_of(self, asked: Asked) -> Mishap | None:
        for place, (path, mishap) in enumerate(self.mishaps):
            if asked.path.startswith(path):
                del self.mishaps[place]
                return mishap
        return None


class Hosting(Web):
    """The services by their names."""

    def __init__(self, folder: Path) -> None:
        self.services: dict[str, Service] = {}
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
            method, target, _ = first.split(" ")
            await self.services[headers["host"]].take(Asked(method, target, headers, body), writer)
            await writer.drain()
        writer.close()

    def outside(self) -> Outside:
        """Where every connection of sources and messages ends here."""
        network = Loopback(self, NAMES)
        return Outside(rules=Rules(), tls=network.tls, network=network)

    def let_all_go(self) -> None:
        for service in self.services.values():
            service.let_go.set()
