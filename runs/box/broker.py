"""What jobs ask of the world, done for them at their worker: a job has no network.

    job                        its run's thread              the broker's thread, one a worker
    connect, ask, command ──▶  Service.hear: is it a call?  ──▶  resolve, check, connect; or exchange
             ◀── frame, with the connection's descriptor ── Outgoing ◀──

A connection is made to an address that was checked, and handed over: TLS and all that strangers send is read in the
job. The exchange with an operator's own engine is done here, since it needs the operator's key, which no job holds.

All of it is bounded for each run (calls, connections at once, at one host, time) and ends with it. Names are asked for
in threads whose number is bounded for each tenant; nothing here waits in the thread of a run.
"""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog

from dpp_project.outbound import exchanging, http_exchange, locations
from dpp_project.outbound.connecting import Rules, connect_outbound
from dpp_project.outbound.network import Internet, Network
from dpp_project.outbound.refusals import Failure, Refused
from runs.box import wire
from runs.box.outgoing import Outgoing
from runs.packs.pack import (
    AT_ONE_HOST_MAX,
    CONNECTIONS_AT_ONCE_MAX,
    EngineUnavailable,
    Reach,
    WorkspaceCommand,
)

log = structlog.get_logger("dpp.box")

CONNECTIONS_MAX: Final = 256
"""Of one run: more than thirty URLs with all their redirects can need."""
ASKED_MAX: Final = 8
ASKED_BYTES_MAX: Final = 2 * wire.MEBIBYTE
_OPERATORS: Final = Rules(is_operators=True)
_Call = Callable[[float], Awaitable[None]]


class Broker:
    """One thread, started when a job first asks for something."""

    def __init__(self, network: Network | None = None) -> None:
        self.network = network or Internet()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def serve(self, reach: Reach, *, caller: str, deadline: float, outgoing: Outgoing) -> "Service":
        return Service(self, reach, caller=caller, deadline=deadline, outgoing=outgoing)

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="broker", daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)  # and their transports close


