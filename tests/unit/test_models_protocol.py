"""The protocol holds, fails without any of its points, and its checker is not fooled.

The whole of it is `make prove P=model`; here stand the small cases.
"""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from models import check, spin
from models.cases import ALL, BROKEN, QUICK, Case, Expected
from models.spin import Found, Result, fault
from tests.proving import proofs

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "models"
AFTER_THE_END = {"dispute", "resolve", "expire", "forget", "clear_inputs", "end_retention"}
"""Of ended runs alone, whose money has moved: no step of the protocol meets them."""
SPLIT_IN_TWO = {"retake_own": "retake", "redate": "resume"}
PARTS_OF_EDGES = {"moved", "claimed"}
STEPS_OF_THE_REBUILD = {"gate_check", "gate_close", "rebuild", "gate_open", "tenant_open", "rebuild_lease"}
PARTS_OF_SCRIPTS = {"counters", "plain_hold", "plain_move", "run_hold"}

needs_spin = pytest.mark.skipif(
    check.why_skipped() is not None, reason=f"the model is not checked: {check.why_skipped()}"
)


@needs_spin
@pytest.mark.parametrize(
    "case", [case for case in QUICK if case.expected is Expected.HOLDS], ids=lambda case: case.name
)
def test_the_protocol_holds(case: Case) -> None:
    assert spin.check(case).wrong is None


@needs_spin
@pytest.mark.parametrize(
    "case", [case for case in QUICK if case.expected is not Expected.HOLDS], ids=lambda case: case.name
)
def test_without_any_of_its_points_the_protocol_fails(case: Case) -> None:
    result = spin.check(case)
    assert result.wrong is None
    assert result.found.errors == 1


@needs_spin
def test_a_trail_ends_with_the_error() -> None:
    (case,) = (case for case in BROKEN if case.name == "no-fence")
    steps = spin.trail(case)
    assert steps[-1].startswith("assertion violated (hold[0]==0)")
    assert any("Rebuilder" in step for step in steps)


def inlines(*names: str) -> set[str]:
    text = "\n".join((MODELS / name).read_text(encoding="utf-8") for name in names)
    return set(re.findall(r"^inline (\w+)\(", text, re.MULTILINE))


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}


def test_every_edge_of_the_code_is_one_of_the_model() -> None:
    edges = functions(ROOT / "runs" / "transitions.py")
    assert edges - AFTER_THE_END == (edges & inlines("runs.pml", "life.pml"))
    assert {SPLIT_IN_TWO.get(name, name) for name in inlines("runs.pml") - PARTS_OF_EDGES} <= edges


def test_every_script_of_the_code_is_one_of_the_model() -> None:
    scripts = {path.stem for path in (ROOT / "budget" / "redis" / "lua").glob("*.lua")}
    modelled = {name.removesuffix("_lua") for name in inlines("money.pml", "counts.pml") if name.endswith("_lua")}
    assert scripts == modelled | STEPS_OF_THE_REBUILD | PARTS_OF_SCRIPTS


def test_every_step_of_an_event_is_one_of_the_model() -> None:
    outbox, modelled = ROOT / "dpp_project" / "outbox", inlines("outbox.pml")
    assert functions(outbox / "ledger.py") - {"renew", "standing"} == functions(outbox / "ledger.py") & modelled
    assert {"take_over", "send_overdue", "handle_anew"} == functions(outbox / "resending.py") & modelled


def test_cases_have_names_of_their_own_and_flags_that_the_models_know() -> None:
    assert len({case.name for case in (*ALL, *QUICK)}) == len({id(case) for case in (*ALL, *QUICK)})
    text = "\n".join(path.read_text(encoding="utf-8") for path in MODELS.glob("*.pml"))
    for case in (*ALL, *QUICK):
        for flag in case.flags:
            name, _, _ = flag.partition("=")
            assert re.search(rf"^#(?:ifdef|ifndef|if) {name}\b", text, re.MULTILINE), (case.name, flag)


COMPLETE = """
State-vector 116 byte, depth reached 83, errors: 0
    32704 states, stored
unreached in proctype Worker
\t/x/models/life.pml:45, state 222, "alive[me] = 0"
\t/x/models/life.pml:218, state 260, "-end-"
\t(2 of 260 states)
"""


def test_the_checkers_figures_are_read() -> None:
    found = spin.read(COMPLETE)
    assert (found.states, found.depth, found.errors, found.error, found.incomplete) == (32704, 83, 0, "", "")
    assert found.unreached == {"Worker life.pml:45: alive[me] = 0", "Worker life.pml:218: -end-"}


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (COMPLETE, None),
        (COMPLETE.replace("32704", "0"), "no states"),
        (f"error: max search depth too small{COMPLETE}", "max search depth too small"),
        (f"pan: reached -DMEMLIM bound\nWarning: Search not completed{COMPLETE}", "Search not completed"),
        (f"pan: out of memory{COMPLETE}", "out of memory"),
        ("Segmentation fault", "the checker did not finish: Segmentation fault"),
        (
            COMPLETE.replace("errors: 0", "errors: 1").replace(
                "\nState", "\npan:1: invalid end state (at depth 9)\nState"
            ),
            "invalid end state (at depth 9)",
        ),
    ],
)
def test_a_search_that_did_not_look_everywhere_shows_nothing(said: str, wrong: str | None) -> None:
    assert fault(Case("sample", "a sample", "life"), spin.read(said)) == wrong


