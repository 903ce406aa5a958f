"""Nobody but transitions.py writes a run: read from the source. And the page of edges says what the code does."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runs import transitions
from runs.compiled_update import CompiledUpdate
from runs.models import Run
from runs.states import EDGES, Combination, MoneyState, Stage, Status
from tests.gear.source import PRODUCT

REPOSITORY = Path(__file__).resolve().parents[2]
APPS = PRODUCT
THE_WRITER = "runs/transitions.py"

MODELS = frozenset({"Run", "RunHistory", "RunInputs", "RunMetadata"})
WRITES = frozenset(
    {"update", "create", "bulk_create", "bulk_update", "get_or_create", "update_or_create", "delete", "save"}
)
OF_RUNS_ALONE = frozenset({"money_state", "finalize_stage", "finalize_token", "lease_token", "actual_cost_usd_micros"})
STATUS_IS_A_RUNS_IN = ("runs/", "reaper/")
SQL = re.compile(
    r"\b(?:UPDATE|INSERT\s+INTO|DELETE\s+FROM)\s+\"?(?:runs|run_inputs|run_history|run_metadata)\b", re.IGNORECASE
)


def writes_of_runs(tree: ast.Module, path: str) -> Iterator[str]:
    guarded = OF_RUNS_ALONE | ({"status"} if path.startswith(STATUS_IS_A_RUNS_IN) else frozenset())
    for node in ast.walk(tree):
        match node:
            case ast.Call() if _writes(node):
                if _written(node) in MODELS:
                    yield f"{node.lineno}: {_written(node)} is written"
                for keyword in node.keywords:
                    if keyword.arg in guarded or (keyword.arg or "").startswith("intent_"):
                        yield f"{node.lineno}: {ast.unparse(node.func).split('.')[-1]}({keyword.arg}=...)"
            case ast.Assign(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Attribute) and target.attr in guarded:
                        yield f"{node.lineno}: .{target.attr} is assigned"
            case ast.Constant(value=str(text)) if SQL.search(text):
                yield f"{node.lineno}: SQL writes a table of runs"


def _writes(call: ast.Call) -> bool:
    return ast.unparse(call.func) == "CompiledUpdate" or (
        isinstance(call.func, ast.Attribute) and call.func.attr in WRITES
    )


def _written(call: ast.Call) -> str:
    return _root(call.args[0] if ast.unparse(call.func) == "CompiledUpdate" else call.func)


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


GOOD = [
    "Run.objects.filter(status='QUEUED').count()",
    "transitions.start(run_id=run_id, version=1, lease_token='l', actor='worker')",
    "Facts(status=run.status, money_state=run.money_state)",
    "RunDispute.objects.create(run=run, step='OPENED')",
    "cursor.execute('SELECT status FROM runs')",
]
BAD = {
    "Run.objects.filter(pk=1).update(send_count=1)": "1: Run is written",
    "Run.objects.create(run_id=1)": "1: Run is written",
    "CompiledUpdate(Run.objects.filter(pk=1), send_count=1)": "1: Run is written",
    "RunHistory.objects.all().delete()": "1: RunHistory is written",
    "queryset.update(status='FAILED')": "1: update(status=...)",
    "queryset.update(money_state='SETTLED')": "1: update(money_state=...)",
    "queryset.update(intent_status='FAILED')": "1: update(intent_status=...)",
    "run.finalize_stage = None": "1: .finalize_stage is assigned",
    "run.status = 'FAILED'\nrun.save()": "1: .status is assigned",
    "cursor.execute('UPDATE runs SET version = 1')": "1: SQL writes a table of runs",
    "cursor.execute('delete from run_history')": "1: SQL writes a table of runs",
}


@pytest.mark.parametrize("sample", GOOD)
def test_transitions_the_good_samples_pass(sample: str) -> None:
    assert list(writes_of_runs(ast.parse(sample), "runs/sample.py")) == []


@pytest.mark.parametrize("sample", BAD)
def test_transitions_the_bad_samples_are_caught(sample: str) -> None:
    assert list(writes_of_runs(ast.parse(sample), "runs/sample.py")) == [BAD[sample]]


def test_transitions_a_status_elsewhere_is_another_status() -> None:
    assert list(writes_of_runs(ast.parse("queryset.update(status='SUSPENDED')"), "tenants/services.py")) == []


def test_dpp_34_nobody_but_transitions_writes_a_run() -> None:
    wrong = [
        f"{path}:{fault}"
        for app in APPS
        for path in sorted(REPOSITORY.joinpath(app).rglob("*.py"))
        if "migrations" not in path.parts and str(path.relative_to(REPOSITORY)) != THE_WRITER
        for fault in writes_of_runs(ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(REPOSITORY)))
    ]
    assert wrong == []


def test_dpp_34_every_write_of_transitions_is_bound_to_a_guard() -> None:
    """`Run.objects.update(...)` without a filter before it would move every run there is."""
    tree = ast.parse(inspect.getsource(transitions))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES:
            assert ".filter(" in ast.unparse(node.func) or ast.unparse(node.func) == "runs.update", ast.unparse(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "CompiledUpdate":
            guard = ast.unparse(node.args[0])
            assert guard.startswith(("Run.objects.filter(_SEEN, ", "Run.objects.filter(_WAITING, run_id=")), guard


# The page

PAGE = (REPOSITORY / "docs" / "state_machine.md").read_text(encoding="utf-8")
BESIDE = {"renew", "end_retention", "postpone_send", "mark_dead_lettered", "clear_inputs"}


def rows() -> dict[str, dict[str, str]]:
    lines = [line for line in PAGE.split("## The edges")[1].split("**The claim**")[0].splitlines() if line[:1] == "|"]
    names = [cell.strip() for cell in lines[0].strip("|").split("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {row[0]: dict(zip(names, row, strict=True)) for row in cells}


def combinations(text: str) -> set[Combination]:
    """`A/B C COMMITTED, D E` as the combinations it names."""
    found: set[Combination] = set()
    for part in text.split(", "):
        statuses, money, *stage = part.split(" ")
        found |= {
            (Status(one), MoneyState(other), Stage(stage[0]) if stage else None)
            for one in statuses.split("/")
            for other in money.split("/")
        }
    return found


def edge_functions() -> dict[str, ast.FunctionDef]:
    tree = ast.parse(inspect.getsource(transitions))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


STEP = {"version", "last_actor", "updated_at"}


def columns_written(edge: str) -> set[str]:
    update = getattr(transitions, f"_{edge.upper()}", None)
    if update is None:  # every run between two effects, in one statement of its own
        return set()
    assert isinstance(update, CompiledUpdate)
    assert set(update.columns) >= STEP
    written = set(update.columns) - STEP
    return {"the claim"} if written == set(transitions._CLAIM) - STEP else written


def test_state_machine_page_names_every_edge() -> None:
    public = {name for name in edge_functions() if not name.startswith("_")}
    assert set(rows()) == public - BESIDE == set(EDGES) | {"accept", "drop", "forget"}
    for name in BESIDE:
        assert f"`{name}`" in PAGE


def test_state_machine_diagram_shows_every_edge() -> None:
    diagram = PAGE.split("```")[1].replace("claim_unsent, canceled", "claim_unsent, claim_canceled")
    assert {name for name in rows() if name not in diagram} == set()


@pytest.mark.parametrize("edge", EDGES)
def test_state_machine_page_says_from_where_to_where(edge: str) -> None:
    row = rows()[edge]
    assert combinations(row["from"]) == {before for before, _ in EDGES[edge]}
    assert combinations(row["to"]) == {after for _, after in EDGES[edge]}
    assert row["actor"]


@pytest.mark.parametrize("edge", EDGES)
def test_state_machine_page_says_what_is_written(edge: str) -> None:
    written = {column for column in rows()[edge]["writes"].split(", ") if column}
    assert written == columns_written(edge)
    assert written <= {"the claim"} | {field.attname for field in Run._meta.concrete_fields}


def test_state_machine_page_says_what_a_claim_writes() -> None:
    said = re.search(r"\*\*The claim\*\* writes (.*?)\. It decides", PAGE, re.DOTALL)
    assert said is not None
    assert set(re.findall(r"[a-z_0-9]+", said[1])) - {"and"} == set(transitions._CLAIM) - STEP
