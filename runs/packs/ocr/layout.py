"""Where the columns of a page are: the engine reads across a gutter, and so must never see one.

A gutter is a strip near the middle that most lines of text stop at, with long lines on both sides. A receipt has such a
strip too, between names and amounts; but its lines are short, and belong together.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from runs.packs.ocr.engine import Rectangle

Marks = NDArray[np.bool_]

SHRINK: Final = 4
GUTTER: Final = 0.018
"""Least width, as a share of the page's."""
CROSSED: Final = 0.3
"""So many of the inked rows may cross it: a title, a table's head."""
FILLED: Final = 0.7
"""Share of its column that the usual line fills: less is no column of text."""
COLUMNS_DEEP: Final = 2
LINES_LEAST: Final = 3
"""A part between two crossing lines that is less high than this many lines is not split."""


def text_regions(marks: Marks, line_height: float) -> list[Rectangle]:
    """The parts of the page to be read one by one, in reading order."""
    height, width = marks.shape
    small = _shrunk(marks)
    least = max(2, round(LINES_LEAST * line_height / SHRINK))
    found = _split(small, 0, 0, least, COLUMNS_DEEP)
    return [
        Rectangle(one.left * SHRINK, one.top * SHRINK, min(width, one.right * SHRINK), min(height, one.bottom * SHRINK))
        for one in found
    ]


def _shrunk(marks: Marks) -> Marks:
    height, width = (side // SHRINK * SHRINK for side in marks.shape)
    tiles = marks[:height, :width].reshape(height // SHRINK, SHRINK, width // SHRINK, SHRINK)
    return np.asarray(tiles.any(axis=(1, 3)), np.bool_)


def _split(marks: Marks, x: int, y: int, least: int, deep: int) -> list[Rectangle]:
    height, width = marks.shape
    whole = [Rectangle(x, y, x + width, y + height)]
    gutter = _gutter(marks) if deep else None
    if gutter is None:
        return whole
    found = []
    for top, bottom, crossed in _bands(marks, gutter, least):
        if crossed:
            found.append(Rectangle(x, y + top, x + width, y + bottom))
        else:
            middle = (gutter[0] + gutter[1]) // 2
            found += _split(marks[top:bottom, :middle], x, y + top, least, deep - 1)
            found += _split(marks[top:bottom, middle:], x + middle, y + top, least, deep - 1)
    return found


def _gutter(marks: Marks) -> tuple[int, int] | None:
    """Left and right edge of the best strip, or None."""
    columns = np.flatnonzero(marks.any(axis=0))
    rows = marks[marks.any(axis=1)]
    if len(columns) < 40 or len(rows) < 20:
        return None
    left, right = int(columns[0]), int(columns[-1]) + 1
    wide = max(3, round(GUTTER * marks.shape[1]))
    crossing = cv2.dilate(rows.astype(np.uint8), np.ones((1, wide), np.uint8)).sum(axis=0)
    low, high = left + (right - left) // 4, right - (right - left) // 4
    middle = crossing[low:high]
    if not len(middle) or middle.min() > CROSSED * len(rows):
        return None
    least = middle <= max(middle.min(), 0.01 * len(rows))
    start, end = max(_runs(least), key=lambda run: run[1] - run[0])
    gutter = (low + start, low + end)
    sides = (rows[:, left : gutter[0]], rows[:, gutter[1] : right])
    return gutter if min(_filled(side) for side in sides) >= FILLED else None


def _filled(side: Marks) -> float:
    """How much of its own width the usual line takes."""
    columns = np.flatnonzero(side.any(axis=0))
    rows = side[side.any(axis=1)]
    if not len(rows):
        return 0.0
    starts, ends = rows.argmax(axis=1), side.shape[1] - rows[:, ::-1].argmax(axis=1)
    return float(np.median(ends - starts) / (columns[-1] - columns[0] + 1))


def _bands(marks: Marks, gutter: tuple[int, int], least: int) -> Iterator[tuple[int, int, bool]]:
    """Top, bottom and whether text crosses the gutter there, from above to below, without gaps."""
    crossed = np.array(marks[:, gutter[0] : gutter[1]].any(axis=1), np.bool_, ndmin=1)
    for top, bottom in _runs(~crossed):
        if bottom - top < least:
            crossed[top:bottom] = True
    edges = [0, *(np.flatnonzero(np.diff(crossed)) + 1), len(crossed)]
    for top, bottom in pairwise(edges):
        if marks[top:bottom].any():
            yield int(top), int(bottom), bool(crossed[top])


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Stretches of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]
