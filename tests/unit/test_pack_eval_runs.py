"""The eval pack at work: tokens, right and wrong, thresholds, what a hold and a clock leave, and the worst inputs."""

import time
import unicodedata
from typing import Any

import pytest

from runs.packs.eval import PACK, tokens
from runs.packs.eval.inputs import EvalInputs
from runs.packs.pack import HoldExhausted, PackFailed
from tests.gear.builders.packs import execute, judge, refusals, work_for

pytestmark = pytest.mark.contract("DPP-64")


def score(output: str, expected: str | None, metric: dict[str, Any], *, context: str | None = None) -> float:
    item = {"id": "a", "output": output, "expected": expected, "context": context}
    answer = judge(PACK, {"items": [item], "metrics": [metric]})
    (found,) = answer["items"][0]["scores"].values()
    return float(found)


# Tokens


@pytest.mark.parametrize(
    ("text", "by", "wanted"),
    [
        ("서울은 1,000만", "auto", ["서", "울", "은", "1", "000", "만"]),
        ("서울은 수도", "words", ["서울은", "수도"]),
        ("서울 ab!", "characters", ["서", "울", "a", "b"]),
        ("漢字かなabc_def", "auto", ["漢", "字", "か", "な", "abc", "def"]),
        ("Don't stop-now", "auto", ["Don", "t", "stop", "now"]),
        ("\u05e9\u05dc\u05d5\u05dd world", "auto", ["\u05e9\u05dc\u05d5\u05dd", "world"]),
        ("", "auto", []),
        ("!?. \n", "auto", []),
    ],
)
def test_dpp_64_korean_goes_by_syllables_and_other_scripts_by_words(
    text: str, by: tokens.By, wanted: list[str]
) -> None:
    assert tokens.of_letters(text, by) == wanted
    assert tokens.of_letters(unicodedata.normalize("NFD", text), by) == wanted


def test_dpp_64_particles_do_not_make_a_right_answer_wrong() -> None:
    output, expected = "서울은 대한민국의 수도이다", "대한민국의 수도는 서울이다"
    by_words = score(output, expected, {"type": "token_f1", "tokens": "words"})
    assert by_words == pytest.approx(1 / 3, abs=1e-6)
    assert score(output, expected, {"type": "token_f1"}) > 0.9


# Right or wrong


@pytest.mark.parametrize(
    ("metric", "output", "expected", "wanted"),
    [
        ({"type": "exact_match"}, " 서울  Station ", "서울 station", 1),
        ({"type": "exact_match"}, "서울", unicodedata.normalize("NFD", "서울"), 1),
        ({"type": "exact_match"}, "\uff21\uff11", "a1", 1),
        ({"type": "exact_match"}, "서울.", "서울", 0),
        ({"type": "exact_match", "normalise": False}, "A", "a", 0),
        ({"type": "json_equal"}, '{"a": 1.0, "b": [true, null]}', '{"b": [true, null], "a": 1}', 1),
        ({"type": "json_equal"}, '{"a": true}', '{"a": 1}', 0),
        ({"type": "json_equal"}, "[1, 2]", "[2, 1]", 0),
        ({"type": "json_equal"}, "[1]", "[1, 1]", 0),
        ({"type": "json_equal"}, "0.1", "0.10", 1),
        ({"type": "json_equal"}, "9007199254740993", "9007199254740992", 0),
        ({"type": "json_equal"}, "not json", "{}", 0),
        ({"type": "json_equal"}, "NaN", "null", 0),
        ({"type": "json_equal"}, "[" * 100_000, "[]", 0),
        ({"type": "json_equal"}, "1" * 10_000, "1", 0),
        ({"type": "regex", "pattern": r"^\d+$"}, "123", None, 1),
        ({"type": "regex", "pattern": "b", "whole": True}, "abc", None, 0),
        ({"type": "regex", "pattern": "서.", "whole": True}, "서울", None, 1),
        ({"type": "regex", "pattern": "YES", "ignore_case": True}, "oh yes", None, 1),
        ({"type": "numeric"}, "The total is 1,250.", "1250", 1),
        ({"type": "numeric", "take": "first"}, "3 of 4", "3", 1),
        ({"type": "numeric", "take": "whole"}, "about 3", "3", 0),
        ({"type": "numeric", "absolute": 0.01}, "3.15", "3.14", 1),
        ({"type": "numeric", "absolute": 0.01}, "3.151", "3.14", 0),
        ({"type": "numeric", "relative": 0.1}, "-110", "-100", 1),
        ({"type": "numeric"}, "\u22125", "-5", 1),
        ({"type": "numeric"}, "\uff11\uff12", "12", 1),
        ({"type": "numeric"}, "none", "1", 0),
        ({"type": "numeric"}, "1e9999", "1", 0),
        ({"type": "numeric"}, "9" * 5_000, "1", 0),
        ({"type": "cer"}, "나는밥을", "나는 밥을", 0.2),
        ({"type": "cer", "ignore_spaces": True}, "나는밥을", "나는 밥을", 0),
        ({"type": "wer"}, "a", "", 1),
        ({"type": "wer"}, "", "", 0),
        ({"type": "wer"}, "a b c d", "a", 3),
    ],
)
def test_dpp_64_each_metric_tells_right_from_wrong(
    metric: dict[str, Any], output: str, expected: str | None, wanted: float
) -> None:
    assert score(output, expected, metric) == wanted


