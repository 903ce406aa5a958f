"""The pages of docs/ as they are served at /docs/: all of them, links that lead somewhere, a search (DPP-71)."""

import json
import re
from collections import Counter
from html import unescape
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import resolve, reverse

from dpp_project.documentation import chapters, rendering
from dpp_project.documentation.chapters import FOLDER
from dpp_project.reasons import REASONS

pytestmark = pytest.mark.contract("DPP-71")

NAMES = sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.md"))
FIXED = ("/docs/", "/docs/reference/", "/docs/problems/", "/docs/adr/")


def address(name: str) -> str:
    return reverse("docs-page", kwargs={"name": name})


def get(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.content.decode()


def test_dpp_71_every_page_of_docs_is_served_and_in_the_menu_or_the_list_of_decisions(client: Client) -> None:
    assert sorted(chapters.documentation_chapters()) == NAMES
    listed = set(re.findall(r'href="([^"#]+)"', get(client, "/docs/") + get(client, "/docs/adr/")))
    assert {address(name) for name in NAMES} <= listed
    for name in NAMES:
        assert resolve(address(name)).url_name == "docs-page", f"docs/{name}.md has the address of another page"


@pytest.mark.parametrize("name", NAMES)
def test_dpp_71_a_page_is_whole_and_its_links_lead_to_pages_and_headings(client: Client, name: str) -> None:
    html = get(client, address(name))
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert [one for one, times in Counter(ids).items() if times > 1] == []
    assert "<h1" in html
    assert "style=" not in html
    for link in re.findall(r'href="([^"]+)"', html):
        path, _, anchor = unescape(link).partition("#")
        if path.startswith("/static/"):
            assert finders.find(path.removeprefix("/static/")), path
        elif path.startswith("/"):
            found = resolve(path)
            if anchor and found.url_name == "docs-page":
                page = rendering.render_documentation_page(found.kwargs["name"])
                assert f'id="{anchor}"' in page.html, f"{name} leads to {link}"
        elif not path.startswith("https://"):
            assert not path, link
            assert anchor in ids, link


def test_dpp_71_nothing_is_loaded_from_elsewhere(client: Client) -> None:
    for path in (*FIXED, *(address(name) for name in NAMES)):
        html = get(client, path)
        assert re.findall(r"<(?:img|iframe|object|embed|video|audio)\b", html) == []
        assert all(
            link.startswith("/static/") for link in re.findall(r'<(?:script|link)\b[^>]*(?:src|href)="([^"]+)"', html)
        )


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("/docs", "/docs/"),
        ("/docs/quickstart", "/docs/quickstart/"),
        ("/docs/quickstart.md", "/docs/quickstart/"),
        ("/docs/packs/ocr.md", "/docs/packs/ocr/"),
    ],
)
def test_dpp_71_a_page_is_found_by_its_files_name_too(client: Client, asked: str, page: str) -> None:
    answer = client.get(asked)
    assert (answer.status_code, answer.headers["Location"]) == (302, page)


def test_dpp_71_a_page_that_is_not_there_is_a_404_and_no_file_is_read_outside(client: Client) -> None:
    for path in (
        "/docs/nothing/",
        "/docs/../README/",
        "/docs/%2e%2e/README/",
        "/docs/images/console.png/",
        "/docs/api.md/",
    ):
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert 'href="/docs/"' in answer.content.decode(), "and there is a way on"


def test_dpp_71_the_index_finds_every_section_and_every_reason_code(client: Client) -> None:
    answer = client.get("/docs/search.json")
    entries = json.loads(answer.content)
    by_address = {entry["address"]: entry for entry in entries}
    assert all(f"/docs/problems/#{code.value}" in by_address for code in REASONS)
    assert "SPEND_CAP_REACHED" in by_address[f"{address('paying')}#caps"]["text"]
    assert {address(name) for name in NAMES} <= set(by_address)
    assert len(answer.content) < 500_000
    again = client.get("/docs/search.json", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def rendered(monkeypatch: pytest.MonkeyPatch, folder: Path, **pages: str) -> str:
    """The page `one` of a folder of docs that has these."""
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(chapters, "FOLDER", folder)
    chapters.documentation_chapters.cache_clear()
    rendering.render_documentation_page.cache_clear()
    try:
        return rendering.render_documentation_page("one").html
    finally:
        monkeypatch.undo()
        chapters.documentation_chapters.cache_clear()
        rendering.render_documentation_page.cache_clear()


def test_html_links_and_pictures_of_a_page_do_no_harm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    html = rendered(
        monkeypatch,
        tmp_path,
        one="# One\n\n<script>x</script> ![a picture](p.png) [two](two.md#here)\n"
        "[code](../runs/states.py) [bad](javascript:x)\n",
        two="# Two\n\n## Here\n",
    )
    assert "<script" not in html
    assert '<a href="/docs/two/#here">two</a>' in html
    assert "code" in html
    assert "states.py" not in html
    assert 'href="javascript' not in html
    assert "<img" not in html
    assert "a picture" in html


def test_headings_of_one_name_have_anchors_as_on_github(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    html = rendered(monkeypatch, tmp_path, one="# One\n\n## `A b`: c?\n\n## A b c\n\n|  | n |\n|:--|--:|\n| 1 | 2 |\n")
    assert re.findall(r'<h2 id="([^"]+)"', html) == ["a-b-c", "a-b-c-1"]
    assert "style" not in html
    assert '<div class="wide" tabindex="0">' in html
