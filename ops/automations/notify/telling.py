"""What people hear of a rule: at its own `notify`, in the log and by a metric; the same thing once an hour."""

from datetime import timedelta
from typing import Final

import structlog
from django.db import connection, transaction

from dpp_project import uuid7
from dpp_project.process_env import ENV
from ops.automations import metrics
from ops.automations.models import AutomationMessage, AutomationRule, AutomationTask
from ops.automations.notify.messaging import queue_message
from ops.automations.states import MessageChannel, MessageKind

log = structlog.get_logger("dpp.automations")

AGAIN_AFTER: Final = timedelta(hours=1)

_NOTE: Final = """
INSERT INTO automation_notice AS noted (key, told_at) VALUES (%s, statement_timestamp())
    ON CONFLICT (key) DO UPDATE SET told_at = statement_timestamp()
     WHERE noted.told_at <= statement_timestamp() - make_interval(secs => %s)
RETURNING 1
"""


def is_first(key: str, *, within: timedelta) -> bool:
    """In the caller's transaction: of two at once the second waits for the first, and finds it."""
    with connection.cursor() as cursor:
        cursor.execute(_NOTE, [key, within.total_seconds()])
        return cursor.fetchone() is not None


def tell_bound(
    rule: AutomationRule, *, bound: str, body: str, task: AutomationTask | None = None
) -> AutomationMessage | None:
    """A bound of the rule is reached, and something waits for it, or was dropped."""
    metrics.BOUNDS.labels(bound).inc()
    with transaction.atomic():
        if not is_first(f"{rule.pk}:{bound}", within=AGAIN_AFTER):
            return None
        log.warning("automation bound reached", rule=rule.name, bound=bound)
        return tell_rule_targets(rule, body=f"{rule.name}: {body}", kind=MessageKind.ALARM, task=task)


def tell_rule_targets(
    rule: AutomationRule,
    *,
    body: str,
    kind: MessageKind,
    task: AutomationTask | None = None,
    key: str | None = None,
    awaits_answer: bool = False,
) -> AutomationMessage | None:
    """To the rule's `notify`, or else to the platform's; None where neither is set."""
    place = (rule.notify_channel, rule.notify_target) if rule.notify_channel else platform_place()
    if place is None:
        return None
    return queue_message(
        channel=MessageChannel(place[0]),
        target=place[1],
        body=body,
        task=task,
        rule=rule,
        kind=kind,
        key=key,
        awaits_answer=awaits_answer,
    )


def tell_failed(source: str, *, body: str) -> AutomationMessage | None:
    """An event of the source is given up by a fault of the platform's own: no rule is known that would hear of it."""
    with transaction.atomic():
        if not is_first(f"failed:{source}", within=AGAIN_AFTER):
            return None
        return tell_platform(body=body, kind=MessageKind.ALARM, key=f"failed:{source}:{uuid7.new_uuid7()}")


def platform_place() -> tuple[str, str] | None:
    """DPP_AUTOMATIONS_NOTIFY: `slack:C012345` or `webhook:crm`, a hook source."""
    if not ENV.DPP_AUTOMATIONS_NOTIFY:
        return None
    channel, _, target = ENV.DPP_AUTOMATIONS_NOTIFY.partition(":")
    return channel, target


def tell_platform(*, body: str, kind: MessageKind, key: str) -> AutomationMessage | None:
    """What is no single rule's: the daily report, alarms."""
    place = platform_place()
    if place is None:
        return None
    return queue_message(channel=MessageChannel(place[0]), target=place[1], body=body, kind=kind, key=key)