def test_dpp_64_an_output_may_be_held_against_its_context() -> None:
    grounded = {"type": "token_f1", "measure": "precision", "against": "context"}
    assert score("seoul is large", None, grounded, context="the city of seoul is very large") == 1
    assert score("busan", None, grounded, context="the city of seoul") == 0


# Thresholds


def test_dpp_64_thresholds_hold_items_and_the_whole() -> None:
    items = [
        {"id": "same", "output": "a b c d", "expected": "a b c d"},
        {"id": "half", "output": "a b x y", "expected": "a b c d"},
    ]
    metrics = [{"type": "token_f1"}, {"type": "wer"}, {"type": "exact_match"}]
    answer = judge(PACK, {"items": items, "metrics": metrics, "thresholds": {"token_f1": 0.75, "wer": 0.25}})
    assert answer == {
        "passed": True,
        "complete": True,
        "metrics": [
            {"name": "token_f1", "type": "token_f1", "score": 0.75, "mean": 0.75, "better": "higher",
             "threshold": 0.75, "passed": True},
            {"name": "wer", "type": "wer", "score": 0.25, "mean": 0.25, "better": "lower",
             "threshold": 0.25, "passed": True},
            {"name": "exact_match", "type": "exact_match", "score": 0.5, "mean": 0.5, "better": "higher",
             "threshold": None, "passed": None},
        ],
        "items": [
            {"id": "same", "passed": True, "scores": {"token_f1": 1.0, "wer": 0.0, "exact_match": 1.0}},
            {"id": "half", "passed": False, "scores": {"token_f1": 0.5, "wer": 0.5, "exact_match": 0.0}},
        ],
        "not_evaluated": {"items": 0, "reason": None},
    }  # fmt: skip
    assert judge(PACK, {"items": items, "metrics": metrics, "thresholds": {"wer": 0.2}})["passed"] is False
    without = judge(PACK, {"items": items, "metrics": metrics})
    assert (without["passed"], without["items"][0]["passed"]) == (None, None)


# Refusals


GOOD = {"id": "a", "output": "x", "expected": "1"}


@pytest.mark.parametrize(
    ("changes", "place", "said"),
    [
        ({"metrics": [{"type": "regex", "pattern": "(?<=a)"}]}, ("metrics", 0, "pattern"), "not a pattern of RE2"),
        ({"metrics": [{"type": "regex"}]}, ("metrics", 0, "pattern"), "Field required"),
        ({"metrics": [{"type": "magic"}]}, ("metrics", 0, "type"), "send one of exact_match"),
        ({"metrics": [{"type": "wer"}, {"type": "wer"}]}, ("metrics", 1, "name"), "another one"),
        ({"metrics": []}, ("metrics",), "at least 1"),
        ({"items": []}, ("items",), "at least 1"),
        ({"items": [GOOD, GOOD]}, ("items", 1, "id"), "another one"),
        ({"items": [{"id": "a", "output": "x"}]}, ("items", 0, "expected"), "exact_match compares with it"),
        ({"metrics": [{"type": "chrf", "against": "context"}]}, ("items", 0, "context"), "chrf compares with it"),
        ({"metrics": [{"type": "numeric"}], "items": [GOOD | {"expected": "many"}]},
         ("items", 0, "expected"), "compares with a number"),
        ({"metrics": [{"type": "json_equal"}], "items": [GOOD | {"expected": "{"}]},
         ("items", 0, "expected"), "compares with JSON"),
        ({"thresholds": {"nope": 1}}, ("thresholds", "nope"), "no metric is called so"),
        ({"thresholds": {"exact_match": -1}}, ("thresholds", "exact_match"), "greater than or equal to 0"),
        ({"items": [GOOD | {"id": str(n)} for n in range(1_000)],
          "metrics": [{"type": "wer", "name": f"m{n}"} for n in range(6)]}, (), "more than 5000 pairs"),
    ],
)  # fmt: skip
def test_dpp_64_what_could_not_be_scored_is_named(changes: dict[str, Any], place: tuple[Any, ...], said: str) -> None:
    inputs = {"items": [GOOD], "metrics": [{"type": "exact_match"}]} | changes
    ((found, message),) = refusals(EvalInputs, inputs)
    assert found == place
    assert said in message


