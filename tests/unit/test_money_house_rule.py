"""No float where money is: read from the source, with a good and a bad sample.

All of budget/ is money. Elsewhere an expression is when it names something `micros`.
"""

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.contract("DPP-50")

REPOSITORY = Path(__file__).resolve().parents[2]
APPS = ("dpp_project", "tenants", "budget", "runs", "reaper", "ops")
INEXACT_NAMES = frozenset({"float", "fsum", "fmean"})


def inexact(node: ast.AST) -> str | None:
    """What in this one node could make a fraction out of micros."""
    match node:
        case ast.Constant(value=float()):
            return "a float literal"
        case ast.BinOp(left=left, op=ast.Div()) if is_sql(left):
            return None
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            return "true division"
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in INEXACT_NAMES:
            return f"{name}"
        case ast.Call(func=ast.Name(id="round")):
            return "round()"
    return None


def is_sql(node: ast.AST) -> bool:
    """`F("micros") * 2 / 100` is divided by Postgres, whole number by whole number."""
    return any(
        isinstance(it, ast.Call) and isinstance(it.func, ast.Name) and it.func.id == "F" for it in ast.walk(node)
    )


def names_micros(node: ast.AST) -> bool:
    return any(
        "micros" in (getattr(inner, "id", None) or getattr(inner, "attr", None) or getattr(inner, "arg", None) or "")
        for inner in ast.walk(node)
    )


def faults(source: str, *, all_of_it: bool) -> list[str]:
    """Each as `line: what`. A statement is read as a whole: what meets micros on one line is money."""
    tree = ast.parse(source)
    found = set()
    for statement in (node for node in ast.walk(tree) if isinstance(node, ast.stmt)):
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.If | ast.For | ast.While | ast.With | ast.Try):
            continue
        if all_of_it or names_micros(statement):
            found |= {(node.lineno, said) for node in ast.walk(statement) if (said := _said(node))}  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if all_of_it and (said := _said(node)):
            found.add((node.lineno, said))  # type: ignore[attr-defined]
        part = node.test if isinstance(node, ast.If | ast.While) else node if isinstance(node, ast.arg) else None
        if part is not None and names_micros(part):
            found |= {(inner.lineno, said) for inner in ast.walk(part) if (said := _said(inner))}  # type: ignore[attr-defined]
    return [f"{line}: {said}" for line, said in sorted(found)]


def _said(node: ast.AST) -> str | None:
    return inexact(node) if hasattr(node, "lineno") else None


GOOD = """
PATIENCE_SECONDS = 0.5

def minimum_fee_micros(reserved_micros: int) -> int:
    return min(max(5_000, reserved_micros * 2 // 100), 100_000)

CONDITION = F("reserved_micros") * 2 / 100

def share(part: int, whole: int) -> float:
    return part / whole
"""
BAD = {
    "fee_micros = reserved * 0.02": "1: a float literal",
    "fee = reserved_micros / 50": "1: true division",
    "self.cost_micros /= 2": "1: true division",
    "cost_micros = int(float(text))": "1: float",
    "def price(cost_micros: float) -> int: ...": "1: float",
    "if balance_micros > 0.5: pass": "1: a float literal",
    "cost_micros = round(cost)": "1: round()",
    "hold(reserved_micros=1e6)": "1: a float literal",
}


def test_the_good_sample_passes() -> None:
    assert faults(GOOD, all_of_it=False) == []


@pytest.mark.parametrize("sample", BAD)
def test_the_bad_samples_are_caught(sample: str) -> None:
    assert BAD[sample] in faults(sample, all_of_it=True)
    assert BAD[sample] in faults(sample, all_of_it=False)


def test_all_of_budget_is_money() -> None:
    assert faults(GOOD, all_of_it=True) == ["2: a float literal", "9: float", "10: true division"]


@pytest.mark.parametrize("app", [app for app in APPS if REPOSITORY.joinpath(app).is_dir()])
def test_dpp_50_no_float_touches_money(app: str) -> None:
    wrong = [
        f"{path.relative_to(REPOSITORY)}:{fault}"
        for path in sorted(REPOSITORY.joinpath(app).rglob("*.py"))
        if "migrations" not in path.parts
        for fault in faults(path.read_text(encoding="utf-8"), all_of_it=app == "budget")
    ]
    assert wrong == []
