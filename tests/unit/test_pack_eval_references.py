"""The scores against the libraries whose formulas they are: sacrebleu and jiwer as installed, rouge-score as noted.

rouge-score has had no release since 2022, exists as source alone and brings nltk: its figures here come from version
0.1.2, once. Tolerance: six decimals, and what its own rounding takes.
"""

import itertools

import jiwer
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from runs.packs.eval import PACK, scores, tokens
from tests.gear.builders.packs import judge

pytestmark = pytest.mark.contract("DPP-64")

ENGLISH = [
    ("the cat sat on the mat", "the cat is on the mat"),
    ("The quick brown fox jumps over the lazy dog.", "A quick brown dog jumps over the lazy fox!"),
    ("It costs $1,250.50 in 2024, e.g. 3-4 times.", "In 2024 it costs 1250.50 dollars; e.g. 3-4 times."),
    ('He said: "no" &amp; left.', "He said &quot;no&quot; and left."),
    ("short", "a much longer reference than the output"),
    ("a much longer output than the reference", "short"),
    ("nothing alike", "quite other words"),
    ("one two three four five", "one two three four five"),
    ("x", "x"),
    ("semi-\nbroken line", "semi-broken line"),
]
KOREAN = [
    ("서울은 대한민국의 수도이다.", "대한민국의 수도는 서울이다."),
    ("오늘 날씨가 참 좋습니다", "오늘은 날씨가 정말 좋네요"),
    ("환불은 실패한 실행에만 적용됩니다.", "환불은 실패한 실행에만 적용됩니다."),
    ("총액은 1,250원입니다 (VAT 포함).", "총액: 1,250원 (VAT 별도)"),
    ("나는 밥을 먹었다", "나는밥을먹었다"),
]
ALL = ENGLISH + KOREAN
ON_A_LINE = [pair for pair in ALL if "\n" not in "".join(pair)]
"""jiwer parts words at spaces alone, we at line breaks too."""


def near(value: float) -> object:
    return pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(("output", "reference"), ALL)
def test_dpp_64_chrf_is_that_of_sacrebleu(output: str, reference: str) -> None:
    assert scores.chrf_score(output, reference).score == near(CHRF().sentence_score(output, [reference]).score / 100)


def test_dpp_64_chrf_of_all_is_that_of_sacrebleu() -> None:
    counts = [scores.chrf_score(*pair).counts for pair in ALL]
    outputs, references = map(list, zip(*ALL, strict=True))
    assert scores.chrf_of_all(counts) == near(CHRF().corpus_score(outputs, [references]).score / 100)


@pytest.mark.parametrize(("output", "reference"), ENGLISH)
@pytest.mark.parametrize("by", ["auto", "words"])
def test_dpp_64_bleu_on_english_is_that_of_sacrebleu(output: str, reference: str, by: tokens.By) -> None:
    ours = scores.bleu_score(tokens.of_mteval(output, by), tokens.of_mteval(reference, by)).score
    assert ours == near(BLEU(effective_order=True).sentence_score(output, [reference]).score / 100)


@pytest.mark.parametrize(("output", "reference"), KOREAN)
def test_dpp_64_bleu_by_characters_is_that_of_sacrebleu(output: str, reference: str) -> None:
    ours = scores.bleu_score(tokens.of_mteval(output, "characters"), tokens.of_mteval(reference, "characters")).score
    theirs = BLEU(tokenize="char", effective_order=True).sentence_score(output, [reference])
    assert ours == near(theirs.score / 100)


@pytest.mark.parametrize("by", ["auto", "words", "characters"])
def test_dpp_64_bleu_of_all_is_that_of_sacrebleu_over_the_same_tokens(by: tokens.By) -> None:
    """Tokens handed over ready: what is compared is the sum over sentences, Korean ones among them."""
    split = [(tokens.of_mteval(output, by), tokens.of_mteval(reference, by)) for output, reference in ALL]
    outputs, references = ([" ".join(one) for one in side] for side in zip(*split, strict=True))
    theirs = BLEU(tokenize="none").corpus_score(outputs, [references])
    assert scores.bleu_of_all([scores.bleu_score(*pair).counts for pair in split]) == near(theirs.score / 100)