def test_dpp_64_no_more_than_twenty_wrong_items_are_named() -> None:
    items = [{"id": str(n), "output": "x"} for n in range(100)]
    assert len(refusals(EvalInputs, {"items": items, "metrics": [{"type": "wer"}]})) == 20


def test_dpp_64_what_passed_passes_again_as_it_is_stored_by_the_eval_pack() -> None:
    metrics = [{"type": "numeric", "absolute": 1}, {"type": "regex", "pattern": "x"}]
    stored = EvalInputs.model_validate({"items": [GOOD], "metrics": metrics}).model_dump(mode="json")
    assert EvalInputs.model_validate(stored).model_dump(mode="json") == stored


# Money and time


def items_of(*sizes: int) -> list[dict[str, Any]]:
    return [{"id": str(n), "output": "x" * size, "expected": ""} for n, size in enumerate(sizes)]


def test_dpp_66_an_evaluation_costs_what_its_estimate_said() -> None:
    inputs = {"items": items_of(0, 1_000, 1_001), "metrics": [{"type": "cer"}, {"type": "chrf"}]}
    work = work_for(PACK, inputs, hold_micros=1_000_000, seconds=60)
    execute(work, PACK)
    assert work.meter.spent_micros == 1_000 + 2 * (10 + 10 + 20) == PACK.estimate(work.inputs).most_micros


@pytest.mark.contract("DPP-36")
def test_dpp_36_items_beyond_the_hold_did_not_pass() -> None:
    inputs = {"items": items_of(0, 0, 0), "metrics": [{"type": "cer"}], "thresholds": {"cer": 1}}
    work = work_for(PACK, inputs, hold_micros=1_020, seconds=60)
    answer = execute(work, PACK)
    assert (answer["passed"], answer["complete"], len(answer["items"])) == (False, False, 2)
    assert answer["not_evaluated"] == {"items": 1, "reason": "HOLD_EXHAUSTED"}
    assert work.meter.spent_micros == 1_020
    assert work.reliability == pytest.approx(2 / 3)


@pytest.mark.parametrize("hold_micros", [1, 1_000, 1_009])
def test_dpp_36_a_hold_too_small_for_a_single_item_buys_nothing(hold_micros: int) -> None:
    with pytest.raises(HoldExhausted):
        judge(PACK, {"items": items_of(0), "metrics": [{"type": "cer"}]}, hold_micros=hold_micros)


def test_pack_eval_without_time_for_a_single_item_says_so() -> None:
    with pytest.raises(PackFailed, match="no time"):
        judge(PACK, {"items": items_of(0), "metrics": [{"type": "cer"}]}, seconds=0.5)


# The worst


METRICS = [{"type": kind} for kind in ("exact_match", "token_f1", "rouge_l", "chrf", "bleu", "wer", "cer")]


@pytest.mark.parametrize("piece", ["x", "a ", "\U0001f600", "e\u0301", "-\n"])
def test_dpp_64_a_quarter_of_a_megabyte_is_scored_in_its_time(piece: str) -> None:
    """The distances are quadratic by nature; 64 cells a step, and no more than 128 K against 128 K."""
    half = (piece * 131_072)[:131_072]
    begun = time.process_time()
    answer = judge(PACK, {"items": [{"id": "a", "output": half, "expected": half[1:] + "z"}], "metrics": METRICS})
    assert answer["complete"]
    assert time.process_time() - begun < 30
