"""Refusals in one form: RFC 9457 problem documents (DPP-03)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from dpp_project.observe import tracing
from dpp_project.reasons import REASONS, ReasonCode, type_uri
from dpp_project.refusals import Refusal

CONTENT_TYPE = "application/problem+json"


@dataclass(frozen=True)
class FieldError:
    """One wrong field: where (`reservation.max_cost_usd`, `header.Idempotency-Key`) and what to do about it."""

    field: str
    detail: str


def printable_field(name: str) -> str:
    """A caller's own name for a field, made safe to repeat: bounded, and nothing that needs escaping."""
    return "".join(character if character.isprintable() else "?" for character in name[:200])


class Problem(Exception):  # noqa: N818  the domain's word; it is raised, but first of all it is an answer
    """Raised anywhere under a request; answered as problem+json with the status its reason has."""

    def __init__(
        self,
        reason: ReasonCode,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        run_id: str | None = None,
        extensions: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        status = REASONS[reason].status
        if status is None:
            raise ValueError(f"{reason} ends runs, it is not an answer to a request")
        self.reason = reason
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.run_id = run_id
        self.extensions = dict(extensions or {})


def problem_of_refusal(
    refusal: Refusal, *, asked: str, stands_for: str, places: Mapping[str, str] | None = None
) -> Problem:
    """A use case's refusal as the answer to the request that asked for it.

    `asked` and `stands_for` name what was asked for and what an Idempotency-Key of it stands for; `places` says where
    in the request an argument stood, where it has another name there.
    """
    detail, errors = refusal.detail, []
    if refusal.reason is ReasonCode.IDEMPOTENCY_CONFLICT:
        detail = f"This Idempotency-Key stands for another {stands_for}."
    elif refusal.reason is ReasonCode.VALIDATION_FAILED:
        detail = f"The {asked} is refused; see errors."
        errors = [FieldError((places or {}).get(refusal.field, refusal.field), refusal.detail)]
    return Problem(
        refusal.reason,
        detail,
        errors=errors,
        run_id=None if refusal.run_id is None else str(refusal.run_id),
        headers={} if refusal.retry_after_seconds is None else {"Retry-After": str(refusal.retry_after_seconds)},
        extensions=refusal.extensions,
    )


def problem_document(problem: Problem, *, instance: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": type_uri(problem.reason),
        "title": REASONS[problem.reason].title,
        "status": problem.status,
        "detail": problem.detail,
        "instance": instance,
        "reason_code": problem.reason.value,
        "trace_id": tracing.current_trace_id() or "",
    }
    if problem.run_id is not None:
        body["run_id"] = problem.run_id
    if problem.errors:
        body["errors"] = [{"field": error.field, "detail": error.detail} for error in problem.errors]
    return body | problem.extensions


def problem_response(request: HttpRequest, problem: Problem) -> HttpResponse:
    body = json.dumps(problem_document(problem, instance=request.path), ensure_ascii=False, separators=(",", ":"))
    return HttpResponse(
        body.encode("utf-8", "replace"), status=problem.status, content_type=CONTENT_TYPE, headers=problem.headers
    )
