"""The inputs of a decision run."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

QUESTION_CHARACTERS_MAX: Final = 2_000
CONTEXT_CHARACTERS_MAX: Final = 200_000


def _says_something(question: str) -> str:
    if not any(character.isalnum() for character in question):
        raise PydanticCustomError("empty_question", "ask something: there is no word in it")
    return question


class DecisionInputs(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    question: Annotated[
        str,
        Field(min_length=1, max_length=QUESTION_CHARACTERS_MAX, description="What is to be answered, in plain words."),
        AfterValidator(_says_something),
    ]
    context: Annotated[
        str | None,
        Field(max_length=CONTEXT_CHARACTERS_MAX, description="The text that the answer is to be found in."),
    ] = None
    mode: Annotated[
        Literal["brief", "full"], Field(description="brief: the one passage that answers; full: up to five of them.")
    ] = "brief"
