"""The decision pack as it is sold, in the box: without a network, and with a language model its worker names."""

from collections.abc import Iterator
from typing import Any

import pytest

from runs.box.box import Box
from runs.box.outcomes import Done, PackOutcome
from runs.box.running import PackRequest
from runs.packs import decision
from tests.gear.builders import pack_page
from tests.gear.builders.box import begin
from tests.gear.builders.packs import PackLog, execute, work_for
from tests.gear.servers.completions import answers, engine

pytestmark = pytest.mark.contract("DPP-61", "DPP-60")


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    made = Box([decision.__name__])
    yield made
    made.close()


def run(
    box: Box, inputs: dict[str, Any], *, hold: int = 1_000_000, environ: dict[str, str] | None = None
) -> PackOutcome:
    pack = decision.decision_pack(environ or {})
    job = PackRequest(
        run_id="a-run",
        module=decision.__name__,
        inputs=inputs,
        timebox_seconds=20,
        ceiling_micros=hold,
        memory_bytes=pack.memory_bytes,
        reach=pack.reach(environ or {}),
        environment=pack.job_environment(environ or {}),
    )
    return begin(box, job, log=PackLog()).wait()


def done(outcome: PackOutcome) -> Done:
    assert isinstance(outcome, Done), outcome
    return outcome


def test_pack_decision_does_what_its_page_shows(box: Box) -> None:
    inputs, data, unanswered_inputs, unanswered = pack_page.shown("decision")
    found = done(run(box, inputs))
    assert found.data == data
    assert (found.spent_micros, found.tokens, found.reliability) == (50_000, 0, data["confidence"])
    assert done(run(box, unanswered_inputs)).data == unanswered


@pytest.mark.parametrize(("hold", "cost"), [(1, 1), (49_999, 49_999), (50_000, 50_000), (50_001, 50_000)])
def test_pack_decision_costs_fifty_thousand_micros_or_the_hold(box: Box, hold: int, cost: int) -> None:
    assert done(run(box, {"question": "Why?", "context": "Because."}, hold=hold)).spent_micros == cost


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("How long are results kept?", "There is no context to answer this question from."),
        ("결과는 며칠 동안 보관되나요?", "문맥이 주어지지 않아 답할 수 없습니다."),
    ],
)
@pytest.mark.parametrize("context", [None, "", " \n "])
def test_pack_decision_says_plainly_that_there_is_no_context(question: str, said: str, context: str | None) -> None:
    work = work_for(decision.PACK, {"question": question, "context": context})
    found: Any = execute(work, decision.PACK)
    assert (found["answer_text"], found["answered"], found["confidence"], found["evidence"]) == (said, False, 0.0, [])
    assert (work.reliability, work.meter.spent_micros) == (0.0, 50_000)


def test_pack_decision_full_gives_more_than_brief_in_the_order_of_the_context() -> None:
    context = "The fee is 3 dollars. Dogs stay outside. The fee is due on Monday. A late fee of 1 dollar is added."
    inputs = {"question": "What is the fee?", "context": context}
    brief: Any = execute(work_for(decision.PACK, inputs), decision.PACK)
    full: Any = execute(work_for(decision.PACK, inputs | {"mode": "full"}), decision.PACK)
    assert (brief["answer_text"], len(brief["evidence"])) == ("The fee is 3 dollars.", 1)
    assert full["answer_text"] == "The fee is 3 dollars.\nThe fee is due on Monday.\nA late fee of 1 dollar is added."
    assert {context[one["start"] : one["end"]] for one in full["evidence"]} == set(full["answer_text"].split("\n"))


def test_pack_decision_in_the_box_asks_the_model_its_worker_names(box: Box) -> None:
    with engine(answers("30 days.", "30 days", tokens=(100, 20))) as server:
        environ = {
            "DPP_LLM_BASE_URL": server.base_url,
            "DPP_LLM_MODEL": "small",
            "DPP_LLM_INPUT_MICROS_PER_1K": "2000",
            "DPP_LLM_OUTPUT_MICROS_PER_1K": "10000",
        }
        found = done(run(box, {"question": "How long?", "context": "Kept for 30 days."}, environ=environ))
    assert (found.data["engine"], found.data["answer_text"]) == ("llm", "30 days.")
    assert (found.spent_micros, found.tokens) == (400, 120)
    assert (
        done(run(box, {"question": "How long is it kept?", "context": "Kept for 30 days."})).data["engine"]
        == "embedded"
    )
