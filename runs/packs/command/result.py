"""What a command run answers."""

from typing import Literal

from pydantic import BaseModel, Field

Ended = Literal["exited", "deadline", "hold", "killed"]


class CommandOutput(BaseModel):
    """How the command ended, and what it wrote."""

    ended: Ended = Field(description="By itself, at its deadline, for lack of money, or with its workspace.")
    exit_code: int | None = Field(description="As a shell says it, 128 + n for a signal; null where it was killed.")
    seconds: float
    stdout: str
    stderr: str
    stdout_cut: bool = Field(description="More was written than is kept.")
    stderr_cut: bool
