"""Checks a text or a JSON document against rules and reports where it breaks them, without repeating the matches.

A rule that could not run counts as broken, so a verdict of pass means that every rule ran. Matches leave this module
masked only, and no input is logged.
"""

from typing import Any, Final

from pydantic import JsonValue

from runs.packs.compliance import expressions, limited_child, masking, matching, schemas
from runs.packs.compliance.inputs import (
    ComplianceInputs,
    ExpressionRule,
    RegexRule,
    Rule,
    SchemaRule,
    TextRule,
)
from runs.packs.compliance.result import ComplianceResult
from runs.packs.compliance.subjects import Piece, Redaction, subject_pieces
from runs.packs.pack import MEBIBYTE, Estimate, HoldExhausted, Pack, Price, Work

RUN_MICROS: Final = 1_000
TEXT_RULE_MICROS: Final = 20
DOCUMENT_RULE_MICROS: Final = 100
CHARACTERS_EACH: Final = 1_000
FINDINGS_MAX: Final = 1_000
FINDINGS_OF_A_RULE_MAX: Final = 200
RULE_SECONDS: Final = 10.0
LAST_SECONDS: Final = 1.0
"""Seconds kept for the answer. A rule that has not begun by then does not run."""
HOLD_EXHAUSTED: Final = "HOLD_EXHAUSTED"
OUT_OF_TIME: Final = "OUT_OF_TIME"
_WORST_FIRST: Final = {"error": "fail", "warning": "warn", "info": "pass"}


class ComplianceReport:
    """The findings so far. Places are written at the end, when every match in a name is known."""

    def __init__(self, inputs: ComplianceInputs) -> None:
        self.inputs = inputs
        self.pieces = subject_pieces(inputs.text, inputs.document)
        self.findings: list[tuple[Rule, dict[str, JsonValue], Any]] = []
        self.counts: dict[str, int] = {}
        self.stopped: list[tuple[Rule, str]] = []

    def add(self, rule: Rule, kind: str, path: Any, **values: JsonValue) -> None:
        count = self.counts.get(rule.id, 0) + 1
        self.counts[rule.id] = count
        if count <= FINDINGS_OF_A_RULE_MAX and len(self.findings) < FINDINGS_MAX:
            empty: dict[str, JsonValue] = {"span": None, "excerpt_masked": None, "certainty": None}
            self.findings.append((rule, {"type": rule.type, "kind": kind} | empty | values, path))

    def stop(self, rule: Rule, reason: str) -> None:
        self.stopped.append((rule, reason))

    def answer(self) -> dict[str, JsonValue]:
        redaction = Redaction(self.pieces)
        broken = {rule.severity for rule in self.inputs.rules if rule.id in self.counts}
        broken |= {rule.severity for rule, _ in self.stopped}
        answer: dict[str, JsonValue] = {
            "verdict": next((verdict for severity, verdict in _WORST_FIRST.items() if severity in broken), "pass"),
            "complete": not self.stopped,
            "findings": [
                {"rule_id": rule.id, "severity": rule.severity}
                | said
                | {"path": None if path is None else redaction.pointer(tuple(path))}
                for rule, said, path in self.findings
            ],
            "findings_omitted": sum(self.counts.values()) - len(self.findings),
            "counts": dict(self.counts),
            "not_evaluated": [
                {"rule_id": rule.id, "severity": rule.severity, "reason": reason} for rule, reason in self.stopped
            ],
        }
        return answer | (self._redacted(redaction) if self.inputs.redact else {})

    def _redacted(self, redaction: Redaction) -> dict[str, JsonValue]:
        """None if a rule that redacts did not run: a half-redacted text would look clean."""
        is_whole = not any(isinstance(rule, TextRule) for rule, _ in self.stopped)
        if self.inputs.text is not None:
            return {"redacted_text": redaction.text(self.inputs.text) if is_whole else None}
        return {"redacted_document": redaction.document(self.inputs.document) if is_whole else None}


def _execute_compliance_pack(work: Work[ComplianceInputs]) -> dict[str, JsonValue]:
    """Run the rules one by one, each charged before it begins; report the rules that hold or time did not reach."""
    inputs = work.inputs
    report = ComplianceReport(inputs)
    characters = _compliance_characters(inputs, report.pieces)
    work.meter.charge(RUN_MICROS)
    for rule in inputs.rules:
        seconds = min(RULE_SECONDS, work.seconds_left() - LAST_SECONDS)
        try:
            _begin(work, rule, characters, seconds)
            _apply(rule, report, seconds)
        except limited_child.RuleStopped as stopped:
            report.stop(rule, stopped.reason)
    if all(reason == HOLD_EXHAUSTED for _, reason in report.stopped) and len(report.stopped) == len(inputs.rules):
        raise HoldExhausted  # nothing to deliver
    work.reliability = 1 - len(report.stopped) / len(inputs.rules)
    work.log("rules carried out", rules=len(inputs.rules), stopped=len(report.stopped))
    return report.answer()


