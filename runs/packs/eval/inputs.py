"""The inputs of an eval run. An item that could not be scored is refused at submit, by its field."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from runs.packs.eval import judging, tokens
from runs.packs.eval.scores import Overlap
from runs.packs.shared import regexes
from runs.packs.shared.tagged_union import by_type, wrong_field

ITEMS_MAX: Final = 1_000
METRICS_MAX: Final = 12
PAIRS_MAX: Final = 5_000
ERRORS_MAX: Final = 20
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
TokensBy = Annotated[tokens.By, Field(description="auto: syllables of Hangul, Han and Kana, words of everything else.")]
Against = Annotated[
    Literal["expected", "context"], Field(description="What the output is compared with. context: is it grounded?")
]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Item(_Part):
    """One output, and what it should have been."""

    id: Annotated[str, Field(min_length=1, max_length=128, description="Names the item in the answer.")]
    output: str
    expected: str | None = None
    context: Annotated[str | None, Field(description="What the output was made from.")] = None


class _Metric(_Part):
    name: Annotated[Name | None, Field(description="Where two of one type are asked for; else its type.")] = None

    @property
    def called(self) -> str:
        return self.name or str(getattr(self, "type", ""))

    @property
    def compares_with(self) -> Literal["expected", "context"] | None:
        """The field of the item that this metric needs."""
        return getattr(self, "against", "expected")


class ExactMatch(_Metric):
    """1 if the output is the expected text."""

    type: Literal["exact_match"]
    normalise: Annotated[bool, Field(description="Case, compatible forms and amount of space do not count.")] = True


class TokenF1(_Metric):
    """Tokens in common, wherever they stand."""

    type: Literal["token_f1"]
    tokens: TokensBy = "auto"
    measure: Overlap = "f1"
    ignore_case: bool = True
    against: Against = "expected"


class RougeL(_Metric):
    """The longest common subsequence of tokens."""

    type: Literal["rouge_l"]
    tokens: TokensBy = "auto"
    measure: Overlap = "f1"
    ignore_case: bool = True
    against: Against = "expected"


class Chrf(_Metric):
    """chrF2: n-grams of characters up to 6."""

    type: Literal["chrf"]
    against: Against = "expected"


class Bleu(_Metric):
    """BLEU-4 with exponential smoothing."""

    type: Literal["bleu"]
    tokens: TokensBy = "auto"


class Wer(_Metric):
    """Edits for each word of the expected text, words parted by spaces. Lower is better."""

    type: Literal["wer"]


class Cer(_Metric):
    """Edits for each character of the expected text. Lower is better."""

    type: Literal["cer"]
    ignore_spaces: Annotated[bool, Field(description="Korean is often right but for its spacing.")] = False


class JsonEqual(_Metric):
    """1 if the output is JSON and equals the expected document, names in any order."""

    type: Literal["json_equal"]


class Regex(_Metric):
    """1 if the pattern is in the output."""

    type: Literal["regex"]
    pattern: Annotated[str, Field(min_length=1, max_length=regexes.PATTERN_LENGTH_MAX, description="RE2 syntax.")]
    whole: Annotated[bool, Field(description="The pattern must be the whole output.")] = False
    ignore_case: bool = False

    @property
    def compares_with(self) -> None:
        return None


class Numeric(_Metric):
    """1 if the output's number is close enough to the expected one."""

    type: Literal["numeric"]
    take: Annotated[judging.Take, Field(description="Which number of the output.")] = "last"
    absolute: Annotated[float, Field(ge=0, le=1e15, description="May differ by this.")] = 0.0
    relative: Annotated[float, Field(ge=0, le=1, description="Or by this part of the expected number.")] = 0.0


Metric = ExactMatch | TokenF1 | RougeL | Chrf | Bleu | Wer | Cer | JsonEqual | Regex | Numeric
AnyMetric = Annotated[
    Metric,
    Field(discriminator="type"),
    by_type(ExactMatch, TokenF1, RougeL, Chrf, Bleu, Wer, Cer, JsonEqual, Regex, Numeric),
]


class EvalInputs(_Part):
    """Outputs, the metrics to score them by, and what counts as good enough."""

    items: Annotated[list[Item], Field(min_length=1, max_length=ITEMS_MAX)]
    metrics: Annotated[list[AnyMetric], Field(min_length=1, max_length=METRICS_MAX)]
    thresholds: Annotated[
        dict[str, Annotated[float, Field(ge=0, le=100)]],
        Field(description="By metric: at least this; for wer and cer at most. Without any, nothing passes or fails."),
    ] = {}

    @model_validator(mode="after")
    def _belongs_together(self) -> "EvalInputs":
        if len(self.items) * len(self.metrics) > PAIRS_MAX:
            raise PydanticCustomError("size", "more than {most} pairs of item and metric", {"most": PAIRS_MAX})
        if misfits := list(islice(self._misfits(), ERRORS_MAX)):
            raise ValidationError.from_exception_data(type(self).__name__, misfits)
        return self

    def _misfits(self) -> Iterator[InitErrorDetails]:
        yield from _repeated("items", "id", [item.id for item in self.items])
        names = [metric.called for metric in self.metrics]
        yield from _repeated("metrics", "name", names)
        for name in self.thresholds:
            if name not in names:
                yield wrong_field(("thresholds", name), "no metric is called so; there are " + ", ".join(names))
        for place, metric in enumerate(self.metrics):
            if isinstance(metric, Regex):
                try:
                    regexes.compiled_regex(metric.pattern, ignore_case=metric.ignore_case)
                except regexes.PatternRefused as refused:
                    yield wrong_field(("metrics", place, "pattern"), str(refused))
            for index, item in enumerate(self.items):
                why = _why_not(metric, item)
                if why is not None:
                    yield wrong_field(("items", index, metric.compares_with or "output"), f"{metric.called} {why}")


def _why_not(metric: _Metric, item: Item) -> str | None:
    if metric.compares_with is None:
        return None
    reference: str | None = getattr(item, metric.compares_with)
    if reference is None:
        return "compares with it; send it"
    if isinstance(metric, Numeric) and judging.judged_number(reference, "whole") is None:
        return "compares with a number, and this is none"
    if isinstance(metric, JsonEqual):
        try:
            judging.read_json(reference)
        except judging.NotJson:
            return "compares with JSON, and this is none"
    return None


def _repeated(of: str, field: str, names: list[str]) -> Iterator[InitErrorDetails]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield wrong_field((of, index, field), "another one has this name")
        seen.add(name)
