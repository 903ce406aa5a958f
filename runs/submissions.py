"""What a tenant asks for with one submit, checked and normalised: the row and its inputs are made of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from budget.money import minimum_fee_micros
from budget.redis.windows import NO_CAPS_KNOWN, LeastRevisions
from dpp_project.constants import RETENTION_DAYS
from runs.metadata import PRIORITY_DEFAULT


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
    lineage_id: UUID | None = None
    """Of the key that asks."""
    least: LeastRevisions = NO_CAPS_KNOWN
    """The newest change of caps that its principal has heard of."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The caller's own words for the run; not hashed: a retry may say others, and the first stand."""
    price_version: str | None = None
    """Of the pack's price list, as this process knows it."""
    priority: int = PRIORITY_DEFAULT
    concurrency_key: str | None = None
    may_use_workspaces: bool = False
    """Its key may write to workspaces; asked only of a pack that runs a command in one."""
    may_start: bool = True
    """False while an operator has turned off the tenant's new runs; a run that stands is answered all the same."""


def values_of(asked: Submission, /, **beside: object) -> dict[str, Any]:
    """What the statement that accepts it takes."""
    return {
        "tenant_id": asked.tenant_id,
        "pack_type": asked.pack_type,
        "profile_version": asked.profile_version,
        "idempotency_key": asked.idempotency_key,
        "payload_hash": asked.payload_hash,
        "reserved": asked.reserved_micros,
        "minimum_fee": minimum_fee_micros(asked.reserved_micros),
        "retention_days": RETENTION_DAYS,
        "inputs": json.dumps(asked.inputs, ensure_ascii=False),
        "artifacts": None if asked.artifacts is None else json.dumps(asked.artifacts, ensure_ascii=False),
        "timebox_sec": asked.timebox_sec,
        "min_reliability_score": asked.min_reliability_score,
        "inline": asked.inline,
        "trace_id": asked.trace_id,
        "lineage_id": asked.lineage_id,
        "metadata": json.dumps(dict(asked.metadata), ensure_ascii=False) if asked.metadata else None,
        "price_version": asked.price_version,
        "priority": asked.priority,
        "concurrency_key": asked.concurrency_key,
        **beside,
    }
