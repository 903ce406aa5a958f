"""The asked side, in the process that holds the workspaces: one loop for connections, threads for what a driver does.

A request is read whole, within its time and size, and believed by its seal alone: who reaches the port without the key
learns nothing and starts nothing. A client that leaves while its command runs has it killed; a process that dies leaves
it to its deadline, which the workspace's own init holds.
"""

import asyncio
import json
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import h11
import structlog

from ops.workspaces.drivers.base import Driver, DriverError, DriverRefused, RunningExec
from ops.workspaces.remote import finding, messages

log = structlog.get_logger("dpp.workspaces")

EXECS_MAX: Final = 64
"""At once at this host. One tenant has no more than are left for the others: half of them where it is alone."""
EXECS_OF_ONE_MAX: Final = 8
"""Of one workspace."""
READ_SECONDS: Final = 10.0
STRANGERS_MAX: Final = 256
"""Connections that have not shown the seal. One more, and the oldest of them goes: a request of ours shows it at once,
so who fills the port without the key shuts out nobody else.
"""
LOOK_SECONDS: Final = 0.25
WAIT_SECONDS: Final = 1.0
USE_SECONDS: Final = 10.0
"""How often a command says that its workspace is in use: the shortest TTL is a minute."""
TELL_SECONDS: Final = 10.0
"""How often it tells its address: a word may be lost, and of two processes the other one may hang or be gone."""
CHUNK: Final = 65_536

Made = TypeVar("Made")


