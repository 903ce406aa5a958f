"""One page of docs/ as HTML: headings with anchors as on GitHub, links that lead to pages, wide things that scroll.

HTML in the source is text, no element has a style of its own, and nothing is loaded: a picture is described.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any, Final

from django.urls import reverse
from markdown_it import MarkdownIt
from markdown_it.token import Token

from dpp_project.documentation.chapters import DECISIONS, documentation_chapters

ELSEWHERE: Final = ("https://", "http://", "mailto:")
DEEPEST_IN_CONTENTS: Final = 3


@dataclass(frozen=True)
class Heading:
    level: int
    text: str
    anchor: str


@dataclass(frozen=True)
class Section:
    """What the search finds: a heading, and what stands below it up to the next."""

    heading: Heading
    text: str


@dataclass(frozen=True)
class Page:
    html: str
    contents: tuple[Heading, ...]
    sections: tuple[Section, ...]


@cache
def render_documentation_page(name: str) -> Page:
    tokens = _parser().parse(documentation_chapters()[name].text)
    headings = _give_anchors(tokens)
    folder = posixpath.dirname(name)
    for token in tokens:
        token.attrs.pop("style", None)
        if token.children is not None:
            token.children = _led(token.children, folder)
    markdown = _parser()
    html = markdown.renderer.render(tokens, markdown.options, {})
    contents = tuple(one for one in headings if 1 < one.level <= DEEPEST_IN_CONTENTS)
    return Page(html, contents, tuple(_sections(tokens, headings)))


def anchor_of(text: str, taken: Counter[str]) -> str:
    """As GitHub makes it: lower case, hyphens for spaces, no punctuation; the second of a name gets a number."""
    wanted = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
    taken[wanted] += 1
    return wanted if taken[wanted] == 1 else f"{wanted}-{taken[wanted] - 1}"


@cache
def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    made.add_render_rule("fence", _block)  # type: ignore[no-untyped-call, unused-ignore]
    made.add_render_rule("code_block", _block)  # type: ignore[no-untyped-call, unused-ignore]
    made.add_render_rule("table_open", _table_open)  # type: ignore[no-untyped-call, unused-ignore]
    made.add_render_rule("table_close", _table_close)  # type: ignore[no-untyped-call, unused-ignore]
    made.add_render_rule("th_open", _head_open)  # type: ignore[no-untyped-call, unused-ignore]
    made.add_render_rule("heading_close", _heading_close)  # type: ignore[no-untyped-call, unused-ignore]
    return made


def _block(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """It scrolls by itself where it is wide, and by the keyboard too."""
    return f'<pre tabindex="0"><code>{escape(tokens[index].content)}</code></pre>\n'


def _table_open(_self: Any, _tokens: Sequence[Token], _index: int, _options: Any, _env: Any) -> str:
    return '<div class="wide" tabindex="0">\n<table>\n'


def _table_close(_self: Any, _tokens: Sequence[Token], _index: int, _options: Any, _env: Any) -> str:
    return "</table>\n</div>\n"


def _head_open(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """A column without a name has no head: a cell that heads nothing is read out as a fault."""
    return "<td>" if not tokens[index + 1].content.strip() else '<th scope="col">'


def _heading_close(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    opened = tokens[index - 2]
    anchor, text = escape(str(opened.attrs["id"])), escape(_words(tokens[index - 1]))
    return f' <a class="anchor" href="#{anchor}" aria-label="Link to: {text}">#</a></{opened.tag}>\n'


def _give_anchors(tokens: Sequence[Token]) -> list[Heading]:
    taken: Counter[str] = Counter()
    found = []
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            text = _words(tokens[index + 1])
            heading = Heading(int(token.tag[1:]), text, anchor_of(tokens[index + 1].content, taken))
            token.attrs["id"] = heading.anchor
            found.append(heading)
    return found


def _led(children: list[Token], folder: str) -> list[Token]:
    """The tokens of a line, with each link brought to a page, or taken away where it leads to none."""
    kept: list[Token] = []
    opened: list[bool] = []
    for token in children:
        if token.type == "link_open":
            address = address_of(str(token.attrs.get("href", "")), folder)
            opened.append(address is not None)
            if address is None:
                continue
            token.attrs["href"] = address
            if address.startswith(ELSEWHERE):
                token.attrs["rel"] = "noreferrer"
        elif token.type == "link_close" and not opened.pop():
            continue
        elif token.type == "image":
            token = Token("text", "", 0, content=token.content)  # noqa: PLW2901  loads nothing
        kept.append(token)
    return kept


def address_of(link: str, folder: str) -> str | None:
    """Where a link of a page in this folder of docs/ leads on the site; None if to no page: a source file, say."""
    if link.startswith((*ELSEWHERE, "#", "/")):
        return link
    path, _, anchor = link.partition("#")
    wanted = posixpath.normpath(posixpath.join(folder, path))
    name = wanted.removesuffix(".md")
    if wanted == DECISIONS:
        return reverse("docs-decisions")
    if name == wanted or name not in documentation_chapters():
        return None
    return reverse("docs-page", kwargs={"name": name}) + (f"#{anchor}" if anchor else "")


def _sections(tokens: Sequence[Token], headings: Sequence[Heading]) -> list[Section]:
    texts: list[list[str]] = []
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            texts.append([])
        elif texts and token.type == "inline" and tokens[index - 1].type != "heading_open":
            texts[-1].append(_words(token))
        elif texts and token.type in {"fence", "code_block"}:
            texts[-1].append(token.content)
    return [Section(heading, " ".join(" ".join(words).split())) for heading, words in zip(headings, texts, strict=True)]


def _words(token: Token) -> str:
    return "".join(" " if child.type in {"softbreak", "hardbreak"} else child.content for child in token.children or ())
