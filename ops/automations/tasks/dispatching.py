"""Events become tasks: the first rule that matches makes one, and what bounds the rule makes the event wait.

One event at a time: looked at without a transaction (filter, money), then decided in one, under the rule's row lock:
task, number and the event's step together, or none of them. A rule that a person has changed in between decides
nothing by what it was: the event stays due. Dying before the commit leaves the event PENDING, and the
next turn finds it; after it, the task stands. Of two processes at one event the second finds its version moved.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
from django.db import connection, transaction

from dpp_project import uuid7
from ops.automations import metrics, numbers, transitions
from ops.automations.models import (
    AutomationEvent,
    AutomationResult,
    AutomationRule,
    AutomationTask,
    ThreadMapping,
)
from ops.automations.notify import telling
from ops.automations.rules import filtering, templates
from ops.automations.states import EventOutcome, EventStatus
from ops.automations.tasks import bounds, faults
from ops.automations.transitions import CasOutcome

log = structlog.get_logger("dpp.automations")

HOLD_SECONDS: Final = 30.0
HELD_AT_ONCE: Final = 10
"""Of one rule's events that wait."""
EARLIER_MAX: Final = 5
REASON_LENGTH_MAX: Final = 1_000
_STOPPED: Final = {
    bounds.DISABLED: "automations are not enabled",
    bounds.SUBMITS_STOPPED: "new runs are turned off by an operator",
}

# The oldest of each source first. BETWEEN: by an equality the order by source would be none, and any index of what is
# due could serve: a source without a new event would read the flood of another.
_NEW: Final = """
SELECT event_pk
  FROM automation_source source CROSS JOIN LATERAL (
        SELECT event_pk, row_number() OVER (ORDER BY source_id, next_try_at, event_pk) AS place FROM automation_event
         WHERE status = 'PENDING' AND waits_for = '' AND next_try_at <= statement_timestamp()
           AND source_id BETWEEN source.source_id AND source.source_id
         ORDER BY source_id, next_try_at, event_pk LIMIT %s) one
 ORDER BY place, random() LIMIT %s
"""
# The oldest of each rule first. What failed waits for no rule, and has a share of its own. Both are ordered by rule and
# event, though of one rule: without the rule `IS NULL` finds no index in that order but the primary key, of all events.
_HELD: Final = """
SELECT event_pk, rule_id FROM (
    SELECT one.event_pk, one.rule_id, one.place
      FROM automation_rule rule CROSS JOIN LATERAL (
            SELECT event_pk, rule_id, row_number() OVER (ORDER BY rule_id, event_pk) AS place FROM automation_event
             WHERE status = 'PENDING' AND waits_for <> '' AND next_try_at <= statement_timestamp()
               AND rule_id = rule.rule_id
             ORDER BY rule_id, event_pk LIMIT %s) one
    UNION ALL
    (SELECT event_pk, rule_id, row_number() OVER (ORDER BY rule_id, event_pk) AS place FROM automation_event
      WHERE status = 'PENDING' AND waits_for <> '' AND next_try_at <= statement_timestamp() AND rule_id IS NULL
      ORDER BY rule_id, event_pk LIMIT %s)
) held
 ORDER BY place, random() LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Waits:
    """It waits; `bound` says for what."""

    bound: str
    body: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """It ends without a task."""

    outcome: EventOutcome
    reason: str
    bound: str | None = None
    """Where people hear of it."""


def dispatch_due(*, limit: int) -> int:
    """How many events were looked at: new ones, which take turns by source, and of each rule some that wait for it.

    One that still waits ends its rule's turn. So a rule whose bound is reached costs a turn one look, however many of
    its events wait, and holds up neither what is new nor what waits for other rules.
    """
    found = _new_events(limit)
    for event_pk in found:
        _looked_at(event_pk)
    looked, full = len(found), set[uuid.UUID | None]()
    for event_pk, rule_id in _held_events_due_again(limit):
        if rule_id not in full:
            looked += 1
            if isinstance(_looked_at(event_pk), Waits):
                full.add(rule_id)
    return looked


def _new_events(limit: int) -> list[uuid.UUID]:
    with connection.cursor() as cursor:
        cursor.execute(_NEW, [limit, limit])
        return [event_pk for (event_pk,) in cursor.fetchall()]


def _held_events_due_again(limit: int) -> list[tuple[uuid.UUID, uuid.UUID | None]]:
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [HELD_AT_ONCE, HELD_AT_ONCE, limit])
        return [(event_pk, rule_id) for event_pk, rule_id in cursor.fetchall()]


def _looked_at(event_pk: uuid.UUID) -> AutomationTask | Waits | None:
    try:
        return dispatch_event(event_pk)
    except Exception as error:
        log.exception("event not dispatched", event_pk=str(event_pk))
        _retry_or_fail_event(event_pk, error)
        return None


def dispatch_event(event_pk: uuid.UUID) -> AutomationTask | Waits | None:
    event = AutomationEvent.objects.select_related("source").filter(pk=event_pk, status=EventStatus.PENDING).first()
    if event is None:
        return None
    if event.actor and event.actor in event.source.settings.get("own_actors", ()):
        _dropped(event, None, Dropped(EventOutcome.OWN_ACTOR, f"{event.actor} is one of our own"))
        return None
    chosen = rule_for(event)
    if chosen is None:
        reason = "no rule" if event.resumes_id is None else "the task that was answered is gone"
        _dropped(event, None, Dropped(EventOutcome.NO_RULE, reason))
        return None
    return _dispatched_by(event, chosen, money=bounds.money_fault(chosen))


def _dispatched_by(
    event: AutomationEvent, chosen: AutomationRule, *, money: str | None
) -> AutomationTask | Waits | None:
    """Under the rule's lock."""
    with transaction.atomic():
        rule = bounds.locked_rule(chosen.pk)
        if rule.version != chosen.version:
            return None  # changed, disabled or ended since its filter was asked: the event is judged anew
        rendered = templates.render_template(rule.inputs, roots_of(event, rule))
        match _decided(event, rule, rendered, money=money):
            case Waits(bound, body) as waits:
                transitions.hold_event(
                    event_pk=event.pk,
                    version=event.version,
                    seconds=HOLD_SECONDS,
                    waits_for=bound,
                    rule_id=rule.pk,
                )
                telling.tell_bound(rule, bound=bound, body=body)
                return waits
            case Dropped() as dropped:
                _dropped(event, rule, dropped)
                return None
        return _task_made_for_event(event, rule, rendered.inputs)


