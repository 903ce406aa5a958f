"""The reader: pages that a parser chokes on lose their text, and nothing else is lost."""

import os
import time
from collections.abc import Iterator

import pytest

from dpp_project import clock
from runs.packs.url.content import BODY_BYTES_MAX, Kind
from runs.packs.url.fetching import FetchedPage
from runs.packs.url.reading import PageTextReader
from tests.gear.builders.box import lives
from tests.gear.servers.web import PAGE, PAGE_TEXT, PAGE_TITLE
from tests.proving import proofs

pytestmark = [
    pytest.mark.contract("DPP-62"),
    # A run forks its reader while it has one thread; a test process has more, and the reader needs none of their locks.
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


@pytest.fixture
def reader() -> Iterator[PageTextReader]:
    made = PageTextReader()
    yield made
    made.close()


def page(body: bytes, kind: Kind = Kind.HTML, charset: str = "utf-8") -> FetchedPage:
    return FetchedPage(
        final_url="https://good.example/",
        status_code=200,
        content_type="",
        kind=kind,
        charset=charset,
        body=body,
        truncated=False,
        fetched_at=clock.now(),
    )


def test_pack_url_reads_title_and_text(reader: PageTextReader) -> None:
    for body, charset in ((PAGE.encode(), "utf-8"), (PAGE.encode("cp949"), "euc-kr")):
        assert reader.read(page(body, charset=charset)) == {
            "title": PAGE_TITLE,
            "excerpt": PAGE_TEXT,
            "characters": len(PAGE_TEXT),
        }


@pytest.mark.parametrize(
    ("body", "kind", "excerpt", "characters"),
    [
        (b"plain \0words\r\n", Kind.TEXT, "plain words", 11),
        ("가".encode() * 9_000, Kind.TEXT, "가" * 8_000, 9_000),
        (b"", Kind.HTML, None, 0),
        (b"<", Kind.HTML, None, 0),
        (b"<html></html>", Kind.HTML, None, 0),
        (b"<p>one<p>two", Kind.HTML, "one\ntwo", 7),
    ],
)
def test_pack_url_reads_what_there_is(
    reader: PageTextReader, body: bytes, kind: Kind, excerpt: str | None, characters: int
) -> None:
    assert reader.read(page(body, kind)) == {"title": None, "excerpt": excerpt, "characters": characters}


A_PARSER_LEFT_ALONE = 140.0
"""Seconds of one core for the attributes; the breaks take half a gigabyte."""
HOSTILE = {
    "attributes without end": b"<title>T</title><p " + b" ".join(b"a%d=1" % number for number in range(200_000)) + b">",
    "breaks without end": b"<title>T</title>" + b"x<br>" * 400_000,
    "paragraphs in each other": b"<title>T</title>" + b"<p>" * 600_000,
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("attributes without end", marks=pytest.mark.slow),  # in make test by test_pack_url_box.py
        "breaks without end",
        "paragraphs in each other",
    ],
)
def test_pack_url_a_hostile_page_takes_no_longer_than_its_limit_and_the_next_is_read(
    reader: PageTextReader, name: str
) -> None:
    started = time.monotonic()
    found = reader.read(page(HOSTILE[name][:BODY_BYTES_MAX]))
    assert found == {"title": "T", "excerpt": None, "characters": None}
    assert time.monotonic() - started < A_PARSER_LEFT_ALONE / 2
    again = reader.read(page(PAGE.encode()))
    assert again is not None
    assert again["excerpt"] == PAGE_TEXT
    proofs.report(cases=1)


def test_pack_url_a_reader_that_is_gone_is_no_error() -> None:
    reader = PageTextReader()
    os.kill(reader._pid, 9)
    assert reader.read(page(PAGE.encode())) is None
    reader.close()
    assert not lives(reader._pid)
