"""The proxy's server: one loop for connections, threads for what a driver or the database is asked.

A connection carries one request, so that no byte of one can be taken for another's. It is read no further than its head
before its caller is known; where there are as many as there may be, one more takes the place of the oldest whose caller
is not.
"""

import asyncio
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import h11
import structlog

from dpp_project import clock
from dpp_project.http.client_address import ClientAddresses
from ops.workspaces import metrics, using
from ops.workspaces.drivers.base import Driver, DriverError, DriverRefused
from ops.workspaces.proxy import answers, carrying, heads, links, staying
from ops.workspaces.proxy.answers import NotPassedOn, ProxyAnswer, proxy_refusal
from ops.workspaces.proxy.heads import Head
from ops.workspaces.proxy.side import CHUNK, BrokenOff, Side
from ops.workspaces.proxy.staying import Admitted
from ops.workspaces.remote import finding

log = structlog.get_logger("dpp.workspaces")

THREADS: Final = 8
"""Each asks the database, and waits for nothing else."""
OPENERS: Final = 8
OPENERS_OF_ONE: Final = 4
"""Threads that open connections inside, and how many of them one tenant has at once: an init that does not answer keeps
one of them for seconds.
"""
LOOK_SECONDS: Final = 0.25
AWAY_SECONDS: Final = 2
WARM_FOR: Final = timedelta(seconds=30)
"""A port that is closed so soon after a start is about to be opened."""
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Bounds:
    connections: int = 512
    of_one: int = 32
    """Of one workspace."""
    head_seconds: float = 10.0
    idle_seconds: float = 60.0
    """Neither side sent anything, or took anything."""
    total_seconds: float = 900.0
    use_seconds: float = 10.0
    """How often bytes say that their workspace is in use: the shortest TTL is a minute."""


