"""Rules as people make them: made, changed, enabled, ended. Each act is in the audit trail.

A rule has a key of its own, whose secret is dropped unseen, and whose day cap is the rule's `usd_per_day`. It is made
disabled; `enable_rule` puts the cap in force first and enables it then, so that no run is ever bought without the cap.
Dying in between leaves a disabled rule, and asking again goes on.

Cap and row are two writes. A cap is lowered before the row and raised after it, so that a death between the two leaves
no cap above the row. Of two acts at once each may come between the other's writes: so an act ends by having the cap
follow the row, and looks again, until it has seen the row that stands.
"""

import re
import uuid
from collections.abc import Mapping
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Now

from budget.caps import setting
from dpp_project import uuid7
from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from ops.automations.models import NAME_PATTERN, AutomationRule, AutomationSource
from ops.automations.notify import targets
from ops.automations.rules import filtering, templates
from ops.automations.rules.rule_values import RuleChange, RuleValues
from ops.automations.rules.templates import TemplateInvalid
from ops.workspaces import selectors
from runs.packs import registry
from tenants import services
from tenants.models import Tenant
from tenants.scopes import OPERATOR_TENANT_ID, Scope

SHOWN: Final = (
    *("position", "filter", "pack_type", "inputs", "max_cost_usd_micros", "timebox_sec", "retries", "runs_per_hour"),
    *("usd_per_day_micros", "thread_runs_per_hour", "workspace_id", "context_file", "notify_channel"),
    *("notify_target", "awaits_answers"),
)
"""What a change may change."""


def fault_of_automation_rule(asked: RuleValues) -> Refusal | None:
    """What is wrong with a rule that is asked for, if anything; a name that is taken shows when it is made."""
    if not AutomationSource.objects.filter(name=asked.source).exists():
        return no_source(asked.source)
    if not re.match(NAME_PATTERN, asked.name):
        return invalid("name", "must be 1 to 64 of a-z, 0-9, - and _, the first a letter or digit")
    values = asked.columns()
    return (
        _tenant_fault(asked.tenant) or _automation_rule_fault(values, tenant_id=asked.tenant) or _notify_fault(values)
    )


def create_rule(*, asked: RuleValues, actor: str) -> AutomationRule | Refusal:
    """Enabled where `asked.enabled`; its name is the idempotency key: a second one of a name is refused."""
    fault = fault_of_automation_rule(asked)
    if fault is not None:
        return fault
    source, values = AutomationSource.objects.get(name=asked.source), asked.columns()
    try:
        with transaction.atomic():
            key = services.issue_key(
                tenant_id=asked.tenant, scopes=_scopes(values), label=f"automation {asked.name}", actor=actor
            )
            if isinstance(key, Refusal):
                return key
            rule = AutomationRule.objects.create(
                rule_id=uuid7.new_uuid7(),
                name=asked.name,
                source=source,
                tenant_id=asked.tenant,
                key_id=key.key.pk,
                lineage_id=key.key.lineage_id,
                created_by=actor,
                enabled=False,
                **values,
            )
            _record_automation_rule_act("automation rule made", rule, actor, after=_rule_values_for_trail(values))
    except IntegrityError as error:
        if "automation_rule_name_unique" in str(error):
            return Refusal(ReasonCode.CONFLICT, f"there is a rule {asked.name} already; choose another name", "name")
        raise
    return enable_rule(rule_id=rule.pk, enabled=True, actor=actor) if asked.enabled else _again(rule.pk)


def change_rule(*, rule_id: uuid.UUID, asked: RuleChange, actor: str) -> AutomationRule | Refusal:
    """What is not named stays. Tasks that stand keep what they were made with."""
    rule = AutomationRule.objects.filter(pk=rule_id, ended_at__isnull=True).first()
    if rule is None:
        return _no_rule()
    wanted = asked.columns()
    whole = {name: getattr(rule, name) for name in SHOWN} | wanted
    fault = _automation_rule_fault(whole, tenant_id=rule.tenant_id) or _notify_fault(wanted)
    if fault is None and Scope.WORKSPACES_WRITE in _scopes(whole) and rule.pack_type != whole["pack_type"]:
        fault = invalid("pack_type", "the rule's key lacks workspaces:write; make a new rule")
    if fault is not None:
        return fault
    refused = _change_rule_and_cap(rule, wanted, actor)
    if refused is not None:
        return refused
    if asked.enabled is not None:
        return enable_rule(rule_id=rule_id, enabled=asked.enabled, actor=actor)
    return _again(rule_id)


def _change_rule_and_cap(rule: AutomationRule, wanted: Mapping[str, Any], actor: str) -> Refusal | None:
    before_micros, cap_micros = rule.usd_per_day_micros, wanted.get("usd_per_day_micros")
    refused = _capped(rule, min(cap_micros, before_micros), actor) if cap_micros is not None else None
    if refused is not None:
        return refused
    changed = _row_changed(rule, wanted, actor)
    refused = _cap_follows(rule.pk, actor) if cap_micros is not None else None
    if refused is not None or changed:
        return refused
    return Refusal(ReasonCode.CONFLICT, "it was changed meanwhile; look again", "rule")


def _row_changed(rule: AutomationRule, wanted: Mapping[str, Any], actor: str) -> bool:
    """False: another act was faster."""
    before, after = trail.differing_values({name: getattr(rule, name) for name in wanted}, wanted)
    if not after:
        return True
    with transaction.atomic():
        rows = AutomationRule.objects.filter(pk=rule.pk, version=rule.version)
        if not rows.update(**after, version=F("version") + 1, updated_at=Now()):
            return False
        _record_automation_rule_act(
            "automation rule changed",
            rule,
            actor,
            before=_rule_values_for_trail(before),
            after=_rule_values_for_trail(after),
        )
    return True


