"""The one way into the audit trail.

A use case that changes something for a person calls `record_in_trail` inside the transaction that changes it: a crash
leaves both or neither, a dry run or a refusal leaves none. An effect outside Postgres (a message, a rebuild in Redis)
is entered right after it; a death in between leaves the effect with its log line alone.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from dpp_project import origins
from dpp_project.audit.models import AuditEntry
from dpp_project.observe import tracing

AuditFacts = Mapping[str, Any]


class OutsideTransaction(RuntimeError):  # noqa: N818  named for the finding
    """An entry of its own could stand for an act that was rolled back."""


def record_in_trail(
    act: str,
    *,
    actor: str,
    subject: str,
    tenant_id: str | None = None,
    before: AuditFacts | None = None,
    after: AuditFacts | None = None,
    reason: str = "",
) -> None:
    """Enter an act. `before` and `after` hold what differs and never a secret; `tenant_id` is whom it concerns."""
    if not connection.in_atomic_block:
        raise OutsideTransaction(act)
    here = origins.current_origin()
    AuditEntry.objects.create(
        actor=actor,
        source=here.source,
        place=here.place,
        act=act,
        subject=subject,
        tenant_id=tenant_id,
        before=None if before is None else _plain_audit_facts(before),
        after=None if after is None else _plain_audit_facts(after),
        reason=reason,
        trace_id=tracing.current_trace_id() or "",
    )


def differing_values(before: AuditFacts, after: AuditFacts) -> tuple[dict[str, Any], dict[str, Any]]:
    """Only what changed, for `before` and `after`."""
    names = [name for name in after if before.get(name) != after[name]]
    return {name: before.get(name) for name in names}, {name: after[name] for name in names}


def _plain_audit_facts(facts: AuditFacts) -> dict[str, Any]:
    return {name: _value(value) for name, value in facts.items()}


def _value(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case UUID():
            return str(value)
        case str() | int() | float() | bool() | None:
            return value
        case Mapping():
            return _plain_audit_facts(value)
        case Iterable():
            return [_value(one) for one in value]
    return str(value)
