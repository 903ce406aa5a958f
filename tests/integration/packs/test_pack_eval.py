"""The eval pack as it is sold: in the box, and from a request to its envelope."""

from collections.abc import Iterator
from typing import Any

import pytest

from dpp_project.reasons import ReasonCode
from runs.box.box import Box
from runs.box.outcomes import Done, Failed, PackOutcome
from runs.box.running import PackRequest
from runs.packs import eval as eval_pack
from runs.packs.eval import PACK
from tests.gear.builders import pack_page, recovery, work
from tests.gear.builders.box import begin
from tests.gear.builders.packs import PackLog
from tests.gear.builders.shop import Shop
from tests.proving import proofs

pytestmark = pytest.mark.contract("DPP-64", "DPP-60")

LARGE = 131_072


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    made = Box([eval_pack.__name__])
    yield made
    made.close()


def run(box: Box, inputs: dict[str, Any], *, hold_micros: int = 1_000_000) -> PackOutcome:
    job = PackRequest(
        run_id="a-run",
        module=eval_pack.__name__,
        inputs=PACK.inputs.model_validate(inputs).model_dump(mode="json"),
        timebox_seconds=60,
        ceiling_micros=hold_micros,
        memory_bytes=PACK.memory_bytes,
    )
    return begin(box, job, log=PackLog()).wait()


def test_pack_eval_does_what_its_page_shows(box: Box) -> None:
    inputs, data = pack_page.shown("eval")
    found = run(box, inputs)
    assert isinstance(found, Done), found
    assert found.data == data
    assert (found.spent_micros, found.tokens, found.reliability) == (1_040, 0, 1.0)


def test_pack_eval_does_its_own_example(box: Box) -> None:
    found = run(box, dict(PACK.example))
    assert isinstance(found, Done), found
    assert found.data["complete"] is True


@pytest.mark.slow
def test_dpp_64_the_largest_item_fits_the_named_memory(box: Box) -> None:
    """Different characters everywhere: every n-gram is one of its own."""
    output = "".join(chr(0xAC00 + (n * 7_919) % 11_172) for n in range(LARGE))
    metrics = [{"type": kind} for kind in ("token_f1", "rouge_l", "chrf", "bleu", "wer", "cer")]
    found = run(box, {"items": [{"id": "a", "output": output, "expected": output[::-1]}], "metrics": metrics})
    assert isinstance(found, Done), found
    assert found.data["complete"] is True
    proofs.report(cases=1)


@pytest.mark.contract("DPP-36")
def test_dpp_36_in_the_box_a_hold_for_nothing_ends_the_run(box: Box) -> None:
    found = run(box, dict(PACK.example), hold_micros=1_005)
    assert isinstance(found, Failed), found
    assert (found.reason, found.spent_micros) == (ReasonCode.PACK_FAILED, 1_000)


@pytest.mark.usefixtures("worker_here")
def test_dpp_64_an_evaluation_from_submit_to_envelope(shop: Shop) -> None:
    body = {"pack_type": "eval", "inputs": dict(PACK.example), "reservation": {"max_cost_usd": "0.2500"}}
    assert shop.submit(body).status_code == 202
    (before,) = shop.runs()
    work.execute(before)
    (ended,) = shop.runs()
    assert (ended.status, ended.actual_cost_usd_micros) == ("COMPLETED", 1_060)
    data = work.stored_envelope(ended)["data"]
    assert [one["name"] for one in data["metrics"]] == ["token_f1", "chrf", "cer"]
    assert data["passed"] is False
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("DPP-02")
def test_dpp_64_a_wrong_metric_is_422_at_submit_naming_its_field(shop: Shop) -> None:
    inputs = {"items": [{"id": "a", "output": "x"}], "metrics": [{"type": "regex", "pattern": "("}]}
    response = shop.submit({"pack_type": "eval", "inputs": inputs, "reservation": {"max_cost_usd": "0.2500"}})
    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == ["inputs.metrics[0].pattern"]
    shop.nothing_happened()