def enable_rule(*, rule_id: uuid.UUID, enabled: bool, actor: str) -> AutomationRule | Refusal:
    """Disabled, it matches nothing; its tasks go on. Safe to repeat."""
    rule = AutomationRule.objects.filter(pk=rule_id, ended_at__isnull=True).first()
    if rule is None:
        return _no_rule()
    if enabled and (refused := _capped(rule, rule.usd_per_day_micros, actor)) is not None:
        return refused
    with transaction.atomic():
        rows = AutomationRule.objects.filter(pk=rule_id, ended_at__isnull=True).exclude(enabled=enabled)
        if rows.update(enabled=enabled, version=F("version") + 1, updated_at=Now()):
            _record_automation_rule_act(
                "automation rule enabled" if enabled else "automation rule disabled", rule, actor, after={}
            )
    if enabled and (refused := _cap_follows(rule_id, actor)) is not None:
        return refused
    return _again(rule_id)


def end_automation_rule(*, rule_id: uuid.UUID, actor: str) -> AutomationRule | Refusal:
    """For good: its key is revoked, its name is free, and what waits of it ends unbought. Safe to repeat."""
    with transaction.atomic():
        rule = AutomationRule.objects.select_for_update(no_key=True).filter(pk=rule_id).first()
        if rule is None:
            return _no_rule()
        if rule.ended_at is None:
            AutomationRule.objects.filter(pk=rule_id).update(
                enabled=False, ended_at=Now(), version=F("version") + 1, updated_at=Now()
            )
            services.revoke_key(key_id=rule.key_id, actor=actor)
            _record_automation_rule_act("automation rule ended", rule, actor, after={})
    return _again(rule_id)


def _capped(rule: AutomationRule, usd_per_day_micros: int, actor: str) -> Refusal | None:
    answer = setting.set_caps(
        tenant_id=rule.tenant_id,
        lineage_id=rule.lineage_id,
        changes={"day": usd_per_day_micros},
        actor=actor,
        reason=f"automation rule {rule.name}",
    )
    return answer if isinstance(answer, Refusal) else None


def _cap_follows(rule_id: uuid.UUID, actor: str) -> Refusal | None:
    """Until the row is seen unchanged after its cap was set; the same again changes nothing and costs no revision."""
    while True:
        rule = AutomationRule.objects.get(pk=rule_id)
        refused = _capped(rule, rule.usd_per_day_micros, actor)
        now = AutomationRule.objects.values_list("usd_per_day_micros", flat=True).get(pk=rule_id)
        if refused is not None or now == rule.usd_per_day_micros:
            return refused


def _tenant_fault(tenant_id: str) -> Refusal | None:
    tenant = Tenant.objects.filter(pk=tenant_id).exclude(pk=OPERATOR_TENANT_ID).first()
    if tenant is None:
        return invalid("tenant", f"there is no tenant {tenant_id}; see list_tenants")
    if not tenant.automations_enabled:
        return invalid("tenant", f"automations are not enabled for {tenant_id}; enable them on its page first")
    return None


def _automation_rule_fault(values: Mapping[str, Any], *, tenant_id: str) -> Refusal | None:
    if values["pack_type"] not in registry.packs_for_sale():
        return invalid("pack_type", f"must be one of {', '.join(registry.packs_for_sale())}")
    try:
        templates.check_template(values["inputs"])
    except TemplateInvalid as error:
        return invalid(error.place, str(error))
    fault = filtering.fault_of_filter(values["filter"])
    if fault is None and values["workspace_id"] is not None:
        if selectors.workspace_of(tenant_id, values["workspace_id"]) is None:
            return invalid("workspace_id", "the tenant has no such workspace")
    elif fault is None and values["context_file"] is not None:
        return invalid("context_file", "is written into a workspace; name one in workspace_id")
    return fault


def _notify_fault(values: Mapping[str, Any]) -> Refusal | None:
    """Of a place that is named anew: a rule may outlive its source, and the rest of it is changed all the same."""
    if not values.get("notify_channel"):
        return None
    found = targets.find_target(values["notify_channel"], values["notify_target"])
    return found if isinstance(found, Refusal) else None


def _scopes(values: Mapping[str, Any]) -> list[str]:
    of_workspaces = [Scope.WORKSPACES_WRITE] if registry.pack_named(values["pack_type"]).command is not None else []
    return [Scope.RUNS_WRITE, *of_workspaces]


def _rule_values_for_trail(values: Mapping[str, Any]) -> dict[str, Any]:
    """For the trail: the template and the context file by their size alone."""
    long = {name: f"{len(str(values[name]))} characters" for name in ("inputs", "context_file") if values.get(name)}
    return {name: str(one) if isinstance(one, uuid.UUID) else one for name, one in values.items()} | long


def _record_automation_rule_act(
    act: str, rule: AutomationRule, actor: str, *, before: Mapping[str, Any] | None = None, after: Mapping[str, Any]
) -> None:
    trail.record_in_trail(
        act,
        actor=actor,
        subject=f"automation rule {rule.name}",
        tenant_id=rule.tenant_id,
        before=None if before is None else dict(before),
        after=dict(after),
    )


def _again(rule_id: uuid.UUID) -> AutomationRule:
    return AutomationRule.objects.select_related("source").get(pk=rule_id)


def no_source(name: str) -> Refusal:
    return invalid("source", f"there is no source {name!r}; `manage.py automations source list`")


def _no_rule() -> Refusal:
    return Refusal(ReasonCode.NOT_FOUND, "there is no such rule", "rule")
