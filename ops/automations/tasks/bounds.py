"""What a rule may buy: runs an hour, dollars a day, runs of one thread an hour.

Runs an hour are counted under the rule's row lock, from its attempts by the database's clock: an attempt is a run, also
a repeated one. It counts for an hour from its beginning, as long as it waits to be accepted, and for an hour from then:
those that waited, for whatever and however long, are all bought at once when it is over. Dollars a day are the cap of
the rule's own key; a look at what is left lets an event wait before a task is made of it, and the hold itself refuses
what a look let pass.
"""

import uuid
from datetime import timedelta
from typing import Final

from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from redis import RedisError

from budget.caps import glance
from budget.caps.figures import LIMIT_WORDS
from budget.money import format_usd
from budget.redis import connection, view
from ops.automations.models import AutomationAttempt, AutomationEvent, AutomationRule, AutomationTask
from ops.automations.states import AttemptStatus, EventStatus, TaskStatus
from runs.reads import for_tenant
from tenants.models import Tenant
from tenants.scopes import OPERATOR_TENANT_ID

HOUR: Final = timedelta(hours=1)
RUNS_PER_HOUR: Final = "runs_per_hour"
MONEY: Final = "money"
LOOP: Final = "loop"
DISABLED: Final = "automations_enabled"
SUBMITS_STOPPED: Final = "execution_disabled"
UNAVAILABLE: Final = "unavailable"
FILTER: Final = "filter"


def locked_rule(rule_id: uuid.UUID) -> AutomationRule:
    """Of two that count at once, one after the other."""
    return AutomationRule.objects.select_for_update(no_key=True).get(pk=rule_id)


def runs_left(rule: AutomationRule) -> int:
    """Under the rule's lock. What is about to begin counts as begun."""
    return attempts_left(rule) - AutomationTask.objects.filter(rule=rule, status=TaskStatus.PENDING).count()


def attempts_left(rule: AutomationRule) -> int:
    """Under the rule's lock, for a task that stands."""
    return rule.runs_per_hour - attempts_that_count(rule.pk).count()


def attempts_that_count(rule_id: uuid.UUID) -> QuerySet[AutomationAttempt]:
    since = Now() - HOUR
    counts = Q(status=AttemptStatus.OPEN) | Q(accepted_at__gt=since) | Q(began_at__gt=since)
    return AutomationAttempt.objects.filter(counts, rule_id=rule_id)


def stop_of_tenant(tenant_id: str) -> str | None:
    """What a person has stopped: nothing that becomes a task meanwhile could be bought."""
    if not Tenant.objects.filter(pk=tenant_id, automations_enabled=True).exists():
        return DISABLED
    stopped = Tenant.objects.filter(pk__in=(tenant_id, OPERATOR_TENANT_ID), submits_enabled=False)
    return SUBMITS_STOPPED if stopped.exists() else None


def is_loop(rule: AutomationRule, thread: str) -> bool:
    """Its own doing comes back to it, most likely."""
    if not thread:
        return False
    made = AutomationEvent.objects.filter(rule=rule, thread=thread, dispatched_at__gt=Now() - HOUR)
    return made.exclude(status=EventStatus.PENDING).count() >= rule.thread_runs_per_hour


def money_fault(rule: AutomationRule) -> str | None:
    """Why a run of the rule would not be held now, as far as a look tells; the hold decides."""
    lineage = str(rule.lineage_id)
    pipeline = connection.budget_client().pipeline(transaction=False)
    view.queue_balance(pipeline, rule.tenant_id)
    view.queue_caps(pipeline, rule.tenant_id)
    view.queue_caps(pipeline, rule.tenant_id, lineage)
    try:
        money, of_tenant, of_rule = pipeline.execute()
    except RedisError:
        return None
    balance = view.seen_balance(money).balance_micros
    price = rule.max_cost_usd_micros
    if balance is not None and balance < price:
        return f"a run may cost {format_usd(price)} USD, and {format_usd(balance)} USD are left of the balance"
    caps = {None: view.seen_caps(of_tenant), lineage: view.seen_caps(of_rule)}
    today, _, _ = for_tenant.today_and_run_of_key(rule.tenant_id, "")
    full = glance.first_full(caps, price_micros=price, day=today)
    if full is None:
        return None
    whose = "tenant's" if full.scope == "tenant" else "rule's"
    return f"the {whose} cap of {format_usd(full.limit_micros)} USD {LIMIT_WORDS[full.period]} has no room for a run"
