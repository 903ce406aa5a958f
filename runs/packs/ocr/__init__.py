"""Text out of pictures and documents, Korean and English (DPP-63).

inputs.py     what may be asked                 tessdata.py   where the engine's data lie, and what is missing
profiles.py   how much is done for a page
reading.py    all files of a run, within its time and its hold
files.py      bytes to gray pages               exports.py    Markdown and Word
page.py       one page to blocks of text: the pipeline
    cleaning.py   light, noise, tilt, size      layout.py     columns
    engine.py     Tesseract                     merging.py    one line read by several languages
    unread.py     ink without words
"""

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from runs.packs.ocr.inputs import BUCKET_VARIABLE, OcrInputs
from runs.packs.ocr.profiles import PAGE_MICROS
from runs.packs.ocr.result import OcrResult
from runs.packs.ocr.tessdata import VARIABLE, missing
from runs.packs.pack import MEBIBYTE, Estimate, Pack, Price, Work


def _ocr_pack_estimate(inputs: OcrInputs) -> Estimate:
    least, most = inputs.page_range()
    return Estimate(least_micros=least * PAGE_MICROS, most_micros=most * PAGE_MICROS)


def _execute_ocr_pack(work: Work[OcrInputs]) -> dict[str, JsonValue]:
    from runs.packs.ocr.reading import OcrReader  # the engine and its libraries have no place in the API

    return OcrReader(work).run()


def _uploads(inputs: Mapping[str, Any]) -> dict[str, str]:
    return {f"inputs.images[{place}].key": image["key"] for place, image in enumerate(inputs["images"])}


def _rehearse_ocr_pack() -> None:
    from runs.packs.ocr import rehearsal

    rehearsal.read_a_line()


PACK = Pack(
    name="ocr",
    summary="Reads Korean and English text from pictures and PDFs that you uploaded.",
    inputs=OcrInputs,
    result=OcrResult,
    prices=[Price(unit="page", micros=PAGE_MICROS, note="each page that is read, also one that is blank")],
    estimate=_ocr_pack_estimate,
    execute=_execute_ocr_pack,
    example={
        "images": [{"kind": "s3", "key": "uploads/t_demo/2026/03/01/6f1c1a52-6a0e-4f0e-8d0f-5a0e1a3c9b7d/receipt.png"}],
        "ocr_profile": "P2A",
    },
    artifacts=("include_markdown", "include_docx"),
    memory_bytes=768 * MEBIBYTE,
    environment=(BUCKET_VARIABLE, VARIABLE),
    preload=("runs.packs.ocr.reading",),
    rehearsal=_rehearse_ocr_pack,
    uploads=_uploads,
    missing=missing,
)
