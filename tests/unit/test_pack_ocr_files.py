"""Files that are broken, hostile or not what they are called: each refused in words, before it costs memory."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import pypdfium2
import pytest
from PIL import Image

from runs.bucket import uploads
from runs.packs.ocr import files
from runs.packs.ocr.engine import Gray
from runs.packs.ocr.files import NotReadable
from runs.packs.ocr.inputs import Source

pytestmark = pytest.mark.contract("DPP-63")

DARK = Image.new("L", (60, 40), 10)


def saved(form: str, picture: Image.Image = DARK, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    return buffer.getvalue()


def pages(name: str, content: bytes, *, most: int = 5) -> list[Gray | NotReadable]:
    found = []
    for page in files.pages(Source(key=f"uploads/t_one/{name}"), content):
        found.append(page)
        if len(found) == most:
            break
    return found


def refused(name: str, content: bytes) -> str:
    """Why the file, or its only page, is not read."""
    try:
        (page,) = pages(name, content)
    except NotReadable as fault:
        return str(fault)
    assert isinstance(page, NotReadable)
    return str(page)


def png_that_claims(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")


def bmp_that_claims(width: int, height: int) -> bytes:
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, 64, 0, 0, 2, 0)  # packed in runs: 64 bytes for all
    return struct.pack("<2sIHHI", b"BM", 62 + 64, 0, 0, 62) + head + b"\0\0\0\0\xff\xff\xff\0" + b"\xff\1" * 32


def pdf(*sizes: tuple[float, float]) -> bytes:
    document = pypdfium2.PdfDocument.new()
    for size in sizes:
        document.new_page(*size)
    buffer = io.BytesIO()
    document.save(buffer)
    document.close()
    return buffer.getvalue()


ENCRYPTED = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
    b"3 0 obj<</Filter/Standard/V 1/R 2/P -4/O<" + b"41" * 32 + b">/U<" + b"42" * 32 + b">>>endobj\n"
    b"trailer<</Root 1 0 R/Encrypt 3 0 R/ID[<00><00>]>>\n"
)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF", "WEBP", "BMP"])
def test_each_format_is_one_gray_page(form: str) -> None:
    (page,) = pages(f"a.{form.lower()}", saved(form))
    assert isinstance(page, np.ndarray)
    assert page.shape == (40, 60)
    assert page.dtype == np.uint8
    assert int(page.mean()) == 10


def test_every_picture_that_may_be_uploaded_is_of_a_format_that_is_read() -> None:
    pictures = [kind.removeprefix("image/") for kind in uploads.CONTENT_TYPES if kind.startswith("image/")]
    assert sorted(files.FORMATS) == sorted(map(str.upper, pictures))


def test_a_pdf_is_drawn_at_a_size_to_be_read() -> None:
    first, second = pages("a.pdf", pdf((595, 842), (300, 144)))
    assert isinstance(first, np.ndarray)
    assert isinstance(second, np.ndarray)
    assert first.shape == (2339, 1653)
    assert second.shape == (400, 834)
    assert first.min() == 255


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("empty.png", b"", "is empty"),
        ("text.png", b"not a picture at all", "is no PNG, JPEG, WebP, BMP, TIFF or PDF"),
        ("picture.gif", saved("GIF"), "is no PNG, JPEG, WebP, BMP, TIFF or PDF"),
        ("cut.bmp", saved("BMP", Image.effect_noise((300, 300), 90))[:9_000], "is broken or cut off"),
        ("bomb.bmp", bmp_that_claims(60_000, 60_000), "has more than 40 million pixels"),
        ("cut.png", saved("PNG", Image.effect_noise((300, 300), 90))[:9_000], "is broken or cut off"),
        ("cut.jpg", saved("JPEG", Image.effect_noise((300, 300), 90))[:9_000], "is broken or cut off"),
        ("cut.webp", saved("WEBP", Image.effect_noise((300, 300), 90))[:900], "is broken or cut off"),
        ("cut.tiff", saved("TIFF", Image.effect_noise((300, 300), 90))[:900], "is broken"),
        ("head.png", saved("PNG")[:20], "is "),
        ("bomb.png", png_that_claims(60_000, 60_000), "has more than 40 million pixels"),
        ("large.png", png_that_claims(6_400, 6_400), "has more than 40 million pixels"),
        ("wide.png", png_that_claims(2_000_000, 3), "is too narrow to be read"),
        ("moving.webp", saved("WEBP", save_all=True, append_images=[Image.new("L", (60, 40), 200)]), "is an animation"),
        ("moving.png", saved("PNG", save_all=True, append_images=[Image.new("L", (60, 40), 200)]), "is an animation"),
        ("cut.pdf", pdf((595, 842))[:60], "is a broken PDF"),
        ("words.pdf", b"%PDF-1.7 and nothing else", "is a broken PDF"),
        ("none.pdf", pdf(), "is "),
        ("locked.pdf", ENCRYPTED, "is encrypted"),
        ("line.pdf", pdf((14_000, 1)), "is too narrow to be read"),
    ],
)
def test_what_cannot_be_read_says_why(name: str, content: bytes, why: str) -> None:
    assert refused(name, content).startswith(why)


def test_a_huge_pdf_page_is_drawn_within_the_limit() -> None:
    (page,) = pages("poster.pdf", pdf((14_400, 14_400)))
    assert isinstance(page, np.ndarray)
    assert page.shape == (files.SIDE_WANTED, files.SIDE_WANTED)


def test_a_tiff_of_a_thousand_pages_is_read_page_by_page() -> None:
    small = Image.new("L", (8, 8), 200)
    content = saved("TIFF", small, save_all=True, append_images=[small] * 999)
    found = pages("thousand.tiff", content, most=50)
    assert len(found) == 50
    assert all(isinstance(page, np.ndarray) for page in found)


def test_a_tiff_keeps_the_pages_before_its_damage() -> None:
    noise = Image.effect_noise((200, 200), 90)
    content = saved("TIFF", noise, save_all=True, append_images=[noise] * 3)
    found = pages("damaged.tiff", content[: len(content) // 2])
    assert isinstance(found[0], np.ndarray)
    assert isinstance(found[-1], NotReadable)


def test_content_decides_what_a_file_is_and_the_name_how_many_pages_were_priced() -> None:
    assert isinstance(pages("really-a-png.jpg", saved("PNG"))[0], np.ndarray)
    assert len(pages("one-page.png", pdf((595, 842)))) == 1
    with pytest.raises(NotReadable, match="has several pages"):
        pages("two-pages.png", pdf((595, 842), (595, 842)))


def test_nothing_is_white_paper() -> None:
    glass = Image.new("RGBA", (60, 40), (0, 0, 0, 0))
    glass.paste((0, 0, 0, 255), (10, 10, 20, 20))
    (page,) = pages("glass.png", saved("PNG", glass))
    assert isinstance(page, np.ndarray)
    assert (int(page[0, 0]), int(page[15, 15])) == (255, 0)


def test_a_photograph_stands_as_its_camera_says() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    (page,) = pages("turned.jpg", saved("JPEG", exif=exif))
    assert isinstance(page, np.ndarray)
    assert page.shape == (60, 40)


def test_sixteen_bits_are_brought_to_eight() -> None:
    deep = Image.fromarray(np.linspace(0, 65_535, 2_400).astype(np.uint16).reshape(40, 60))
    (page,) = pages("deep.png", saved("PNG", deep))
    assert isinstance(page, np.ndarray)
    assert (int(page.min()), int(page.max())) == (0, 255)


def test_a_large_picture_is_made_smaller() -> None:
    (page,) = pages("large.png", saved("PNG", Image.new("1", (8_000, 4_000), 1)))
    assert isinstance(page, np.ndarray)
    assert page.shape == (2_000, 4_000)