@pytest.mark.parametrize(
    ("found", "expected", "wrong"),
    [
        (Found(9, 9, 1, "assertion violated x", ""), Expected.VIOLATES, None),
        (Found(9, 9, 0, "", ""), Expected.VIOLATES, "it holds, so the check proves nothing"),
        (Found(9, 9, 0, "", "out of memory"), Expected.VIOLATES, "out of memory"),
        (
            Found(9, 9, 1, "invalid end state", ""),
            Expected.VIOLATES,
            "wanted: assertion violated; found: invalid end state",
        ),
        (Found(9, 9, 1, "acceptance cycle", ""), Expected.NEVER_ENDS, None),
        (Found(9, 9, 0, "", ""), Expected.NEVER_ENDS, "it holds, so the check proves nothing"),
    ],
)
def test_a_removed_point_must_fail_in_its_way(found: Found, expected: Expected, wrong: str | None) -> None:
    assert fault(Case("sample", "a sample", "life", expected=expected), found) == wrong


def test_one_wrong_case_or_one_unreached_statement_fails_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    sound = next(case for case in ALL if case.model == "life")
    right = Result(sound, Found(5, 5, 0, "", ""), 0.1)
    assert check.judge([right], whole=True) == 0
    assert check.judge([right, Result(sound, Found(5, 5, 1, "assertion violated", ""), 0.1)], whole=False) == 1
    unreached = Result(
        sound, Found(5, 5, 0, "", "", frozenset({"Worker life.pml:9: x", "Worker life.pml:10: -end-"})), 0.1
    )
    assert check.judge([unreached], whole=True) == 1
    assert "life: Worker life.pml:9: x" in capsys.readouterr().out
    assert check.judge([unreached, right], whole=True) == 0


def test_without_its_tools_the_model_is_skipped_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check.main(["--install"]) == proofs.SKIPPED
    said = capsys.readouterr().out
    assert said.startswith("SKIPPED model: spin and gcc not found: install them")


APT = """#!/bin/sh
echo "$*" >>"{told}"
{does}
"""


def an_apt(folder: Path, monkeypatch: pytest.MonkeyPatch, *, does: str, user: int = 0) -> Path:
    """Alone on the path, with what the script needs of a shell; what it was told comes to a file."""
    told = folder / "told"
    for name, text in (("apt-get", APT.format(told=told, does=does)), ("id", f"#!/bin/sh\necho {user}\n")):
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    for name in ("dirname", "mkdir", "tail", "touch"):
        (folder / name).symlink_to(str(shutil.which(name)))
    scripts = folder / "clone" / "dpp_project" / "devstack"
    scripts.mkdir(parents=True)
    for name in ("apt.sh", check.SETUP.name):
        shutil.copy(check.SETUP.with_name(name), scripts)
    monkeypatch.setattr(check, "SETUP", scripts / check.SETUP.name)
    monkeypatch.setenv("PATH", str(folder))
    return told


def test_as_root_the_tools_are_installed_and_the_check_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    puts_them_there = f'for tool in spin gcc; do printf "" >"{tmp_path}/$tool"; /bin/chmod 755 "{tmp_path}/$tool"; done'
    told = an_apt(tmp_path, monkeypatch, does=f'[ "$5" = update ] || {{ {puts_them_there}; }}')
    assert check.why_skipped() is not None
    check.install()
    assert told.read_text(encoding="utf-8").endswith(" install -y -q --no-install-recommends spin gcc libc6-dev\n")
    assert check.why_skipped() is None
    check.install()
    assert len(told.read_text(encoding="utf-8").splitlines()) == 1, "what is there is not installed again"


@pytest.mark.parametrize(("user", "asked"), [(0, True), (1_000, False)])
def test_where_the_tools_cannot_be_installed_the_skip_says_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, *, user: int, asked: bool
) -> None:
    """Apt finds no such package, or nobody may ask it."""
    told = an_apt(tmp_path, monkeypatch, does="exit 100", user=user)
    assert check.main(["--install"]) == proofs.SKIPPED
    assert told.exists() is asked
    assert capsys.readouterr().out.startswith("SKIPPED model: spin and gcc not found: install them")


def test_an_apt_that_hangs_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    an_apt(tmp_path, monkeypatch, does="exec /bin/sleep 60")
    monkeypatch.setattr(check, "INSTALL_SECONDS", 0.2)
    assert check.main(["--install"]) == proofs.SKIPPED
    assert capsys.readouterr().out.startswith("SKIPPED model")


def test_a_setup_that_may_fail_says_once_what_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = an_apt(tmp_path, monkeypatch, does="", user=1_000)
    ran = [
        subprocess.run(["/bin/sh", str(check.SETUP), "--may"], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert "sudo apt-get install -y --no-install-recommends spin gcc libc6-dev" in ran[0].stderr
    assert "test_models_protocol.py skips the checks of the model" in ran[0].stderr
    assert (ran[1].stdout, ran[1].stderr, told.exists()) == ("", "", False)