@pytest.mark.parametrize(("output", "reference"), ON_A_LINE)
def test_dpp_64_error_rates_are_those_of_jiwer(output: str, reference: str) -> None:
    inputs = {"items": [{"id": "a", "output": output, "expected": reference}],
              "metrics": [{"type": "wer"}, {"type": "cer"}]}  # fmt: skip
    found = judge(PACK, inputs)["items"][0]["scores"]
    assert found["wer"] == pytest.approx(jiwer.wer(reference, output), abs=1e-6)
    assert found["cer"] == pytest.approx(jiwer.cer(reference, output), abs=1e-6)


def test_dpp_64_error_rates_of_all_are_those_of_jiwer() -> None:
    items = [{"id": str(n), "output": output, "expected": reference} for n, (output, reference) in enumerate(ON_A_LINE)]
    answer = judge(PACK, {"items": items, "metrics": [{"type": "wer"}, {"type": "cer"}]})
    outputs, references = map(list, zip(*ON_A_LINE, strict=True))
    theirs = {"wer": jiwer.wer(references, outputs), "cer": jiwer.cer(references, outputs)}
    for metric in answer["metrics"]:
        assert metric["score"] == pytest.approx(theirs[metric["name"]], abs=1e-6)


ROUGE_L = [
    ("the cat sat on the mat", "the cat is on the mat", 0.833333, 0.833333, 0.833333),
    ("police kill the gunman", "police killed the gunman", 0.75, 0.75, 0.75),
    ("The quick brown fox jumps over the lazy dog.", "A quick brown dog jumps over the lazy fox!",
     0.666667, 0.666667, 0.666667),
    ("a b c d e f g", "g f e d c b a", 0.142857, 0.142857, 0.142857),
    ("one two three", "four five six", 0.0, 0.0, 0.0),
    ("It costs $1,250.50 in 2024.", "In 2024 it costs 1250.50 dollars", 0.428571, 0.428571, 0.428571),
    ("to be or not to be that is the question", "to be that is to be or not the question", 0.6, 0.6, 0.6),
    ("state-of-the-art results", "state of the art results", 1.0, 1.0, 1.0),
    ("Hello, WORLD", "hello world", 1.0, 1.0, 1.0),
    ("the quick brown fox", "the quick brown fox jumps over the lazy dog", 1.0, 0.444444, 0.615385),
    ("yes, the answer is forty two", "forty two", 0.333333, 1.0, 0.5),
    ("", "something", 0.0, 0.0, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("output", "reference", "precision", "recall", "f1"), ROUGE_L)
def test_dpp_64_rouge_l_is_that_of_rouge_score(
    output: str, reference: str, precision: float, recall: float, f1: float
) -> None:
    metrics = [{"type": "rouge_l", "name": name, "measure": name} for name in ("precision", "recall", "f1")]
    answer = judge(PACK, {"items": [{"id": "a", "output": output, "expected": reference}], "metrics": metrics})
    assert answer["items"][0]["scores"] == pytest.approx({"precision": precision, "recall": recall, "f1": f1}, abs=1e-6)


def test_dpp_64_every_two_texts_have_scores_within_bounds() -> None:
    texts = sorted({text for pair in ALL for text in pair} | {"", " ", "\n", "\u202e", "\U0001f600"})
    items = [
        {"id": f"{n}", "output": output, "expected": expected}
        for n, (output, expected) in enumerate(itertools.product(texts, texts))
    ]
    metrics = [{"type": kind} for kind in ("exact_match", "token_f1", "rouge_l", "chrf", "bleu")]
    for start in range(0, len(items), 1_000):
        for item in judge(PACK, {"items": items[start : start + 1_000], "metrics": metrics})["items"]:
            assert all(0 <= score <= 1 for score in item["scores"].values()), item
