"""Sources, rules and events of automations, as tests need them."""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid4

from dpp_project import uuid7
from ops.automations import emitting
from ops.automations.emitting import Emitted
from ops.automations.models import AutomationEvent, AutomationRule, AutomationSource, AutomationTask
from ops.automations.states import SourceKind

AT: Final = datetime(2026, 3, 1, 3, tzinfo=UTC)


def source(name: str = "hooks", kind: SourceKind = SourceKind.HOOK, **values: Any) -> AutomationSource:
    made = AutomationSource.objects.create(
        source_id=uuid7.new_uuid7(), name=name, kind=kind, created_by="ada", **values
    )
    return AutomationSource.objects.get(pk=made.pk)


def emit(at: AutomationSource, event_id: str = "e-1", **values: Any) -> Emitted:
    asked: dict[str, Any] = {"payload": {"action": "opened"}, "occurred_at": AT} | values
    made = emitting.emit_event(source=at, event_id=event_id, **asked)
    assert isinstance(made, Emitted), made
    return made


def event(at: AutomationSource, event_id: str = "e-1", **values: Any) -> AutomationEvent:
    made = emit(at, event_id, **values).event_pk
    assert made is not None
    return AutomationEvent.objects.get(pk=made)


def bare_rule(at: AutomationSource, name: str = "triage", **values: Any) -> AutomationRule:
    """A rule as a row, without the key that buys its runs."""
    row = {
        "rule_id": uuid7.new_uuid7(),
        "tenant_id": "t_acme",
        "pack_type": "decision",
        "inputs": {},
        "max_cost_usd_micros": 50_000,
        "timebox_sec": 30,
        "runs_per_hour": 10,
        "usd_per_day_micros": 1_000_000,
        "key_id": uuid4(),
        "lineage_id": uuid4(),
        "created_by": "ada",
    } | values
    return AutomationRule.objects.get(pk=AutomationRule.objects.create(source=at, name=name, **row).pk)


def bare_task(of: AutomationEvent, rule: AutomationRule, number: str = "task-20260301-001", **values: Any) -> UUID:
    row: dict[str, Any] = {
        "task_id": uuid7.new_uuid7(),
        "number": number,
        "tenant_id": rule.tenant_id,
        "pack_type": rule.pack_type,
        "inputs": {},
        "max_cost_usd_micros": rule.max_cost_usd_micros,
        "timebox_sec": rule.timebox_sec,
        "attempts_max": rule.retries + 1,
        "thread": of.thread,
    } | values
    return AutomationTask.objects.create(event=of, rule=rule, **row).pk
