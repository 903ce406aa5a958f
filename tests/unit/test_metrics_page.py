"""docs/metrics.md lists exactly the metrics that the code declares, each with its type and labels."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("dpp_project", "tenants", "budget", "runs", "reaper", "ops")
TYPES = {"Counter": "counter", "Histogram": "histogram", "Gauge": "gauge", "GaugeMetricFamily": "gauge"}
ROW = re.compile(r"^\| `(dpp_\w+)` \| (\w+) \| ([\w, ]*)\|(.*)\|(.*)\|$", re.MULTILINE)
Declared = tuple[str, str, tuple[str, ...]]

pytestmark = pytest.mark.contract("DPP-74")


def declared(source: str) -> Iterator[Declared]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in TYPES:
            continue
        if not node.args or not isinstance(node.args[0], ast.Constant):  # collections.Counter
            continue
        given = {word.arg: word.value for word in node.keywords}
        labels = given.get("labels") or (node.args[2] if len(node.args) > 2 else ast.List([]))
        yield ast.literal_eval(node.args[0]), TYPES[node.func.id], tuple(ast.literal_eval(labels))


def documented(page: str) -> Iterator[Declared]:
    for name, kind, labels, means, alert in ROW.findall(page):
        assert all(cell.strip() for cell in (means, alert)), name
        yield name, kind, tuple(label.strip() for label in labels.split(",") if label.strip())


def test_dpp_74_the_page_lists_every_metric_and_no_other() -> None:
    page = list(documented((ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")))
    code = [
        metric
        for app in PRODUCT
        for path in (ROOT / app).rglob("*.py")
        for metric in declared(path.read_text(encoding="utf-8"))
    ]
    assert sorted(page) == sorted(code)


def test_a_metric_is_read_from_source_and_page_with_its_labels() -> None:
    source = 'A = Counter("dpp_a_total", "A.", ["b", "c"])\ng = GaugeMetricFamily("dpp_g", "G.", labels=["d"])\n'
    assert list(declared(source)) == [("dpp_a_total", "counter", ("b", "c")), ("dpp_g", "gauge", ("d",))]
    assert list(declared('Histogram("dpp_h", "H.", buckets=(1,))')) == [("dpp_h", "histogram", ())]
    page = "| `dpp_a_total` | counter | b, c | means it | none |\n| `dpp_h` | histogram | | means | none |\n"
    assert list(documented(page)) == [("dpp_a_total", "counter", ("b", "c")), ("dpp_h", "histogram", ())]
