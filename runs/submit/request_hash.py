"""What makes two requests the same (DPP-07): SHA-256 over the canonical JSON (RFC 8785) of the normalised request.

In it: pack_type, inputs, timebox_sec, max_cost_usd, and artifacts where the pack takes them. Left out: everything that
says who asks or how the answer is shown (trace_id, client, profile_version, options, min_reliability_score).
"""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import rfc8785

from dpp_project.http.problems import FieldError, Problem
from dpp_project.reasons import ReasonCode
from runs.submit.request_body import RunCreateRequest

MAX_INPUTS_BYTES: Final = 262_144
_INEXACT: Final = "holds a number that JSON cannot carry exactly (beyond 2^53 - 1)"
_TOO_LARGE: Final = f"larger than {MAX_INPUTS_BYTES} bytes as canonical JSON"


@dataclass(frozen=True, slots=True)
class Payload:
    """The normalised part of a request that is stored, and its hash."""

    inputs: dict[str, Any]
    artifacts: dict[str, bool] | None
    sha256: str


def payload_of(request: RunCreateRequest) -> Payload:
    inputs, artifacts = request.normalised_inputs(), request.normalised_artifacts()
    document: dict[str, Any] = {
        "pack_type": request.pack_type,
        "inputs": inputs,
        "timebox_sec": request.reservation.timebox_sec,
        "max_cost_usd": request.reservation.max_cost_usd,
    }
    if artifacts is not None:
        document["artifacts"] = artifacts
    try:
        canonical = rfc8785.dumps(document)
        too_large = len(canonical) > MAX_INPUTS_BYTES and len(rfc8785.dumps(inputs)) > MAX_INPUTS_BYTES
    except rfc8785.CanonicalizationError:
        raise _canonical_inputs_problem(_INEXACT) from None
    if too_large:
        raise _canonical_inputs_problem(_TOO_LARGE)
    return Payload(inputs=inputs, artifacts=artifacts, sha256=hashlib.sha256(canonical).hexdigest())


def checked_inputs(inputs: dict[str, Any]) -> None:
    """Refuses what a submit would refuse for its size or its numbers."""
    try:
        size = len(rfc8785.dumps(inputs))
    except rfc8785.CanonicalizationError:
        raise _canonical_inputs_problem(_INEXACT) from None
    if size > MAX_INPUTS_BYTES:
        raise _canonical_inputs_problem(_TOO_LARGE)


def _canonical_inputs_problem(detail: str) -> Problem:
    return Problem(
        ReasonCode.VALIDATION_FAILED,
        "The request has wrong fields; see errors.",
        errors=[FieldError("inputs", detail)],
    )
