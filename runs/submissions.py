"""What a tenant asks for with one submit, checked and normalised: the row and its inputs are made of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """`payload_hash` is over what makes two requests the same; `reserved_micros` is the price that is held."""

    tenant_id: str
    idempotency_key: str
    pack_type: str
    profile_version: str
    payload_hash: str
    reserved_micros: int
    inputs: Mapping[str, Any]
    artifacts: Mapping[str, Any] | None
    timebox_sec: int
    min_reliability_score: float
    inline: bool
    trace_id: str | None
    may_start: bool = True
    """False while an operator has turned off the tenant's new runs; a run that stands is answered all the same."""