def _begin(work: Work[ComplianceInputs], rule: Rule, characters: int, seconds: float) -> None:
    if seconds <= 0:
        raise limited_child.RuleStopped(OUT_OF_TIME)
    try:
        work.meter.charge(_rule_micros(rule, characters))
    except HoldExhausted:
        raise limited_child.RuleStopped(HOLD_EXHAUSTED) from None


def _apply(rule: Rule, report: ComplianceReport, seconds: float) -> None:
    inputs = report.inputs
    match rule:
        case SchemaRule():
            schema, document, most = rule.json_schema, inputs.document, FINDINGS_OF_A_RULE_MAX
            misfits = limited_child.run_in_limited_child(
                lambda: schemas.schema_misfits(schema, document, most=most), seconds=seconds
            )
            for misfit in misfits:
                report.add(rule, str(misfit["keyword"]), misfit["path"])
        case ExpressionRule():
            said = limited_child.run_in_limited_child(lambda: _holds(rule, inputs), seconds=seconds)
            if said is not True:
                report.add(rule, "FALSE" if said is False else str(said), None)
        case _:
            _match(rule, report, seconds)


def _holds(rule: ExpressionRule, inputs: ComplianceInputs) -> JsonValue:
    if inputs.text is not None:
        return expressions.expression_holds(rule.expression, subject="text", value=inputs.text)
    return expressions.expression_holds(rule.expression, subject="document", value=inputs.document)


def _match(rule: TextRule, report: ComplianceReport, seconds: float) -> None:
    found = matching.rule_matches(rule, report.pieces, seconds=seconds)
    if isinstance(rule, RegexRule) and rule.must_be == "present":
        if matching.matches_nothing(found):
            report.add(rule, "missing", None)
        return
    for match in found:
        text = match.piece.text[match.start : match.end]
        match.piece.covered.append((match.start, match.end, _label(rule, match.kind)))
        report.add(
            rule,
            match.kind,
            match.piece.path,
            span={"start": match.start, "end": match.end},
            excerpt_masked=masking.masked_match(text, match.kind),
            certainty=match.certainty,
        )


def _label(rule: TextRule, kind: str) -> str:
    return rule.id if isinstance(rule, RegexRule) else kind.upper()


# Price


def _compliance_characters(inputs: ComplianceInputs, looked_at: list[Piece]) -> int:
    return len(inputs.text) if inputs.text is not None else sum(len(piece.text) for piece in looked_at)


def _rule_micros(rule: Rule, characters: int) -> int:
    """Each thousand characters begun counts; an empty text counts as one."""
    each = TEXT_RULE_MICROS if isinstance(rule, TextRule) else DOCUMENT_RULE_MICROS
    return each * max(1, -(-characters // CHARACTERS_EACH))


def _compliance_pack_estimate(inputs: ComplianceInputs) -> Estimate:
    characters = _compliance_characters(inputs, subject_pieces(inputs.text, inputs.document))
    micros = RUN_MICROS + sum(_rule_micros(rule, characters) for rule in inputs.rules)
    return Estimate(least_micros=micros, most_micros=micros)


PACK = Pack(
    name="compliance",
    summary="Holds a text or a JSON document to rules: personal data, secrets, patterns, a schema, expressions.",
    inputs=ComplianceInputs,
    result=ComplianceResult,
    prices=[
        Price(unit="run", micros=RUN_MICROS),
        Price(unit="1,000 characters and rule", micros=TEXT_RULE_MICROS, note="pii, secret and regex rules"),
        Price(unit="1,000 characters and rule", micros=DOCUMENT_RULE_MICROS, note="schema and expression rules"),
    ],
    estimate=_compliance_pack_estimate,
    execute=_execute_compliance_pack,
    example={
        "text": "Reply to hong@example.com or call 010-1234-5678.",
        "rules": [
            {"id": "no-personal-data", "type": "pii", "severity": "error", "kinds": ["email", "phone", "kr_rrn"]},
            {"id": "no-secrets", "type": "secret"},
            {"id": "says-hello", "type": "regex", "severity": "warning", "pattern": "(?i)hello", "must_be": "present"},
        ],
        "redact": True,
    },
    rehearsal="example",
    memory_bytes=256 * MEBIBYTE,
)
