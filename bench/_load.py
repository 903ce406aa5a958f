"""A closed loop over HTTP from one thread: each client sends, waits for the answer, sends again."""

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figures:
    per_second: float
    p50_ms: float
    p99_ms: float
    statuses: dict[int, int]

    def __str__(self) -> str:
        return f"{self.per_second:7.0f}/s   p50 {self.p50_ms:6.1f} ms   p99 {self.p99_ms:6.1f} ms"


class _Client(asyncio.Protocol):
    """One connection. It reads no more of an answer than its status and its length."""

    def __init__(self, request: Callable[[], bytes], done: Callable[[int, float], bool]) -> None:
        self._request, self._done = request, done
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._request())

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._received[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self._received) < end + 4 + length:
            return
        status = int(self._received[9:12])
        self._received = self._received[end + 4 + length :]
        if self._done(status, time.perf_counter() - self._began):
            self._send()
        else:
            self._transport.close()


def drive(port: int, request: Callable[[], bytes], *, clients: int, seconds: float) -> Figures:
    """Raises when nothing was answered."""
    return asyncio.run(_drive(port, request, clients, seconds))


async def _drive(port: int, request: Callable[[], bytes], clients: int, seconds: float) -> Figures:
    loop = asyncio.get_running_loop()
    took: list[float] = []
    statuses: Counter[int] = Counter()
    ends = time.perf_counter() + seconds

    def done(status: int, elapsed: float) -> bool:
        took.append(elapsed * 1_000)
        statuses[status] += 1
        return time.perf_counter() < ends

    for _ in range(clients):
        await loop.create_connection(lambda: _Client(request, done), "127.0.0.1", port)
    began = time.perf_counter()
    await asyncio.sleep(ends - began)
    elapsed, answered = time.perf_counter() - began, len(took)
    await asyncio.sleep(0.3)  # for those that were still on their way
    found = sorted(took)
    return Figures(answered / elapsed, statistics.median(found), found[int(len(found) * 0.99)], dict(statuses))