def rule_for(event: AutomationEvent) -> AutomationRule | None:
    """Of an answer the rule of the task that it was given to."""
    if event.resumes_id is not None:
        former = AutomationTask.objects.select_related("rule").filter(pk=event.resumes_id).first()
        return None if former is None or former.rule.ended_at is not None else former.rule
    rules = list(AutomationRule.objects.filter(source_id=event.source_id, enabled=True, ended_at__isnull=True))
    for rule, answer in zip(
        rules, filtering.answers_of_filters([rule.filter for rule in rules], event.payload), strict=False
    ):
        if answer is True:
            return rule
        if answer in filtering.STOPPED:
            said = f"its filter was stopped at {event.event_id}, which buys nothing: {answer}"
            telling.tell_bound(rule, bound=bounds.FILTER, body=said)
            return None
    return None


def _decided(
    event: AutomationEvent, rule: AutomationRule, rendered: templates.Rendered, *, money: str | None
) -> Waits | Dropped | None:
    stop = bounds.stop_of_tenant(rule.tenant_id)
    if stop is not None:
        return Waits(stop, f"{_STOPPED[stop]} for {rule.tenant_id}; events wait")
    if not rendered.is_whole:
        why = "its inputs become too large" if rendered.too_large else f"it lacks {', '.join(rendered.missing)}"
        return Dropped(EventOutcome.FAILED, f"the template does not fit the event: {why}", "template")
    if bounds.is_loop(rule, event.thread):
        said = f"{rule.thread_runs_per_hour} runs within an hour in {event.thread}: taken for a loop, its event dropped"
        return Dropped(EventOutcome.LOOP, said, bounds.LOOP)
    if bounds.runs_left(rule) <= 0:
        return Waits(bounds.RUNS_PER_HOUR, f"{rule.runs_per_hour} runs within an hour are reached; events wait")
    return None if money is None else Waits(bounds.MONEY, f"{money}; events wait")


