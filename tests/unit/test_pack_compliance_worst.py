"""The worst that a caller may send: it is answered or it is stopped, and what else was asked for is answered."""

import os
import signal
import time
from typing import Any

import pytest

from runs.packs import compliance
from runs.packs.compliance import PACK, limited_child
from tests.gear.builders.packs import judge

pytestmark = pytest.mark.contract("DPP-64")

LARGE = 262_144
RULES = [{"id": "pii", "type": "pii"}, {"id": "secret", "type": "secret"}]
AFTER = {"id": "after", "type": "regex", "pattern": "never-there"}


@pytest.mark.parametrize(
    "piece",
    ["", "x", "1", "-", "+82 ", "a@", "a@a.", "eyJ", "1234 ", "AB12", "password=", "-----BEGIN PRIVATE KEY-----\n",
     "가", "\u202e\u200f\u05d0", "\U0001f468\u200d\U0001f469", "e\u0301", "://a:b", "\t\r\n\u2028", "010-1234-",
     "a.", "sk-"],
)  # fmt: skip
def test_dpp_64_every_size_of_every_piece_takes_its_time_and_no_more(piece: str) -> None:
    """A quarter of a megabyte within what eight times as little took, eightfold, and room: no quadratic search."""
    found = []
    for size in (LARGE // 8, LARGE):
        written = (piece * size)[:size]
        begun = time.process_time()
        answer = judge(PACK, {"text": written, "rules": RULES, "redact": True})
        found.append(time.process_time() - begun)
        assert answer["complete"]
        assert len(answer["findings"]) <= compliance.FINDINGS_MAX
    assert found[1] < 8 * found[0] * 3 + 1.0


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*c", "(.*)*c", ".*.*.*.*.*c", "(a?){100}a{100}c", "[ab]{0,900}c", "(a|b)*a(a|b){300}c"]
)
def test_dpp_64_a_pattern_that_explodes_elsewhere_ends_here(pattern: str) -> None:
    rule = {"id": "evil", "type": "regex", "pattern": pattern}
    answer = judge(PACK, {"text": "a" * 100_000 + "b", "rules": [rule]})
    assert answer["complete"]
    assert answer["counts"] == {}


def test_dpp_64_matches_are_counted_shown_in_part_and_all_redacted() -> None:
    every = {"id": "every", "type": "regex", "pattern": "a"}
    answer = judge(PACK, {"text": "ab" * 50_000, "rules": [every], "redact": True})
    assert answer["counts"] == {"every": 50_000}
    assert len(answer["findings"]) == compliance.FINDINGS_OF_A_RULE_MAX
    assert answer["findings_omitted"] == 50_000 - compliance.FINDINGS_OF_A_RULE_MAX
    assert answer["redacted_text"] == "[every]b" * 50_000


def test_dpp_64_a_verdict_counts_what_is_not_shown() -> None:
    many = [{"id": f"r{n}", "type": "regex", "pattern": "a", "severity": "info"} for n in range(6)]
    last = {"id": "last", "type": "regex", "pattern": "b", "severity": "error"}
    answer = judge(PACK, {"text": "a" * 300 + "b", "rules": [*many, last]})
    assert len(answer["findings"]) == compliance.FINDINGS_MAX
    assert all(one["rule_id"] != "last" for one in answer["findings"])
    assert answer["verdict"] == "fail"


def deep(levels: int) -> Any:
    node: Any = 1
    for _ in range(levels):
        node = {"a": node}
    return node


def test_dpp_64_deep_documents_are_read_as_deep_as_a_request_may_be() -> None:
    rules = [*RULES, {"id": "s", "type": "schema", "json_schema": {"$ref": "#"}}]
    answer = judge(PACK, {"document": deep(28), "rules": rules, "redact": True})
    assert answer["redacted_document"] == deep(28)


DOUBLING: dict[str, Any] = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(30)}
STOPPED: list[tuple[set[str], float, dict[str, Any]]] = [
    ({"TOO_SLOW", "TOO_LARGE"}, 1.0,
     {"type": "schema", "json_schema": {"$defs": DOUBLING | {"a30": False}, "$ref": "#/$defs/a0"}}),
    ({"TOO_LARGE"}, 60.0,
     {"type": "expression", "expression": "document.l.map(x, document.s + document.s).size() > 0"}),
]  # fmt: skip


@pytest.mark.usefixtures("children_die")
@pytest.mark.parametrize(("reasons", "seconds", "rule"), STOPPED)
def test_dpp_64_a_rule_that_takes_too_much_is_stopped_and_the_next_is_carried_out(
    reasons: set[str], seconds: float, rule: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compliance, "RULE_SECONDS", seconds)
    subject = {"l": [0] * 9_000, "s": "x" * 100_000}
    answer = judge(PACK, {"document": subject, "rules": [{"id": "evil", "severity": "warning"} | rule, AFTER]})
    ((stopped),) = answer["not_evaluated"]
    assert stopped["rule_id"] == "evil"
    assert stopped["reason"] in reasons
    assert (answer["verdict"], answer["complete"], answer["findings"]) == ("warn", False, [])


def test_dpp_64_loops_of_an_expression_are_counted() -> None:
    loops = "document.all(a, document.all(b, document.all(c, a + b + c >= 0)))"
    answer = judge(PACK, {"document": list(range(3_000)), "rules": [{"id": "cel", "type": "expression",
                                                                    "expression": loops}]})  # fmt: skip
    assert [one["kind"] for one in answer["findings"]] == ["INTERNAL"]


@pytest.mark.usefixtures("children_die")
def test_pack_compliance_a_child_that_dies_or_hangs_is_no_answer() -> None:
    def hang() -> None:
        while True:
            pass

    def die() -> None:
        raise ValueError("canary")

    with pytest.raises(limited_child.RuleStopped, match="TOO_SLOW"):
        limited_child.run_in_limited_child(hang, seconds=0.1)

    def hoard() -> None:
        raise MemoryError

    with pytest.raises(limited_child.RuleStopped, match="TOO_LARGE"):
        limited_child.run_in_limited_child(hoard, seconds=5)
    with pytest.raises(limited_child.RuleStopped, match="CRASHED"):
        limited_child.run_in_limited_child(die, seconds=5)
    with pytest.raises(limited_child.RuleStopped, match="CRASHED"):
        limited_child.run_in_limited_child(lambda: os.kill(os.getpid(), signal.SIGSEGV), seconds=5)
    assert limited_child.run_in_limited_child(lambda: {"a": [1]}, seconds=5) == {"a": [1]}
