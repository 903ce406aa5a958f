"""The compliance pack as it is sold: in the box, and from a request to its envelope, with nothing said on the way."""

import json
import logging
import logging.config
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest

from dpp_project.observe import logging as dpp_logging
from runs.box.box import Box
from runs.box.outcomes import Done, PackOutcome
from runs.box.running import PackRequest
from runs.packs import compliance
from runs.packs.compliance import PACK
from tests.gear.builders import pack_page, recovery, work
from tests.gear.builders import runs as gear
from tests.gear.builders.box import begin
from tests.gear.builders.packs import PackLog
from tests.gear.builders.shop import Shop

pytestmark = pytest.mark.contract("DPP-64", "DPP-60")

CANARIES = ["900101-1234568", "canary.person@example.com", "CanaryHunter2", "project-nightingale"]
TEXT = f"{CANARIES[0]} {CANARIES[1]} password={CANARIES[2]} {CANARIES[3]}"
RULES = [
    {"id": "pii", "type": "pii"},
    {"id": "secret", "type": "secret"},
    {"id": "own", "type": "regex", "pattern": "project-[a-z]+"},
]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    made = Box([compliance.__name__])
    yield made
    made.close()


@pytest.fixture
def logged() -> Iterator[StringIO]:
    """Every line of every logger of this process."""
    stream = StringIO()
    settings = dpp_logging.logging_configuration(service="worker", level="DEBUG")
    settings["handlers"]["lines"]["stream"] = stream
    logging.config.dictConfig(settings)
    yield stream
    dpp_logging.set_up_logging(service="command", level="INFO")


def run(box: Box, inputs: dict[str, Any], *, log: PackLog | None = None, timebox_seconds: float = 30.0) -> PackOutcome:
    stored = PACK.inputs.model_validate(inputs).model_dump(mode="json")
    job = PackRequest(
        run_id="a-run",
        module=compliance.__name__,
        inputs=stored,
        timebox_seconds=timebox_seconds,
        ceiling_micros=1_000_000,
        memory_bytes=PACK.memory_bytes,
    )
    return begin(box, job, log=log or PackLog()).wait()


def done(outcome: PackOutcome) -> Done:
    assert isinstance(outcome, Done), outcome
    return outcome


def test_pack_compliance_does_what_its_page_shows(box: Box) -> None:
    text, of_text, document, of_document = pack_page.shown("compliance")
    assert done(run(box, text)).data == of_text
    found = done(run(box, document))
    assert found.data == of_document
    assert (found.spent_micros, found.tokens, found.reliability) == (1_220, 0, 1.0)


def test_pack_compliance_does_its_own_example(box: Box) -> None:
    assert done(run(box, dict(PACK.example))).data["complete"] is True


def test_dpp_64_in_the_box_an_evil_rule_is_stopped_and_the_others_answer(box: Box) -> None:
    """A child of the job that hoards or doubles: the job's own limits are not what ends it."""
    doubling: dict[str, Any] = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(30)}
    rules = [
        {"id": "doubles", "type": "schema", "json_schema": {"$defs": doubling | {"a30": False}, "$ref": "#/$defs/a0"}},
        {"id": "hoards", "type": "expression", "expression": "document.l.map(x, document.s + document.s).size() > 0"},
        {"id": "recurses", "type": "schema", "json_schema": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}},
        {"id": "works", "type": "regex", "pattern": "x+"},
    ]
    found = done(run(box, {"document": {"l": [0] * 9_000, "s": "x" * 100_000}, "rules": rules})).data
    assert isinstance(found["not_evaluated"], list)
    assert [one["rule_id"] for one in found["not_evaluated"] if isinstance(one, dict)] == ["doubles", "hoards"]
    assert found["counts"] == {"works": 1}
    assert found["verdict"] == "fail"


@pytest.mark.contract("DPP-73", "DPP-33")
@pytest.mark.usefixtures("worker_here")
def test_dpp_64_from_submit_to_envelope_no_match_is_told(shop: Shop, logged: StringIO) -> None:
    inputs = {"text": TEXT, "rules": RULES, "redact": True}
    body = {"pack_type": "compliance", "inputs": inputs, "reservation": {"max_cost_usd": "0.2500"}}
    response = shop.submit(body | {"options": {"inline": 1}})
    assert response.status_code == 202, response.content
    (before,) = shop.runs()
    work.execute(before)
    (ended,) = shop.runs()
    assert (ended.status, ended.actual_cost_usd_micros) == ("COMPLETED", 1_060)
    envelope = work.stored_envelope(ended)
    read = shop.get(f"/v1/runs/{ended.run_id}").content.decode()
    assert envelope["data"]["verdict"] == "fail"
    assert {one["kind"] for one in envelope["data"]["findings"]} == {"kr_rrn", "email", "password", "regex"}
    assert envelope["data"]["redacted_text"] == "[KR_RRN] [EMAIL] password=[PASSWORD] [own]"
    lines = logged.getvalue()
    assert "rules carried out" in lines
    seen = lines + json.dumps(envelope) + read + str(gear.everything(ended.run_id).get("run"))
    assert [canary for canary in CANARIES if canary in seen] == []
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("DPP-02")
def test_dpp_64_a_wrong_rule_is_422_at_submit_naming_its_field(shop: Shop) -> None:
    rules = [
        {"id": "a", "type": "regex", "pattern": "("},
        {"id": "b", "type": "schema", "json_schema": {"type": 7}},
        {"id": "c", "type": "expression", "expression": "1 +"},
    ]
    body = {"pack_type": "compliance", "inputs": {"document": {}, "rules": rules}}
    response = shop.submit(body | {"reservation": {"max_cost_usd": "0.2500"}})
    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == [
        "inputs.rules[0].pattern",
        "inputs.rules[1].json_schema",
        "inputs.rules[2].expression",
    ]
    shop.nothing_happened()
