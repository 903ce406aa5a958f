"""What a page becomes, with an engine that says what the test wants: marks, blocks, columns, merged readings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runs.packs.ocr import layout, tessdata
from runs.packs.ocr.cleaning import dust_share, grain, has_shadow, ink, tilt, turned, without_shadow
from runs.packs.ocr.engine import Gray, Line, Reading, Rectangle, SeenWord, Symbol
from runs.packs.ocr.merging import merged, respaced
from runs.packs.ocr.page import PageReader, PageText
from runs.packs.ocr.profiles import PROFILES, ProfileName

pytestmark = pytest.mark.contract("DPP-63")

HIGH = 30


def word(text: str, left: int, confidence: float = 0.95, *, top: int = 0, sure: Sequence[float] = ()) -> SeenWord:
    """Letters 20 wide and 30 high, without gaps."""
    symbols = tuple(
        Symbol(
            sign,
            sure[number] if sure else 0.99,
            Rectangle(left + 20 * number, top, left + 20 * number + 20, top + HIGH),
        )
        for number, sign in enumerate(text)
    )
    return SeenWord(text, confidence, Rectangle(left, top, left + 20 * len(text), top + HIGH), symbols)


def line(*words: SeenWord) -> Line:
    return Line(words)


def texts(found: Line) -> list[str]:
    return [one.text for one in found.words]


class Scripted:
    """Says the same lines for every picture, and nothing to a second look."""

    def __init__(self, *lines: Line, complete: bool = True) -> None:
        self._lines, self._complete = lines, complete
        self.asked: list[tuple[int, str]] = []

    def orientation(self, _gray: Gray) -> tuple[int, float]:
        return 0, 0.0

    def read(self, _gray: Gray, *, psm: int, seconds: float, language: str = "kor+eng") -> Reading:
        self.asked.append((psm, language))
        assert seconds > 0
        first = len(self.asked) == 1
        return Reading(self._lines if first else (), complete=self._complete or not first)


def page_with(*boxes: Rectangle) -> Gray:
    """Checkered ink in these places of white paper."""
    sheet = np.full((600, 800), 255, np.uint8)
    checks = np.where(np.indices((600, 800)).sum(axis=0) // 4 % 2, 0, 255).astype(np.uint8)
    for box in boxes:
        rows, columns = slice(box.top, box.bottom), slice(box.left, box.right)
        sheet[rows, columns] = checks[rows, columns]
    return sheet


def read(engine: Any, sheet: Gray, profile: ProfileName = "P1", seconds: float = 60) -> PageText:
    return PageReader(engine, PROFILES[profile], seconds=seconds).read(sheet)


# Marks.


def test_a_word_that_stays_doubtful_is_marked_and_told() -> None:
    first, second = word("sure", 100, top=100), word("d0ubt", 220, 0.41, top=100)
    found = read(Scripted(line(first, second)), page_with(first.box, second.box))
    (block,) = found.blocks
    assert block.text == "sure d0ubt(?)"
    assert block.doubtful == ("d0ubt",)
    assert block.confidence == pytest.approx((4 * 0.95 + 5 * 0.41) / 9)


def test_ink_without_a_word_is_marked_where_it_is() -> None:
    known, unknown = word("known", 100, top=100), Rectangle(100, 300, 260, 330)
    found = read(Scripted(line(known)), page_with(known.box, unknown))
    assert [(block.text, block.kind) for block in found.blocks] == [("known", "body"), ("[□]", "unread")]
    box = found.blocks[1].box
    assert (abs(box.left - 100) < 8, abs(box.top - 300) < 8, abs(box.width - 160) < 16) == (True, True, True)


def test_rules_and_specks_are_no_words() -> None:
    known = word("known", 100, top=100)
    sheet = page_with(known.box)
    sheet[200:204, 50:750] = 0
    sheet[400:403, 400:403] = 0
    assert [block.kind for block in read(Scripted(line(known)), sheet).blocks] == ["body"]


def test_an_empty_page_is_blank_and_costs_the_engine_nothing() -> None:
    engine = Scripted()
    found = read(engine, np.full((600, 800), 250, np.uint8))
    assert (found.blank, found.blocks, engine.asked) == (True, [], [])


def test_a_picture_without_text_is_marked_and_not_read() -> None:
    rays = np.random.default_rng(1)
    engine = Scripted()
    found = read(engine, rays.integers(0, 256, (3_400, 3_400), dtype=np.uint8), "P2A")
    assert engine.asked == []
    assert [(block.text, block.box) for block in found.blocks] == [("[□]", Rectangle(0, 0, 3_400, 3_400))]


def test_what_there_was_no_time_for_is_marked_and_the_page_is_incomplete() -> None:
    known = word("known", 100, top=100)
    engine = Scripted(line(known))
    found = read(engine, page_with(known.box, Rectangle(100, 300, 260, 330)), seconds=-1)
    assert engine.asked == []
    assert not found.complete
    assert {block.text for block in found.blocks} == {"[□]"}


def test_an_engine_out_of_time_makes_the_page_incomplete() -> None:
    known = word("known", 100, top=100)
    found = read(Scripted(line(known), complete=False), page_with(known.box))
    assert not found.complete
    assert found.blocks[0].text == "known"


# Passes.


def test_each_profile_takes_the_looks_it_promises() -> None:
    sure, doubtful = word("sure", 100, top=100), word("d0ubt", 100, 0.41, top=100)
    asked = {}
    for name, said in (("P1", doubtful), ("P2A", doubtful), ("P2A sure", sure)):
        engine = Scripted(line(said))
        read(engine, page_with(said.box), "P1" if name == "P1" else "P2A")
        asked[name] = engine.asked
    assert asked["P1"] == [(6, "kor+eng")]
    assert asked["P2A"] == [(6, "kor+eng"), (6, "kor"), (6, "eng")]
    assert asked["P2A sure"] == [(6, "kor+eng")]


def test_fine_print_and_titles_are_kinds_of_their_own() -> None:
    def sized(text: str, top: int, high: int) -> Line:
        box = Rectangle(100, top, 300, top + high)
        return line(SeenWord(text, 0.95, box, (Symbol(text, 0.99, box),)))

    lines = [sized("Title", 50, 60), sized("one", 150, 30), sized("two", 190, 30), sized("fine", 400, 12)]
    found = read(Scripted(*lines), page_with(*(one.box for one in lines)))
    assert [(block.kind, block.text) for block in found.blocks] == [
        ("title", "Title"),
        ("body", "one\ntwo"),
        ("fine", "fine"),
    ]


# One line read three ways.


def test_korean_that_was_read_as_english_is_korean_again() -> None:
    both = line(word("SHS", 100, 0.71), word("time", 200, 0.97))
    korean = line(word("금액은", 100, 0.93), word("18", 200, 0.4))
    english = line(word("SHS", 100, 0.71), word("time", 200, 0.97))
    assert texts(merged(both, korean, english)) == ["금액은", "time"]


def test_letters_are_not_digits_because_korean_is_sure_of_them() -> None:
    both = line(word("860", 100, 0.93), word("us.", 200, 0.77))
    korean = line(word("860", 100, 0.93), word("45.", 200, 0.86))
    english = line(word("8GB", 100, 0.85), word("us.", 200, 0.77))
    assert texts(merged(both, korean, english)) == ["8GB", "us."]


def test_a_word_of_both_scripts_is_put_together() -> None:
    both = line(word("24646", 100, 0.42))
    korean = line(word("246에서", 100, 0.42, sure=(0.9, 0.9, 0.9, 0.99, 0.99)))
    english = line(word("APIAM", 100, 0.0))
    assert texts(merged(both, korean, english)) == ["API에서"]


def test_a_sure_reading_stays() -> None:
    both = line(word("예약", 100, 0.93))
    assert texts(merged(both, line(word("애약", 100, 0.94)), line(word("of", 100, 0.3)))) == ["예약"]
    assert texts(merged(both, None, None)) == ["예약"]


def test_syllables_are_joined_where_no_space_is_printed() -> None:
    marks = np.zeros((HIGH, 400), np.bool_)
    for left in (100, 120, 140, 175, 195):
        marks[:, left : left + 17] = True
    apart = line(*(word(text, left) for text, left in zip("시간은한번", (100, 120, 140, 175, 195), strict=True)))
    assert texts(respaced(apart, marks)) == ["시간은", "한번"]


def test_letters_stay_apart_as_the_engine_has_them() -> None:
    marks = np.ones((HIGH, 400), np.bool_)
    assert texts(respaced(line(word("a", 100), word("b", 120)), marks)) == ["a", "b"]


# Columns.


def ruled(width: int, height: int, *columns: tuple[int, int, int, int], step: int = 40) -> np.ndarray[Any, Any]:
    """Lines of text as bars: left, right, top, bottom of each column."""
    marks = np.zeros((height, width), np.bool_)
    for left, right, top, bottom in columns:
        for y in range(top, bottom, step):
            marks[y : y + 24, left:right] = True
    return marks


def test_two_columns_are_read_one_after_the_other() -> None:
    marks = ruled(1_600, 2_000, (100, 760, 100, 1_900), (840, 1_500, 100, 1_900))
    left, right = layout.text_regions(marks, 28)
    assert (left.left, left.right, right.left, right.right) == (0, 800, 800, 1_600)


def test_a_title_over_two_columns_stays_whole() -> None:
    marks = ruled(1_600, 2_000, (200, 1_400, 60, 100), (100, 760, 300, 1_900), (840, 1_500, 300, 1_900))
    found = layout.text_regions(marks, 28)
    assert [(box.left, box.right) for box in found] == [(0, 1_600), (0, 800), (800, 1_600)]
    assert found[0].bottom <= 300


def test_one_column_and_a_receipt_are_not_split() -> None:
    whole = [Rectangle(0, 0, 1_600, 2_000)]
    assert layout.text_regions(ruled(1_600, 2_000, (100, 1_500, 100, 1_900)), 28) == whole
    receipt = np.zeros((2_000, 1_600), np.bool_)
    for row in range(20):
        y = 100 + 90 * row
        receipt[y : y + 24, 100 : 250 + 37 * (row % 7)] = True
        receipt[y : y + 24, 1_400 - 41 * (row % 5) : 1_500] = True
    assert layout.text_regions(receipt, 28) == whole


# Mending.


def test_tilt_is_found_and_taken_away() -> None:
    straight = np.where(ruled(1_600, 2_000, (100, 1_500, 100, 1_900)), 0, 255).astype(np.uint8)
    assert tilt(straight) == 0.0
    tilted = turned(straight, 3.0)
    assert tilt(tilted) == pytest.approx(-3.0, abs=0.25)
    assert tilt(turned(tilted, tilt(tilted))) == 0.0


def test_a_shadow_is_found_and_taken_away() -> None:
    even = np.where(ruled(1_600, 2_000, (100, 1_500, 100, 1_900), step=80), 20, 240).astype(np.uint8)
    assert not has_shadow(even)
    dark = (even * np.linspace(0.3, 1, 1_600)[None, :]).astype(np.uint8)
    assert has_shadow(dark)
    mended = without_shadow(dark)
    assert (ink(mended) == ink(even)).mean() > 0.999


def test_dust_and_grain_are_told_from_print() -> None:
    clean = np.where(ruled(1_600, 2_000, (100, 1_500, 100, 1_900)), 0, 255).astype(np.uint8)
    assert (dust_share(clean), grain(clean)) == (0.0, 0.0)
    rays = np.random.default_rng(1)
    dusty = clean.copy()
    dusty[rays.random(clean.shape) < 0.01] = 0
    assert dust_share(dusty) > 0.004
    grainy = (clean * 0.8 + 25 + rays.normal(0, 25, clean.shape)).clip(0, 255).astype(np.uint8)
    assert grain(grainy) > 8


@pytest.mark.parametrize("lacking", ["kor", "eng", "osd"])
def test_the_engine_needs_both_languages_and_the_finder_of_orientation(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    for name in {"kor", "eng", "osd"} - {lacking}:
        tmp_path.joinpath(f"{name}.traineddata").touch()
    assert tessdata.folder() is None
    assert f"{lacking}.traineddata not in {tmp_path}" in tessdata.missing()[-1]
    tmp_path.joinpath(f"{lacking}.traineddata").touch()
    assert tessdata.folder() == tmp_path
