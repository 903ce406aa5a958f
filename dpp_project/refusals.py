"""A refusal with its reason: what every use case answers when it does not do what it was asked for.

A refusal is an answer, not an exception: nothing was changed, and the answer says why.
`http.problems.problem_of_refusal` makes the problem document of one, `management.base.unless_refused` the error of a
command.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dpp_project.reasons import ReasonCode


@dataclass(frozen=True, slots=True)
class Refusal:
    """`field` is the argument at fault, where one is; `detail` says what to do about it."""

    reason: ReasonCode
    detail: str
    field: str = ""
    run_id: UUID | None = None
    """The run that stands in the way, where one does."""
    retry_after_seconds: int | None = None
    """When the same may be asked again, where waiting helps."""
    extensions: Mapping[str, Any] | None = None
    """Members of the problem document that this reason has beside the usual ones."""


def invalid(field: str, detail: str) -> Refusal:
    """The argument is wrong, whatever state things are in."""
    return Refusal(ReasonCode.VALIDATION_FAILED, detail, field)