def roots_of(event: AutomationEvent, rule: AutomationRule) -> Mapping[str, Any]:
    """What a template's paths begin with."""
    roots: dict[str, Any] = {"event": event.payload}
    if event.resumes_id is not None:
        former = AutomationResult.objects.select_related("task").filter(pk=event.resumes_id).first()
        roots = {"event": event.payload["event"], "answer": event.payload["answer"]}
        roots |= {} if former is None else {"former": _as_memory(former)}
    if event.thread and templates.template_names_root(rule.inputs, "earlier"):
        mine = AutomationResult.objects.select_related("task").filter(rule_id=rule.pk, thread=event.thread)
        roots["earlier"] = [_as_memory(one) for one in mine.order_by("-created_at")[:EARLIER_MAX]]
    return roots


def _as_memory(result: AutomationResult) -> dict[str, Any]:
    return {
        "task": result.task.number,
        "outcome": result.outcome,
        "summary": result.summary,
        "data": result.data,
        "session_id": result.session_id,
    }


def _dropped(event: AutomationEvent, rule: AutomationRule | None, dropped: Dropped) -> None:
    with transaction.atomic():
        done = transitions.complete_event(
            event_pk=event.pk,
            version=event.version,
            outcome=dropped.outcome,
            reason=dropped.reason[:REASON_LENGTH_MAX],
            rule_id=None if rule is None else rule.pk,
        )
        if done is CasOutcome.WON:
            metrics.EVENTS.labels(dropped.outcome.value).inc()
            if rule is not None and dropped.bound is not None:
                telling.tell_bound(rule, bound=dropped.bound, body=f"{event.event_id}: {dropped.reason}")


def _task_made_for_event(event: AutomationEvent, rule: AutomationRule, inputs: Any) -> AutomationTask | None:
    if (
        transitions.mark_event_dispatched(event_pk=event.pk, version=event.version, rule_id=rule.pk)
        is not CasOutcome.WON
    ):
        return None
    task = AutomationTask.objects.create(
        task_id=uuid7.new_uuid7(),
        number=numbers.next_number(numbers.TASK),
        event=event,
        rule=rule,
        tenant_id=rule.tenant_id,
        pack_type=rule.pack_type,
        inputs=inputs,
        max_cost_usd_micros=rule.max_cost_usd_micros,
        timebox_sec=rule.timebox_sec,
        attempts_max=1 + rule.retries,
        workspace_id=rule.workspace_id,
        context_file=rule.context_file,
        thread=event.thread,
        resumes_id=event.resumes_id,
    )
    if event.resumes_id is not None:
        answer = event.payload["answer"]
        place = {name: answer[name] for name in ("channel", "target", "thread")}
        ThreadMapping.objects.create(task=task, **place)
    metrics.EVENTS.labels("DISPATCHED").inc()
    return task


def _retry_or_fail_event(event_pk: uuid.UUID, error: Exception) -> None:
    """One that another session has locked stays due. Which rule it is meant for is not known."""
    with transaction.atomic():
        pending = AutomationEvent.objects.filter(status=EventStatus.PENDING)
        event = transitions.unless_locked(pending, event_pk)
        if event is None:
            return
        again = faults.TRIES.after_failure(event.faults)
        if again is None:
            reason = faults.given_up(error)
            _dropped(event, None, Dropped(EventOutcome.FAILED, reason))
            telling.tell_failed(event.source.name, body=f"Event {event.event_id} of {event.source.name}: {reason}")
            return
        transitions.hold_event(
            event_pk=event_pk,
            version=event.version,
            seconds=again.delay_seconds,
            waits_for=faults.ERROR,
            faults=again.count,
        )
