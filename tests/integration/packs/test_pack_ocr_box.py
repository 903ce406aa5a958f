"""Real pages through the real engine in a real box: how well they are read, and what is said of what was not."""

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import cv2
import docx
import numpy as np
import pytest
from PIL import Image

from dpp_project.reasons import ReasonCode
from runs.box.box import Box
from runs.box.outcomes import Done, Failed, PackOutcome
from runs.packs import ocr as pack
from tests.gear.builders import ocr, pack_page
from tests.gear.builders.packs import PackLog
from tests.gear.corpora import ocr_corpus
from tests.proving import proofs

pytestmark = [pytest.mark.contract("DPP-63"), ocr.needs_engine]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    made = Box([pack.__name__])
    yield made
    made.close()


def ran(box: Box, uploads: Mapping[str, bytes], *, wanted: Mapping[str, bool] | None = None, **job: Any) -> PackOutcome:
    """`job` changes what the box is asked; inputs beside the files go as `more`."""
    more = job.pop("more", {})
    asked = replace(ocr.a_job(*uploads, wanted=wanted, **more), **job)
    return box.start(asked, fetch_upload=ocr.fetcher(uploads), log=PackLog()).wait()


def done(outcome: PackOutcome) -> Done:
    assert isinstance(outcome, Done), outcome
    return outcome


def failed(outcome: PackOutcome, reason: ReasonCode) -> Failed:
    assert isinstance(outcome, Failed), outcome
    assert outcome.reason is reason, outcome
    return outcome


def several(form: str, *samples: ocr_corpus.Sample) -> bytes:
    first, *others = [Image.fromarray(sample.pixels) for sample in samples]
    buffer = io.BytesIO()
    first.save(buffer, form, save_all=True, append_images=others, resolution=ocr_corpus.DPI)
    return buffer.getvalue()


@cache
def receipts() -> list[ocr_corpus.Sample]:
    """Drawn where they are read: each process of the suite collects this module."""
    return [ocr_corpus.sample("receipt", seed) for seed in (1, 2)]


@cache
def receipt() -> bytes:
    return receipts()[0].png()


# How well it reads, on half a page of each kind. The whole table: make bench-ocr.


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        pytest.param("korean", 0.03, marks=pytest.mark.slow),
        pytest.param("english", 0.03, marks=pytest.mark.slow),
        ("mixed", 0.03),
        pytest.param("rotated", 0.04, marks=pytest.mark.slow),
        pytest.param("skewed", 0.04, marks=pytest.mark.slow),
        pytest.param("shadowed", 0.03, marks=pytest.mark.slow),
        pytest.param("noisy", 0.05, marks=pytest.mark.slow),
        pytest.param("two_columns", 0.04, marks=pytest.mark.slow),
        pytest.param("receipt", 0.02, marks=pytest.mark.slow),
    ],
)
def test_ocr_reads_each_kind_of_page(box: Box, kind: str, most: float) -> None:
    sample = ocr_corpus.sample(kind, 3, count=2)
    data = done(ran(box, {"page.png": sample.png()})).data
    assert ocr_corpus.character_error_rate(sample.truth, ocr.text_of(data)) <= most
    assert ocr.notes_of(data, "PAGE_INCOMPLETE") == []
    proofs.report(cases=1)


def test_ocr_says_where_each_block_is_and_how_sure(box: Box) -> None:
    data: Any = done(ran(box, {"receipt.png": receipt()})).data
    (page,) = data["texts"]
    assert (page["source"], page["page"]) == (ocr.PREFIX + "receipt.png", 1)
    assert (page["width"], page["height"], page["rotated_degrees"]) == (640, 900, 0)
    for block in page["blocks"]:
        left, top, width, height = block["box"]
        assert 0 <= left < left + width <= 640
        assert 0 <= top < top + height <= 900
        assert 0.6 < block["confidence"] <= 1
    assert "영수증" in page["blocks"][0]["text"]


def test_ocr_answers_as_its_page_shows(box: Box) -> None:
    """Confidence may differ by a hundredth and boxes by a few pixels where another build of the engine reads."""
    asked, answered = pack_page.shown("ocr")
    data: Any = done(ran(box, {"receipt.png": receipt()}, inputs=asked)).data
    (wanted,), (found,) = answered["texts"][0].pop("blocks"), data["texts"][0].pop("blocks")
    assert data == answered
    assert (found["text"], found["kind"]) == (wanted["text"], wanted["kind"])
    assert found["confidence"] == pytest.approx(wanted["confidence"], abs=0.02)
    assert found["box"] == pytest.approx(wanted["box"], abs=4)


