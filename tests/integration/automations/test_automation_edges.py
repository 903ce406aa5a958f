"""Each edge is a compare-and-set: who comes late, or twice, or with another's lease, changes nothing."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pytest
from django.db.models import Model

from dpp_project import uuid7
from ops.automations import transitions
from ops.automations.messages import message_steps
from ops.automations.messages.message_steps import MessageClaim
from ops.automations.models import (
    AutomationAttempt,
    AutomationEvent,
    AutomationMessage,
    AutomationRule,
    AutomationTask,
    SeenEvent,
)
from ops.automations.notify import messaging
from ops.automations.states import EventOutcome, MessageChannel, TaskOutcome
from ops.automations.transitions import CasOutcome
from tests.gear.builders import automations as gear

pytestmark = [pytest.mark.django_db, pytest.mark.contract("LIF-02")]

WON, LOST = CasOutcome.WON, CasOutcome.LOST
TABLES: Final[tuple[type[Model], ...]] = (AutomationEvent, AutomationTask, AutomationAttempt, SeenEvent)


@dataclass(frozen=True)
class Chain:
    event: AutomationEvent
    rule: AutomationRule
    task: AutomationTask

    @property
    def attempt(self) -> AutomationAttempt:
        return AutomationAttempt.objects.get()

    def version(self, of: str) -> int:
        row: Any = getattr(self, of)
        row.refresh_from_db()
        return int(row.version)


@pytest.fixture
def chain() -> Chain:
    source = gear.source()
    event, rule = gear.event(source), gear.bare_rule(source)
    task = AutomationTask.objects.get(pk=gear.bare_task(gear.event(source, "its own"), rule))
    return Chain(event, rule, task)


def everything() -> dict[str, list[Any]]:
    return {table.__name__: list(table._default_manager.order_by("pk").values()) for table in TABLES}


def changes_nothing(act: Callable[[], CasOutcome]) -> None:
    before = everything()
    assert act() is LOST
    assert everything() == before


def begin(chain: Chain, version: int) -> CasOutcome:
    return transitions.start_task(task_id=chain.task.pk, version=version, reserved_micros=10)


def accept(chain: Chain, run_id: uuid.UUID) -> CasOutcome:
    return transitions.accept_attempt(attempt_pk=chain.attempt.pk, run_id=run_id)


VERSIONED: Final[dict[str, tuple[str, Callable[[Chain, int], CasOutcome]]]] = {
    "dispatch": (
        "event",
        lambda at, version: transitions.mark_event_dispatched(
            event_pk=at.event.pk, version=version, rule_id=at.rule.pk
        ),
    ),
    "hold_event": (
        "event",
        lambda at, version: transitions.hold_event(event_pk=at.event.pk, version=version, seconds=9, waits_for="money"),
    ),
    "complete_event": (
        "event",
        lambda at, version: transitions.complete_event(
            event_pk=at.event.pk, version=version, outcome=EventOutcome.FAILED
        ),
    ),
    "start": ("task", begin),
    "hold_task": (
        "task",
        lambda at, version: transitions.hold_task(task_id=at.task.pk, version=version, seconds=9, waits_for="money"),
    ),
    "complete_task": (
        "task",
        lambda at, version: transitions.complete_task(task_id=at.task.pk, version=version, outcome=TaskOutcome.FAILED),
    ),
}


@pytest.mark.parametrize("name", VERSIONED)
def test_lif_02_a_row_that_moved_is_not_moved_by_what_was_read_before(chain: Chain, name: str) -> None:
    of, act = VERSIONED[name]
    version = chain.version(of)
    for other in (version - 1, version + 1):
        changes_nothing(partial(act, chain, other))
    assert act(chain, version) is WON
    assert chain.version(of) == version + 1


def test_lif_02_a_next_attempt_begins_once_and_behind_the_one_before(chain: Chain) -> None:
    begin(chain, chain.version("task"))
    accept(chain, uuid7.new_uuid7())
    transitions.end_attempt(attempt_pk=chain.attempt.pk, succeeded=False, charged_micros=3, reason="")
    version = chain.version("task")

    def again(*, version: int, attempt: int) -> CasOutcome:
        return transitions.try_again(task_id=chain.task.pk, version=version, attempt=attempt, reserved_micros=7)

    changes_nothing(lambda: again(version=version - 1, attempt=2))
    changes_nothing(lambda: again(version=version, attempt=3))
    assert again(version=version, attempt=2) is WON
    changes_nothing(lambda: again(version=version, attempt=2))


def test_lif_02_what_has_ended_does_not_end_again(chain: Chain) -> None:
    for name in ("complete_event", "complete_task"):
        of, act = VERSIONED[name]
        assert act(chain, chain.version(of)) is WON
    for of, act in VERSIONED.values():
        changes_nothing(partial(act, chain, chain.version(of)))


def test_lif_02_an_attempt_has_one_submitter_one_run_and_one_charge(chain: Chain) -> None:
    begin(chain, chain.version("task"))
    pk = chain.attempt.pk
    assert transitions.lease_attempt(attempt_pk=pk) is WON
    changes_nothing(lambda: transitions.lease_attempt(attempt_pk=pk))
    changes_nothing(lambda: transitions.put_off_end(attempt_pk=pk, seconds=1, reason="error"))
    changes_nothing(lambda: transitions.end_attempt(attempt_pk=pk, succeeded=True, charged_micros=3, reason=""))
    changes_nothing(lambda: transitions.refuse_attempt(attempt_pk=pk, lease_until=None, reason="another's lease"))
    assert accept(chain, uuid7.new_uuid7()) is WON
    changes_nothing(lambda: accept(chain, uuid7.new_uuid7()))
    changes_nothing(lambda: transitions.lease_attempt(attempt_pk=pk))
    changes_nothing(lambda: transitions.put_off_attempt(attempt_pk=pk, seconds=1, reason="late"))
    changes_nothing(lambda: transitions.refuse_attempt(attempt_pk=pk, lease_until=None, reason="late"))
    assert transitions.end_attempt(attempt_pk=pk, succeeded=False, charged_micros=3, reason="") is WON
    changes_nothing(lambda: transitions.end_attempt(attempt_pk=pk, succeeded=False, charged_micros=3, reason=""))
    changes_nothing(lambda: transitions.put_off_end(attempt_pk=pk, seconds=1, reason="error"))
    chain.task.refresh_from_db()
    assert chain.task.charged_usd_micros == 3


STEPS: Final[dict[str, Callable[[MessageClaim], CasOutcome]]] = {
    "sent": lambda held: message_steps.mark_message_sent(held, external_id="1.1", thread="1.1"),
    "give_back": message_steps.give_back,
    "put_off": lambda held: message_steps.put_off_message(held, seconds=1, error="429"),
    "doubt": lambda held: message_steps.doubt_message(held, seconds=1, error="500"),
    "fail": lambda held: message_steps.fail_message(held, error="gone"),
}


@pytest.mark.parametrize("name", STEPS)
def test_lif_02_a_message_is_marked_by_the_holder_of_its_lease_alone(chain: Chain, name: str) -> None:
    messaging.queue_message(task=chain.task, channel=MessageChannel.SLACK, target="C01", body="done")
    (held,) = message_steps.claim_automation_messages(channels=["slack"], limit=5)
    assert message_steps.claim_automation_messages(channels=["slack"], limit=5) == [], "it is leased"
    before = AutomationMessage.objects.values().get()
    assert STEPS[name](replace(held, owner=uuid.uuid4())) is LOST
    assert AutomationMessage.objects.values().get() == before
    assert STEPS[name](held) is WON
    after = AutomationMessage.objects.values().get()
    assert STEPS[name](held) is LOST
    assert AutomationMessage.objects.values().get() == after
