"""Decision runs answered by a language model: a server on loopback speaks its protocol, and fails as such do."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from runs.packs import decision
from runs.packs.decision import model
from runs.packs.decision.inputs import DecisionInputs
from runs.packs.pack import EngineUnavailable, HoldExhausted, PackFailed, Work
from tests.gear.builders.packs import PackLog, execute, work_for
from tests.gear.servers.completions import Act, Engine, answers, cuts, drips, engine, is_silent, refuses, says, sends
from tests.gear.servers.web import Outside

pytestmark = pytest.mark.contract("DPP-61", "DPP-66")
INPUT, OUTPUT = 2_000, 10_000
"""Micros of 1,000 tokens."""
CONTEXT = "Results are kept for 30 days. Inputs are deleted\nwith them. 환불은 실패한 작업에만 적용됩니다."
QUESTION = {"question": "How long are results kept?", "context": CONTEXT}
GOOD = answers("Results are kept for 30 days.", "Results are kept for 30 days.")
GOOD_MICROS = 100 * INPUT // 1_000 + 20 * OUTPUT // 1_000


@pytest.fixture(autouse=True)
def _no_engine_of_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*decision.PACK.environment, "DPP_LLM_BASE_URL", "DPP_LLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("DPP_LLM_MODEL", "small")
    monkeypatch.setenv("DPP_LLM_API_KEY", "a-key")
    monkeypatch.setenv("DPP_LLM_INPUT_MICROS_PER_1K", str(INPUT))
    monkeypatch.setenv("DPP_LLM_OUTPUT_MICROS_PER_1K", str(OUTPUT))
    return monkeypatch


@contextmanager
def serving(environ: pytest.MonkeyPatch, *acts: Act) -> Iterator[Engine]:
    with engine(*acts) as server:
        environ.setenv("DPP_LLM_BASE_URL", server.base_url)
        yield server


def work(inputs: dict[str, Any] | None = None, **values: Any) -> Work[DecisionInputs]:
    return work_for(decision.PACK, inputs or QUESTION, **values)


def run(chosen: Work[DecisionInputs]) -> Any:
    chosen.outbound = Outside(reach=decision.PACK.reach(os.environ))  # of the engine that answers by now
    return execute(chosen, decision.PACK)


def test_pack_decision_model_answers_with_what_it_rests_on(environ: pytest.MonkeyPatch) -> None:
    chosen = work()
    with serving(environ, GOOD) as server:
        found = run(chosen)
    assert found == {
        "answer_text": "Results are kept for 30 days.",
        "answered": True,
        "confidence": 0.9,
        "confidence_kind": "score",
        "evidence": [{"start": 0, "end": 29, "text": "Results are kept for 30 days.", "score": 1.0}],
        "engine": "llm",
        "model": "small",
    }
    assert (chosen.meter.spent_micros, chosen.meter.tokens, chosen.reliability) == (GOOD_MICROS, 120, 0.9)
    assert (server.paths, server.keys) == (["/v1/chat/completions"], ["Bearer a-key"])
    asked = server.asked[0]
    assert (asked["model"], asked["max_tokens"], asked["stream"]) == ("small", 500, False)
    assert asked["response_format"]["type"] == "json_schema"
    assert CONTEXT in asked["messages"][1]["content"]


@pytest.mark.parametrize("mode", ["brief", "full"])
def test_pack_decision_model_is_told_how_much_to_say(environ: pytest.MonkeyPatch, mode: str) -> None:
    with serving(environ, GOOD) as server:
        run(work(QUESTION | {"mode": mode}))
    assert server.asked[0]["max_tokens"] == model.TOKENS_MAX[mode]


def test_pack_decision_model_without_a_key_sends_none(environ: pytest.MonkeyPatch) -> None:
    environ.delenv("DPP_LLM_API_KEY")
    with serving(environ, GOOD) as server:
        run(work())
    assert server.keys == [None]


# What it says is not taken on trust.


@pytest.mark.parametrize(
    ("quotes", "evidence", "score"),
    [
        (["Inputs are deleted with them."], ["Inputs are deleted\nwith them."], 0.9),
        (["환불은 실패한 작업에만"], ["환불은 실패한 작업에만"], 0.9),
        (["Results are kept", "for 60 days"], ["Results are kept"], 0.6),
        (["Results are kept for ever."], [], 0.3),
        ([".*"], [], 0.3),
        ([" ", ""], [], 0.3),
        ([], [], 0.3),
    ],
)
def test_pack_decision_model_quotes_only_what_stands_there(
    environ: pytest.MonkeyPatch, quotes: list[str], evidence: list[str], score: float
) -> None:
    chosen = work()
    with serving(environ, answers("So it is.", *quotes)):
        found = run(chosen)
    assert [passage["text"] for passage in found["evidence"]] == evidence
    assert all(CONTEXT[passage["start"] : passage["end"]] == passage["text"] for passage in found["evidence"])
    assert (found["confidence"], chosen.reliability) == (score, score)


@pytest.mark.parametrize("act", [answers("", answered=False), answers("Never mind.", answered=False), answers("  ")])
def test_pack_decision_model_that_finds_nothing_is_told_plainly(environ: pytest.MonkeyPatch, act: Act) -> None:
    with serving(environ, act):
        found = run(work())
        korean = run(work(QUESTION | {"question": "누구입니까?"}))
    assert (found["answer_text"], found["answered"], found["confidence"], found["evidence"]) == (
        "The context does not answer this question.",
        False,
        0.0,
        [],
    )
    assert korean["answer_text"] == "주어진 문맥에는 이 질문의 답이 없습니다."


def test_pack_decision_model_without_a_context_answers_of_itself_and_scores_low(environ: pytest.MonkeyPatch) -> None:
    with serving(environ, answers("Seoul.", "Seoul")) as server:
        found = run(work({"question": "What is the capital of Korea?"}))
    assert (found["answer_text"], found["answered"], found["confidence"], found["evidence"]) == (
        "Seoul.",
        True,
        0.3,
        [],
    )
    assert "<context>" not in server.asked[0]["messages"][0]["content"]


# Forms.


@pytest.mark.parametrize(
    "content",
    [
        '```json\n{"answered": true, "answer": "30 days.", "quotes": []}\n```',
        'Sure! {"answered": true, "answer": "30 days."} Anything else?',
        '{"answered": true, "answer": "30 days.", "quotes": [], "thoughts": "…"}',
    ],
)
def test_pack_decision_model_may_wrap_its_object(environ: pytest.MonkeyPatch, content: str) -> None:
    with serving(environ, says(content)) as server:
        assert run(work())["answer_text"] == "30 days."
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        ("response_format is not supported", "max_tokens"),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "max_completion_tokens"),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_pack_decision_model_that_knows_no_schema_is_asked_plainly(
    environ: pytest.MonkeyPatch, status: int, said: str, limit: str
) -> None:
    chosen = work()
    with serving(environ, refuses(status, said), GOOD) as server:
        assert run(chosen)["answered"] is True
    assert [("response_format" in asked, limit in asked) for asked in server.asked][1] == (False, True)
    assert chosen.meter.spent_micros == GOOD_MICROS


def test_pack_decision_model_that_refuses_the_plain_form_too_is_unavailable(environ: pytest.MonkeyPatch) -> None:
    chosen = work()
    with serving(environ, refuses(400)) as server, pytest.raises(EngineUnavailable, match="refuses our requests"):
        run(chosen)
    assert (len(server.asked), chosen.meter.was_charged) == (2, False)


# Failures: one more attempt, within time and money.


@pytest.mark.parametrize(
    "act",
    [
        refuses(500),
        refuses(503),
        refuses(429, retry_after="0"),
        cuts,
        sends(b"no json"),
        sends(b"[]"),
        sends(b'{"choices": []}'),
        sends(b'{"choices": [{"message": null}]}'),
        sends(b"[" * 100_000),
    ],
)
def test_pack_decision_model_that_fails_once_is_asked_again(environ: pytest.MonkeyPatch, act: Act) -> None:
    chosen = work()
    with serving(environ, act, GOOD) as server:
        assert run(chosen)["answered"] is True
    assert (len(server.asked), chosen.meter.spent_micros) == (2, GOOD_MICROS)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (refuses(500), "answered 500"),
        (refuses(429, retry_after="0"), "answered 429"),
        (cuts, "cannot be reached, or broke off"),
        (sends(b"no json"), "answered what is no chat completion"),
    ],
)
def test_pack_decision_model_that_fails_twice_is_unavailable_and_costs_nothing(
    environ: pytest.MonkeyPatch, act: Act, said: str
) -> None:
    chosen = work()
    with serving(environ, act) as server, pytest.raises(EngineUnavailable, match=said):
        run(chosen)
    assert (len(server.asked), chosen.meter.was_charged) == (2, False)


@pytest.mark.parametrize("status", [401, 403, 418])
def test_pack_decision_model_that_will_never_answer_is_asked_once(environ: pytest.MonkeyPatch, status: int) -> None:
    with serving(environ, refuses(status)) as server, pytest.raises(EngineUnavailable, match=f"answered {status}"):
        run(work())
    assert len(server.asked) == 1


def test_pack_decision_model_busy_for_a_while_is_waited_for(environ: pytest.MonkeyPatch) -> None:
    chosen = work(log=PackLog())
    started = time.monotonic()
    with serving(environ, refuses(429, retry_after="1"), GOOD):
        assert run(chosen)["answered"] is True
    assert time.monotonic() - started >= 1.0
    assert isinstance(chosen.log, PackLog)
    assert chosen.log.events == [("language model failed, asking again", {"what": "answered 429", "seconds": 1.0})]


def test_pack_decision_model_busy_for_longer_than_the_run_is_not_waited_for(environ: pytest.MonkeyPatch) -> None:
    started = time.monotonic()
    with (
        serving(environ, refuses(429, retry_after="30"), GOOD) as server,
        pytest.raises(EngineUnavailable, match="429"),
    ):
        run(work(seconds=5.0))
    assert time.monotonic() - started < 2.0
    assert len(server.asked) == 1


@pytest.mark.parametrize("act", [is_silent, drips])
def test_pack_decision_model_that_is_slow_ends_before_the_timebox(environ: pytest.MonkeyPatch, act: Act) -> None:
    chosen = work(seconds=2.0)
    started = time.monotonic()
    with serving(environ, act) as server, pytest.raises(EngineUnavailable, match="did not answer in time"):
        run(chosen)
    assert time.monotonic() - started < 2.0
    assert (len(server.asked), chosen.meter.was_charged) == (2, False)


def test_pack_decision_model_slow_once_leaves_time_for_another_answer(environ: pytest.MonkeyPatch) -> None:
    with serving(environ, is_silent, GOOD):
        assert run(work(seconds=2.5))["answered"] is True


def test_pack_decision_model_nobody_runs_is_unavailable(environ: pytest.MonkeyPatch) -> None:
    with serving(environ, GOOD):
        pass
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        run(work())


def test_pack_decision_model_that_cannot_be_read_twice_fails_and_was_paid_twice(environ: pytest.MonkeyPatch) -> None:
    chosen = work()
    with serving(environ, says("I think it is 30 days.")) as server, pytest.raises(PackFailed, match="cannot be read"):
        run(chosen)
    assert (len(server.asked), chosen.meter.spent_micros, chosen.meter.tokens) == (2, 2 * GOOD_MICROS, 240)


@pytest.mark.parametrize("content", [None, "", '{"answered": "perhaps", "answer": 1}'])
def test_pack_decision_model_unreadable_once_is_asked_again_and_paid_for_both(
    environ: pytest.MonkeyPatch, content: str | None
) -> None:
    chosen = work()
    with serving(environ, says(content), GOOD):
        assert run(chosen)["answered"] is True
    assert chosen.meter.spent_micros == 2 * GOOD_MICROS


# Money.


def hold_for(tokens_out: int) -> int:
    tokens_in = model.tokens_in_at_most(model.model_messages(DecisionInputs.model_validate(QUESTION)))
    return -(-(tokens_in * INPUT + tokens_out * OUTPUT) // 1_000)


def test_pack_decision_model_writes_no_more_than_the_hold_pays(environ: pytest.MonkeyPatch) -> None:
    with serving(environ, GOOD) as server:
        run(work(hold_micros=hold_for(200)))
    assert server.asked[0]["max_tokens"] == 200


@pytest.mark.parametrize("hold", [0, 1, hold_for(0), hold_for(model.TOKENS_LEAST) - 10])
def test_pack_decision_model_is_not_asked_where_the_hold_pays_no_answer(environ: pytest.MonkeyPatch, hold: int) -> None:
    chosen = work(hold_micros=hold)
    with serving(environ, GOOD) as server, pytest.raises(HoldExhausted):
        run(chosen)
    assert (server.asked, chosen.meter.was_charged) == ([], False)


def test_pack_decision_model_is_not_asked_again_where_the_first_took_the_hold(environ: pytest.MonkeyPatch) -> None:
    chosen = work(hold_micros=hold_for(80))
    with serving(environ, says("what?", tokens=(500, 80)), GOOD) as server, pytest.raises(HoldExhausted):
        run(chosen)
    assert len(server.asked) == 1
    assert chosen.meter.spent_micros == 500 * INPUT // 1_000 + 80 * OUTPUT // 1_000


def test_pack_decision_model_cut_short_by_a_small_hold_says_so(environ: pytest.MonkeyPatch) -> None:
    with (
        serving(environ, says('{"answered": true, "ans', finish="length")) as server,
        pytest.raises(PackFailed, match="too few tokens"),
    ):
        run(work(hold_micros=hold_for(80)))
    assert len(server.asked) == 1


def test_pack_decision_model_that_counts_more_than_was_asked_takes_no_more_than_the_hold(
    environ: pytest.MonkeyPatch,
) -> None:
    said = PackLog()
    chosen = work(hold_micros=hold_for(100), log=said)
    with serving(environ, answers("30 days.", tokens=(1_000_000, 5))):
        assert run(chosen)["answered"] is True
    assert (chosen.meter.spent_micros, chosen.meter.left_micros) == (hold_for(100), 0)
    assert said.names() == ["language model counted more than was asked for"]


@pytest.mark.parametrize("tokens", [None, (-1, 5), ("many", "few"), (10**30, 5)])
def test_pack_decision_model_that_does_not_count_is_charged_at_most_what_it_can_have_been(
    environ: pytest.MonkeyPatch, tokens: Any
) -> None:
    chosen = work(hold_micros=hold_for(500))
    with serving(environ, answers("30 days.", tokens=tokens)):
        run(chosen)
    assert GOOD_MICROS < chosen.meter.spent_micros <= hold_for(500)


def test_pack_decision_model_that_is_free_says_so(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("DPP_LLM_INPUT_MICROS_PER_1K", "0")
    environ.setenv("DPP_LLM_OUTPUT_MICROS_PER_1K", "0")
    chosen = work(hold_micros=1)
    with serving(environ, GOOD) as server:
        run(chosen)
    assert (chosen.meter.spent_micros, chosen.meter.was_charged, chosen.meter.tokens) == (0, True, 120)
    assert server.asked[0]["max_tokens"] == 500


def test_pack_decision_model_logs_nothing_that_was_said(environ: pytest.MonkeyPatch) -> None:
    said = PackLog()
    with serving(environ, refuses(400, "canary"), says("canary"), GOOD):
        run(work({"question": "Where is the canary?", "context": "The canary sings."}, log=said))
    assert said.names() == ["structured output refused, asking plainly", "reply unreadable, asking again"]
    assert "canary" not in str(said.events)
