"""A job's side of what its worker does for it in the world (broker.py has the other)."""

import asyncio
import itertools
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from dpp_project.outbound import refusals
from dpp_project.outbound.exchanging import OutboundAnswer
from dpp_project.outbound.http_exchange import ResponseHead
from dpp_project.outbound.refusals import Failure, Refused
from runs.box import wire
from runs.packs.pack import CommandEnd, CommandResult, EngineUnavailable

CHUNK: Final = 262_144
_HEARD_BYTES_MAX: Final = 64 * wire.MEBIBYTE
_AT_ONCE: Final = socket.MSG_DONTWAIT | getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_Heard = tuple[wire.Frame, socket.socket | None]


class WorkerCalls:
    """For one asyncio loop at a time, whose thread is the job's only one at this connection while calls are open."""

    def __init__(self, connection: socket.socket, send: Callable[..., None]) -> None:
        self._connection = connection
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[_Heard]] = {}
        self._frames = wire.FrameReader(limit_bytes=_HEARD_BYTES_MAX)
        self._passed: deque[socket.socket] = deque()

    @asynccontextmanager
    async def connection(self, url: str, *, seconds: float) -> AsyncIterator[socket.socket]:
        left, number = _positive(seconds), next(self._numbers)
        call = {"kind": "connect", "id": number, "url": url, "seconds": left}
        try:
            _, passed = await self._heard(number, call)
            if passed is None:  # this process has too many open
                raise Refused(Failure.CONNECT_ERROR)
            with passed:
                yield passed
        finally:
            self._send({"kind": "closed", "id": number})

    async def ask(self, body: bytes, *, seconds: float) -> OutboundAnswer:
        left, number = _positive(seconds), next(self._numbers)
        heard, _ = await self._heard(number, {"kind": "ask", "id": number, "seconds": left}, body)
        said = heard.document
        return OutboundAnswer(ResponseHead(said["status"], [("retry-after", said["retry_after"])]), heard.content)

    async def command(self, *, seconds: float) -> CommandResult:
        left, number = _positive(seconds), next(self._numbers)
        heard, _ = await self._heard(number, {"kind": "command", "id": number, "seconds": left})
        said, content = heard.document, heard.content
        return CommandResult(
            end=CommandEnd(said["end"]),
            exit_code=said["exit_code"],
            stdout=content[: said["stdout_bytes"]],
            stderr=content[said["stdout_bytes"] :],
            stdout_cut=said["stdout_cut"],
            stderr_cut=said["stderr_cut"],
            seconds=said["seconds"],
        )

    def stop_command(self) -> None:
        self._send({"kind": "stop command"})

    async def _heard(self, number: int, call: dict[str, Any], content: bytes = b"") -> _Heard:
        loop = asyncio.get_running_loop()
        self._open[number] = loop.create_future()
        if len(self._open) == 1:
            loop.add_reader(self._connection, self._hear)
        try:
            self._send(call, content)
            heard = await self._open[number]
        finally:
            del self._open[number]
            if not self._open:
                loop.remove_reader(self._connection)
        said = heard[0].document
        if said["kind"] == "unavailable":
            raise EngineUnavailable(said["detail"])
        if said["kind"] == "refused":
            raise Refused(refusals.read_outbound_refusal(said["reason"]), typed_ip=said["typed_ip"])
        return heard

    def _hear(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._connection, CHUNK, 1, _AT_ONCE)
        except BlockingIOError:
            return
        self._passed.extend(socket.socket(fileno=descriptor) for descriptor in descriptors)
        if not data:
            for waiting in self._open.values():
                if not waiting.done():
                    waiting.set_exception(EOFError())  # the worker is gone
            return
        for frame in self._frames.feed(data):
            passed = self._passed.popleft() if frame.document["kind"] == "connected" and self._passed else None
            waiting_for_it = self._open.get(frame.document["id"])
            if waiting_for_it is not None and not waiting_for_it.done():
                waiting_for_it.set_result((frame, passed))
            elif passed is not None:
                passed.close()  # its time was over


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise Refused(Failure.TIMEOUT)
    return seconds
