"""What an ocr run may ask, what it is told where it may not, and what it will cost."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runs.packs.ocr import PACK, tessdata
from runs.packs.ocr.inputs import OcrInputs
from tests.gear.builders import ocr

pytestmark = pytest.mark.contract("DPP-63")


def refused(document: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(ValidationError) as caught:
        OcrInputs.model_validate(document)
    (error,) = caught.value.errors()
    return ".".join(str(part) for part in error["loc"]), error["msg"]


def test_the_inputs_of_the_document_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPP_BUCKET")
    found = OcrInputs.model_validate(
        {
            "images": [{"kind": "s3", "bucket": "dpp-results", "key": ocr.PREFIX + "a.png"}],
            "ocr_profile": "P2B",
            "language": "kor+eng",
            "max_pages": 50,
        }
    )
    assert (found.images[0].name, found.ocr_profile, found.max_pages) == ("a.png", "P2B", 50)


def test_what_is_left_out_has_a_default() -> None:
    found = OcrInputs.model_validate(dict(PACK.example))
    assert (found.ocr_profile, found.language, found.max_pages) == ("P2A", "kor+eng", 50)


@pytest.mark.parametrize(
    ("change", "where", "says"),
    [
        ({"images": []}, "images", "at least 1 item"),
        (
            {"images": [{"key": "dpp/t_one/2026/03/01/x/pack_envelope.json"}]},
            "images.0.key",
            "not the key of an upload",
        ),
        ({"images": [{"key": "uploads/t_one/../t_two/a.png"}]}, "images.0.key", "not the key of an upload"),
        ({"images": [{"key": "/uploads/t_one/a.png"}]}, "images.0.key", "not the key of an upload"),
        ({"images": [{"key": "uploads//a.png"}]}, "images.0.key", "not the key of an upload"),
        ({"images": [{"kind": "url", "key": "uploads/t_one/a.png"}]}, "images.0.kind", "'s3'"),
        ({"images": [{"bucket": "their-bucket", "key": "uploads/t_one/a.png"}]}, "images.0.bucket", "leave it out"),
        ({"images": [{"key": "uploads/t_one/a.png"}] * 2}, "images.1.key", "names a file a second time"),
        ({"images": [{"key": "uploads/t_one/a.png\n"}]}, "images.0.key", "not the key of an upload"),
        ({"images": [{"key": "uploads/" + "x" * 600}]}, "images.0.key", "at most 512"),
        ({"ocr_profile": "P4"}, "ocr_profile", "'P1', 'P2A', 'P2B' or 'P3'"),
        ({"language": "jpn"}, "language", "is always kor+eng"),
        ({"language": None}, "language", "is always kor+eng"),
        ({"max_pages": 0}, "max_pages", "greater than or equal to 1"),
        ({"max_pages": 51}, "max_pages", "less than or equal to 50"),
        ({"rotate": 90}, "rotate", "not permitted"),
    ],
)
def test_what_may_not_be_asked_is_named(change: dict[str, Any], where: str, says: str) -> None:
    place, message = refused(ocr.inputs("a.png") | change)
    assert place == where
    assert says in message


def test_the_bucket_is_the_one_that_this_platform_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPP_BUCKET", "ours")
    assert OcrInputs.model_validate({"images": [{"bucket": "ours", "key": "uploads/t_one/a.png"}]}).images
    assert refused({"images": [{"bucket": "dpp-results", "key": "uploads/t_one/a.png"}]})[0] == "images.0.bucket"
    assert "DPP_BUCKET" in PACK.environment


@pytest.mark.contract("DPP-66")
@pytest.mark.parametrize(
    ("names", "max_pages", "least", "most"),
    [
        (["a.png"], 50, 2_000, 2_000),
        (["a.png", "b.JPG", "c.webp", "d.bmp"], 50, 8_000, 8_000),
        (["a.png", "b.png", "c.png"], 2, 4_000, 4_000),
        (["a.pdf"], 50, 2_000, 100_000),
        (["a.pdf"], 7, 2_000, 14_000),
        (["a.png", "b.tiff"], 50, 4_000, 100_000),
    ],
)
def test_pictures_have_one_price_and_documents_a_range(names: list[str], max_pages: int, least: int, most: int) -> None:
    found = PACK.estimate(OcrInputs.model_validate(ocr.inputs(*names, max_pages=max_pages)))
    assert (found.least_micros, found.most_micros) == (least, most)


def test_the_api_loads_none_of_the_engine() -> None:
    ask = "import runs.packs.ocr, sys, json; print(json.dumps(sorted(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True, text=True).stdout
    assert not {"tesserocr", "cv2", "numpy", "PIL", "pypdfium2", "docx"} & set(json.loads(said))


def test_what_is_not_installed_is_named_with_how_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    (tmp_path / "eng.traineddata").touch()
    (said,) = PACK.missing()
    assert said.startswith(f"kor.traineddata, osd.traineddata not in {tmp_path}, which TESSDATA_PREFIX names: ")
    assert "make setup-ocr" in said
    for name in tessdata.NEEDED:
        (tmp_path / f"{name}.traineddata").touch()
    assert tessdata.folder() == tmp_path
    assert PACK.missing() == []


def test_the_usual_folders_are_searched_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TESSDATA_PREFIX", raising=False)
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr(tessdata, "USUAL", (str(first), str(second)))
    assert "not in the usual folders" in PACK.missing()[0]
    for place in (second, first):
        place.mkdir()
        for name in tessdata.NEEDED:
            (place / f"{name}.traineddata").touch()
        assert tessdata.folder() == place


def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tessdata, "MODULES", ("no_such_engine",))
    assert "the Python package no_such_engine (requirements/base.txt)" in PACK.missing()