class Service:
    """Of one run. `hear` and `close` belong to the run's thread, everything else to the broker's."""

    def __init__(self, broker: Broker, reach: Reach, *, caller: str, deadline: float, outgoing: Outgoing) -> None:
        self._network = broker.network
        self._loop = broker.loop()
        self._reach = reach
        self._caller = caller
        self._deadline = deadline
        self._outgoing = outgoing
        self._last = 0
        self._connections = self._asked = 0
        self._is_begun = self._is_stopped = False
        self._unclosed: set[int] = set()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._hosts: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONE_HOST_MAX))
        self._turns: dict[int, asyncio.Semaphore] = {}

    def hear(self, said: Mapping[str, Any], content: bytes) -> None:
        """Garbled for what no job of ours says: more calls than it has, or what its pack may not."""
        match said:
            case {"kind": "connect", "id": int(number), "url": str(url), "seconds": int() | float() as seconds}:
                self._connections += 1
                self._unclosed.add(number)
                if (
                    self._reach.rules is None
                    or self._connections > CONNECTIONS_MAX
                    or len(self._unclosed) > CONNECTIONS_AT_ONCE_MAX
                ):
                    raise wire.Garbled
                self._begin(number, seconds, partial(self._connect, number, url))
            case {"kind": "ask", "id": int(number), "seconds": int() | float() as seconds}:
                self._asked += 1
                if self._reach.asks is None or self._asked > ASKED_MAX or len(content) > ASKED_BYTES_MAX:
                    raise wire.Garbled
                self._begin(number, seconds, partial(self._ask, number, content))
            case {"kind": "command", "id": int(number), "seconds": int() | float() as seconds}:
                if self._reach.command is None or self._is_begun:
                    raise wire.Garbled
                self._is_begun = True
                self._begin(number, seconds, partial(self._command, number))
            case {"kind": "stop command"} if self._is_begun and not self._is_stopped:
                self._is_stopped = True
                self._loop.call_soon_threadsafe(self._stop_command)
            case {"kind": "closed", "id": int(number)} if number in self._unclosed:
                self._unclosed.remove(number)
                self._loop.call_soon_threadsafe(self._over, number)
            case _:
                raise wire.Garbled

    def close(self) -> None:
        """The run is over: what is under way is cut."""
        with suppress(RuntimeError):  # the broker was closed before
            self._loop.call_soon_threadsafe(self._cut)

    def _begin(self, number: int, seconds: float, call: _Call) -> None:
        if number <= self._last or not seconds > 0:  # nor NaN
            raise wire.Garbled
        self._last = number
        self._loop.call_soon_threadsafe(self._start, number, seconds, call)

    # In the broker's thread.

    def _start(self, number: int, seconds: float, call: _Call) -> None:
        seconds = min(seconds, self._deadline - time.monotonic())
        self._tasks[number] = self._loop.create_task(self._answered(number, partial(call, seconds)))

    def _over(self, number: int) -> None:
        if (turn := self._turns.pop(number, None)) is not None:
            turn.release()
        if (task := self._tasks.get(number)) is not None:
            task.cancel()

    def _cut(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _answered(self, number: int, call: Callable[[], Awaitable[None]]) -> None:
        try:
            await call()
        except Refused as refused:
            self._refuse(number, refused)
        except EngineUnavailable as error:
            self._outgoing.add(wire.encode_frame({"kind": "unavailable", "id": number, "detail": error.detail}))
        except Exception as error:
            log.exception("call of a job failed", caller=self._caller, exc_info=error)
            self._refuse(number, Refused(Failure.CONNECT_ERROR))
        finally:
            self._tasks.pop(number, None)

    def _refuse(self, number: int, refused: Refused) -> None:
        said = {"kind": "refused", "id": number, "reason": refused.reason.value, "typed_ip": refused.typed_ip}
        self._outgoing.add(wire.encode_frame(said))

    async def _connect(self, number: int, url: str, seconds: float) -> None:
        assert self._reach.rules is not None  # noqa: S101  hear looked
        turn = self._hosts[locations.parse_location(url).host]
        until = time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                await turn.acquire()
        except TimeoutError:
            raise Refused(Failure.TIMEOUT) from None
        self._turns[number] = turn
        try:
            left = until - time.monotonic()
            made = await connect_outbound(
                url, rules=self._reach.rules, network=self._network, seconds=left, caller=self._caller
            )
        except BaseException:
            if self._turns.pop(number, None) is not None:
                turn.release()
            raise
        self._outgoing.add(wire.encode_frame({"kind": "connected", "id": number}), made)

    async def _command(self, number: int, seconds: float) -> None:
        """Cut short, it is killed where it runs: the connection that it was begun by closes."""
        assert self._reach.command is not None  # noqa: S101  hear looked
        result = await self._reach.command.run(seconds=seconds)
        said = {
            "kind": "command ended",
            "id": number,
            "end": result.end.value,
            "exit_code": result.exit_code,
            "stdout_bytes": len(result.stdout),
            "stdout_cut": result.stdout_cut,
            "stderr_cut": result.stderr_cut,
            "seconds": result.seconds,
        }
        self._outgoing.add(wire.encode_frame(said, result.stdout + result.stderr))

    def _stop_command(self) -> None:
        assert self._reach.command is not None  # noqa: S101  hear looked
        self._stopping = self._loop.create_task(self._stopped(self._reach.command))

    async def _stopped(self, command: WorkspaceCommand) -> None:
        with suppress(EngineUnavailable):  # then it ends by its deadline
            await command.stop()

    async def _ask(self, number: int, content: bytes, seconds: float) -> None:
        assert self._reach.asks is not None  # noqa: S101  hear looked
        answer = await exchanging.exchange_outbound(
            replace(self._reach.asks, body=content),
            rules=_OPERATORS,
            network=self._network,
            tls=http_exchange.tls_trusting(),
            seconds=seconds,
            caller=self._caller,
        )
        said = {
            "kind": "answer",
            "id": number,
            "status": answer.head.status,
            "retry_after": answer.head.first("retry-after"),
        }
        self._outgoing.add(wire.encode_frame(said, answer.content))
