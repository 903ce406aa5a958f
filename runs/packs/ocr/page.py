"""One page, from its picture to blocks of text.

preflight     light, dust and grain, which way is up, tilt, size, columns
lock          one part of the page at a time, each as one block (PSM 6)
body pass     both languages
second looks  each language alone where words are doubtful; large lines smaller, small ones and unread ink larger
marks         (?) behind a word that stays doubtful, [□] for ink that stays unread
"""

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import Final

import numpy as np

from runs.packs.ocr import cleaning, layout, merging
from runs.packs.ocr.engine import BLOCK, LINE, Gray, Line, OcrEngine, Rectangle, SeenWord
from runs.packs.ocr.layout import Marks
from runs.packs.ocr.profiles import Profile
from runs.packs.ocr.tessdata import LANGUAGES
from runs.packs.ocr.unread import unread_ink

DOUBT: Final = 0.6
"""A word less sure than this is marked (?)."""
DOUBT_MARK: Final = "(?)"
UNREAD_MARK: Final = "[□]"
UPRIGHT_SURE: Final = 3.0
BLANK_SHARE: Final = 0.00002
"""Less ink than this is dust on an empty page."""
CONTRAST_LEAST: Final = 24
"""Gray levels between the darkest and the lightest that there must be for anything to stand there."""
LARGE: Final = 1.6
SMALL: Final = 0.6
PARAGRAPH: Final = 1.35
"""From line to line, in usual such steps, that begins a new block."""
BORDER: Final = 12
SHEET_PIXELS_MAX: Final = 12_000_000
"""A page is not enlarged beyond this: A4 at 300 dpi has 9 million."""
PIECES_MAX: Final = 20_000
"""More ink in pieces than a page of a newspaper has is no text, and would hold the engine for minutes."""


@dataclass(frozen=True)
class Block:
    text: str
    confidence: float
    box: Rectangle
    kind: str
    """`title`, `body`, `fine` or `unread`."""
    doubtful: tuple[str, ...] = ()


@dataclass(kw_only=True)
class PageText:
    width: int = 0
    height: int = 0
    turned: int = 0
    """Degrees counterclockwise by which the page was turned before it was read."""
    tilt: float = 0.0
    mended: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    complete: bool = True
    blank: bool = False
    picture: bool = False
    """No text at all, as far as can be told without reading."""


