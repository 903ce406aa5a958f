"""Finds ink without a word. The engine's confidence says nothing about text it skipped."""

from collections.abc import Sequence
from functools import reduce
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from runs.packs.ocr.engine import Rectangle, SeenWord

MOST: Final = 40
"""More in one part of a page count as one: a picture, or text that time did not reach."""
FILL_LEAST: Final = 0.08
FILL_MOST: Final = 0.85
LONG: Final = 60
"""Longer than so many times its height is a rule, not a word."""


def unread_ink(marks: NDArray[np.bool_], words: Sequence[SeenWord], line_height: float) -> list[Rectangle]:
    """Boxes of what looks like words, from above to below."""
    rest = marks.astype(np.uint8)
    near = max(2, round(line_height * 0.25))
    for word in words:
        box = word.box
        rest[max(0, box.top - near) : box.bottom + near, max(0, box.left - near) : box.right + near] = 0
    smeared = cv2.morphologyEx(rest, cv2.MORPH_CLOSE, np.ones((3, max(3, round(line_height * 0.8))), np.uint8))
    _, _, stats, _ = cv2.connectedComponentsWithStats(smeared, connectivity=8)
    found = []
    for left, top, width, height, _ in stats[1:].tolist():
        box = Rectangle(left, top, left + width, top + height)
        if _like_a_word(box, rest, line_height):
            found.append(box)
    if len(found) > MOST:
        found = [reduce(Rectangle.around, found)]
    return sorted(found, key=lambda box: (box.top, box.left))


def _like_a_word(box: Rectangle, rest: NDArray[np.uint8], line_height: float) -> bool:
    if not 0.4 * line_height <= box.height <= 3 * line_height or box.width < 0.8 * line_height:
        return False
    if box.width > LONG * box.height:
        return False
    fill = float(rest[box.top : box.bottom, box.left : box.right].mean())
    return FILL_LEAST <= fill <= FILL_MOST
