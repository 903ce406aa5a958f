"""The embedded engine: what it finds, where it says that stands, and what it refuses."""

import json
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.packs.decision import extractive, sentences, words
from tests.gear.builders import pack_page

pytestmark = pytest.mark.contract("DPP-61")
SETS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "decision_questions.json").read_text(encoding="utf-8")
)
KOREAN = next(one["context"] for one in SETS if one["language"] == "ko")
ENGLISH = next(one["context"] for one in SETS if one["language"] == "en")


def verdicts(half: str) -> list[tuple[float, bool]]:
    """Each question's score, and whether it was dealt with rightly: the answer first, or the refusal."""
    found = []
    for one in (one for one in SETS if one["half"] == half):
        for asked in one["questions"]:
            result = extractive.extract_answer(asked["question"], one["context"])
            if asked["answer"] is None:
                found.append((result.score, not result.answered))
            else:
                found.append((result.score, result.answered and asked["answer"] in result.passages[0].text))
    return found


def test_pack_decision_deals_rightly_with_every_question_it_was_tuned_on() -> None:
    assert Counter(right for _, right in verdicts("tuning")) == {True: 69}


def test_pack_decision_deals_rightly_with_nine_in_ten_it_was_not_tuned_on() -> None:
    assert Counter(right for _, right in verdicts("held-out")) == {True: 67, False: 6}


def test_pack_decision_scores_of_the_held_out_half_are_those_of_its_page() -> None:
    bands = {"0.95 to 1": [], "0.5 to 0.95": [], "below 0.5": []}  # type: dict[str, list[bool]]
    for score, right in verdicts("held-out"):
        bands["0.95 to 1" if score >= 0.95 else "0.5 to 0.95" if score >= 0.5 else "below 0.5"].append(right)
    page = pack_page.text("decision")
    for band, rights in bands.items():
        assert f"| {band} | {len(rights)} | {sum(rights)} |" in page


@pytest.mark.parametrize(
    ("question", "context"),
    [("Where is the store?", "The \u017ftore is in Main Street."), ("Is kelvin open?", "\u212aelvin opens at nine."),
     ("istanbul", "\u0130stanbul is a city."), ("\u0131rmak", "The IRMAK flows."), ("STRASSE \u1e9e", "a \u00df b")],
)  # fmt: skip
def test_pack_decision_a_letter_that_is_another_ones_capital_is_found_as_that(question: str, context: str) -> None:
    assert extractive.extract_answer(question, context).passages[0].text == context


@given(st.text(max_size=300), st.text(min_size=1, max_size=60))
def test_pack_decision_every_passage_stands_where_it_says(context: str, question: str) -> None:
    found = extractive.extract_answer(question, context)
    assert 0 <= found.score <= 1
    assert all(context[passage.start : passage.end] == passage.text for passage in found.passages)
    assert found.answered is (found.score >= extractive.ANSWERED_FROM)
    assert bool(found.passages) or not found.answered


WORDS = st.sampled_from(KOREAN.split() + ENGLISH.split() + [".", "\n", "?", "2026", "\u0301", "😀"])


@given(st.lists(WORDS, max_size=60), st.lists(WORDS, min_size=1, max_size=8))
def test_pack_decision_real_words_in_any_order_keep_their_places(context: list[str], question: list[str]) -> None:
    text = " ".join(context)
    for form in ("NFC", "NFD"):
        spelled = unicodedata.normalize(form, text)
        found = extractive.extract_answer(" ".join(question), spelled)
        assert all(spelled[passage.start : passage.end] == passage.text for passage in found.passages)


def test_pack_decision_finds_korean_that_comes_letter_by_letter() -> None:
    apart = unicodedata.normalize("NFD", KOREAN)
    found = extractive.extract_answer("관리비는 언제까지 납부해야 합니까?", apart)
    assert found.answered
    assert unicodedata.normalize("NFC", found.passages[0].text) == "우리 아파트의 관리비는 매월 25일까지 납부해야 한다."
    assert apart[found.passages[0].start : found.passages[0].end] == found.passages[0].text


@pytest.mark.parametrize("context", ["", "   \n ", "...", "😀"])
def test_pack_decision_a_context_without_words_answers_nothing(context: str) -> None:
    assert extractive.extract_answer("How long?", context).answered is False


def test_pack_decision_a_question_of_nothing_but_question_words_answers_nothing() -> None:
    assert extractive.extract_answer("What is it?", ENGLISH) == extractive.FoundAnswer(
        answered=False, score=0.0, passages=[]
    )


def test_pack_decision_a_heading_brings_what_it_stands_over() -> None:
    context = "Opening hours\nMonday to Friday, 9 to 17.\n\nParking\nBehind the house, free of charge."
    found = extractive.extract_answer("What are the opening hours?", context)
    assert found.passages[0].text == "Opening hours\nMonday to Friday, 9 to 17."


def test_pack_decision_a_pronoun_brings_the_sentence_before() -> None:
    context = "Lunch is at noon. The invoice number is at the top. It has eight digits. Dogs stay outside."
    found = extractive.extract_answer("How many digits does the invoice number have?", context)
    assert found.passages[0].text == "The invoice number is at the top. It has eight digits."


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Kim paid 3.50 dollars. He left.", ["Dr. Kim paid 3.50 dollars.", "He left."]),
        ('He said "go." Then he left.', ['He said "go."', "Then he left."]),
        ("보관합니다. 삭제합니다.", ["보관합니다.", "삭제합니다."]),
        ("A title\n- one\n- two", ["A title", "- one", "- two"]),
        ("  spaces  \n\n  around  ", ["spaces", "around"]),
        ("終わりです。 次です。", ["終わりです。", "次です。"]),
    ],
)
def test_pack_decision_knows_where_sentences_end(context: str, expected: list[str]) -> None:
    assert [context[span.start : span.end] for span in sentences.sentence_spans(context)] == expected


@pytest.mark.parametrize(
    "forms", ["policy policies", "stop stops stopped stopping", "renew renews renewed renewal", "apply applies applied"]
)
def test_pack_decision_forms_of_a_word_are_found_by_one_another(forms: str) -> None:
    for asked in forms.split():
        seek = words.word_pattern(words.asked_words(asked))
        assert seek is not None
        if not asked.endswith("al"):
            assert [form for form in forms.split() if seek.fullmatch(form) is None] == []


@pytest.mark.parametrize("context", [" " * 200_000, ". " * 100_000, "가" * 200_000, '."' * 100_000, "1 " * 100_000])
def test_pack_decision_no_context_takes_its_time(context: str) -> None:
    question = " ".join(["가가", "how", "long", *(f"word{number}" for number in range(200))])
    assert extractive.extract_answer(question, context + "word1. " * 9_000).passages != []
