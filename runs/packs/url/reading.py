"""Reading pages apart: a process of its own, and in it one for each page, with its own limits of time and memory.

Extraction is a parser of strangers' markup in C, and heuristics over it: pages exist, small enough to be fetched, on
which it works for minutes or takes half a gigabyte. Such a page loses its text, not the run.

The reader is forked before the pack has any thread, and never has one; so it may fork safely for every page.
"""

import contextlib
import json
import logging
import os
import resource
import socket
import struct
from typing import Any, Final, NoReturn

from dpp_project.processes import child_limits, parent_death
from runs.packs.pack import MEBIBYTE
from runs.packs.url.content import Kind
from runs.packs.url.fetching import FetchedPage

CPU_SECONDS: Final = 3
MEMORY_BYTES: Final = 192 * MEBIBYTE
_START_BYTES: Final = 65_536
_SIZE: Final = struct.Struct("!I")


class PageTextReader:
    """One page at a time, from one thread."""

    def __init__(self) -> None:
        self._connection, far = socket.socketpair()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._connection.close()
            _serve(far, parent)
        far.close()

    def read(self, page: FetchedPage) -> dict[str, Any] | None:
        """title, excerpt and characters; None where the page took more than it may, or ended its process."""
        about = json.dumps([page.kind.value, page.charset]).encode()
        try:
            self._connection.sendall(_framed(about) + _framed(page.body))
            answer = json.loads(_receive(self._connection))
        except (OSError, EOFError, ValueError):
            return None
        return answer if isinstance(answer, dict) else None

    def close(self) -> None:
        """With the page it may be at: its end of the pair closes, and the kernel ends the child with its parent."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, 9)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _serve(connection: socket.socket, parent: int) -> NoReturn:
    try:
        parent_death.die_with_parent(parent)
        logging.disable()  # the extractor remarks on what it reads
        from runs.packs.url import text  # noqa: F401  30 MB, loaded once for all pages

        while True:
            kind, charset = json.loads(_receive(connection))
            answer = _in_a_child(_receive(connection), Kind(kind), charset)
            connection.sendall(_framed(answer))
    except (OSError, EOFError, ImportError):
        os._exit(1)
    finally:
        os._exit(0)


def _in_a_child(body: bytes, kind: Kind, charset: str) -> bytes:
    reading, writing = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            parent_death.die_with_parent(parent)
            child_limits.lower_limit(resource.RLIMIT_CPU, CPU_SECONDS)
            child_limits.lower_memory(MEMORY_BYTES)
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(_url_text_as_json(body, kind, charset))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    return answer if answer and status == 0 else _unread(body, kind, charset)


def _url_text_as_json(body: bytes, kind: Kind, charset: str) -> bytes:
    from runs.packs.url import text

    found = text.read_url_text(body, kind, charset)
    return json.dumps({"title": found.title, "excerpt": found.excerpt, "characters": found.characters}).encode()


def _unread(body: bytes, kind: Kind, charset: str) -> bytes:
    """The child is dead or gave up. A title is better than nothing, and a plain search finds it."""
    from runs.packs.url import text

    title = text.title_of(body[:_START_BYTES], charset) if kind is Kind.HTML else None
    return json.dumps({"title": title, "excerpt": None, "characters": None}).encode()


def _framed(content: bytes) -> bytes:
    return _SIZE.pack(len(content)) + content


def _receive(connection: socket.socket) -> bytes:
    (size,) = _SIZE.unpack(_exactly(connection, _SIZE.size))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        some = connection.recv(min(count - len(data), MEBIBYTE))
        if not some:
            raise EOFError
        data += some
    return bytes(data)
