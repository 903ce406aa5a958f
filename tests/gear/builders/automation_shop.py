"""A tenant with money whose automations are enabled, a source, rules; turns of the loops, and time, by hand."""

import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from ops.automations import transitions
from ops.automations.models import (
    AutomationAttempt,
    AutomationEvent,
    AutomationMessage,
    AutomationResult,
    AutomationRule,
    AutomationSource,
    AutomationTask,
)
from ops.automations.rules import rules
from ops.automations.rules.rule_values import RuleValues
from ops.automations.states import EventOutcome, SourceKind
from ops.automations.tasks import buying, dispatching, ending
from runs.models import Run
from runs.worker import execution
from tenants.models import Tenant
from tests.gear.builders import automations as gear
from tests.gear.builders import recovery

NOTIFY = {"channel": "slack", "target": "C01"}


def rule_values(tenant: Tenant, /, **changes: Any) -> RuleValues:
    asked: dict[str, Any] = {
        "name": "triage",
        "source": "hooks",
        "tenant": tenant.tenant_id,
        "pack_type": "probe",
        "inputs": {"cost_usd": {"$": "event.cost", "else": "0.0500"}, "fail": {"$": "event.fail", "else": False}},
        "max_cost_usd": "0.2500",
        "timebox_sec": 20,
        "runs_per_hour": 100,
        "usd_per_day": "5.0000",
        "notify": NOTIFY,
    }
    return RuleValues.model_validate(asked | changes)


@dataclass
class AutomationShop:
    """One tenant's automations; what they say goes to the only Slack source."""

    tenant: Tenant
    source: AutomationSource = field(default_factory=gear.source)

    def rule(self, **changes: Any) -> AutomationRule:
        made = rules.create_rule(asked=rule_values(self.tenant, **changes), actor="ada")
        assert isinstance(made, AutomationRule), made
        return made

    def event(self, event_id: str = "e-1", **values: Any) -> AutomationEvent:
        return gear.event(self.source, event_id, **values)

    def buy(self) -> None:
        """Events become tasks, and these buy their runs."""
        dispatching.dispatch_due(limit=100)
        buying.buy_due(limit=100)

    def work(self) -> None:
        """What is queued is executed, as a worker does."""
        for run in Run.objects.filter(tenant=self.tenant, status="QUEUED"):
            execution.execute_run(run.run_id, message=None)

    def turn(self) -> None:
        self.buy()
        self.work()
        ending.end_due(limit=100)

    # What came of it.

    def only_task(self) -> AutomationTask:
        return AutomationTask.objects.get()

    def attempts(self) -> list[tuple[int, str, int | None]]:
        rows = AutomationAttempt.objects.order_by("task_id", "attempt")
        return list(rows.values_list("attempt", "status", "charged_usd_micros"))

    def results(self) -> list[AutomationResult]:
        return list(AutomationResult.objects.order_by("created_at"))

    def bodies(self) -> list[str]:
        return list(AutomationMessage.objects.order_by("message_id").values_list("body", flat=True))

    def charged_micros(self) -> int:
        return recovery.FUNDS_MICROS - recovery.balance_micros(self.tenant)


def due_again() -> None:
    """What was put off is due."""
    for table in (AutomationEvent, AutomationTask):
        table.objects.exclude(status="COMPLETED").update(next_try_at=gear.AT, version=F("version") + 1)
    AutomationAttempt.objects.update(next_try_at=gear.AT)


def begun_ago(minutes: int) -> None:
    """All attempts, and their runs as far as they were accepted. The guard lets nobody change when one began."""
    then = Now() - timedelta(minutes=minutes)
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        AutomationAttempt.objects.update(began_at=then)
        AutomationAttempt.objects.filter(accepted_at__isnull=False).update(accepted_at=then)
        cursor.execute("SET session_replication_role = DEFAULT")


def things_for(tenant: Tenant, path: str) -> dict[str, str]:
    """Of each thing that an address of automations names, one that is there and can have done to it what is done."""
    if not path.startswith("/api/automations"):
        return {}
    shop = an_automation_shop(tenant)
    if "{source}" in path:
        looked_at = path.endswith("/look")
        settings = {"at": "09:00", "zone": "UTC"} if looked_at else {"form": "github"}
        kind = SourceKind.SCHEDULE if looked_at else SourceKind.HOOK
        return {"source": gear.source(f"source-{secrets.token_hex(4)}", kind, settings=settings).name}
    if "{rule_id}" in path:
        return {"rule_id": str(shop.rule().pk)}
    if "{event}" in path or "{task}" in path:
        event = shop.event()
        task_id = gear.bare_task(event, shop.rule())
        transitions.complete_event(event_pk=event.pk, version=event.version, outcome=EventOutcome.FAILED)
        return {"event": str(event.pk), "task": str(task_id)}
    return {}


def likely_rule(tenant_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """What chance alone hardly finds in the body of a rule: names that there are, and a filter that is one."""
    likely: dict[str, Any] = {
        "name": f"rule-{secrets.token_hex(4)}",
        "source": "hooks",
        "tenant": tenant_id,
        "pack_type": "probe",
        "filter": "",
        "inputs": {"sleep_ms": 1},
        "max_cost_usd": "0.2500",
        "usd_per_day": "5.0000",
        "workspace_id": None,
        "context_file": None,
    }
    return {name: value for name, value in likely.items() if name in body}


def likely_source(body: dict[str, Any]) -> dict[str, Any]:
    """A name that is free, and settings that its kind knows."""
    likely: dict[str, Any] = {
        "name": f"source-{secrets.token_hex(4)}",
        "kind": "HOOK",
        "settings": {"form": "github"},
        "token": None,
        "signing_secret": None,
    }
    return {name: value for name, value in likely.items() if name in body}


def an_automation_shop(tenant: Tenant) -> AutomationShop:
    Tenant.objects.filter(pk=tenant.pk).update(automations_enabled=True)
    if not AutomationSource.objects.filter(kind=SourceKind.SLACK).exists():
        gear.source("people", SourceKind.SLACK)
    return AutomationShop(Tenant.objects.get(pk=tenant.pk))
