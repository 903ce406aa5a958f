"""Frames between the worker and a pack process: a JSON document, and raw bytes beside it where it names a file.

What comes out of a pack process is not trusted: a pack's native code may write anything into any descriptor.
"""

import json
import math
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

MEBIBYTE: Final = 1_048_576
ANSWER_BYTES_MAX: Final = 32 * MEBIBYTE
"""All that one pack process may send."""

PROGRESS_LINE_MAX: Final = 2_000
PROGRESS_NOTE_MAX: Final = 500

_HEAD: Final = struct.Struct("!4sII")
_MAGIC: Final = b"DPPb"
Document = dict[str, Any]


class Garbled(Exception):  # noqa: N818  named for what was read
    """These bytes are no frame."""


class Unfit(Exception):  # noqa: N818  named for what was read
    """A frame whose values no result may hold."""


class Oversized(Exception):  # noqa: N818  named for what was read
    """More than may be sent."""


@dataclass(frozen=True)
class Frame:
    document: Document
    content: bytes = b""
    text_bytes: int = field(default=0, compare=False)
    """How long the document came."""


def encode_frame(document: Document, content: bytes = b"") -> bytes:
    """NaN and other values that JSON does not know raise ValueError or TypeError."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    return _HEAD.pack(_MAGIC, len(text), len(content)) + text + content


class FrameReader:
    """Bytes in, frames out."""

    def __init__(self, *, limit_bytes: int = ANSWER_BYTES_MAX) -> None:
        self._left = limit_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._left -= len(data)
        if self._left < 0:
            raise Oversized
        self._buffer += data
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> Frame | None:
        if len(self._buffer) < _HEAD.size:
            return None
        magic, text_size, content_size = _HEAD.unpack_from(self._buffer)
        if magic != _MAGIC:
            raise Garbled
        end = _HEAD.size + text_size + content_size
        if end - len(self._buffer) > self._left:
            raise Oversized
        if len(self._buffer) < end:
            return None
        text = bytes(self._buffer[_HEAD.size : _HEAD.size + text_size])
        content = bytes(self._buffer[_HEAD.size + text_size : end])
        del self._buffer[:end]
        try:
            document = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        except Unfit:
            if b'"done"' in text[:64]:
                raise
            raise Garbled from None  # not a result: no pack of ours counts or waits for ever
        except (ValueError, RecursionError):
            raise Garbled from None
        if not isinstance(document, dict):
            raise Garbled
        return Frame(document, content, text_size)


def _no_number(_text: str) -> NoReturn:
    """NaN, Infinity and -Infinity, which Python reads and JSON does not know."""
    raise Unfit


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise Unfit
    return value


def receive_frame(connection: socket.socket) -> Frame:
    """Wait for one frame; EOFError when the other side is gone. Only for a side that trusts its peer."""
    head = _exactly(connection, _HEAD.size)
    _, text_size, content_size = _HEAD.unpack(head)
    text = _exactly(connection, text_size)
    return Frame(json.loads(text), _exactly(connection, content_size))


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        some = connection.recv(min(count - len(data), MEBIBYTE))
        if not some:
            raise EOFError
        data += some
    return bytes(data)
