"""Clients that want to take an API from the others, bounded in number and time.

    python -m tests.gear.faults.hostile_clients PORT KEY CONNECTIONS SECONDS

KEY is a tenant's valid one: some of them are customers. Loopback only; all from one address. It prints what each kind
counted, as JSON, when the time is over.
"""

import asyncio
import contextlib
import itertools
import json
import secrets
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

DRIP_SECONDS: Final = 0.5
REDIAL_SECONDS: Final = 0.2
"""Between two connections of one client: the attack is held to what one machine beside an honest client can do."""

_NESTED: Final = b"[" * 30 + b"]" * 30


@dataclass
class Siege:
    port: int
    key: str
    counted: Counter[str] = field(default_factory=Counter)

    def head(self, line: str, *headers: str, key: str | None = None) -> bytes:
        with_key = [] if key is None else [f"Authorization: Bearer {key}"]
        return "\r\n".join([f"{line} HTTP/1.1", "Host: 127.0.0.1", *with_key, *headers, "", ""]).encode()

    def submit(self, length: int, key: str | None) -> bytes:
        name = f"Idempotency-Key: {secrets.token_hex(8)}"
        as_json = "Content-Type: application/json"
        return self.head("POST /v1/runs", name, as_json, f"Content-Length: {length}", key=key)


class Wire:
    """One connection. The kernel holds little of what it does not read."""

    def __init__(self, siege: Siege, kind: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.siege, self.kind, self.reader, self.writer = siege, kind, reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> None:
        """Read one, and count it by its status."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.siege.counted[f"{self.kind} {head[9:12].decode()}"] += 1
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                await self.reader.readexactly(int(line[15:]))

    async def until_closed(self) -> None:
        while await self.reader.read(65_536):
            pass


async def slow_headers(wire: Wire) -> None:
    wire.send(b"GET /v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
    while True:
        wire.send(b"a" * 1_000)
        await wire.writer.drain()
        await asyncio.sleep(DRIP_SECONDS)


async def slow_body(wire: Wire) -> None:
    wire.send(wire.siege.submit(1_000_000, wire.siege.key))
    while not wire.reader.at_eof():
        wire.send(b" ")
        await wire.writer.drain()
        await asyncio.sleep(DRIP_SECONDS)


async def silent(wire: Wire) -> None:
    await wire.until_closed()


async def huge_body(wire: Wire) -> None:
    wire.send(wire.siege.submit(1_000_000_000_000, wire.siege.key))
    await wire.answer()
    for _ in range(100):
        wire.send(b"a" * 65_536)
        await wire.writer.drain()


async def keyless_flood(wire: Wire) -> None:
    while True:
        wire.send(wire.siege.head("GET /v1/whoami"))
        await wire.answer()


async def wrong_key_flood(wire: Wire) -> None:
    body = b'{"a":"' + b"x" * 100_000 + b'"}'
    while True:
        key = f"dpp_{secrets.token_hex(4)}_{'A' * 43}"
        wire.send(wire.siege.submit(len(body), key) + body)
        await wire.answer()


async def slow_reader(wire: Wire) -> None:
    path = secrets.choice(["/v1/budget/entries", "/v1/openapi.json"])
    wire.send(wire.siege.head(f"GET {path}", "Accept: text/csv, application/json", key=wire.siege.key))
    for _ in itertools.count():
        await asyncio.sleep(DRIP_SECONDS)
        if not await wire.reader.read(16):
            return


async def deep_json(wire: Wire) -> None:
    bodies = [b'{"inputs":' * 20 + b"[" + b",".join([_NESTED] * 5_000) + b"]" + b"}" * 20]
    bodies.append(b"[" + b'{"a":[0.5,0.5]},' * 20_000 + b"0]")
    while True:
        body = secrets.choice(bodies)
        wire.send(wire.siege.submit(len(body), wire.siege.key) + body)
        await wire.answer()


async def pipelined_garbage(wire: Wire) -> None:
    request = wire.siege.head("GET /v1/whoami", key=wire.siege.key) + wire.siege.head("BREW /\xff")
    wire.send(request * 100 + secrets.token_bytes(1_000))
    await wire.until_closed()


KINDS: Final[dict[str, Callable[[Wire], Awaitable[None]]]] = {
    "slow headers": slow_headers,
    "slow body": slow_body,
    "silent": silent,
    "huge body": huge_body,
    "keyless flood": keyless_flood,
    "wrong-key flood": wrong_key_flood,
    "slow reader": slow_reader,
    "deep JSON": deep_json,
    "pipelined garbage": pipelined_garbage,
}


async def _attack(siege: Siege, kind: str) -> None:
    """One client of a kind, which comes again whenever it is cut off."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            plain = socket.socket()
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            plain.setblocking(False)
            await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", siege.port))
            reader, writer = await asyncio.open_connection(sock=plain, limit=65_536)
            siege.counted[f"{kind} connections"] += 1
            try:
                await KINDS[kind](Wire(siege, kind, reader, writer))
            finally:
                writer.transport.abort()
        await asyncio.sleep(REDIAL_SECONDS)


async def besiege(siege: Siege, connections: int, seconds: float) -> None:
    kinds = list(KINDS)
    clients = [asyncio.ensure_future(_attack(siege, kinds[number % len(kinds)])) for number in range(connections)]
    print("begun", flush=True)  # noqa: T201  whom it was started by reads it
    await asyncio.wait(clients, timeout=seconds)
    broken = [client.exception() for client in clients if client.done()]
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    if broken:
        raise RuntimeError("a hostile client gave up") from broken[0]


def main() -> None:
    port, key, connections, seconds = sys.argv[1:]
    siege = Siege(int(port), key)
    asyncio.run(besiege(siege, int(connections), float(seconds)))
    print(json.dumps(siege.counted))  # noqa: T201


if __name__ == "__main__":
    main()
