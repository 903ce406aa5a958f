"""The inputs of a compliance run. A rule that could never work is refused at submit, by its field.

The API compiles each rule to find that out, so a request is bounded twice: the rules' total size is counted before any
is compiled, and compiling stops after the fifth refused rule.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from runs.packs.compliance import expressions, schemas
from runs.packs.shared import regexes
from runs.packs.shared.tagged_union import by_type, wrong_field

RULES_MAX: Final = 100
SCHEMA_RULES_MAX: Final = 10
EXPRESSION_CHARACTERS_MAX: Final = 50_000
REFUSED_MAX: Final = 5
Severity = Literal["info", "warning", "error"]
PiiKind = Literal["kr_rrn", "kr_business_number", "card", "phone", "email", "iban"]
PII_KINDS: Final[list[PiiKind]] = ["kr_rrn", "kr_business_number", "card", "phone", "email", "iban"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Rule(_Part):
    id: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$", description="Names the rule in the findings.", examples=["no-pii"]),
    ]
    severity: Annotated[
        Severity, Field(description="What a finding does to the verdict: error fails, warning warns, info passes.")
    ] = "error"


class PiiRule(_Rule):
    """Personal data must not be there."""

    type: Literal["pii"]
    kinds: Annotated[
        list[PiiKind], Field(min_length=1, max_length=len(PII_KINDS), description="Which; all where left out.")
    ] = PII_KINDS


class SecretRule(_Rule):
    """Keys, tokens, passwords and private keys must not be there."""

    type: Literal["secret"]


class RegexRule(_Rule):
    """A pattern must not be there, or must be."""

    type: Literal["regex"]
    pattern: Annotated[
        str,
        Field(min_length=1, max_length=regexes.PATTERN_LENGTH_MAX, description="RE2 syntax."),
    ]
    ignore_case: bool = False
    must_be: Annotated[
        Literal["absent", "present"], Field(description="absent: each match is a finding. present: having none is.")
    ] = "absent"


class SchemaRule(_Rule):
    """The document must fit a JSON Schema."""

    type: Literal["schema"]
    json_schema: Annotated[
        dict[str, JsonValue],
        Field(description="JSON Schema of draft 4 to 2020-12 (the default). References to other places are refused."),
    ]


class ExpressionRule(_Rule):
    """An expression of CEL must be true."""

    type: Literal["expression"]
    expression: Annotated[
        str,
        Field(
            min_length=1,
            max_length=expressions.LENGTH_MAX,
            description="CEL over `document` or `text`, whichever is sent.",
            examples=["document.amount <= 1000"],
        ),
    ]


Rule = PiiRule | SecretRule | RegexRule | SchemaRule | ExpressionRule
TextRule = PiiRule | SecretRule | RegexRule
AnyRule = Annotated[
    Rule, Field(discriminator="type"), by_type(PiiRule, SecretRule, RegexRule, SchemaRule, ExpressionRule)
]


class ComplianceInputs(_Part):
    """A text or a JSON document, and the rules to check it against."""

    text: Annotated[str | None, Field(description="Plain text. Send this or `document`.")] = None
    document: Annotated[JsonValue, Field(description="Any JSON value but null. Send this or `text`.")] = None
    rules: Annotated[list[AnyRule], Field(min_length=1, max_length=RULES_MAX)]
    redact: Annotated[
        bool, Field(description="Also answer the text or document with every match of a text rule replaced.")
    ] = False

    @model_validator(mode="after")
    def _belongs_together(self) -> "ComplianceInputs":
        if (self.text is None) == (self.document is None):
            raise PydanticCustomError("subject", "send either text or document, and not both; null is neither")
        misfits = list(self._misplaced()) or list(islice(self._unworkable(), REFUSED_MAX))
        if misfits:
            raise ValidationError.from_exception_data(type(self).__name__, misfits)
        return self

    def _misplaced(self) -> Iterator[InitErrorDetails]:
        """The faults found without compiling anything."""
        seen: set[str] = set()
        count, patterns, characters = 0, 0, 0
        for index, rule in enumerate(self.rules):
            if rule.id in seen:
                yield wrong_field(("rules", index, "id"), "another rule has this id")
            seen.add(rule.id)
            if isinstance(rule, SchemaRule):
                count, patterns = count + 1, patterns + schemas.count_schema_patterns(rule.json_schema)
                if self.document is None:
                    yield wrong_field(("rules", index, "type"), "a schema holds a document, and only text is sent")
                elif count > SCHEMA_RULES_MAX:
                    yield wrong_field(("rules", index, "type"), _too_many(f"{SCHEMA_RULES_MAX} schemas"))
                elif patterns > schemas.PATTERNS_MAX:
                    said = _too_many(f"{schemas.PATTERNS_MAX} patterns in its schemas")
                    yield wrong_field(("rules", index, "json_schema"), said)
            elif isinstance(rule, ExpressionRule):
                characters += len(rule.expression)
                if characters > EXPRESSION_CHARACTERS_MAX:
                    said = _too_many(f"{EXPRESSION_CHARACTERS_MAX:,} characters of expressions")
                    yield wrong_field(("rules", index, "expression"), said)

    def _unworkable(self) -> Iterator[InitErrorDetails]:
        """An expression over a subject that was not sent would fail in every run: compile it for the one that was."""
        subject: expressions.Subject = "text" if self.document is None else "document"
        for index, rule in enumerate(self.rules):
            name = "pattern"
            try:
                match rule:
                    case RegexRule():
                        regexes.compiled_regex(rule.pattern, ignore_case=rule.ignore_case)
                    case SchemaRule():
                        name = "json_schema"
                        schemas.compiled_schema(rule.json_schema)
                    case ExpressionRule():
                        name = "expression"
                        expressions.compiled_expression(rule.expression, subject)
            except (regexes.PatternRefused, schemas.SchemaRefused, expressions.ExpressionRefused) as refused:
                yield wrong_field(("rules", index, name), str(refused))


def _too_many(limit: str) -> str:
    return f"a run has at most {limit}; send the rest in another run"
