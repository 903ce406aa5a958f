"""Making a picture of a page easy to read: light, grain and dust, tilt, size. Each only where it is needed."""

from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from runs.packs.ocr.engine import Gray

cv2.setNumThreads(1)  # a job is sold one core

UNEVEN: Final = 40
"""Gray levels between the darkest and the lightest paper: more is a shadow."""
FAINT: Final = 110
"""Gray levels between ink and paper: less is stretched."""
DUST_SHARE: Final = 0.002
DUST_CONTRAST: Final = 60
GRAIN: Final = 8.0
TILT_MAX: Final = 6.0
TILT_IGNORED: Final = 0.25
PAPER: Final = 255
SPECK: Final = 6
"""Pixels; less is dust."""
GLYPH_WANTED: Final = 30.0
"""Pixels a letter should be high; the engine was trained around it."""
GLYPH_SMALL: Final = 20.0
GLYPH_LARGE: Final = 60.0


def has_shadow(gray: Gray) -> bool:
    tiles = cv2.resize(gray, (64, 64), interpolation=cv2.INTER_AREA)
    paper = cv2.dilate(tiles, np.ones((5, 5), np.uint8))
    low, high = np.percentile(gray, (1, 99))
    return int(paper.max()) - int(paper.min()) > UNEVEN or bool(high - low < FAINT)


def without_shadow(gray: Gray) -> Gray:
    """Divide by the light on the paper: a shadow takes a share of the ink's light as well as of the paper's."""
    small = cv2.resize(gray, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA)
    side = max(9, min(small.shape) // 30) | 1
    light = cv2.medianBlur(cv2.dilate(small, np.ones((side, side), np.uint8)), side)
    light = cv2.resize(light, gray.shape[::-1], interpolation=cv2.INTER_LINEAR)
    even = cv2.divide(gray, np.maximum(light, 1), scale=PAPER)
    return np.asarray(cv2.normalize(even, None, 0, PAPER, cv2.NORM_MINMAX), np.uint8)  # type: ignore[call-overload]


def dust_share(gray: Gray) -> float:
    """How many pixels are far darker than all eight around them. Thin strokes and dots of print are not."""
    ring = np.ones((3, 3), np.uint8)
    ring[1, 1] = 0
    lightest_ink_around = cv2.erode(gray, ring)
    return float((cv2.subtract(lightest_ink_around, gray) > DUST_CONTRAST).mean())


def grain(gray: Gray) -> float:
    """The noise of the flat parts, in gray levels."""
    smooth = cv2.GaussianBlur(gray, (5, 5), 0)
    return float(np.median(cv2.absdiff(gray, smooth)))


def without_noise(gray: Gray) -> Gray:
    return np.asarray(cv2.medianBlur(gray, 3), np.uint8)


def bordered(gray: Gray, pixels: int) -> Gray:
    """The engine misses letters at the very edge."""
    sides = (pixels, pixels, pixels, pixels)
    return np.asarray(cv2.copyMakeBorder(gray, *sides, cv2.BORDER_CONSTANT, value=PAPER), np.uint8)


def ink(gray: Gray) -> NDArray[np.bool_]:
    _, found = cv2.threshold(gray, 0, 1, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)
    return found.astype(bool)


def tilt(gray: Gray) -> float:
    """Degrees by which the lines of text rise to the right: where the rows' ink differs most from row to row."""
    scale = min(0.5, 1000 / max(gray.shape))
    marks = ink(scaled(gray, scale)).astype(np.uint8)
    height, width = marks.shape

    def sharpness(angle: float) -> float:
        turn = cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1)
        rows = cv2.warpAffine(marks, turn, (width, height), flags=cv2.INTER_NEAREST).sum(axis=1, dtype=np.float64)
        return float(np.square(np.diff(rows)).sum())

    coarse = max(np.arange(-TILT_MAX, TILT_MAX + 1), key=sharpness)
    fine = max(np.arange(coarse - 0.8, coarse + 0.81, 0.2), key=sharpness)
    return float(fine) if abs(fine) >= TILT_IGNORED else 0.0


def turned(gray: Gray, angle: float) -> Gray:
    height, width = gray.shape
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1)
    return np.asarray(
        cv2.warpAffine(gray, turn, (width, height), flags=cv2.INTER_CUBIC, borderValue=PAPER), dtype=np.uint8
    )


def pieces(gray: Gray) -> int:
    """How many separate pieces of ink there are, specks aside."""
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink(gray).astype(np.uint8), connectivity=8)
    return int((stats[1:, cv2.CC_STAT_AREA] >= SPECK).sum())


def glyph_height(gray: Gray) -> float:
    """The usual height of a letter in pixels; 0 without letters."""
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink(gray).astype(np.uint8), connectivity=8)
    heights = stats[1:, cv2.CC_STAT_HEIGHT]
    heights = heights[(heights > 5) & (heights < gray.shape[0] // 8)]
    return float(np.percentile(heights, 75)) if len(heights) > 3 else 0.0


def scaled(gray: Gray, factor: float) -> Gray:
    how = cv2.INTER_CUBIC if factor > 1 else cv2.INTER_AREA
    return np.asarray(cv2.resize(gray, None, fx=factor, fy=factor, interpolation=how), np.uint8)