@pytest.mark.parametrize("profile", ["P1", *(pytest.param(name, marks=pytest.mark.slow) for name in ("P2B", "P3"))])
def test_ocr_reads_by_each_profile(box: Box, profile: str) -> None:
    data = done(ran(box, {"receipt.png": receipt()}, more={"ocr_profile": profile})).data
    assert data["ocr_profile"] == profile
    assert ocr_corpus.character_error_rate(receipts()[0].truth, ocr.text_of(data)) <= 0.03
    proofs.report(cases=1)


def test_ocr_marks_what_it_cannot_read(box: Box) -> None:
    scrawled = receipts()[0].pixels.copy()
    rays = np.random.default_rng(3)
    height, width = scrawled.shape
    scrawled = np.vstack([scrawled, np.full((200, width), 250, np.uint8)])
    for step in range(0, 240, 3):
        y = height + 80 + round(18 * np.sin(step / 5) + rays.uniform(-3, 3))
        scrawled[y : y + 5, 200 + step : 205 + step] = 20
    found = done(ran(box, {"scrawl.png": ocr_corpus.Sample(pixels=scrawled, truth="").png()}))
    text = ocr.text_of(found.data)
    assert "[□]" in text or "(?)" in text
    assert ocr.notes_of(found.data, "UNREAD_INK") or ocr.notes_of(found.data, "VERIFY_SPELLING")
    assert found.reliability is not None
    assert found.reliability < 0.97


# Files, pages, money, time.


@pytest.mark.contract("DPP-66")
def test_ocr_reads_all_pages_of_all_files_and_charges_each(box: Box) -> None:
    uploads = {"a.png": receipt(), "b.tiff": several("TIFF", *receipts()), "c.pdf": several("PDF", *receipts())}
    found = done(ran(box, uploads))
    data: Any = found.data
    assert [(page["source"].rpartition("/")[2], page["page"]) for page in data["texts"]] == [
        ("a.png", 1),
        ("b.tiff", 1),
        ("b.tiff", 2),
        ("c.pdf", 1),
        ("c.pdf", 2),
    ]
    assert (data["pages_read"], found.spent_micros, found.tokens, found.discard_log) == (5, 10_000, 5, [])
    truth = "\n".join(sample.truth for sample in (receipts()[0], *receipts(), *receipts()))
    assert ocr_corpus.character_error_rate(truth, ocr.text_of(data)) <= 0.02
    assert found.reliability is not None
    assert found.reliability > 0.8


def test_ocr_answers_markdown_and_word_to_who_asks(box: Box) -> None:
    assert done(ran(box, {"a.png": receipt()})).artifacts == ()
    wanted = {"include_markdown": True, "include_docx": True}
    markdown, word = done(ran(box, {"a_b.png": receipt()}, wanted=wanted)).artifacts
    assert (markdown.name, markdown.content_type) == ("text.md", "text/markdown; charset=utf-8")
    text = markdown.content.decode()
    assert text.startswith("## a\\_b.png, page 1\n\n")
    assert "영수증" in text
    assert (word.name, word.content_type.rpartition(".")[2]) == ("text.docx", "document")
    body = zipfile.ZipFile(io.BytesIO(word.content)).read("word/document.xml").decode()
    assert "영수증" in re.sub(r"<[^>]+>", "", body)
    about = docx.Document(io.BytesIO(word.content)).core_properties
    assert (about.title, about.author, about.comments) == ("a_b.png, page 1", "", "")
    assert about.created is not None
    assert about.created.year >= 2026


def test_ocr_a_broken_file_costs_the_others_nothing(box: Box) -> None:
    found = done(ran(box, {"broken.png": receipt()[:2_000], "whole.png": receipt()}))
    data: Any = found.data
    assert (data["pages_read"], found.spent_micros) == (1, 2_000)
    assert ocr.notes_of(data, "NOT_READ") == ["broken.png page 1 is broken or cut off"]
    assert found.discard_log == [
        {"source": ocr.PREFIX + "broken.png", "page": 1, "reason": "page 1 is broken or cut off"}
    ]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.png", b"", "empty.png is empty."),
        ("words.pdf", b"%PDF-1.7 words", "words.pdf is a broken PDF."),
        ("letter.docx", b"PK\x03\x04 something else", "letter.docx is no PNG, JPEG, WebP, BMP, TIFF or PDF."),
    ],
)
def test_ocr_a_run_that_reads_nothing_fails_and_names_the_file(box: Box, name: str, content: bytes, says: str) -> None:
    found = failed(ran(box, {name: content}), ReasonCode.PACK_FAILED)
    assert (found.detail, found.spent_micros) == (says, 0)


