"""The inputs of a command. They are hashed with the run: another deadline is another request."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from dpp_project.constants import TIMEBOX_SECONDS_MAX

BEFORE_TIMEBOX_SECONDS: Final = 3
"""For the command's end to be told: it must be over so long before the run's own time is."""
ARGUMENTS_MAX: Final = 64
ARGUMENT_MAX: Final = 4_096
STDIN_MAX: Final = 262_144


def _a_program(argv: list[str]) -> list[str]:
    if not argv[0]:
        raise PydanticCustomError("argv", "its first word is the program to start; it must not be empty")
    if any("\0" in word for word in argv):
        raise PydanticCustomError("argv", "a word holds a NUL character; remove it")
    return argv


class CommandInputs(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    workspace_id: Annotated[
        str,
        Field(
            pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
            description="Of one of your workspaces; one that sleeps is woken, and the submit is to be repeated.",
        ),
    ]
    argv: Annotated[
        list[Annotated[str, Field(max_length=ARGUMENT_MAX)]],
        Field(min_length=1, max_length=ARGUMENTS_MAX, description="Program and arguments, without a shell."),
        AfterValidator(_a_program),
    ]
    stdin: Annotated[str, Field(max_length=STDIN_MAX, description="What it reads; then its input ends.")] = ""
    deadline_sec: Annotated[
        int,
        Field(
            ge=1,
            le=TIMEBOX_SECONDS_MAX - BEFORE_TIMEBOX_SECONDS,
            description=f"It is killed after so long, and {BEFORE_TIMEBOX_SECONDS} s before the run's timebox at the"
            " latest.",
        ),
    ] = 60
