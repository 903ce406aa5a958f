"""deploy/prometheus and deploy/grafana ask for metrics that the product has, by labels that they have (DPP-86)."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from dpp_project.devstack.programs import REPOSITORY
from tests.unit.test_metrics_page import PRODUCT, declared

RULES = REPOSITORY / "deploy" / "prometheus" / "alerts.yaml"
BOARD = REPOSITORY / "deploy" / "grafana" / "platform.json"
SUFFIXES = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("",), "gauge": ("",)}
NAMES = re.compile(r"\bdpp_\w+")
SELECTED = re.compile(r"(dpp_\w+)\{([^}]*)\}")
GROUPED = re.compile(r"\bby \(([^)]*)\)")

pytestmark = pytest.mark.contract("DPP-86")


def known() -> dict[str, set[str]]:
    """Each series that a page can have, with its labels."""
    found: dict[str, set[str]] = {}
    for app in PRODUCT:
        for path in (REPOSITORY / app).rglob("*.py"):
            for name, kind, labels in declared(path.read_text(encoding="utf-8")):
                for suffix in SUFFIXES[kind]:
                    found[name + suffix] = {*labels, "le"} if suffix == "_bucket" else set(labels)
    return found


def alerts() -> dict[str, str]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: str(rule["expr"]) for group in groups for rule in group["rules"]}


def panels() -> Iterator[tuple[str, str]]:
    for panel in json.loads(BOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def wrong(expression: str, series: dict[str, set[str]]) -> list[str]:
    asked = set(NAMES.findall(expression))
    labels = {label for name in asked for label in series.get(name, ())}
    grouped = {label.strip() for group in GROUPED.findall(expression) for label in group.split(",")}
    return [
        *(f"no metric {name}" for name in sorted(asked - set(series))),
        *(f"no label {label}" for label in sorted(grouped - labels)),
        *(
            f"{name} has no label {label}"
            for name, selected in SELECTED.findall(expression)
            for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selected)
            if label not in series.get(name, ())
        ),
        *(["asks for nothing of ours"] if not asked else []),
    ]


def test_dpp_86_alerts_and_board_ask_for_what_there_is() -> None:
    series = known()
    asked = [*alerts().items(), *panels()]
    assert len(asked) > 40
    assert {title: found for title, expression in asked if (found := wrong(expression, series))} == {}


def test_a_metric_or_a_label_that_is_not_there_is_found() -> None:
    series = {"dpp_a": {"b"}, "dpp_h_bucket": {"le"}}
    assert wrong('max by (b) (dpp_a{b="1"})', series) == []
    assert wrong("dpp_c", series) == ["no metric dpp_c"]
    assert wrong('sum by (c) (dpp_a{d="1"})', series) == ["no label c", "dpp_a has no label d"]
    assert wrong("dpp_h", series) == ["no metric dpp_h"]
    assert wrong("up", series) == ["asks for nothing of ours"]


def test_what_the_page_says_to_alert_on_first_wakes_a_person() -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
    paging = " ".join(rule["expr"] for rule in rules if rule["labels"] == {"severity": "page"})
    for name in (
        *("dpp_collector_failed", "dpp_money_drift_usd_micros", "dpp_job_age_seconds"),
        *("dpp_runs_oldest_queued_seconds", "dpp_ledger_behind"),
    ):
        assert name in paging


def test_a_runbook_that_is_named_is_there() -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
    named = [rule["annotations"]["runbook"] for rule in rules if "runbook" in rule["annotations"]]
    assert named
    for each in named:
        page, _, anchor = each.partition("#")
        headings = re.findall(r"^#+ (.+)$", (REPOSITORY / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_dpp_86_promtool_accepts_the_rules() -> None:
    here = REPOSITORY / ".devstack" / "tools" / "promtool"
    promtool = shutil.which("promtool") or (str(here) if here.exists() else None)
    if promtool is None:
        pytest.skip("no promtool here: make setup-deploy")
    done = subprocess.run([promtool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(alerts())} rules found" in done.stdout


def test_the_boards_panels_have_places_and_numbers_of_their_own() -> None:
    found = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    places = {
        (x, y)
        for panel in found
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    }
    assert len(places) == sum(panel["gridPos"]["w"] * panel["gridPos"]["h"] for panel in found), "two overlap"
    assert max(x for x, _ in places) < 24