def test_ocr_a_file_that_is_not_there_is_named(box: Box) -> None:
    job = ocr.a_job("lost.png")
    found = box.start(job, fetch_upload=ocr.fetcher({}), log=PackLog()).wait()
    assert failed(found, ReasonCode.PACK_FAILED).detail == "lost.png was not given: There is no such upload."


def test_ocr_a_blank_page_is_read_and_said_to_be_blank(box: Box) -> None:
    found = done(ran(box, {"blank.png": ocr_corpus.sample("blank", 1).png()}))
    assert (ocr.text_of(found.data), found.spent_micros, found.reliability) == ("", 2_000, None)
    assert ocr.notes_of(found.data, "BLANK_PAGE") == ["blank.png page 1"]


@pytest.mark.contract("DPP-36")
def test_ocr_stops_before_it_costs_more_than_is_held(box: Box) -> None:
    pages = {"b.tiff": several("TIFF", *receipts(), *receipts())}
    found = done(ran(box, pages, ceiling_micros=5_000))
    assert (found.data["pages_read"], found.spent_micros) == (2, 4_000)
    assert ocr.notes_of(found.data, "HOLD_EXHAUSTED") == ["b.tiff from page 3 on, and all behind it, was not read"]
    assert failed(ran(box, pages, ceiling_micros=1_999), ReasonCode.PACK_FAILED).spent_micros == 0


def test_ocr_reads_no_more_pages_than_asked_for(box: Box) -> None:
    found = done(ran(box, {"b.tiff": several("TIFF", *receipts(), *receipts())}, more={"max_pages": 1}))
    assert (found.data["pages_read"], found.spent_micros) == (1, 2_000)
    assert ocr.notes_of(found.data, "MAX_PAGES") == ["b.tiff from page 2 on, and all behind it, was not read"]


def test_ocr_out_of_time_keeps_what_it_has_read(box: Box) -> None:
    found = done(ran(box, {"long.tiff": several("TIFF", *receipts() * 30)}, timebox_seconds=3))
    data: Any = found.data
    assert 1 <= data["pages_read"] < 60
    assert found.spent_micros == 2_000 * data["pages_read"]
    assert len(ocr.notes_of(data, "TIME_EXHAUSTED")) == 1


@pytest.mark.slow
def test_ocr_reads_the_largest_picture_within_its_memory(box: Box) -> None:
    sheet = Image.new("RGB", (6_300, 6_300), (250, 250, 250))
    sheet.paste(Image.fromarray(receipts()[0].pixels).resize((2_560, 3_600)).convert("RGB"), (300, 300))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", compress_level=1)
    found = done(ran(box, {"large.png": buffer.getvalue()}))
    assert ocr_corpus.character_error_rate(receipts()[0].truth, ocr.text_of(found.data)) <= 0.03
    proofs.report(cases=1)


@pytest.mark.slow
def test_ocr_a_picture_of_nothing_ends_in_time(box: Box) -> None:
    """Specks just below what is taken for a picture: the engine searches them for lines, and finds no end."""
    rays = np.random.default_rng(1)
    specks = cv2.medianBlur(rays.integers(0, 256, (1_000, 1_000), dtype=np.uint8), 3)
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(specks)).save(buffer, "PNG")
    found = done(ran(box, {"specks.png": buffer.getvalue()}, timebox_seconds=15))
    assert found.spent_micros == 2_000
    # A fast machine comes to the end of it, and reads what looks like letters: it must not be sure of them.
    incomplete = ocr.notes_of(found.data, "PAGE_INCOMPLETE") or ocr.notes_of(found.data, "UNREAD_INK")
    assert incomplete or (found.reliability is not None and found.reliability < 0.5)
    proofs.report(cases=1)


def test_ocr_without_its_data_is_unavailable_and_says_how_to_install(box: Box) -> None:
    found = ran(box, {"a.png": receipt()}, environment={"TESSDATA_PREFIX": "/nowhere"})
    detail = failed(found, ReasonCode.ENGINE_UNAVAILABLE).detail
    assert "kor.traineddata, eng.traineddata, osd.traineddata not in /nowhere" in detail
    assert "make setup-ocr" in detail
