"""What a tenant says shall run in a workspace: checked, kept as JSON in `workspaces.spec`, handed to the drivers.

Pure but for pydantic. Which images there are is the caller's to say: they belong to the host's settings.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from ops.workspaces.drivers.base import WorkspaceLimits, WorkspaceSpec

ENV_NAMES_MAX: Final = 64
ENV_VALUE_MAX: Final = 4_096
ARGUMENTS_MAX: Final = 64
ARGUMENT_MAX: Final = 4_096
TEXT_MAX: Final = 32_768
"""Of the whole environment, and of the whole command: the kernel bounds both together."""
PORTS_MAX: Final = 16
MEMORY_MB: Final = (64, 16_384)
PROCESSES: Final = (8, 4_096)
MEMORY_MB_DEFAULT: Final = 1_024
PROCESSES_DEFAULT: Final = 256
RESERVED_PREFIX: Final = "DPP_"
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


def of_the_tenant(environment: dict[str, str]) -> dict[str, str]:
    for name, value in environment.items():
        if _ENV_NAME.fullmatch(name) is None:
            raise ValueError("a name is letters, digits and _, does not begin with a digit, and has at most 128")
        if name.upper().startswith(RESERVED_PREFIX):
            raise ValueError(f"names that begin with {RESERVED_PREFIX} are the platform's; choose others")
        if "\0" in value:
            raise ValueError("a value holds a NUL character; remove it")
    if sum(len(name.encode()) + len(value.encode()) + 2 for name, value in environment.items()) > TEXT_MAX:
        raise ValueError(f"together they are longer than {TEXT_MAX} bytes; put the rest into a file of the home")
    return environment


def an_argv(command: list[str]) -> list[str]:
    if command and not command[0]:
        raise ValueError("its first word is the program to start; it must not be empty")
    if any("\0" in word for word in command):
        raise ValueError("a word holds a NUL character; remove it")
    if sum(len(word.encode()) + 1 for word in command) > TEXT_MAX:
        raise ValueError(f"it is longer than {TEXT_MAX} bytes; put it into a file of the home")
    return command


def _different(ports: list[int]) -> list[int]:
    if len(set(ports)) != len(ports):
        raise ValueError("a port stands there twice; name each once")
    return ports


EnvValue = Annotated[StrictStr, Field(max_length=ENV_VALUE_MAX)]
Port = Annotated[StrictInt, Field(ge=1, le=65_535)]
CommandWord = Annotated[StrictStr, Field(max_length=ARGUMENT_MAX)]


class SpecLimits(BaseModel):
    """What it may use at once."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory_mb: Annotated[StrictInt, Field(ge=MEMORY_MB[0], le=MEMORY_MB[1])] = MEMORY_MB_DEFAULT
    processes: Annotated[StrictInt, Field(ge=PROCESSES[0], le=PROCESSES[1])] = PROCESSES_DEFAULT


class SpecDocument(BaseModel):
    """What runs in a workspace. A running workspace is restarted with a changed one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: Annotated[
        StrictStr | None,
        Field(
            min_length=1,
            max_length=255,
            description="Of those that your operator allows; left out: the first of them. Not to be sent where"
            " workspaces run without images.",
        ),
    ] = None
    env: Annotated[
        dict[str, EnvValue],
        Field(
            max_length=ENV_NAMES_MAX,
            description=f"Yours alone: nothing of the platform's is added. Names beginning with {RESERVED_PREFIX}"
            " are refused.",
            examples=[{"STAGE": "test"}],
        ),
        AfterValidator(of_the_tenant),
    ] = Field(default_factory=dict)
    command: Annotated[
        list[CommandWord],
        Field(
            max_length=ARGUMENTS_MAX,
            description="Program and arguments, without a shell; started with the workspace, and again when it ends."
            " Empty: nothing is started.",
            examples=[["python3", "-m", "http.server", "8080"]],
        ),
        AfterValidator(an_argv),
    ] = Field(default_factory=list)
    ports: Annotated[
        list[Port],
        Field(max_length=PORTS_MAX, description="TCP ports that the workspace listens on.", examples=[[8080]]),
        AfterValidator(_different),
    ] = Field(default_factory=list)
    limits: SpecLimits = SpecLimits()

    @model_validator(mode="after")
    def _image_is_a_name(self) -> Self:
        if self.image is not None and any(not "!" <= character <= "~" for character in self.image):
            raise ValueError("image holds a character that no image's name has; name one of those allowed")
        return self

    def stored(self, *, default_image: str | None) -> dict[str, Any]:
        """As the row keeps it: whole, so that a later default changes no workspace that stands."""
        return self.model_dump(mode="json") | {"image": self.image or default_image}


def of_row(spec: Mapping[str, Any]) -> WorkspaceSpec:
    """What the row keeps, for a driver."""
    limits = spec.get("limits") or {}
    return WorkspaceSpec(
        image=spec.get("image"),
        environment=dict(spec.get("env") or {}),
        command=tuple(spec.get("command") or ()),
        ports=tuple(spec.get("ports") or ()),
        limits=WorkspaceLimits(memory_mb=limits.get("memory_mb"), processes=limits.get("processes")),
    )


def spec_hash(spec: Mapping[str, Any]) -> str:
    """Whether what runs is what is asked for: a container carries it as a label."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def image_fault(image: str | None, *, kind: str, allowed: Sequence[str]) -> str | None:
    """What is wrong with an image at a driver of this kind."""
    if kind == "process":
        return None if image is None else "workspaces run here without images; leave it out"
    if image is not None and image not in allowed:
        return f"is not allowed here; choose of: {', '.join(allowed) or 'none, ask your operator'}"
    return None