class ProxyServer:
    """In threads: `admit` answers who was let in, or raises NotPassedOn; `used` is called every few seconds of what
    passes.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        host: str,
        port: int,
        admit: Callable[[Head, str], Admitted],
        used: Callable[[uuid.UUID], None],
        addresses: ClientAddresses,
        scheme: str = "http",
        listens: Callable[[int], None] = lambda _port: None,
        bounds: Bounds = Bounds(),
    ) -> None:
        self.bounds = bounds
        self._driver = driver
        self._host = host
        self._port = port
        self._admit = admit
        self._used = used
        self._addresses = addresses
        self._scheme = scheme
        self._listens = listens
        self._connections = 0
        self._of_workspace: Counter[uuid.UUID] = Counter()
        self._used_at: dict[uuid.UUID, float] = {}
        self._strangers: dict[Side, None] = {}
        """Connections whose caller has no place yet, the oldest first."""
        self._let_in: dict[Side, str] = {}
        """The others, each with its tenant."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="workspace-proxy")
        self._openers = ThreadPoolExecutor(OPENERS, thread_name_prefix="workspace-proxy-open")
        self._share: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def run(self, stop: threading.Event) -> None:
        """Until told to stop; what is under way is then cut off."""
        try:
            asyncio.run(self._serve(stop))
        finally:
            for threads in (self._threads, self._openers):
                threads.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, stop: threading.Event) -> None:
        server = await asyncio.start_server(self._connected, self._host, self._port, limit=CHUNK)
        try:
            port = server.sockets[0].getsockname()[1]
            self._listens(port)
            log.info("workspaces are reached by HTTP", port=port)
            while not stop.is_set():  # noqa: ASYNC110  the event is the thread's that ends us
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._connections >= self.bounds.connections and not self._made_room():
                writer.write(_FULL)
                return
            self._connections += 1
            caller = self._side(reader, writer, serving=True)
            self._strangers[caller] = None
            try:
                async with asyncio.timeout(self.bounds.total_seconds):
                    await self._served(caller, (writer.get_extra_info("peername") or ("",))[0])
            finally:
                self._connections -= 1
                self._strangers.pop(caller, None)
                self._let_in.pop(caller, None)
        except (BrokenOff, OSError):
            pass  # it left, was too slow, or its answer is not whole, as the end of its connection says
        finally:
            writer.transport.abort()

    def _made_room(self) -> bool:
        """Who holds a key shows it at once, so who fills the port without one shuts out nobody else."""
        oldest = next(iter(self._strangers), None)
        if oldest is None:
            return False
        del self._strangers[oldest]
        oldest.close()
        return True

    async def _served(self, caller: Side, peer: str) -> None:
        head: Head | None = None
        try:
            async with asyncio.timeout(self.bounds.head_seconds):
                request = await caller.event()
            assert isinstance(request, h11.Request)  # noqa: S101  a server's first event is nothing else
            head = heads.read_request_head(request)
            forwarded = b",".join(value for name, value in request.headers if name == b"x-forwarded-for")
            await self._passed(caller, request, head, self._addresses.of(peer, forwarded.decode("latin-1")))
        except NotPassedOn as refused:
            await self._say(caller, refused.answer, head)
        except BrokenOff as broken:
            await self._say(caller, ProxyAnswer(broken.status, f"The request cannot be read: {broken}."), head)
        else:
            metrics.PROXIED.labels("passed").inc()
        await caller.finish()

    async def _passed(self, caller: Side, request: h11.Request, head: Head, peer: str) -> None:
        if head.is_without_path:
            raise NotPassedOn(answers.proxy_redirect(308, f"{head.door.path}/{head.rest.decode('ascii')}"))
        if (token := head.sign_in_token) is not None:
            raise NotPassedOn(_signed_in(head, token))
        admitted = await self._in_thread(self._threads, lambda: self._admit(head, peer))
        workspace_id = head.door.workspace_id
        if self._of_workspace[workspace_id] >= self.bounds.of_one:
            raise proxy_refusal(429, "Too many requests to this workspace are under way.", retry_seconds=1)
        self._take_place(caller, admitted.tenant_id)
        self._of_workspace[workspace_id] += 1
        try:
            inner = heads.to_workspace(request, head, peer=peer, scheme=self._scheme)
            await staying.while_admitted(admitted, self._exchanged(caller, inner, head, admitted.tenant_id))
        finally:
            self._of_workspace -= Counter([workspace_id])

    def _take_place(self, caller: Side, tenant_id: str) -> None:
        """To the end of its connection, which may outlast the exchange: its caller takes the answer at its own pace. A
        tenant has no more of them than are left for others. One without gives way like a stranger.
        """
        its_own = sum(1 for one in self._let_in.values() if one == tenant_id)
        if its_own >= self.bounds.connections - len(self._let_in):
            raise proxy_refusal(429, "Too many requests to workspaces of this account are under way.", retry_seconds=1)
        self._strangers.pop(caller, None)
        self._let_in[caller] = tenant_id

    async def _exchanged(self, caller: Side, inner: h11.Request, head: Head, tenant_id: str) -> None:
        workspace = await self._reached(head, tenant_id)
        try:
            await carrying.carry_exchange(
                caller, workspace, inner, head.door, moved=lambda: self._moved(head.door.workspace_id)
            )
        finally:
            workspace.close()

    async def _reached(self, head: Head, tenant_id: str) -> Side:
        share = self._share.get(tenant_id) or self._share.setdefault(tenant_id, asyncio.Semaphore(OPENERS_OF_ONE))
        try:
            async with share:
                stream = await self._in_thread(self._openers, lambda: self._connection(head), late=socket.socket.close)
        except DriverRefused as error:
            if error.reason != "NotRunning":
                raise proxy_refusal(502, f"Nothing in the workspace takes the connection: {error}.") from None
            raise NotPassedOn(
                ProxyAnswer(503, "The workspace is not up yet.", using.WAKING_SECONDS, waits=True)
            ) from None
        except DriverError:
            raise proxy_refusal(
                503, "The host of this workspace does not answer.", retry_seconds=AWAY_SECONDS
            ) from None
        try:
            stream.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=stream, limit=CHUNK)
        except BaseException:
            stream.close()
            raise
        return self._side(reader, writer, serving=False)

    def _connection(self, head: Head) -> socket.socket:
        seen = finding.container_of(self._driver, head.door.workspace_id)
        try:
            return self._driver.connect(seen.container_id, head.door.port)
        except DriverRefused as error:
            is_young = seen.started_at is not None and clock.now() - seen.started_at < WARM_FOR
            if error.reason != "PortClosed" or not is_young:
                raise
            said = f"The workspace is up; nothing listens on its port {head.door.port} yet."
            raise NotPassedOn(ProxyAnswer(503, said, using.WAKING_SECONDS, waits=True)) from None

    async def _say(self, caller: Side, answer: ProxyAnswer, head: Head | None) -> None:
        """Nothing more is said to one that was answered already: it sees that its answer breaks off."""
        if caller.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            raise BrokenOff(answer.detail)
        metrics.PROXIED.labels(_came(answer)).inc()
        is_page = head is not None and head.wants_page
        headers, content = answers.rendered_proxy_answer(
            answer,
            page_path=head.door.path if head is not None and is_page else None,
            waited=head.waited if head else 0,
        )
        is_headless = head is not None and head.method == b"HEAD"
        body = [] if is_headless or not content else [h11.Data(data=content)]
        await caller.send(h11.Response(status_code=answer.status, headers=headers), *body, h11.EndOfMessage())

    def _moved(self, workspace_id: uuid.UUID) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._used_at.get(workspace_id, -self.bounds.use_seconds) < self.bounds.use_seconds:
            return
        if len(self._used_at) > self.bounds.connections:
            late = now - self.bounds.use_seconds
            self._used_at = {one: at for one, at in self._used_at.items() if at > late}
        self._used_at[workspace_id] = now
        self._threads.submit(self._used, workspace_id)

    def _side(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, serving: bool) -> Side:
        return Side(reader, writer, serving=serving, idle_seconds=self.bounds.idle_seconds)

    @staticmethod
    async def _in_thread(
        threads: ThreadPoolExecutor, work: Callable[[], Made], *, late: Callable[[Made], None] | None = None
    ) -> Made:
        """`late` takes what comes when nobody waits for it any more."""
        future = threads.submit(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if late is not None:
                future.add_done_callback(lambda done: _given_up(done, late))
            raise


def _signed_in(head: Head, token: str) -> ProxyAnswer:
    """At the workspace's own origin alone: what it serves would otherwise be read by pages of another."""
    granted = links.of_link(head.door, token)
    if granted is None or head.method != b"GET" or not links.is_at_home(head.door.workspace_id, head.host):
        return ProxyAnswer(
            401, "The link has ended, or is not whole; ask for another by POST /v1/workspaces/{id}/links."
        )
    return answers.proxy_redirect(
        303, f"{head.door.path}/", [(b"set-cookie", links.proxy_cookie(head.door, granted).encode())]
    )


def _came(answer: ProxyAnswer) -> str:
    if answer.waits:
        return "waking"
    return "refused" if answer.status < 500 else "failed"


def _given_up(future: Future[Made], late: Callable[[Made], None]) -> None:
    if not future.cancelled() and future.exception() is None:
        late(future.result())
