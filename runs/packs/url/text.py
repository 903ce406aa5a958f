"""Title and text of a page. Runs only in the reader's processes, since a hostile page may crash the parser."""

import contextlib
import re
from dataclasses import dataclass
from typing import Final

import trafilatura

from runs.packs.url.content import Kind, decoded_content

EXCERPT_CHARACTERS: Final = 8_000
TITLE_CHARACTERS: Final = 300
_NOT_TEXT: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_TITLE: Final = re.compile(r"<title[^>]{0,200}>([^<]{1,2000})</title", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ReadText:
    title: str | None
    excerpt: str | None
    characters: int
    """Of the whole text; the excerpt is its beginning."""


def read_url_text(body: bytes, kind: Kind, charset: str) -> ReadText:
    markup = decoded_content(body, charset)
    if kind is not Kind.HTML:
        return _cleaned_url_text(None, markup)
    tree = trafilatura.load_html(markup)
    if tree is None:
        return _cleaned_url_text(None, "")
    title = None
    with contextlib.suppress(AttributeError, ValueError):
        title = tree.findtext(".//title")
    document = trafilatura.bare_extraction(tree, fast=True, include_comments=False, with_metadata=False)
    main = getattr(document, "text", None) if document is not None else None
    return _cleaned_url_text(title, main or trafilatura.html2txt(markup))


def title_of(start: bytes, charset: str) -> str | None:
    """The title of a page that could not be read, from its beginning alone."""
    found = _TITLE.search(decoded_content(start, charset))
    return _url_page_title(found[1]) if found else None


def _cleaned_url_text(title: str | None, text: str) -> ReadText:
    whole = _NOT_TEXT.sub("", text).strip()
    return ReadText(
        title=_url_page_title(title) if title else None,
        excerpt=whole[:EXCERPT_CHARACTERS] or None,
        characters=len(whole),
    )


def _url_page_title(title: str) -> str | None:
    return " ".join(_NOT_TEXT.sub("", title).split())[:TITLE_CHARACTERS] or None
