"""docs/performance.md is what `python -m bench --write-docs` writes from the results that are kept."""

import json
import re
import sys
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import _figures, _page, _peers, _plots, _results
from bench._figures import Figure
from bench._results import Kept, Results
from tests.gear.source import REPOSITORY

QUARTER_OF_AN_HOUR = 15 * 60


def kept(*figures: Figure, failed: str | None = None) -> Results:
    one = Kept(figures, "2026-01-01", 10, 0.0, failed)
    return Results({"cores": 2, "cpu": "a cpu", "memory_gib": 4, "system": "Linux"}, {"Python": "3"}, {"growth": one})


def grown(few: tuple[float, int], many: tuple[float, int], what: str = "poll") -> Results:
    return kept(
        *(
            Figure(what, value, "ms", rows=rows, pages=pages)
            for rows, (value, pages) in ((10_000, few), (1_000_000, many))
        )
    )


def test_the_page_and_its_plots_are_what_the_results_say() -> None:
    results = _results.read()
    assert results.benches
    assert _page.PAGE.read_text(encoding="utf-8") == _page.page(results)
    for name, plot in _page.plots(results).items():
        assert (_page.PLOTS / name).read_text(encoding="utf-8") == plot


def test_every_bench_of_the_page_is_there_and_together_they_take_a_quarter_of_an_hour() -> None:
    assert set(_page.SECTIONS) <= set(command.names())
    assert sum(_page.SECONDS.values()) <= QUARTER_OF_AN_HOUR


def test_what_grows_has_a_reason() -> None:
    assert _page.unexplained(_results.read()) == []


def test_what_grows_without_a_reason_is_found() -> None:
    flat, more_pages, slower = (5.0, 40), (5.0, 145), (20.1, 40)
    assert _page.unexplained(grown(flat, (19.9, 144))) == []
    assert _page.unexplained(grown(flat, more_pages)) == ["poll"]
    assert _page.unexplained(grown(flat, slower)) == ["poll"]
    assert _page.unexplained(grown(flat, slower, "budget rebuild of all")) == []
    assert "| poll | 5 ms, 40 p. | 5 ms, 145 p. | **grows** |" in _page.page(grown(flat, more_pages))


def test_a_target_that_is_missed_and_a_bench_that_failed_are_named() -> None:
    found = kept(
        Figure("poll", 400.0, "ms", at_most=300, rows=10_000, pages=1), failed="ended with 1: no such | server"
    )
    page = _page.page(found)
    assert "at most 300: **missed**" in page
    assert "**This bench failed**, and what is missing below is not known: ended with 1: no such / server" in page
    assert page.count("Not measured yet.") == len(_page.SECTIONS) - 1


def test_a_busy_machine_is_named() -> None:
    quiet = grown((1.0, 1), (1.0, 1))
    (one,) = quiet.benches.values()
    busy = Results(quiet.machine, quiet.versions, {"growth": Kept(one.figures, one.measured, 1, 1.5)})
    assert "other work" not in _page.page(quiet)
    assert "**The machine had other work**: up to 1.5 of its cores" in _page.page(busy)


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    results = grown((1.0, 1), (2.0, 3))
    _results.write(results, tmp_path / "latest.json")
    assert _results.read(tmp_path / "latest.json") == results
    assert [path.name for path in tmp_path.iterdir()] == ["latest.json"]


def test_a_figure_is_handed_over_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "figures"
    monkeypatch.setenv(_figures.HANDED_TO, str(file))
    _figures.tell("poll", 1.23456, "ms", at_most=2, rows=10, pages=3)
    _figures.tell("rate", 4.0, "/s", at_least=5)
    read = _figures.read(file.read_text())
    assert read == [Figure("poll", 1.2346, "ms", at_most=2, rows=10, pages=3), Figure("rate", 4.0, "/s", at_least=5)]
    assert [figure.is_met for figure in read] == [True, False]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0349, "0.03"), (2.0, "2"), (12.34, "12.3"), (1234.5, "1,234"), (10_000.0, "10,000")]
)
def test_a_value_has_the_digits_of_a_measurement(value: float, text: str) -> None:
    assert _figures.shown(value) == text


def test_plots_are_readable_in_the_light_and_in_the_dark_and_load_nothing() -> None:
    drawn = _plots.bars("a < b", {"ours": 2.0, "theirs": 1.0}, unit="/s", ours=["ours"])
    drawn += _plots.lines("by size", {"poll": [(10, 1.0), (100, 2.0)], "list": [(10, 3.0), (100, 30.0)]}, unit="ms")
    assert drawn.count("prefers-color-scheme:dark") == 2
    assert "a &lt; b" in drawn
    assert set(re.findall(r"https?://[^\"]+", drawn)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in drawn


def test_a_bench_that_fails_or_hangs_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run as `make bench` runs them, each in a process of its own; here they are programs of this test."""
    programs = {
        "breaks": "raise SystemExit('no server')",
        "hangs": "import time; time.sleep(600)",
        "measures": "from bench._figures import tell; tell('poll', 2.0, 'ms', at_most=1)",
    }
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setattr(command, "command_of", lambda name, _arguments: [sys.executable, "-c", programs[name]])
    monkeypatch.setattr(command, "seconds_of", lambda name: 0.2 if name == "hangs" else 60.0)
    written = tmp_path / "latest.json"
    monkeypatch.setattr(_results, "PATH", written)
    assert command.measured(list(programs), "", whole=False, keep=False) == 1
    said = capsys.readouterr().out
    assert "breaks             FAILED: ended with 1: no server" in said
    assert "hangs              FAILED: not done after 1 s" in said
    assert "1 figures, 1 targets missed" in said
    assert not written.exists()


def test_each_peer_has_a_lock_with_hashes_and_none_is_the_products() -> None:
    assert len(_peers.names()) == 4
    product = {path.name: path.read_text(encoding="utf-8") for path in (REPOSITORY / "requirements").glob("*.txt")}
    for name in _peers.names():
        assert (_peers.LOCKS / f"{name}.py").exists()
        lock = (_peers.LOCKS / f"{name}.txt").read_text(encoding="utf-8")
        pinned = re.findall(r"^([\w.\[\]-]+)==\S+", lock, re.MULTILINE)
        assert pinned
        assert lock.count("--hash=sha256:") >= len(pinned)
    for only_theirs in ("fastapi==", "sqlalchemy==", "procrastinate==", "asyncpg=="):
        assert [file for file, text in product.items() if re.search(f"^{only_theirs}", text, re.MULTILINE)] == []


def test_each_bench_that_a_page_or_a_module_names_is_there() -> None:
    pages = [*(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "bench").glob("*.py"), REPOSITORY / "Makefile"]
    named = {name for page in pages for name in re.findall(r"\bB=([a-z_]+)", page.read_text(encoding="utf-8"))}
    assert len(named) > 20
    assert named - set(command.names()) == set()


def test_what_is_kept_is_plain_json() -> None:
    assert json.loads(_results.PATH.read_text(encoding="utf-8")) == _results.read().document()
