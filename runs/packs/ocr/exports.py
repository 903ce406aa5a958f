"""The text as files, for who asked: Markdown and Word."""

import io
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from dpp_project import clock
from runs.packs.ocr.read_page import ReadPage
from runs.packs.pack import Work

MARKDOWN: Final = "include_markdown"
DOCX: Final = "include_docx"
TITLE_MAX: Final = 255
_DOCX_TYPE: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_SPECIAL: Final = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]<>#|"})


def add(work: Work[Any], pages: Sequence[ReadPage]) -> None:
    if work.artifacts_wanted.get(MARKDOWN):
        work.add_artifact("text.md", markdown(pages).encode(), "text/markdown; charset=utf-8")
    if work.artifacts_wanted.get(DOCX):
        work.add_artifact("text.docx", docx(pages), _DOCX_TYPE)


def markdown(pages: Sequence[ReadPage]) -> str:
    parts = []
    for page in pages:
        parts.append(f"## {_heading(page).translate(_SPECIAL)}")
        for block in page.text.blocks:
            text = "  \n".join(line.translate(_SPECIAL) for line in block.text.splitlines())
            parts.append(f"### {text}" if block.kind == "title" and "\n" not in text else text)
    return "\n\n".join(parts) + "\n"


def docx(pages: Sequence[ReadPage]) -> bytes:
    from docx import Document  # half a second of imports that only this artifact needs

    document = Document()
    about = document.core_properties  # the library writes its own name into them, and a day of 2013
    about.title = _writable(_heading(pages[0]))[:TITLE_MAX]
    about.author = about.comments = ""
    about.created = about.modified = clock.now()
    for page in pages:
        document.add_heading(_writable(_heading(page)), level=1)
        for block in page.text.blocks:
            if block.kind == "title":
                document.add_heading(_writable(block.text.replace("\n", " ")), level=2)
            else:
                document.add_paragraph(_writable(block.text))
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def _heading(page: ReadPage) -> str:
    return f"{PurePosixPath(page.source).name}, page {page.page}"


def _writable(text: str) -> str:
    """XML knows no control characters, and the engine may read some."""
    return "".join(sign for sign in text if sign.isprintable() or sign in "\n\t")
