"""The ocr pack, outside the box and in it."""

from collections.abc import Mapping
from typing import Any

import pytest

from runs.box.running import PackRequest
from runs.packs import ocr
from runs.packs.ocr.inputs import OcrInputs
from runs.packs.ocr.tessdata import missing
from runs.packs.pack import PackFailed, Work
from tests.gear.builders.packs import work_for
from tests.gear.corpora.ocr_corpus import FONTS

needs_engine = pytest.mark.skipif(
    bool(missing()) or not FONTS.is_dir(), reason="Tesseract's data or the fonts are not installed: make setup-ocr"
)
PREFIX = "uploads/t_one/2026/03/01/6f1c1a52/"
PLENTY_MICROS = 1_000_000


def inputs(*names: str, **more: Any) -> dict[str, Any]:
    return {"images": [{"key": PREFIX + name} for name in names]} | more


def fetcher(uploads: Mapping[str, bytes]) -> Any:
    def fetch(key: str) -> bytes:
        if key.removeprefix(PREFIX) not in uploads:
            raise PackFailed("There is no such upload.")
        return uploads[key.removeprefix(PREFIX)]

    return fetch


def a_work(
    uploads: Mapping[str, bytes], *, seconds: float = 60, ceiling_micros: int = PLENTY_MICROS, **more: Any
) -> Work[OcrInputs]:
    """A run over these files, in this process."""
    asked = inputs(*uploads, **more)
    return work_for(ocr.PACK, asked, hold_micros=ceiling_micros, seconds=seconds, fetch_upload=fetcher(uploads))


def a_job(*names: str, wanted: Mapping[str, bool] | None = None, **more: Any) -> PackRequest:
    return PackRequest(
        run_id="a-run",
        module=ocr.__name__,
        inputs=inputs(*names, **more),
        artifacts_wanted=wanted or {},
        timebox_seconds=60,
        ceiling_micros=PLENTY_MICROS,
        memory_bytes=ocr.PACK.memory_bytes,
    )


def text_of(data: Any) -> str:
    return "\n".join(block["text"] for page in data["texts"] for block in page["blocks"])


def notes_of(data: Any, kind: str) -> list[str]:
    return [note["value"] for note in data["notes"] if note["type"] == kind]
