"""No float where money is: read from the source, with a good and a bad sample.

All of budget/ is money. Elsewhere an expression is when it names something `micros`.
"""

import ast
from pathlib import Path

import pytest

from tests.gear.source import PRODUCT

pytestmark = pytest.mark.contract("DPP-50")

REPOSITORY = Path(__file__).resolve().parents[2]
APPS = PRODUCT
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
    """Each as `line: what`. What meets micros in one statement is money; of a block, each header and each line."""
    tree = ast.parse(source)
    read = [tree] if all_of_it else [part for node in ast.walk(tree) for part in parts(node) if names_micros(part)]
    found = {(node.lineno, said) for part in read for node in ast.walk(part) if (said := _said(node))}  # type: ignore[attr-defined]
    return [f"{line}: {said}" for line, said in sorted(found)]


def parts(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.arg):
        return [node]
    if not isinstance(node, ast.stmt):
        return []
    if hasattr(node, "body") or isinstance(node, ast.Match):
        return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return [node]


def _said(node: ast.AST) -> str | None:
    return inexact(node) if hasattr(node, "lineno") else None


GOOD = """
PATIENCE_SECONDS = 0.5

def minimum_fee_micros(reserved_micros: int) -> int:
    return min(max(5_000, reserved_micros * 2 // 100), 100_000)

CONDITION = F("reserved_micros") * 2 / 100

async def judge(pages: list[int]) -> float:
    cost_micros = 5
    return sum(pages) / len(pages)

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
    "for cost in range(total_micros / 2): pass": "1: true division",
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
    assert faults(GOOD, all_of_it=True) == [
        "2: a float literal",
        "9: float",
        "11: true division",
        "13: float",
        "14: true division",
    ]


@pytest.mark.parametrize("app", APPS)
def test_dpp_50_no_float_touches_money(app: str) -> None:
    wrong = [
        f"{path.relative_to(REPOSITORY)}:{fault}"
        for path in sorted(REPOSITORY.joinpath(app).rglob("*.py"))
        if "migrations" not in path.parts
        for fault in faults(path.read_text(encoding="utf-8"), all_of_it=app == "budget")
    ]
    assert wrong == []
