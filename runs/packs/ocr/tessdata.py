"""Finds the engine's language files, without loading them: the API calls this too."""

import os
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

VARIABLE: Final = "TESSDATA_PREFIX"
LANGUAGES: Final = ("kor", "eng")
NEEDED: Final = (*LANGUAGES, "osd")
USUAL: Final = (
    "/usr/share/tesseract-ocr/5/tessdata",  # Debian 12, Ubuntu 22.04 and later
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)
MODULES: Final = ("tesserocr", "cv2", "numpy", "PIL", "pypdfium2", "docx")
HOW: Final = "`make setup-ocr`, or `apt-get install tesseract-ocr-kor tesseract-ocr-eng tesseract-ocr-osd`"


def tessdata_places() -> Sequence[Path]:
    """The configured folder alone, or else where systems put it."""
    configured = os.environ.get(VARIABLE)
    return [Path(configured)] if configured else [Path(folder) for folder in USUAL]


def folder() -> Path | None:
    """The first place that has every file."""
    return next((place for place in tessdata_places() if not _lacking(place)), None)


def missing() -> Sequence[str]:
    """The files to install, each with how; empty when the engine can work."""
    lost = [f"the Python package {name} (requirements/base.txt)" for name in _missing_ocr_modules(MODULES)]
    if folder() is None:
        best = min(tessdata_places(), key=lambda place: len(_lacking(place)))
        where = f"{best}, which {VARIABLE} names" if os.environ.get(VARIABLE) else "the usual folders"
        lost.append(f"{', '.join(_lacking(best))} not in {where}: {HOW}")
    return lost


@cache
def _missing_ocr_modules(modules: tuple[str, ...]) -> list[str]:
    """Looked for once: half a millisecond at each submit, and a package that comes later wants a restart anyway."""
    return [name for name in modules if find_spec(name) is None]


def _lacking(place: Path) -> list[str]:
    return [f"{name}.traineddata" for name in NEEDED if not (place / f"{name}.traineddata").is_file()]