class _Unfit(Exception):  # noqa: N818
    """What came is no request of ours; `status` is all that is said about it."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


class WorkspaceServer:
    """In threads: `tell_address` is called while it listens, with `host:port`; `used` while a command runs."""

    def __init__(
        self,
        driver: Driver,
        *,
        host: str,
        port: int,
        tell_address: Callable[[str], None],
        used: Callable[[uuid.UUID], None] = lambda _workspace_id: None,
        tell_seconds: float = TELL_SECONDS,
    ) -> None:
        self._driver = driver
        self._host = host
        self._port = port
        self._tell_address = tell_address
        self._used = used
        self._tell_seconds = tell_seconds
        self._running: dict[str, RunningExec] = {}
        self._of_workspace: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()
        self._strangers: dict[asyncio.StreamWriter, None] = {}
        self._threads = ThreadPoolExecutor(EXECS_MAX + 8, thread_name_prefix="workspace-server")

    def run(self, stop: threading.Event) -> None:
        """Until told to stop. What still runs is killed as its client is cut off, or ends by its own deadline."""
        try:
            asyncio.run(self._serve(stop))
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, stop: threading.Event) -> None:
        server = await asyncio.start_server(self._connected, self._host, self._port, limit=CHUNK)
        async with server:
            host, port = server.sockets[0].getsockname()[:2]
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            log.info("workspaces are served", port=port)
            while not stop.is_set():
                await asyncio.to_thread(self._tell_address, address)
                told_at = asyncio.get_running_loop().time()
                # The event is the thread's that ends us.
                while not stop.is_set() and asyncio.get_running_loop().time() - told_at < self._tell_seconds:  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_SECONDS)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._strangers[writer] = None
        if len(self._strangers) > STRANGERS_MAX:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.transport.abort()
        try:
            await self._answered(reader, writer)
        except (OSError, h11.ProtocolError, TimeoutError):
            pass  # a client that left, waited too long, or spoke no HTTP
        finally:
            self._strangers.pop(writer, None)
            writer.transport.abort()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(our_role=h11.SERVER)
        status, said = 200, {}
        try:
            async with asyncio.timeout(READ_SECONDS):
                path, document = await _sealed_remote_request(
                    connection, reader, lambda: self._strangers.pop(writer, None)
                )
            said = await self._done(path, document, reader)
        except _Unfit as unfit:
            status = unfit.status
        except DriverError as error:
            said = messages.error_document(error)
        content = json.dumps(said).encode()
        headers = [("content-length", str(len(content))), ("connection", "close")]
        for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=content), h11.EndOfMessage()):
            writer.write(connection.send(event) or b"")
        async with asyncio.timeout(READ_SECONDS):
            await writer.drain()
            writer.write_eof()
            while await reader.read(CHUNK):  # closed before all of it is read, the answer could be lost
                pass

    async def _done(self, path: str, said: Mapping[str, Any], reader: asyncio.StreamReader) -> dict[str, Any]:
        try:
            match path:
                case "/exec":
                    return await self._exec(said, reader)
                case "/stop":
                    return await self._stop(said["exec_id"])
                case "/logs":
                    return await self._logs(said)
                case "/files":
                    return await self._file(said)
        except (KeyError, TypeError, ValueError):
            raise _Unfit(400) from None
        raise _Unfit(404)

    async def _exec(self, said: Mapping[str, Any], reader: asyncio.StreamReader) -> dict[str, Any]:
        request, workspace_id, tenant_id = messages.exec_request(said), said["workspace_id"], said["tenant_id"]
        left = EXECS_MAX - self._of_tenant.total()
        if self._of_tenant[tenant_id] >= left or self._of_workspace[workspace_id] >= EXECS_OF_ONE_MAX:
            raise DriverRefused("Too many commands run at once.", reason="TooManyExecs")
        self._of_tenant[tenant_id] += 1
        self._of_workspace[workspace_id] += 1
        try:
            container_id = await self._container(workspace_id)
            running = await self._in_thread(lambda: self._driver.exec_start(container_id, request))
            self._running[request.exec_id] = running
            try:
                return await self._followed(running, reader, uuid.UUID(workspace_id))
            finally:
                del self._running[request.exec_id]
        finally:
            self._of_tenant -= Counter([tenant_id])
            self._of_workspace -= Counter([workspace_id])

    async def _followed(
        self, running: RunningExec, reader: asyncio.StreamReader, workspace_id: uuid.UUID
    ) -> dict[str, Any]:
        gone = asyncio.ensure_future(reader.read(1))  # nothing more is said: what comes is the end of the connection
        told_at = asyncio.get_running_loop().time()
        try:
            while True:
                waits = asyncio.ensure_future(self._in_thread(lambda: running.wait(WAIT_SECONDS)))
                await asyncio.wait({gone, waits}, return_when=asyncio.FIRST_COMPLETED)
                if not waits.done():
                    await self._in_thread(running.stop)
                    await asyncio.wait({waits})
                    raise ConnectionAbortedError
                result = waits.result()
                if result is not None:
                    return messages.result_document(result)
                if asyncio.get_running_loop().time() - told_at >= USE_SECONDS:
                    told_at += USE_SECONDS
                    await self._in_thread(lambda: self._used(workspace_id))
        finally:
            gone.cancel()
            await asyncio.wait({gone})

    async def _stop(self, exec_id: str) -> dict[str, Any]:
        """One that is not here has ended, or will by its deadline."""
        running = self._running.get(exec_id)
        if running is not None:
            await self._in_thread(running.stop)
        return {"stopped": running is not None}

    async def _logs(self, said: Mapping[str, Any]) -> dict[str, Any]:
        offset, bytes_max = int(said["offset"]), int(said["bytes_max"])
        container_id = await self._container(said["workspace_id"], running=False)
        return messages.page_document(
            await self._in_thread(lambda: self._driver.logs(container_id, offset=offset, bytes_max=bytes_max))
        )

    async def _file(self, said: Mapping[str, Any]) -> dict[str, Any]:
        path, content = messages.file_content(said)
        container_id = await self._container(said["workspace_id"])
        await self._in_thread(lambda: self._driver.put_file(container_id, path, content))
        return {"written": True}

    async def _container(self, workspace_id: str, *, running: bool = True) -> str:
        wanted = uuid.UUID(workspace_id)
        seen = await self._in_thread(lambda: finding.container_of(self._driver, wanted, running=running))
        return seen.container_id

    async def _in_thread(self, work: Callable[[], Made]) -> Made:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


async def _sealed_remote_request(
    connection: h11.Connection, reader: asyncio.StreamReader, believed: Callable[[], None]
) -> tuple[str, Mapping[str, Any]]:
    """The path and the document of a request that one of our own processes sealed."""
    path, headers, body = "", dict[str, str](), bytearray()
    while not isinstance(event := connection.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(CHUNK))
        elif isinstance(event, h11.Request):
            path = event.target.decode("latin-1")
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
            if event.method != b"POST" or not messages.is_ours(path, headers):
                raise _Unfit(403)
            believed()
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > messages.BODY_BYTES_MAX:
                raise _Unfit(413)
        else:
            raise ConnectionAbortedError
    if not messages.is_whole(headers, bytes(body)):
        raise _Unfit(403)
    try:
        document = json.loads(bytes(body))
    except ValueError:
        raise _Unfit(400) from None
    if not isinstance(document, dict):
        raise _Unfit(400)
    return path, document
