"""Tesseract: pixels in, words with boxes and confidence out. One object for one thread."""

from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Final, Self

import numpy as np
import tesserocr
from numpy.typing import NDArray
from tesserocr import PSM, RIL

from runs.packs.ocr.tessdata import LANGUAGES

Gray = NDArray[np.uint8]

BOTH: Final = "+".join(LANGUAGES)

BLOCK: Final = int(PSM.SINGLE_BLOCK)
LINE: Final = int(PSM.SINGLE_LINE)
SPARSE: Final = int(PSM.SPARSE_TEXT)
_NARROW: Final = {0xFF01 + offset: 0x21 + offset for offset in range(94)}
RESOLUTION: Final = 200
"""Said to the engine, whose own guess from the picture is worse than a constant near the truth."""


@dataclass(frozen=True)
class Rectangle:
    """In pixels, from the upper left corner; the right and lower edges are outside."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def height(self) -> int:
        return self.bottom - self.top

    def moved(self, x: int, y: int) -> "Rectangle":
        return Rectangle(self.left + x, self.top + y, self.right + x, self.bottom + y)

    def shrunk(self, factor: float) -> "Rectangle":
        return Rectangle(*(round(edge / factor) for edge in (self.left, self.top, self.right, self.bottom)))

    def around(self, other: "Rectangle") -> "Rectangle":
        return Rectangle(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )

    def cut_from(self, page: Gray) -> Gray:
        return page[max(0, self.top) : self.bottom, max(0, self.left) : self.right]


@dataclass(frozen=True)
class Symbol:
    """One letter, digit, sign or syllable."""

    text: str
    confidence: float
    box: Rectangle


@dataclass(frozen=True)
class SeenWord:
    text: str
    confidence: float
    """0 to 1, the engine's own; of a word about that of its worst symbol."""
    box: Rectangle
    symbols: tuple[Symbol, ...]

    def placed(self, x: int, y: int, factor: float) -> "SeenWord":
        def place(box: Rectangle) -> Rectangle:
            return box.shrunk(factor).moved(x, y)

        symbols = tuple(replace(symbol, box=place(symbol.box)) for symbol in self.symbols)
        return replace(self, box=place(self.box), symbols=symbols)


@dataclass(frozen=True)
class Line:
    words: tuple[SeenWord, ...]

    @property
    def box(self) -> Rectangle:
        return reduce(Rectangle.around, (word.box for word in self.words))

    @property
    def size(self) -> int:
        """Height of its letters. The box of a line tells less: it grows with every misread speck."""
        heights = sorted(symbol.box.height for word in self.words for symbol in word.symbols)
        return heights[len(heights) * 3 // 4]

    @property
    def letters(self) -> int:
        return sum(len(word.text) for word in self.words)

    @property
    def confidence(self) -> float:
        """By letters: a long doubtful word weighs more than a sure comma."""
        return sum(word.confidence * len(word.text) for word in self.words) / self.letters

    def placed(self, x: int, y: int, factor: float = 1.0) -> "Line":
        """As found in a part of the page that was enlarged by `factor` and begins at x, y."""
        return Line(tuple(word.placed(x, y, factor) for word in self.words))


@dataclass(frozen=True)
class Reading:
    lines: tuple[Line, ...]
    complete: bool
    """False: the time was over before the end of the picture."""


class OcrEngine:
    """Keeps its models in memory, each from its first use on; to be closed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaded: dict[str, tesserocr.PyTessBaseAPI] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for api in self._loaded.values():
            api.End()
        self._loaded.clear()

    def orientation(self, gray: Gray) -> tuple[int, float]:
        """By how many degrees counterclockwise it must be turned to stand upright, and how sure that is."""
        api = self._api("osd", PSM.OSD_ONLY)
        _show(api, gray)
        found = api.DetectOrientationScript()
        api.Clear()
        return (int(found["orient_deg"]), float(found["orient_conf"])) if found else (0, 0.0)

    def read(self, gray: Gray, *, psm: int, seconds: float, language: str = BOTH) -> Reading:
        """Read the text. When time runs out, return the words read until then."""
        api = self._api(language, psm)
        _show(api, gray)
        complete = api.Recognize(max(1, round(seconds * 1_000)))
        lines = _recognised_ocr_lines(api)
        api.Clear()
        return Reading(tuple(lines), complete=bool(complete))

    def _api(self, language: str, psm: int) -> tesserocr.PyTessBaseAPI:
        if language not in self._loaded:
            self._loaded[language] = tesserocr.PyTessBaseAPI(path=f"{self._folder}/", lang=language)
        self._loaded[language].SetPageSegMode(psm)
        return self._loaded[language]


def _show(api: tesserocr.PyTessBaseAPI, gray: Gray) -> None:
    pixels = np.ascontiguousarray(gray)
    height, width = pixels.shape
    api.SetImageBytes(pixels.tobytes(), width, height, 1, width)
    api.SetSourceResolution(RESOLUTION)


def _recognised_ocr_lines(api: tesserocr.PyTessBaseAPI) -> list[Line]:
    found: list[list[SeenWord]] = []
    here = api.GetIterator()
    if here is None or here.Empty(RIL.WORD):
        return []
    while True:
        if here.IsAtBeginningOf(RIL.TEXTLINE) or not found:
            found.append([])
        text, confidence, box = (
            _narrowed_ocr_text(here.GetUTF8Text(RIL.WORD)),
            here.Confidence(RIL.WORD),
            here.BoundingBox(RIL.WORD),
        )
        symbols, more = _symbols(here)
        if text and symbols:
            found[-1].append(SeenWord(text, _share(confidence), Rectangle(*box), tuple(symbols)))
        if not more:
            return [Line(tuple(words)) for words in found if words]


def _symbols(here: tesserocr.PyResultIterator) -> tuple[list[Symbol], bool]:
    """Those of the word that the iterator stands on, which it leaves; False at the end of the page."""
    found: list[Symbol] = []
    while True:
        if here.Empty(RIL.SYMBOL):  # a word that there was no time for: asking for its text would crash the process
            return found, here.Next(RIL.WORD)
        if text := _narrowed_ocr_text(here.GetUTF8Text(RIL.SYMBOL)):
            box = Rectangle(*here.BoundingBox(RIL.SYMBOL))
            found.append(Symbol(text, _share(here.Confidence(RIL.SYMBOL)), box))
        if not here.Next(RIL.SYMBOL):
            return found, False
        if here.IsAtBeginningOf(RIL.WORD):
            return found, True


def _narrowed_ocr_text(text: str) -> str:
    """Korean's model knows some Latin letters in the wide forms of East Asian type only."""
    return text.strip().translate(_NARROW)


def _share(percent: float) -> float:
    return max(0.0, min(1.0, percent / 100))
