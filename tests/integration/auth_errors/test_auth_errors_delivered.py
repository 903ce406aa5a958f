"""From the report to its analysis through outbox, queue and ledger: once by effect, and nothing after the end."""

import pytest
from django.test import Client

from dpp_project.outbox import handlers
from dpp_project.outbox.consumer import EventConsumer
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage, ProcessedMessage
from ops.auth_errors import deciding
from ops.auth_errors.deciding import Decided
from ops.auth_errors.models import AuthError, Cluster
from ops.auth_errors.states import DecisionType
from tests.gear.builders import auth_errors as gear
from tests.gear.builders import events as event_gear
from tests.gear.builders.events import EventWorld, effects_table, world
from tests.gear.builders.tenants import a_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]
__all__ = ["effects_table", "world"]


def consume(world: EventWorld) -> int:
    """By the handlers that every app declares, as the process `events` has them."""
    consumer = EventConsumer(
        url=world.queues.runs_url, sender=world.sender, handlers=handlers.event_handlers(), wait_seconds=0
    )
    return consumer.consume_once()


def until_quiet(world: EventWorld) -> None:
    while world.publish() + consume(world):
        pass


def an_error(client: Client, world: EventWorld) -> AuthError:
    assert gear.sent(client, a_key(), gear.a_report()).status_code == 201
    until_quiet(world)
    return AuthError.objects.get()


@pytest.mark.contract("AUT-09", "AUT-04")
def test_aut_09_a_report_is_analysed_through_the_queue(client: Client, world: EventWorld) -> None:
    error = an_error(client, world)
    assert (error.status, Cluster.objects.get().occurrences) == ("ANALYSIS_COMPLETED", 1)
    assert sorted(OutboxMessage.objects.values_list("event_type", "status")) == [
        ("auth.error.analysis.requested.v1", "PUBLISHED"),
        ("auth.error.recorded.v1", "PUBLISHED"),
    ]
    assert not OutboxMessage.objects.filter(handled_at__isnull=True).exists()
    assert list(ProcessedMessage.objects.values_list("status", flat=True)) == ["DONE", "DONE"]
    assert not EventDeadLetter.objects.exists()


@pytest.mark.contract("AUT-12", "AUT-04")
def test_aut_12_events_handled_anew_after_the_end_change_nothing(client: Client, world: EventWorld) -> None:
    """D3: the ledger forgets, all comes again, and what was decided stands."""
    error = an_error(client, world)
    decided = deciding.decide_auth_error(auth_error_id=error.pk, decision=DecisionType.RESOLVE, by="operator:ada")
    assert isinstance(decided, Decided)
    before = AuthError.objects.values().get()
    clusters = list(Cluster.objects.values())
    ProcessedMessage.objects.all().delete()
    OutboxMessage.objects.all().update(status="PENDING", handled_at=None)
    until_quiet(world)
    assert AuthError.objects.values().get() == before
    assert list(Cluster.objects.values()) == clusters
    assert list(ProcessedMessage.objects.values_list("status", flat=True)) == ["DONE", "DONE"]


@pytest.mark.contract("AUT-04", "AUT-08")
def test_aut_04_a_retry_goes_through_the_queue_when_it_is_due(client: Client, world: EventWorld) -> None:
    error = an_error(client, world)
    deciding.decide_auth_error(auth_error_id=error.pk, decision=DecisionType.RETRY, by="operator:ada")
    until_quiet(world)
    assert gear.row(error.pk).status == "RETRY"
    event = OutboxMessage.objects.get(event_type="auth.error.analysis.requested.v1")
    event_gear.aged(event, seconds=11)
    with gear.later(seconds=11):
        until_quiet(world)
    again = gear.row(error.pk)
    assert (again.status, again.retry_count, Cluster.objects.get().occurrences) == ("ANALYSIS_COMPLETED", 1, 1)
