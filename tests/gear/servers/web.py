"""A small part of the web on loopback: HTTPS servers with an authority of their own, and a network that leads there.

Every address that is dialled ends at one of these servers, whatever it is, and is written down. So a rule that lets
something through is seen twice: in `Loopback.dialled`, and in a connection that a server took.
"""

import asyncio
import dataclasses
import gzip
import socket
import ssl
import sys
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import trustme

from dpp_project.outbound import exchanging, http_exchange
from dpp_project.outbound.connecting import Rules, connect_outbound
from dpp_project.outbound.exchanging import OutboundAnswer
from dpp_project.outbound.network import Internet, Network
from runs.packs.pack import Reach

Serve = Callable[[str, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PUBLIC = "93.184.216.34"
PUBLIC_2 = "151.101.1.69"
PUBLIC_3 = "151.101.65.69"
PUBLIC_4 = "151.101.129.69"
PUBLIC_5 = "151.101.193.69"
PUBLIC_V6 = "2606:2800:220:1:248:1893:25c8:1946"
NAMES = (
    "good.example",
    "evil.example",
    "six.example",
    "xn--bcher-kva.example",
    "*.many.example",
    "docs.example",
    "api.github.com",
    "acme.atlassian.net",
    "slack.com",
    "crm.example",
    PUBLIC,
)
PAGE = (
    "<!doctype html><html><head><title>A  page\nof words</title></head><body><nav>Home About</nav><article>"
    "<h1>A page</h1><p>This is the first paragraph of the page, and it says something.</p>"
    "<p>This is the second one, which has more to say, and takes its time in saying it, as paragraphs do.</p>"
    "<p>Here stands a third, so that nobody takes the menu above for the matter itself; it is no shorter.</p>"
    "<p>마지막 문단에는 한국어가 있습니다.</p></article><footer>all rights reserved</footer></body></html>"
)
GUIDE = (
    "<html><head><title>A guide</title></head><body><nav>Home</nav><article><h1>A guide</h1>"
    "<p>Put the key in the lock and turn it to the left until it clicks, then pull the door towards you.</p>"
    "<p>The door closes by itself; nobody has to stay with it, and nobody should hold it open for others.</p>"
    "<p>Bring the key back by the evening. Without one, ring twice and wait until somebody comes to the door.</p>"
    "</article></body></html>"
)
PAGE_TITLE = "A page of words"
PAGE_TEXT = (
    "A page\nThis is the first paragraph of the page, and it says something.\n"
    "This is the second one, which has more to say, and takes its time in saying it, as paragraphs do.\n"
    "Here stands a third, so that nobody takes the menu above for the matter itself; it is no shorter.\n"
    "마지막 문단에는 한국어가 있습니다."
)


def answer(
    body: bytes = b"", *, status: str = "200 OK", content_type: str = "text/html; charset=utf-8", **headers: str
) -> bytes:
    fields = {"content-type": content_type, "content-length": str(len(body))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def redirect(where: str, status: str = "302 Found") -> bytes:
    return f"HTTP/1.1 {status}\r\nlocation: {where}\r\ncontent-length: 0\r\n\r\n".encode()


def plain_answers() -> dict[str, bytes]:
    """Whole answers by path. What is slow or endless stands in `odd_answers`."""
    page = PAGE.encode()
    bomb = gzip.compress(b"\0" * 50_000_000)
    return {
        "/": answer(page),
        "/ok": answer(page),
        "/guide": answer(GUIDE.encode()),
        "/gzip": answer(gzip.compress(page), content_encoding="gzip"),
        "/deflate": answer(zlib.compress(page), content_encoding="deflate"),
        "/raw-deflate": answer(zlib.compress(page, wbits=-15), content_encoding="deflate"),
        "/cut-gzip": answer(gzip.compress(page)[:-30], content_encoding="gzip"),
        "/hostile": answer(b"<title>T</title><p " + b" ".join(b"a%d=1" % n for n in range(200_000)) + b">"),
        "/korean": answer(PAGE.encode("cp949"), content_type="text/html; charset=euc-kr"),
        "/pdf": answer(b"%PDF-1.7 \0\0", content_type="application/pdf"),
        "/no-type": answer(page, content_type=""),
        "/missing": answer(page, status="404 Not Found"),
        "/empty": answer(b""),
        "/noloc": answer(page, status="302 Found"),
        "/refresh": answer(page, refresh="0; url=https://127.0.0.1/"),
        "/bomb": answer(bomb, content_encoding="gzip"),
        "/dbl": answer(gzip.compress(bomb), content_encoding="gzip, gzip"),
        "/badgz": answer(b"not gzip at all", content_encoding="gzip"),
        "/big": answer(b"<p>word " * 400_000),
        "/big-text": answer("한".encode() * 800_000, content_type="text/plain"),
        "/garbage": b"\0\1\2 not http\r\n\r\n",
        "/half": answer(page)[:-100],
        "/two-lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        "/onehdr": b"HTTP/1.1 200 OK\r\nx-long: " + b"a" * 200_000 + b"\r\n\r\n",
        "/loop": redirect("/loop"),
        "/protocol-relative": redirect("//evil.example/ok"),
        "/relative": redirect("ok?from=relative#part"),
        "/fragment": redirect("https://evil.example/ok#https://127.0.0.1/"),
        "/303": redirect("/ok", "303 See Other"),
        "/308": redirect("/ok", "308 Permanent Redirect"),
        "/empty-location": answer(page, status="302 Found", location=" "),
        **{f"/chain{hops}": redirect(f"/chain{hops - 1}" if hops > 1 else "/ok") for hops in range(1, 7)},
    }


async def _drip(writer: asyncio.StreamWriter, head: bytes, piece: bytes) -> None:
    """For as long as anyone listens: each piece comes before any timeout of a single read would."""
    writer.write(head)
    while not writer.is_closing():
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.05)


async def _flood(writer: asyncio.StreamWriter, head: bytes, piece: bytes) -> None:
    writer.write(head)
    while not writer.is_closing():
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)  # drain alone may never let the loop go


async def odd_answers(path: str, writer: asyncio.StreamWriter) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n"
    match path:
        case "/slow":
            await asyncio.sleep(600)
        case "/slow-head":
            await _drip(writer, head, b"x-a: b\r\n")
        case "/slow-body":
            await _drip(writer, head + b"content-length: 100000\r\n\r\n", b"a")
        case "/100":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await asyncio.sleep(600)
        case "/100-for-ever":
            await _flood(writer, b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
        case "/endless":
            await _flood(writer, head + b"\r\n", b"word " * 10_000)
        case "/one-byte-chunks":
            await _flood(writer, head + b"transfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n" * 10_000)


class Web:
    """Servers in a thread: `good` has a true certificate, `stranger` one of an unknown authority, `plain` no TLS."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.ca_file = folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca_file))
        self._answers = plain_answers()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._servers: list[asyncio.Server] = []
        self.taken: list[str] = []
        """The request line's target of every connection that came as far, `?` for one that did not."""
        self.good = self._start(_tls(authority.issue_cert(*NAMES)))
        self.stranger = self._start(_tls(trustme.CA().issue_cert("badca.example")))
        self.plain = self._start(None)

    @property
    def thread_id(self) -> int:
        """The kernel's number of the thread that serves."""
        return self._thread.native_id or 0

    def _start(self, tls: ssl.SSLContext | None) -> int:
        async def start() -> int:
            server = await asyncio.start_server(self._take, "127.0.0.1", 0, ssl=tls)
            self._servers.append(server)
            return int(server.sockets[0].getsockname()[1])

        return asyncio.run_coroutine_threadsafe(start(), self._loop).result(10)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.taken.append("?")
        place = len(self.taken) - 1
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode()
            self.taken[place] = path
            await self._serve(path, writer)
            await writer.drain()
        writer.close()

    async def _serve(self, path: str, writer: asyncio.StreamWriter) -> None:
        name, _, query = path.partition("?")
        if name == "/r":
            writer.write(redirect(unquote(query)))
        elif name in self._answers:
            writer.write(self._answers[name])
        else:
            await odd_answers(name, writer)

    def close(self) -> None:
        async def stop() -> None:
            for server in self._servers:
                server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for _ in range(5):
                await asyncio.sleep(0)  # what was closed is told so

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


def _tls(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@contextmanager
def unused_port() -> Iterator[int]:
    """Nobody listens there while this holds it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


class Loopback:
    """A network whose names are a table and whose every address is a server of Web: `ports`, or the good one."""

    def __init__(self, web: Web, names: Mapping[str, list[str]], ports: Mapping[str, int] | None = None) -> None:
        self._web = web
        self._names = names
        self._ports = ports or {}
        self.asked: list[str] = []
        self.dialled: list[tuple[str, int]] = []
        self.tls = ssl.create_default_context(cafile=str(web.ca_file))

    async def resolve(self, host: str, *, caller: str = "") -> list[str]:
        self.asked.append(host)
        if host == "slowdns.example":
            await asyncio.sleep(600)
        if host not in self._names:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return self._names[host]

    async def connect(self, address: str, port: int) -> socket.socket:
        self.dialled.append((address, port))
        return await Internet().connect("127.0.0.1", self._ports.get(address, self._web.good))


class Outside:
    """What a job asks its worker for, done in this process."""

    def __init__(self, network: Network | None = None, reach: Reach | None = None) -> None:
        self._network = network or Internet()
        self._reach = reach or Reach(rules=Rules())

    @asynccontextmanager
    async def connection(self, url: str, *, seconds: float) -> AsyncIterator[socket.socket]:
        assert self._reach.rules is not None
        with await connect_outbound(url, rules=self._reach.rules, network=self._network, seconds=seconds) as made:
            yield made

    async def ask(self, body: bytes, *, seconds: float) -> OutboundAnswer:
        assert self._reach.asks is not None
        asked = dataclasses.replace(self._reach.asks, body=body)
        rules, tls = Rules(is_operators=True), http_exchange.tls_trusting()
        return await exchanging.exchange_outbound(asked, rules=rules, network=self._network, tls=tls, seconds=seconds)


class SocketsOpened:
    """Every connect and every name asked for by this process while it counts, told by the interpreter itself."""

    def __init__(self) -> None:
        self._events: list[tuple[str, str]] = []
        self._counting = False
        self._is_heard = False

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._counting and event == "socket.connect":
            self._events.append((event, str(arguments[1])))
        elif self._counting and event in {"socket.getaddrinfo", "socket.gethostbyname"}:
            self._events.append((event, str(arguments[0])))

    @contextmanager
    def counted(self) -> Iterator[list[tuple[str, str]]]:
        if not self._is_heard:
            # For good: Python knows no way back. From now on each event of the interpreter costs a call, hundreds of
            # thousands in a whole suite, so processes that count nothing go without.
            sys.addaudithook(self._hear)
            self._is_heard = True
        events: list[tuple[str, str]] = []
        self._events = events
        self._counting = True
        try:
            yield events
        finally:
            self._counting = False


SOCKETS = SocketsOpened()
