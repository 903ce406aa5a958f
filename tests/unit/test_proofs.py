"""The runner behind `make prove` fails a proof that ran too little, took too long, or failed."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proving import proofs
from tests.proving.proofs import Proof, Told

REPOSITORY = Path(__file__).resolve().parents[2]
WITH_DOCKER = tuple(f"tests/integration/workspaces/test_docker_{what}.py" for what in ("driver", "life"))
"""Run by `make docker-test`, where a Docker daemon can be installed."""


def proof(code: str, *, least_cases: int = 2) -> Proof:
    return Proof(
        name="sample",
        shows="a sample",
        command=(sys.executable, "-c", f"from tests.proving.proofs import report; {code}"),
        least_cases=least_cases,
        measured_seconds=60,
    )


@pytest.mark.parametrize(
    ("code", "failed"),
    [
        ("report(cases=1, seed=7); report(cases=1, seed=8)", None),
        ("report(cases=1)", "1 cases, promised are 2"),
        ("pass", "0 cases, promised are 2"),
        ("report(cases=5); raise SystemExit(3)", "exit code 3"),
    ],
)
def test_a_proof_is_judged_by_what_it_ran(
    code: str, failed: str | None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "WITH_SERVICES", ())  # it needs none
    assert proofs.run(proof(code)) == failed
    said = capfd.readouterr().out
    assert "== sample: cases=" in said
    assert ("holds" in said) is (failed is None)


def test_a_proof_that_cannot_run_here_fails_them_all_and_is_named_with_its_cure(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    holds = replace(proof("report(cases=2)"), name="one")
    skipped = replace(proof("print('no spin'); raise SystemExit(77)"), name="two", setup="make setup-two")
    monkeypatch.setattr(proofs, "WITH_SERVICES", ())
    monkeypatch.setattr(proofs, "PROOFS", (holds, skipped))
    cured = "skipped, and shown nothing: two; `make setup-two` installs what two needs"
    for chosen, code, last in (
        (["one", "two"], 1, f"prove: all but two hold; {cured}"),
        (["two"], 1, f"prove: {cured}"),
        (["one"], 0, "prove: all hold, in 0 s"),
    ):
        monkeypatch.setattr(sys, "argv", ["proofs", *chosen])
        assert proofs.main() == code
        assert re.sub(r"in \d+ s", "in 0 s", capfd.readouterr().out.splitlines()[-1]) == last


def test_what_failed_stands_before_what_was_skipped() -> None:
    skipped = [replace(proof("pass"), name="two")]
    said = proofs.last_words(held=0, failed=["one"], skipped=skipped, seconds=1)
    assert said == "FAILED: one; skipped, and shown nothing: two"


def test_a_proof_that_takes_too_long_has_failed() -> None:
    assert proofs.verdict(proof("pass"), exit_code=0, told=Told(9, ()), seconds=79) == "79 s, allowed are 78"
    assert proofs.verdict(proof("pass"), exit_code=0, told=Told(9, ()), seconds=78) is None


def test_outside_of_make_prove_a_report_goes_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(proofs.REPORT_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    proofs.report(cases=1)
    assert list(tmp_path.iterdir()) == []


def test_two_run_beside_each_other_the_longest_first_and_what_compares_times_alone() -> None:
    short, long = replace(proof("pass"), name="short", measured_seconds=10), replace(proof("pass"), name="long")
    alone = replace(proof("pass"), name="alone", measured_seconds=600, alone=True)
    turns = [[each.name for each in turn] for turn in proofs.in_turns([short, alone, long])]
    assert turns == [["long", "short"], ["alone"]]
    assert proofs.most_seconds([short, alone, long]) == 78 + 780


def test_all_proofs_fit_into_their_time() -> None:
    assert proofs.most_seconds(proofs.PROOFS) <= proofs.BUDGET_SECONDS
    assert len({each.name for each in proofs.PROOFS}) == len(proofs.PROOFS)


def test_every_slow_test_belongs_to_a_proof_and_reports_its_cases() -> None:
    """One that nobody runs shows nothing, and one that reports nothing may be missing from its proof unseen."""
    slow = {
        str(path.relative_to(REPOSITORY)): text
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        if "pytest.mark.slow" in (text := path.read_text(encoding="utf-8")) and path != Path(__file__)
    }
    commands = [tuple(each.command) for each in proofs.PROOFS]
    assert set(WITH_DOCKER) < set(slow)
    for name, text in slow.items():
        if name in WITH_DOCKER:
            continue
        assert "report(cases=" in text, name
        folder = str(Path(name).parent)
        assert any(name in command or folder in command for command in commands), f"no proof runs {name}"
