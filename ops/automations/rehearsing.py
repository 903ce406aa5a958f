"""What a rule would do with an event, and what that would cost: nothing is stored, held or sent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from budget.money import format_usd
from dpp_project.http.problems import Problem
from dpp_project.refusals import Refusal
from ops.automations.models import AutomationRule, AutomationSource
from ops.automations.rules import filtering, templates
from ops.automations.tasks import bounds, submitting
from runs.packs import registry
from runs.submit import request_body, request_hash


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """One rule's answer. `faults` is why no run would come of it though it matches."""

    rule: str
    matches: bool
    filter_said: str
    inputs: Any = None
    faults: list[str] = field(default_factory=list)
    least_usd: str | None = None
    most_usd: str | None = None
    """By the pack's own price; the ceiling bounds it."""
    ceiling_usd: str = ""
    is_chosen: bool = False
    """It is the first that matches."""


def try_event(*, source: AutomationSource, payload: Mapping[str, Any]) -> list[RuleTrial]:
    """Each enabled rule of the source, in order."""
    rules = AutomationRule.objects.filter(source=source, enabled=True, ended_at__isnull=True)
    found: list[RuleTrial] = []
    for rule in rules:
        is_first = not any(one.matches for one in found)
        found.append(try_rule(rule, payload, is_first=is_first))
    return found


def try_rule(rule: AutomationRule, payload: Mapping[str, Any], *, is_first: bool = True) -> RuleTrial:
    said = filtering.answer_of_filter(rule.filter, payload)
    ceiling = format_usd(rule.max_cost_usd_micros)
    if said is not True:
        words = "false" if said is False else str(said)
        return RuleTrial(rule.name, matches=False, filter_said=words, ceiling_usd=ceiling)
    rendered = templates.render_template(rule.inputs, {"event": payload})
    faults = [f"the template names {path}, which the event lacks" for path in rendered.missing]
    faults += ["the inputs become larger than a run may have"] if rendered.too_large else []
    least = most = None
    if not faults:
        priced = _priced(rule, rendered.inputs)
        if isinstance(priced, Refusal):
            faults.append(f"{priced.field or 'inputs'}: {priced.detail}")
        else:
            least, most = priced
    money = bounds.money_fault(rule)
    return RuleTrial(
        rule.name,
        matches=True,
        filter_said="true",
        inputs=rendered.inputs,
        faults=faults + ([] if money is None else [f"it would wait: {money}"]),
        least_usd=least,
        most_usd=most,
        ceiling_usd=ceiling,
        is_chosen=is_first,
    )


def _priced(rule: AutomationRule, inputs: Any) -> tuple[str, str] | Refusal:
    asked = submitting.asked_body(
        rule.pack_type, inputs, max_cost_micros=rule.max_cost_usd_micros, timebox_sec=rule.timebox_sec
    )
    try:
        body = request_body.read_run_request(asked)
        request_hash.payload_of(body)
    except Problem as problem:
        return submitting.refusal_of(problem)
    estimate = registry.pack_named(rule.pack_type).estimate(body.inputs)
    return format_usd(estimate.least_micros), format_usd(estimate.most_micros)
