"""Bodies and charsets of the url pack: no input makes more of itself than 2 MB, and no name picks a dangerous codec."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator

import pytest

from dpp_project.outbound.refusals import Refused
from runs.packs.url.content import (
    BODY_BYTES_MAX,
    Kind,
    charset_of,
    decoded_content,
    kind_of,
    known_codec,
    read_body,
    sniffed_kind,
)
from runs.packs.url.reasons import Discarded

pytestmark = pytest.mark.contract("DPP-62")


def body_of(content: bytes, encoding: str = "", *, piece: int = 16_384) -> tuple[bytes, bool]:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(content), piece):
            yield content[start : start + piece]

    return asyncio.run(read_body(pieces(), encoding))


@pytest.mark.parametrize(
    ("packed", "encoding"),
    [
        (b"a page", ""),
        (b"a page", "identity"),
        (gzip.compress(b"a page", mtime=0), "gzip"),
        (gzip.compress(b"a page", mtime=0), "X-GZIP"),
        (zlib.compress(b"a page"), "deflate"),
        (zlib.compress(b"a page", wbits=-15), "deflate"),
        (gzip.compress(b"a page", mtime=0) + b"and what follows", "gzip"),
    ],
)
@pytest.mark.parametrize("piece", [1, 16_384])
def test_pack_url_unpacks_what_the_web_packs(packed: bytes, encoding: str, piece: int) -> None:
    assert body_of(packed, encoding, piece=piece) == (b"a page", False)


def test_pack_url_keeps_two_megabytes_and_says_that_it_cut() -> None:
    assert body_of(b"a" * BODY_BYTES_MAX) == (b"a" * BODY_BYTES_MAX, False)
    assert body_of(b"a" * (BODY_BYTES_MAX + 1)) == (b"a" * BODY_BYTES_MAX, True)


def test_pack_url_a_bomb_grows_no_larger_than_the_limit() -> None:
    bomb = gzip.compress(bytes(200_000_000), compresslevel=1)
    assert len(bomb) < BODY_BYTES_MAX
    assert body_of(bomb, "gzip") == (bytes(BODY_BYTES_MAX), True)


def test_pack_url_a_bomb_that_never_yields_is_cut_on_the_wire() -> None:
    empty_blocks = b"\x78\x9c" + b"\x00\x00\x00\xff\xff" * 500_000
    assert body_of(empty_blocks, "deflate") == (b"", True)


@pytest.mark.parametrize(
    ("packed", "encoding", "reason"),
    [
        (gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), "gzip, gzip", Discarded.UNSUPPORTED_ENCODING),
        (b"x", "br", Discarded.UNSUPPORTED_ENCODING),
        (b"x", "zstd", Discarded.UNSUPPORTED_ENCODING),
        (b"not packed at all", "gzip", Discarded.BAD_ENCODING),
        (b"not packed at all", "deflate", Discarded.BAD_ENCODING),
        (gzip.compress(b"a page" * 100, mtime=0)[:-20], "gzip", Discarded.BAD_ENCODING),
    ],
)
def test_pack_url_refuses_what_it_cannot_unpack(packed: bytes, encoding: str, reason: Discarded) -> None:
    with pytest.raises(Refused) as refused:
        body_of(packed, encoding)
    assert refused.value.reason is reason


@pytest.mark.parametrize(
    ("content_type", "kind", "charset"),
    [
        ("text/html; charset=utf-8", Kind.HTML, "utf-8"),
        ('TEXT/HTML;Charset="EUC-KR"', Kind.HTML, "EUC-KR"),
        ("application/xhtml+xml", Kind.HTML, ""),
        ("text/plain", Kind.TEXT, ""),
        ("application/ld+json", Kind.TEXT, ""),
        ("application/rss+xml; charset=euc-kr", Kind.TEXT, "euc-kr"),
        ("application/pdf", Kind.OTHER, ""),
        ("image/png", Kind.OTHER, ""),
        ("", Kind.UNKNOWN, ""),
        ("nonsense", Kind.UNKNOWN, ""),
    ],
)
def test_pack_url_reads_content_types(content_type: str, kind: Kind, charset: str) -> None:
    assert (kind_of(content_type), charset_of(content_type)) == (kind, charset)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"  <!DOCTYPE html><p>x", Kind.HTML),
        (b"<title>x</title>", Kind.HTML),
        (b"plain words", Kind.TEXT),
        ("가".encode()[:2], Kind.TEXT),
        (b"%PDF\0\0", Kind.OTHER),
        (b"\xff\xfe\xfa", Kind.OTHER),
    ],
)
def test_pack_url_knows_a_body_without_a_content_type(body: bytes, kind: Kind) -> None:
    assert sniffed_kind(body) is kind


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        ("한국어".encode(), "utf-8"),
        ("한국어".encode(), ""),
        ("한국어".encode("cp949"), "euc-kr"),
        ("한국어".encode("cp949"), "ks_c_5601-1987"),
        ("한국어".encode("cp949"), ""),
        ("한국어".encode("utf-8-sig"), "euc-kr"),
        ("한국어".encode("utf-16"), "utf-8"),
        (b'<meta charset="euc-kr">' + "한국어".encode("cp949"), ""),
        (b'<meta http-equiv=a content="text/html; charset=euc-kr">' + "한국어".encode("cp949"), "no-such-charset"),
        (b'<?xml version="1.0" encoding="euc-kr"?>' + "한국어".encode("cp949"), ""),
    ],
)
def test_pack_url_reads_korean_however_it_is_written(body: bytes, charset: str) -> None:
    assert decoded_content(body, charset).endswith("한국어")


def test_pack_url_decodes_any_bytes() -> None:
    assert decoded_content(bytes(range(256)), "") != ""
    assert decoded_content("caf\xe9".encode("latin-1"), "iso-8859-1") == "café"
    assert decoded_content("가나".encode()[:-1], "") == "가\ufffd"


@pytest.mark.parametrize(
    "name",
    [
        "zlib",
        "zip",
        "bz2",
        "rot13",
        "hex",
        "base64",
        "idna",
        "punycode",
        "unicode_escape",
        "utf-7",
        "undefined",
        "",
        "x" * 10_000,
        "a\0b",
    ],
)
def test_pack_url_no_page_chooses_a_codec_that_is_no_charset(name: str) -> None:
    assert known_codec(name) is None
