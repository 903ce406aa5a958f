"""Turns uploaded bytes into gray pages, one by one. They may be anything, and may be meant to harm.

What a file is, its first bytes say; its name only says how many pages it was priced for. Limits come before decoding:
the formats that are tried at all, and the pixels of a page.
"""

import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pypdfium2
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from runs.packs.ocr.engine import Gray
from runs.packs.ocr.inputs import ONE_PAGE, Source

FORMATS: Final = ("PNG", "JPEG", "TIFF", "WEBP", "BMP")
PIXELS_MAX: Final = 40_000_000
SIDE_MIN: Final = 8
SIDE_WANTED: Final = 4_000
"""A longer page is made smaller: A4 at 300 dpi has 3,508, and more only costs time."""
BROKEN: Final = (
    *(OSError, EOFError, ValueError, SyntaxError, KeyError, TypeError, IndexError, struct.error, zlib.error),
    Image.DecompressionBombError,
)
"""The exceptions Pillow's decoders raise for malformed bytes."""
PDF_DPI: Final = 200
POINTS_PER_INCH: Final = 72

Image.MAX_IMAGE_PIXELS = PIXELS_MAX


class NotReadable(Exception):  # noqa: N818  named for the finding
    """This file or page cannot be read; `args[0]` says why, and follows its name."""


def pages(source: Source, content: bytes) -> Iterator[Gray | NotReadable]:
    """Each page, or why that page cannot be read. Raises NotReadable where it is the whole file."""
    if not content:
        raise NotReadable("is empty")
    found = _pdf(content) if content[:1024].lstrip().startswith(b"%PDF-") else _picture(content)
    for number, page in enumerate(found):
        if number == 1 and source.extension in ONE_PAGE:
            raise NotReadable("has several pages, but its name is that of a picture with one; name it .pdf or .tiff")
        yield page


def _pdf(content: bytes) -> Iterator[Gray | NotReadable]:
    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD:
            raise NotReadable("is encrypted; send it without a password") from None
        raise NotReadable("is a broken PDF") from None
    try:
        if not len(document):
            raise NotReadable("is a PDF without pages")
        for number in range(len(document)):
            yield _rendered_pdf_page(document, number)
    finally:
        document.close()


def _rendered_pdf_page(document: pypdfium2.PdfDocument, number: int) -> Gray | NotReadable:
    try:
        page = document[number]
        width, height = page.get_size()
        scale = min(PDF_DPI / POINTS_PER_INCH, SIDE_WANTED / max(width, height, 1))
        if min(width, height) * scale < SIDE_MIN:
            return NotReadable("is too narrow to be read")
        bitmap = page.render(scale=scale, grayscale=True, no_smoothtext=False)
        gray = np.array(bitmap.to_numpy().reshape(bitmap.height, bitmap.width), np.uint8)
        bitmap.close()
        page.close()
    except (pypdfium2.PdfiumError, ValueError):
        return NotReadable("is broken")
    return gray


def _picture(content: bytes) -> Iterator[Gray | NotReadable]:
    picture = _opened_ocr_picture(content)
    with picture:
        if picture.format != "TIFF":
            if picture.format != "MPO" and getattr(picture, "n_frames", 1) > 1:
                raise NotReadable("is an animation; send its pictures one by one")
            yield _decoded(picture)
            return
        number = 0
        while True:
            try:
                if not _turned_to(picture, number):
                    return
            except NotReadable as fault:
                yield fault
                return
            yield _decoded(picture)
            number += 1


def _turned_to(picture: Image.Image, number: int) -> bool:
    """False where there is no such page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            picture.seek(number)
        except EOFError:
            return False
        except BROKEN:
            raise NotReadable("is broken, and so is all behind it") from None
    return True


def _opened_ocr_picture(content: bytes) -> Image.Image:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            return Image.open(io.BytesIO(content), formats=FORMATS)
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            raise NotReadable(f"has more than {PIXELS_MAX // 1_000_000} million pixels") from None
        except UnidentifiedImageError:
            raise NotReadable("is no PNG, JPEG, WebP, BMP, TIFF or PDF") from None
        except BROKEN:
            raise NotReadable("is broken or cut off") from None


def _decoded(picture: Image.Image) -> Gray | NotReadable:
    width, height = picture.size
    if width * height > PIXELS_MAX:
        return NotReadable(f"has more than {PIXELS_MAX // 1_000_000} million pixels")
    if min(width, height) < SIDE_MIN:
        return NotReadable("is too narrow to be read")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            picture.draft("L", (SIDE_WANTED, SIDE_WANTED))  # JPEG alone: decodes no more than is wanted
            picture.load()
            gray = ImageOps.exif_transpose(_on_paper(picture))
        except BROKEN:
            return NotReadable("is broken or cut off")
    gray.thumbnail((SIDE_WANTED, SIDE_WANTED), Image.Resampling.BOX)
    return np.array(gray, np.uint8)


def _stretched(values: NDArray[Any]) -> Image.Image:
    """From darkest to lightest, whatever the scale. Row by row: all of it as floats would be four times as large."""
    low, high = float(values.min()), float(values.max())
    gray = np.empty(values.shape, np.uint8)
    for row, source in zip(gray, values, strict=True):
        row[:] = (source - low) * (255 / max(high - low, 1e-9))
    return Image.fromarray(gray)


def _on_paper(picture: Image.Image) -> Image.Image:
    """Gray, and white where it is transparent: black text on nothing would else be black on black."""
    if picture.mode in {"I;16", "I;16B", "I;16L", "I", "F"}:
        return _stretched(np.asarray(picture))
    if picture.mode in {"LA", "La", "PA", "RGBA", "RGBa"} or "transparency" in picture.info:
        layered = picture.convert("LA" if picture.mode in {"LA", "La"} else "RGBA")
        paper = Image.new("L", picture.size, 255)
        paper.paste(layered.convert("L"), mask=layered.getchannel("A"))
        return paper
    return picture.convert("L")