class PageReader:
    """Reads one page within its time."""

    def __init__(self, engine: OcrEngine, profile: Profile, *, seconds: float) -> None:
        self._engine = engine
        self._profile = profile
        self._ends = time.monotonic() + seconds
        self._found = PageText()

    def read(self, gray: Gray) -> PageText:
        found = self._found
        gray = self._preflight(gray)
        found.height, found.width = gray.shape
        if found.blank:
            return found
        if found.picture:
            found.blocks = [Block(UNREAD_MARK, 0.0, Rectangle(0, 0, found.width, found.height), "unread")]
            return found
        size = cleaning.glyph_height(gray)
        factor = _factor(size, gray.size)
        sheet = cleaning.scaled(gray, factor) if factor != 1 else gray
        marks = cleaning.ink(sheet)
        line_height = max(8.0, size * factor)
        parts = [Rectangle(0, 0, sheet.shape[1], sheet.shape[0])]
        if self._profile.columns:
            parts = layout.text_regions(marks, line_height)
        for part in parts:
            self._read_part(part, sheet, marks, line_height, factor)
        return found

    def _left(self) -> float:
        return max(0.001, self._ends - time.monotonic())

    def _in_time(self) -> bool:
        """Whether there is time; if not, the page is marked as incomplete."""
        if time.monotonic() < self._ends:
            return True
        self._found.complete = False
        return False

    # Preflight.

    def _preflight(self, gray: Gray) -> Gray:
        found = self._found
        if int(gray.max()) - int(gray.min()) < CONTRAST_LEAST:
            found.blank = True
            return gray
        if self._profile.mends:
            gray = self._mended(gray)
        if cleaning.ink(gray).mean() < BLANK_SHARE:
            found.blank = True
            return gray
        if cleaning.pieces(gray) > PIECES_MAX:
            found.picture = True
            return gray
        turn, sure = self._engine.orientation(gray)
        if turn and sure > UPRIGHT_SURE:
            found.turned = turn
            gray = np.ascontiguousarray(np.rot90(gray, turn // 90))
        found.tilt = cleaning.tilt(gray)
        return cleaning.turned(gray, found.tilt) if found.tilt else gray

    def _mended(self, gray: Gray) -> Gray:
        if cleaning.dust_share(gray) > cleaning.DUST_SHARE or cleaning.grain(gray) > cleaning.GRAIN:
            self._found.mended.append("noise")
            gray = cleaning.without_noise(gray)
        if cleaning.has_shadow(gray):
            self._found.mended.append("shadow")
            gray = cleaning.without_shadow(gray)
        return gray

    # Passes.

    def _read_part(self, part: Rectangle, sheet: Gray, marks: Marks, line_height: float, factor: float) -> None:
        lines = self._body(part, sheet) if self._in_time() else []
        if self._profile.rereads and any(merging.is_doubtful(line) for line in lines):
            lines = self._each_language(lines, part, sheet)
        lines = [self._at_its_size(line, sheet, line_height) for line in lines]
        lines = [merging.respaced(line, marks) for line in lines]
        inside = np.zeros_like(marks)
        inside[part.top : part.bottom, part.left : part.right] = marks[part.top : part.bottom, part.left : part.right]
        lost = []
        for box in unread_ink(inside, [word for line in lines for word in line.words], line_height):
            line = self._missed(box, sheet, line_height)
            if line is not None:
                lines.append(line)
            else:
                lost.append(box)
        self._found.blocks += _blocks(lines, lost, factor)

    def _body(self, part: Rectangle, sheet: Gray) -> list[Line]:
        reading = self._engine.read(part.cut_from(sheet), psm=BLOCK, seconds=self._left())
        self._found.complete &= reading.complete
        return [line.placed(part.left, part.top) for line in reading.lines]

    def _each_language(self, lines: Sequence[Line], part: Rectangle, sheet: Gray) -> list[Line]:
        """Read again with each language alone, and merged. Without the time for both, the body pass stands."""
        alone: list[list[Line]] = []
        for language in LANGUAGES:
            if not self._in_time():
                return list(lines)
            reading = self._engine.read(part.cut_from(sheet), psm=BLOCK, seconds=self._left(), language=language)
            alone.append([line.placed(part.left, part.top) for line in reading.lines])
            if not reading.complete:
                self._found.complete = False
                return list(lines)
        korean, english = alone
        return [
            merging.merged(line, _beside(line, korean), _beside(line, english)) if merging.is_doubtful(line) else line
            for line in lines
        ]

    def _at_its_size(self, line: Line, sheet: Gray, line_height: float) -> Line:
        """A title smaller, fine print larger; whichever reading is surer."""
        share = line.size / line_height
        wanted = (self._profile.title and share > LARGE * 1.3) or (self._profile.small and share < SMALL)
        if not wanted or not merging.is_doubtful(line):
            return line
        again = self._again(line.box, sheet, line_height)
        return again if again is not None and again.confidence > line.confidence else line

    def _missed(self, box: Rectangle, sheet: Gray, line_height: float) -> Line | None:
        """Words where the body pass saw none: too small for it, or apart from the rest."""
        if not self._profile.small or box.height > 3 * line_height:
            return None
        line = self._again(box, sheet, line_height)
        return line if line is not None and line.confidence >= DOUBT else None

    def _again(self, box: Rectangle, sheet: Gray, line_height: float) -> Line | None:
        """One line by itself, brought to the size of the engine's training."""
        if not self._in_time():
            return None
        pad = max(2, round(line_height * 0.2))
        wide = Rectangle(max(0, box.left - pad), max(0, box.top - pad), box.right + pad, box.bottom + pad)
        factor = max(0.3, min(4.0, 1.3 * cleaning.GLYPH_WANTED / box.height))
        picture = cleaning.bordered(cleaning.scaled(wide.cut_from(sheet), factor), BORDER)
        lines = self._engine.read(picture, psm=LINE, seconds=self._left()).lines
        words = tuple(word for line in lines for word in line.words)
        if not words:
            return None
        return Line(words).placed(-BORDER, -BORDER).placed(wide.left, wide.top, factor)


def _factor(size: float, pixels: int) -> float:
    """The factor that brings the page's letters near the size the engine reads best, bounded by the time it takes."""
    if not size or cleaning.GLYPH_SMALL <= size <= cleaning.GLYPH_LARGE:
        return 1.0
    largest = max(1.0, math.sqrt(SHEET_PIXELS_MAX / pixels))
    return max(0.4, min(3.0, largest, cleaning.GLYPH_WANTED / size))


def _beside(line: Line, others: Sequence[Line]) -> Line | None:
    """The same line in another reading: lines are found without knowing the language."""
    middle = (line.box.top + line.box.bottom) / 2
    words = tuple(word for other in others if other.box.top <= middle < other.box.bottom for word in other.words)
    return Line(words) if words else None


# Blocks.


def _blocks(lines: Sequence[Line], lost: Sequence[Rectangle], factor: float) -> list[Block]:
    usual = statistics.median(line.size for line in lines) if lines else 1.0
    blocks = [_block(group, _kind(group, usual), factor) for group in _groups(lines, usual)]
    blocks += [Block(UNREAD_MARK, 0.0, box.shrunk(factor), "unread") for box in lost]
    return sorted(blocks, key=lambda block: (block.box.top, block.box.left))


def _groups(lines: Sequence[Line], usual: float) -> Iterator[list[Line]]:
    """Lines of one size at the usual distance."""
    ordered = sorted(lines, key=lambda line: (line.box.top, line.box.left))
    steps = [after.box.bottom - before.box.bottom for before, after in pairwise(ordered)]
    step = statistics.median_low(steps) if steps else 0
    group = ordered[:1]
    for before, after in pairwise(ordered):
        near = after.box.bottom - before.box.bottom <= PARAGRAPH * step
        if near and _ocr_line_size_class(before, usual) == _ocr_line_size_class(after, usual):
            group.append(after)
        else:
            yield group
            group = [after]
    if group:
        yield group


def _ocr_line_size_class(line: Line, usual: float) -> str:
    share = line.size / usual
    return "title" if share > LARGE else "fine" if share < SMALL else "body"


def _kind(group: Sequence[Line], usual: float) -> str:
    return _ocr_line_size_class(group[0], usual)


def _block(lines: Sequence[Line], kind: str, factor: float) -> Block:
    box = reduce(Rectangle.around, (line.box for line in lines))
    letters = sum(line.letters for line in lines)
    return Block(
        text="\n".join(" ".join(_marked(word) for word in line.words) for line in lines),
        confidence=sum(line.confidence * line.letters for line in lines) / letters,
        box=box.shrunk(factor),
        kind=kind,
        doubtful=tuple(word.text for line in lines for word in line.words if word.confidence < DOUBT),
    )


def _marked(word: SeenWord) -> str:
    return word.text + (DOUBT_MARK if word.confidence < DOUBT else "")
