"""One of several models, told apart by the `type` it names, with errors at the caller's own fields.

Pydantic alone would write the type into the place of an error, `rules[0].regex.pattern`, and say of a type that it does
not know that it "found no tag".
"""

from typing import Any, Final

from pydantic import BaseModel, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import InitErrorDetails, PydanticCustomError

DISCRIMINATOR: Final = "type"


def by_type(*models: type[BaseModel]) -> WrapValidator:
    """For a union of `models`, each with a Literal `type` of one value."""
    known = {model.model_fields[DISCRIMINATOR].annotation.__args__[0]: model for model in models}  # type: ignore[union-attr]  # each is a Literal

    def read(value: Any, choose: ValidatorFunctionWrapHandler) -> Any:
        if not isinstance(value, dict):
            return choose(value)
        named = value.get(DISCRIMINATOR)
        if not isinstance(named, str) or named not in known:
            why = "send one of " + ", ".join(known)
            raise ValidationError.from_exception_data("type", [wrong_field((DISCRIMINATOR,), why)])
        return known[named].model_validate(value)

    return WrapValidator(read)


def wrong_field(place: tuple[int | str, ...], why: str) -> InitErrorDetails:
    """An error at a field, with the message for the caller."""
    return InitErrorDetails(type=PydanticCustomError("wrong", "{why}", {"why": why}), loc=place, input=None)
