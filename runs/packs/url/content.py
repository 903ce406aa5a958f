"""Reads a response body: decompressed within a limit, with its content type and charset."""

import codecs
import re
import zlib
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Final

from dpp_project.outbound.refusals import Refused
from runs.packs.url.reasons import Discarded

BODY_BYTES_MAX: Final = 2 * 1_048_576
_SNIFFED: Final = 1_024
_ZLIB_OR_GZIP: Final = 47
_RAW_DEFLATE: Final = -15
_ZLIB_HEAD_BYTES: Final = 2


class Kind(StrEnum):
    HTML = "html"
    TEXT = "text"
    OTHER = "other"
    UNKNOWN = "unknown"
    """No content type was sent; the first bytes decide."""


_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = frozenset({"application/json", "application/xml", "application/javascript", "application/yaml"})
_MEDIA_TYPE: Final = re.compile(r"\s*([a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+)", re.IGNORECASE)
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]+)", re.IGNORECASE)
_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]+)", re.IGNORECASE)
_XML_CHARSET: Final = re.compile(rb"^\s*<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([A-Za-z0-9_:.-]+)", re.IGNORECASE)
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# A charset is a name that strangers choose, and Python knows codecs that are no charsets and cost what they like.
# Where browsers read a wider set under an older name, so do we.
_CODECS: Final = frozenset(
    {"utf-8", "utf-16", "utf-16-le", "utf-16-be", "cp949", "johab", "cp932", "euc_jp", "iso2022_jp", "gb18030", "big5"}
    | {"koi8-r", "koi8-u", "tis-620", "mac-roman", "cp866"}
    | {f"cp{number}" for number in range(1250, 1259)}
    | {f"iso8859-{part}" for part in range(2, 17)}
)
_WIDER: Final = {
    "ascii": "cp1252",
    "big5hkscs": "big5",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
}
_NOT_PYTHONS: Final = {"x-sjis": "cp932", "windows-949": "cp949", "x-windows-949": "cp949", "x-gbk": "gb18030"}


def kind_of(content_type: str) -> Kind:
    found = _MEDIA_TYPE.match(content_type)
    if found is None:
        return Kind.UNKNOWN
    media_type = found[1].lower()
    if media_type in _HTML:
        return Kind.HTML
    is_text = media_type.startswith("text/") or media_type in _TEXT or media_type.endswith(("+xml", "+json"))
    return Kind.TEXT if is_text else Kind.OTHER


def sniffed_kind(body: bytes) -> Kind:
    """Guess the content type of a body that was sent without one."""
    start = body[:_SNIFFED].lstrip()
    if re.match(rb"<(!doctype html|html|head|body|title|!--|meta|p|div|h1)\b", start, re.IGNORECASE):
        return Kind.HTML
    return Kind.OTHER if b"\0" in start or not _is_utf8(start) else Kind.TEXT


def _is_utf8(start: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return True


def charset_of(content_type: str) -> str:
    """The charset that the header names, or nothing."""
    found = _CHARSET.search(content_type)
    return found[1] if found else ""


def decoded_content(body: bytes, charset: str) -> str:
    """The byte order mark first, then the header, then what the page says of itself, then UTF-8, then Korean's own."""
    for mark, marked in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body.decode(marked, errors="replace")
    start = body[:_SNIFFED]
    said = _META_CHARSET.search(start) or _XML_CHARSET.search(start)
    codec = known_codec(charset) or (known_codec(said[1].decode("ascii")) if said else None)
    if codec is not None:
        return body.decode(codec, errors="replace")
    if _is_utf8(body):
        return body.decode("utf-8", errors="replace")  # the last character may be cut
    try:
        return body.decode("cp949")
    except UnicodeDecodeError:
        return body.decode("cp1252", errors="replace")


def known_codec(charset: str) -> str | None:
    """Python's name for a charset of the web; None for anything else that Python would decode with."""
    name = charset.lower()
    try:
        name = codecs.lookup(_NOT_PYTHONS.get(name, name)).name
    except (LookupError, ValueError):
        return None
    name = _WIDER.get(name, name)
    return name if name in _CODECS else None


async def read_body(pieces: AsyncIterator[bytes], content_encoding: str) -> tuple[bytes, bool]:
    """The unpacked body, and whether it was cut at the limit: however it is packed, it grows no larger than that."""
    unpack = _unpacker(content_encoding)
    body = bytearray()
    on_the_wire = 0
    async for piece in pieces:
        on_the_wire += len(piece)
        room = BODY_BYTES_MAX + 1 - len(body)
        body += piece[:room] if unpack is None else unpack.unpack(piece, room)
        if len(body) > BODY_BYTES_MAX or on_the_wire > BODY_BYTES_MAX:
            return bytes(body[:BODY_BYTES_MAX]), True
        if unpack is not None and unpack.ended:
            break
    if unpack is not None and on_the_wire and not unpack.ended:
        raise Refused(Discarded.BAD_ENCODING)
    return bytes(body), False


def _unpacker(content_encoding: str) -> "_Unpacker | None":
    names = [name.strip().lower() for name in content_encoding.split(",")]
    names = [name for name in names if name not in {"", "identity"}]
    if not names:
        return None
    if len(names) > 1 or names[0] not in {"gzip", "x-gzip", "deflate"}:
        raise Refused(Discarded.UNSUPPORTED_ENCODING)
    return _Unpacker(may_be_raw=names[0] == "deflate")


class _Unpacker:
    """zlib within a limit. `deflate` means zlib's own form; servers that send it without that are read too."""

    def __init__(self, *, may_be_raw: bool) -> None:
        self._zlib = None if may_be_raw else zlib.decompressobj(_ZLIB_OR_GZIP)
        self._start = b""

    @property
    def ended(self) -> bool:
        return self._zlib is not None and self._zlib.eof

    def unpack(self, piece: bytes, room: int) -> bytes:
        if self._zlib is None:
            self._start += piece
            if len(self._start) < _ZLIB_HEAD_BYTES:
                return b""
            piece = self._start
            self._zlib = zlib.decompressobj(_ZLIB_OR_GZIP if _has_zlib_head(piece) else _RAW_DEFLATE)
        try:
            return self._zlib.decompress(piece, room)
        except zlib.error:
            raise Refused(Discarded.BAD_ENCODING) from None


def _has_zlib_head(start: bytes) -> bool:
    return start[0] & 0x0F == zlib.DEFLATED and (start[0] << 8 | start[1]) % 31 == 0
