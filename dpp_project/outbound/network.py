"""Asks for the addresses of names and connects to addresses. What may be connected to, connecting.py decides."""

import asyncio
import contextlib
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

LOOKUPS_MAX: Final = 64
"""Threads, and so names asked for at once."""
LOOKUPS_OF_ONE_CALLER_MAX: Final = 16
"""A name server that never answers holds a thread for as long as the C library likes: of one caller, no more."""


class Network(Protocol):
    async def resolve(self, host: str, *, caller: str) -> list[str]:
        """All addresses of a name. OSError where there is none."""

    async def connect(self, address: str, port: int) -> socket.socket:
        """A connection to exactly this address, not blocking. OSError where there is none."""


class Internet:
    """The real one. Proxies that the environment may name are not asked."""

    def __init__(self) -> None:
        self._lookups = _Lookups(_addresses)

    async def resolve(self, host: str, *, caller: str) -> list[str]:
        return list(dict.fromkeys(await self._lookups.ask(host, caller)))

    async def connect(self, address: str, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            await asyncio.get_running_loop().sock_connect(made, (address, port))
        except BaseException:
            made.close()
            raise
        return made


def _addresses(host: str) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


@dataclass(frozen=True, eq=False)
class _Question:
    host: str
    caller: str
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[list[str]]"

    def tell(self, found: "list[str] | OSError | UnicodeError") -> None:
        if self.answer.done():
            return
        if isinstance(found, list):
            self.answer.set_result(found)
        else:
            self.answer.set_exception(found)


class _Lookups:
    """Blocking lookups in threads that no exit waits for. The threads end when nothing is left to ask.

    A question whose caller has gone keeps its thread until the C library gives up, and is counted until then: or one
    tenant's runs, each cut short, would take all threads from the others.
    """

    def __init__(self, look_up: Callable[[str], list[str]]) -> None:
        self._look_up = look_up
        self._lock = threading.Lock()
        self._asking: Counter[str] = Counter()
        self._waiting: deque[_Question] = deque()

    async def ask(self, host: str, caller: str) -> list[str]:
        loop = asyncio.get_running_loop()
        question = _Question(host, caller, loop, loop.create_future())
        with self._lock:
            self._waiting.append(question)
            mine = self._taken()
        if mine is not None:
            threading.Thread(target=self._work, args=(mine,), name="lookup", daemon=True).start()
        try:
            return await question.answer
        finally:
            with self._lock:
                if question in self._waiting:
                    self._waiting.remove(question)

    def _taken(self) -> _Question | None:
        """The first that may be asked now, counted. Under the lock."""
        if self._asking.total() >= LOOKUPS_MAX:
            return None
        for question in self._waiting:
            if self._asking[question.caller] < LOOKUPS_OF_ONE_CALLER_MAX:
                self._waiting.remove(question)
                self._asking[question.caller] += 1
                return question
        return None

    def _work(self, question: _Question | None) -> None:
        while question is not None:
            found: list[str] | OSError | UnicodeError
            try:
                found = self._look_up(question.host)
            except (OSError, UnicodeError) as error:
                found = error
            with self._lock:
                self._asking -= Counter([question.caller])  # and forgets callers at nought
                following = self._taken()
            with contextlib.suppress(RuntimeError):  # its loop is closed
                question.loop.call_soon_threadsafe(question.tell, found)
            question = following
