"""The documentation's views: the start page, a page, the list of decisions, the search's index, the API's reference."""

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from dpp_project.documentation import chapters, rendering
from dpp_project.reasons import REASONS, type_uri


def _documentation_page(request: HttpRequest, template: str, **context: Any) -> HttpResponse:
    return render(request, template, {"parts": list(chapters.documentation_parts())} | context)


@require_safe
def start_page(request: HttpRequest) -> HttpResponse:
    return _documentation_page(request, "docs/start.html")


@require_safe
def show_documentation_page(request: HttpRequest, name: str) -> HttpResponse:
    chapter = chapters.documentation_chapters().get(name)
    if chapter is None:
        raise Http404
    order = [
        one
        for one in chapters.documentation_chapters().values()
        if chapters.is_decision(one.name) == chapters.is_decision(name)
    ]
    at = order.index(chapter)
    return _documentation_page(
        request,
        "docs/page.html",
        chapter=chapter,
        page=rendering.render_documentation_page(name),
        is_decision=chapters.is_decision(name),
        before=order[at - 1] if at else None,
        after=order[at + 1] if at + 1 < len(order) else None,
    )


@require_safe
def page_by_its_file(_request: HttpRequest, name: str) -> HttpResponse:
    """Pages of the repository name each other by file, as people do who come from there; some leave the slash out."""
    chapter = chapters.documentation_chapters().get(name.removesuffix(".md"))
    if chapter is None:
        raise Http404
    return redirect("docs-page", name=chapter.name)


@require_safe
def decisions_page(request: HttpRequest) -> HttpResponse:
    return _documentation_page(request, "docs/decisions.html", decisions=chapters.decision_chapters(), is_decision=True)


@require_safe
def reference_page(request: HttpRequest) -> HttpResponse:
    return _documentation_page(request, "docs/api.html")


@require_safe
def problems_page(request: HttpRequest) -> HttpResponse:
    rows = [
        {"code": code.value, "type": type_uri(code), "status": reason.status or "run result", "reason": reason}
        for code, reason in REASONS.items()
    ]
    return _documentation_page(request, "docs/problems.html", rows=rows)


@require_safe
def search_index(request: HttpRequest) -> HttpResponse:
    body, tag = _index()
    if request.headers.get("If-None-Match") == tag:
        answer = HttpResponse(status=304)
    else:
        answer = HttpResponse(body, content_type="application/json")
    answer.headers["ETag"] = tag
    answer.headers["Cache-Control"] = "public, max-age=60"
    return answer


@cache
def _index() -> tuple[bytes, str]:
    """Each section of the pages for readers, each reason code, and the other pages by their titles alone.

    Made when a reader first searches, since it renders every page for readers: about a second, once a process.
    """
    address = reverse("problem-list")
    codes = [
        _entry("Reason codes", "Use", code.value, f"{address}#{code.value}", f"{why.cause} {why.cure}")
        for code, why in REASONS.items()
    ]
    body = json.dumps([*codes, *_pages()], ensure_ascii=False, separators=(",", ":")).encode()
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def _pages() -> Iterator[dict[str, str]]:
    for chapter in chapters.documentation_chapters().values():
        address = reverse("docs-page", kwargs={"name": chapter.name})
        if chapter.part == chapters.REST:
            yield _entry(chapter.title, chapter.part, chapter.title, address, "")
            continue
        for section in rendering.render_documentation_page(chapter.name).sections:
            anchor = "" if section.heading.level == 1 else f"#{section.heading.anchor}"
            yield _entry(chapter.title, chapter.part, section.heading.text, address + anchor, section.text)


def _entry(page: str, part: str, heading: str, address: str, text: str) -> dict[str, str]:
    return {"page": page, "part": part, "heading": heading, "address": address, "text": text}
