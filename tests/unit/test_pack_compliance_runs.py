"""The compliance pack at work: verdicts, places, masks, redaction, what a hold and a clock leave, and no raw match."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.packs.compliance import PACK
from runs.packs.pack import HoldExhausted
from tests.gear.builders.packs import execute, judge, work_for

pytestmark = pytest.mark.contract("DPP-64")

RRN = "900101-1234568"
PII = {"id": "pii", "type": "pii"}


def text(value: str, *rules: dict[str, Any], **more: Any) -> Any:
    return judge(PACK, {"text": value, "rules": list(rules)} | more)


def document(value: Any, *rules: dict[str, Any], **more: Any) -> Any:
    return judge(PACK, {"document": value, "rules": list(rules)} | more)


# Verdicts


@pytest.mark.parametrize(
    ("severities", "verdict"),
    [(["info"], "pass"), (["info", "warning"], "warn"), (["warning", "error"], "fail"), (["error"], "fail")],
)
def test_dpp_64_the_worst_broken_rule_makes_the_verdict(severities: list[str], verdict: str) -> None:
    rules = [
        {"id": f"r{n}", "type": "regex", "pattern": "bad", "severity": severity}
        for n, severity in enumerate(severities)
    ]
    assert text("bad", *rules)["verdict"] == verdict
    assert text("good", *rules)["verdict"] == "pass"


def test_dpp_64_a_finding_says_where_and_shows_no_match() -> None:
    answer = text(f"가나 \U0001f600 {RRN}!", PII, redact=True)
    (finding,) = answer.pop("findings")
    assert finding == {
        "rule_id": "pii",
        "severity": "error",
        "type": "pii",
        "kind": "kr_rrn",
        "span": {"start": 5, "end": 19},
        "excerpt_masked": "*" * 14,
        "certainty": "checksum",
        "path": None,
    }
    assert answer == {
        "verdict": "fail",
        "complete": True,
        "findings_omitted": 0,
        "counts": {"pii": 1},
        "not_evaluated": [],
        "redacted_text": "가나 \U0001f600 [KR_RRN]!",
    }


def test_dpp_64_documents_are_searched_in_texts_names_and_numbers() -> None:
    answer = document(
        {"hong@example.com": [{"a/b~c": 9001011234568}, f"x {RRN}", None, True]}, PII, {"id": "s", "type": "secret"},
        redact=True,
    )  # fmt: skip
    places = {(finding["kind"], finding["path"]) for finding in answer["findings"]}
    assert places == {("email", "/[EMAIL]"), ("kr_rrn", "/[EMAIL]/0/a~1b~0c"), ("kr_rrn", "/[EMAIL]/1")}
    assert answer["redacted_document"] == {"[EMAIL]": [{"a/b~c": "[KR_RRN]"}, "x [KR_RRN]", None, True]}


def test_dpp_64_names_that_redaction_makes_equal_are_numbered() -> None:
    answer = document({"a@b.co": 1, "[EMAIL]": 2, "c@d.co": 3}, PII, redact=True)
    assert answer["redacted_document"] == {"[EMAIL]#2": 1, "[EMAIL]": 2, "[EMAIL]#3": 3}


def test_dpp_64_a_pattern_may_be_forbidden_or_demanded() -> None:
    forbidden = {"id": "no", "type": "regex", "pattern": "secret(ly)?", "ignore_case": True}
    demanded = {"id": "must", "type": "regex", "pattern": "disclaimer", "must_be": "present"}
    answer = text("A Secretly kept word", forbidden, demanded, redact=True)
    assert [(one["rule_id"], one["kind"], one["span"]) for one in answer["findings"]] == [
        ("no", "regex", {"start": 2, "end": 10}),
        ("must", "missing", None),
    ]
    assert answer["redacted_text"] == "A [no] kept word"
    assert text("with disclaimer", demanded)["findings"] == []


def test_dpp_64_a_schema_names_place_and_keyword_and_no_value() -> None:
    schema = {
        "type": "object",
        "required": ["amount"],
        "properties": {"amount": {"type": "number"}, "old": False, "mail": {"format": "email"}},
    }
    rule = {"id": "shape", "type": "schema", "json_schema": schema}
    answer = document({"amount": "canary-7", "old": 1, "mail": "canary-8"}, rule)
    assert sorted((one["path"], one["kind"]) for one in answer["findings"]) == [
        ("/amount", "type"),
        ("/mail", "format"),
        ("/old", "false"),
    ]
    assert "canary" not in json.dumps(answer)
    assert document({}, rule)["findings"][0]["kind"] == "required"
    assert document({"amount": 1}, rule)["verdict"] == "pass"


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("document.amount <= 1000", None),
        ("document.amount > 1000", "FALSE"),
        ("size(document.name) == 3", None),
        ("document.items.all(one, one.price > 0)", None),
        ("document.missing > 1", "NOT_FOUND"),
        ("has(document.missing)", "FALSE"),
        ("1 / (document.amount - 12) > 0", "INVALID_ARGUMENT"),
        ("document.name", "NOT_A_BOOLEAN"),
        ("document.name.matches('^홍')", None),
    ],
)
def test_dpp_64_an_expression_must_be_true(expression: str, kind: str | None) -> None:
    subject = {"amount": 12, "name": "홍길동", "items": [{"price": 1}, {"price": 2.5}]}
    answer = document(subject, {"id": "cel", "type": "expression", "expression": expression})
    assert [one["kind"] for one in answer["findings"]] == ([] if kind is None else [kind])


# What never leaves


SECRETS = {
    "rrn": RRN,
    "card": "4111 1111 1111 1111",
    "iban": "DE89 3704 0044 0532 0130 00",
    "phone": "010-9876-5432",
    "email": "canary.person@example.com",
    "password": "CanaryHunter2",
    "token": "gh" + "p_" + "CanaryTokenCanaryTokenCanaryTokenCanary",
    "own": "project-nightingale-canary",
}
RULES = [PII, {"id": "s", "type": "secret"}, {"id": "own", "type": "regex", "pattern": "project-[a-z-]+"}]
WRITTEN = (
    f"{SECRETS['rrn']}, {SECRETS['card']} and {SECRETS['iban']}; {SECRETS['phone']}, {SECRETS['email']} "
    f"password={SECRETS['password']} {SECRETS['token']} {SECRETS['own']}"
)


@pytest.mark.contract("DPP-73")
@pytest.mark.parametrize("redact", [True, False])
@pytest.mark.parametrize("as_document", [True, False])
def test_dpp_64_no_match_leaves_unmasked_nor_is_logged(*, as_document: bool, redact: bool) -> None:
    subject: dict[str, Any] = (
        {"document": {"a": [WRITTEN], WRITTEN: {"deep": WRITTEN}}} if as_document else {"text": WRITTEN}
    )
    work = work_for(PACK, subject | {"rules": RULES, "redact": redact}, hold_micros=1_000_000, seconds=60)
    logged: list[Any] = []
    work.log = lambda event, **values: logged.append((event, values))
    answer = json.dumps(execute(work, PACK), ensure_ascii=False) + json.dumps(logged)
    found = {one["kind"] for one in json.loads(answer[: answer.rindex("}[") + 1])["findings"]}
    assert found >= {"kr_rrn", "card", "iban", "phone", "email", "password", "github_token", "regex"}
    assert [name for name, secret in SECRETS.items() if secret in answer] == []
    assert "anary" not in answer
    assert logged


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*SECRETS.values(), " ", "-", "1", "가", ",", "x@", "\u202e"]), max_size=12))
def test_dpp_64_nothing_is_left_to_find_in_what_was_redacted(parts: list[str]) -> None:
    rules = [PII, {"id": "s", "type": "secret"}]
    once = text(", ".join(parts), *rules, redact=True)
    assert text(once["redacted_text"], *rules)["counts"] == {}


# Money and time


def test_dpp_66_a_run_costs_what_its_estimate_said() -> None:
    rules = [PII, {"id": "s", "type": "secret"}, {"id": "e", "type": "expression", "expression": "text != ''"}]
    for size, micros in ((0, 1_140), (1_000, 1_140), (1_001, 1_280), (10_000, 2_400)):
        inputs = {"text": "x" * size, "rules": rules}
        work = work_for(PACK, inputs, hold_micros=1_000_000, seconds=60)
        execute(work, PACK)
        assert work.meter.spent_micros == micros
        assert PACK.estimate(work.inputs).least_micros == PACK.estimate(work.inputs).most_micros == micros


@pytest.mark.contract("DPP-36")
def test_dpp_36_rules_beyond_the_hold_are_named_and_count_as_broken() -> None:
    rules = [{"id": "first", "type": "regex", "pattern": "bad"}, PII | {"severity": "warning"}]
    work = work_for(PACK, {"text": "fine", "rules": rules, "redact": True}, hold_micros=1_020, seconds=60)
    answer = execute(work, PACK)
    assert (answer["verdict"], answer["complete"], answer["findings"]) == ("warn", False, [])
    assert answer["not_evaluated"] == [{"rule_id": "pii", "severity": "warning", "reason": "HOLD_EXHAUSTED"}]
    assert answer["redacted_text"] is None
    assert (work.meter.spent_micros, work.reliability) == (1_020, 0.5)


@pytest.mark.parametrize("hold_micros", [1, 999, 1_000, 1_019])
def test_dpp_36_a_hold_too_small_for_a_single_rule_buys_nothing(hold_micros: int) -> None:
    with pytest.raises(HoldExhausted):
        judge(PACK, {"text": "x", "rules": [PII]}, hold_micros=hold_micros)


def test_pack_compliance_a_rule_not_begun_in_time_is_not_charged() -> None:
    work = work_for(PACK, {"text": "x", "rules": [PII]}, hold_micros=1_000_000, seconds=0.5)
    answer = execute(work, PACK)
    assert answer["not_evaluated"] == [{"rule_id": "pii", "severity": "error", "reason": "OUT_OF_TIME"}]
    assert (answer["verdict"], work.meter.spent_micros) == ("fail", 1_000)
