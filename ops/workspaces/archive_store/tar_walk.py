"""Walks a tar from header to header without unpacking it, to the mark of its end and past that.

tarfile's stream mode ends normally where an archive is cut between two members; this walk wants to have seen two blocks
of zeros. GNU and pax headers, long names and sparse files are walked as GNU tar writes them.

tar writes a path of any length and cannot make one again that the kernel takes no name of: an archive that holds one is
whole, and no home comes of it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ops.workspaces.archive_store.failures import archive_corrupted, not_restorable
from ops.workspaces.drivers.base import DriverCorrupt

BLOCK: Final = 512
PAX_BYTES_MAX: Final = 64 << 20
"""Of one extended header, which is held in memory: a file's extended attributes lie in it."""
PATH_BYTES_MAX: Final = 4_095
"""What the kernel takes as one path."""
_ZEROS: Final = bytes(BLOCK)
_WITH_CONTENT: Final = frozenset(b"0\x007S")
_BARE: Final = frozenset(b"123456")
"""Links, devices, folders, FIFOs: a header and nothing else."""
_NAMES: Final = frozenset(b"LK")
_OF_NEXT: Final = ord("x")
_OF_ALL: Final = ord("g")
_SPARSE: Final = ord("S")
_TYPE, _IS_EXTENDED, _GOES_ON = 156, 482, 504
_PATHS: Final = (b"path=", b"linkpath=", b"GNU.sparse.name=")


@dataclass(frozen=True, slots=True)
class WalkedTar:
    bytes: int
    members: int


def walk_tar(chunks: Iterable[bytes]) -> WalkedTar:
    """Raises DriverCorrupt where a header is none, and where the end is missing or is not the end."""
    stream, members, size_said, is_announced = _Stream(chunks), 0, None, False
    while (header := stream.block()) != _ZEROS:
        size, kind = _tar_entry_size(header), header[_TYPE]
        if kind == _OF_NEXT:
            extended = stream.content(size)
            _refuse_long_paths(extended)
            size_said, is_announced = _size_in_pax(extended), True
        elif kind == _OF_ALL:
            if _size_in_pax(stream.content(size)) is not None:
                raise _wrong("a header for all members gives a size")
        elif kind in _NAMES:
            _refuse_long_path(size - 1)
            stream.skip(size)
            is_announced = True
        else:
            members += 1
            if kind == _SPARSE:
                _skip_sparse_map(stream, header)
            stream.skip(_content_bytes(kind, size if size_said is None else size_said))
            size_said, is_announced = None, False
    if is_announced or stream.block() != _ZEROS:
        raise _wrong("the mark of its end is not whole")
    stream.only_zeros()
    return WalkedTar(bytes=stream.bytes, members=members)


class _Stream:
    """The chunks as one stream, of which the current chunk alone is held."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.bytes = 0
        self._chunks = iter(chunks)
        self._chunk = b""
        self._place = 0

    def block(self) -> bytes:
        return self._take(BLOCK)

    def content(self, size: int) -> bytes:
        if size > PAX_BYTES_MAX:
            raise _wrong(f"an extended header has {size} bytes")
        return self._take(_padded(size))[:size]

    def skip(self, size: int) -> None:
        left = _padded(size)
        while left > (here := len(self._chunk) - self._place):
            left -= here
            if not self._next():
                raise _tar_cut_short()
        self._place += left

    def only_zeros(self) -> None:
        """tar fills its last record up; nothing else may follow."""
        while True:
            rest = self._chunk[self._place :]
            if rest.count(0) != len(rest):
                raise _wrong("something follows its end")
            if not self._next():
                break
        if self.bytes % BLOCK:
            raise _tar_cut_short()

    def _take(self, size: int) -> bytes:
        end = self._place + size
        if end <= len(self._chunk):
            found, self._place = self._chunk[self._place : end], end
            return found
        parts = bytearray(self._chunk[self._place :])
        while len(parts) < size:
            if not self._next():
                raise _tar_cut_short()
            parts += self._chunk
        self._place = len(self._chunk) - (len(parts) - size)
        return bytes(parts[:size])

    def _next(self) -> bool:
        self._place = 0
        self._chunk = next(self._chunks, b"")
        self.bytes += len(self._chunk)
        return bool(self._chunk)


def _tar_entry_size(header: bytes) -> int:
    """Of what follows. The sum of the header's bytes is looked at first: one that is wrong says nothing."""
    if _number(header[148:156]) != sum(header) - sum(header[148:156]) + 8 * ord(" "):
        raise _wrong("a header's checksum is wrong")
    return _number(header[124:136])


def _number(field: bytes) -> int:
    """Octal digits, or GNU tar's binary where those do not suffice."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not digits or not digits.isdigit() or b"8" in digits or b"9" in digits:
        raise _wrong("a header's number is none")
    return int(digits, 8)


def _content_bytes(kind: int, size: int) -> int:
    if kind in _WITH_CONTENT:
        return size
    if kind in _BARE and size == 0:
        return 0
    raise _wrong(f"a member of the kind {kind:#x} has {size} bytes")


def _skip_sparse_map(stream: _Stream, header: bytes) -> None:
    """More of an old GNU sparse file's map, before its content."""
    goes_on = header[_IS_EXTENDED]
    while goes_on:
        goes_on = stream.block()[_GOES_ON]


def _size_in_pax(content: bytes) -> int | None:
    found = None
    for begin, end in _records(content):
        if content.startswith(b"size=", begin):
            value = content[begin + 5 : end]
            if not value.isdigit():
                raise _wrong("an extended header's size is none")
            found = int(value)
    return found


def _refuse_long_paths(content: bytes) -> None:
    for begin, end in _records(content):
        for key in _PATHS:
            if content.startswith(key, begin):
                _refuse_long_path(len(content[begin + len(key) : end].rstrip(b"/")))


def _refuse_long_path(length: int) -> None:
    if length > PATH_BYTES_MAX:
        raise not_restorable(f"the home has a path of {length} bytes, and {PATH_BYTES_MAX} is the most that comes back")


def _records(content: bytes) -> Iterator[tuple[int, int]]:
    """Where each `KEY=VALUE` begins and ends, of `LENGTH KEY=VALUE\\n`; the length is that of the whole record."""
    place = 0
    while place < len(content):
        space = content.find(b" ", place, place + 20)
        digits = content[place:space] if space > place else b""
        end = place + (int(digits) if digits.isdigit() else 0)
        if end <= space + 1 or end > len(content) or content[end - 1] != ord("\n"):
            raise _wrong("an extended header is cut")
        yield space + 1, end - 1
        place = end


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _wrong(what: str) -> DriverCorrupt:
    return archive_corrupted(f"the tar in the archive cannot be read: {what}")


def _tar_cut_short() -> DriverCorrupt:
    return archive_corrupted("the tar in the archive is cut before its end")
