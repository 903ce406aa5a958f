"""What a compliance run reads. A rule that could never work is refused at submit, by its field."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from runs import regexes
from runs.packs.compliance import expressions, schemas

RULES_MAX: Final = 100
SCHEMA_RULES_MAX: Final = 10
Severity = Literal["info", "warning", "error"]
PiiKind = Literal["kr_rrn", "kr_business_number", "card", "phone", "email", "iban"]
PII_KINDS: Final[list[PiiKind]] = ["kr_rrn", "kr_business_number", "card", "phone", "email", "iban"]


def _refusing(check: Callable[[Any], object], *refusals: type[Exception]) -> AfterValidator:
    """The value as it is, if `check` takes it; else its reason, as this field's error."""

    def checked(value: Any) -> Any:
        try:
            check(value)
        except refusals as refused:
            raise PydanticCustomError("rule", "{why}", {"why": str(refused)}) from None
        return value

    return AfterValidator(checked)


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
        _refusing(regexes.compiled, regexes.PatternRefused),
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
        _refusing(schemas.compiled, schemas.SchemaRefused),
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
        _refusing(expressions.compiled, expressions.ExpressionRefused),
    ]


Rule = PiiRule | SecretRule | RegexRule | SchemaRule | ExpressionRule
TextRule = PiiRule | SecretRule | RegexRule
_MODELS: Final[dict[Any, type[_Rule]]] = {
    "pii": PiiRule,
    "secret": SecretRule,
    "regex": RegexRule,
    "schema": SchemaRule,
    "expression": ExpressionRule,
}


def _by_type(value: Any, choose: ValidatorFunctionWrapHandler) -> Any:
    """Pydantic would write the type into the place of an error: rules[0].regex.pattern."""
    kind = value.get("type") if isinstance(value, dict) else None
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    return choose(value) if model is None else model.model_validate(value)


AnyRule = Annotated[Rule, Field(discriminator="type"), WrapValidator(_by_type)]


class ComplianceInputs(_Part):
    """A text or a JSON document, and the rules it is held to."""

    text: Annotated[str | None, Field(description="Plain text. Send this or `document`.")] = None
    document: Annotated[JsonValue, Field(description="Any JSON value but null. Send this or `text`.")] = None
    rules: Annotated[list[AnyRule], Field(min_length=1, max_length=RULES_MAX)]
    redact: Annotated[
        bool, Field(description="Also answer the text or document with every match of a text rule replaced.")
    ] = False

    @model_validator(mode="after")
    def _belongs_together(self) -> "ComplianceInputs":
        if (self.text is None) == (self.document is None):
            raise PydanticCustomError("subject", "send either text or document, and not both")
        wrong: list[InitErrorDetails] = []
        seen: set[str] = set()
        schemas_left = SCHEMA_RULES_MAX
        for index, rule in enumerate(self.rules):
            if rule.id in seen:
                wrong.append(_wrong(index, "id", "another rule has this id"))
            seen.add(rule.id)
            if isinstance(rule, SchemaRule):
                schemas_left -= 1
                if schemas_left < 0:
                    wrong.append(_wrong(index, "type", f"a run has at most {SCHEMA_RULES_MAX} schemas"))
                if self.document is None:
                    wrong.append(_wrong(index, "type", "a schema holds a document, and only text is sent"))
            if isinstance(rule, ExpressionRule):
                wrong.extend(self._misfit(index, rule))
        if wrong:
            raise ValidationError.from_exception_data(type(self).__name__, wrong)
        return self

    def _misfit(self, index: int, rule: ExpressionRule) -> list[InitErrorDetails]:
        """An expression over what was not sent would answer an error at every run."""
        sent: expressions.Subject = "text" if self.document is None else "document"
        try:
            expressions.compiled(rule.expression, sent)
        except expressions.ExpressionRefused as refused:
            return [_wrong(index, "expression", str(refused))]
        return []

    def text_rules(self) -> list[TextRule]:
        return [rule for rule in self.rules if isinstance(rule, TextRule)]


def _wrong(index: int, name: str, why: str) -> InitErrorDetails:
    return InitErrorDetails(
        type=PydanticCustomError("rule", "{why}", {"why": why}), loc=("rules", index, name), input=None
    )
