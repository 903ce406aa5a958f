"""What a compliance run answers: never a match itself, but where it is and what it is of."""

from typing import Literal

from pydantic import BaseModel, Field, JsonValue

from runs.packs.compliance.inputs import Severity


class ComplianceSpan(BaseModel):
    """In Unicode characters of the text at `path`."""

    start: int
    end: int


class ComplianceFinding(BaseModel):
    """One place where a rule is broken."""

    rule_id: str
    severity: Severity
    type: Literal["pii", "secret", "regex", "schema", "expression"]
    kind: str = Field(description="The kind of data, the keyword of the schema, or why an expression is not true.")
    span: ComplianceSpan | None
    excerpt_masked: str | None
    certainty: Literal["checksum", "form"] | None
    path: str | None = Field(description="JSON pointer into the document; null in a text.")


class ComplianceNotEvaluated(BaseModel):
    """A rule that was not carried out: it counts as broken."""

    rule_id: str
    severity: Severity
    reason: Literal["HOLD_EXHAUSTED", "OUT_OF_TIME", "TOO_SLOW", "TOO_LARGE", "CRASHED"]


class ComplianceResult(BaseModel):
    """The verdict, and where the text or document breaks its rules."""

    verdict: Literal["pass", "warn", "fail"]
    complete: bool = Field(description="Every rule was carried out.")
    findings: list[ComplianceFinding]
    findings_omitted: int
    counts: dict[str, int] = Field(description="Findings by rule, those omitted too.")
    not_evaluated: list[ComplianceNotEvaluated]
    redacted_text: str | None = Field(
        default=None, description="Where `redact` asked for it; null where a text rule was not carried out."
    )
    redacted_document: JsonValue = Field(default=None, description="The same, of a document.")
