"""Events come in once: event, seen row and cursor together, however often and by however many they are found."""

import threading
from datetime import datetime
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from dpp_project.refusals import Refusal
from ops.automations import emitting, transitions
from ops.automations.emitting import Emission, Emitted
from ops.automations.models import AutomationEvent, AutomationSource, SeenEvent
from ops.automations.states import EventOutcome
from tests.gear.builders import automations as gear

pytestmark = pytest.mark.django_db(transaction=True)


def everything() -> list[Any]:
    tables = (AutomationEvent, SeenEvent, AutomationSource)
    return [list(table.objects.order_by("pk").values()) for table in tables]


def ended(event: AutomationEvent, outcome: EventOutcome) -> None:
    done = transitions.complete_event(event_pk=event.pk, version=event.version, outcome=outcome)
    assert done is transitions.CasOutcome.WON


@pytest.mark.contract("LIF-05")
def test_lif_05_event_seen_and_cursor_come_together() -> None:
    source = gear.source()
    event = gear.event(source, "issue-7:2", cursor="2026-03-01T03:00:00Z", thread="issue-7", actor="bob")
    assert (event.status, event.event_id, event.thread, event.actor) == ("PENDING", "issue-7:2", "issue-7", "bob")
    assert list(SeenEvent.objects.values_list("event_id", "outcome", "emissions")) == [("issue-7:2", None, 1)]
    source.refresh_from_db()
    assert source.cursor == "2026-03-01T03:00:00Z"


@pytest.mark.contract("LIF-05")
def test_lif_05_what_fails_leaves_none_of_the_three(monkeypatch: pytest.MonkeyPatch) -> None:
    source = gear.source()
    before = everything()
    monkeypatch.setattr(AutomationSource.objects, "filter", _broken)
    with pytest.raises(DatabaseError):
        gear.emit(source, cursor="later")
    monkeypatch.undo()
    assert everything() == before


def _broken(**_: object) -> None:
    raise DatabaseError("gone")


@pytest.mark.contract("LIF-05")
def test_lif_05_a_repetition_moves_the_cursor_alone() -> None:
    source = gear.source()
    gear.emit(source, cursor="1")
    again = gear.emit(source, cursor="2", payload={"another": True})
    assert again == Emitted(Emission.DUPLICATE)
    assert AutomationEvent.objects.get().payload == {"action": "opened"}
    source.refresh_from_db()
    assert source.cursor == "2"


@pytest.mark.contract("LIF-05")
def test_lif_05_the_same_id_of_another_source_is_another_event() -> None:
    gear.emit(gear.source("one"))
    assert gear.emit(gear.source("two")).emission is Emission.NEW


@pytest.mark.contract("LIF-05")
def test_lif_05_a_replay_is_refused_also_after_the_event_was_cleared() -> None:
    source = gear.source()
    event = gear.event(source)
    ended(event, EventOutcome.SUCCEEDED)
    event.delete()
    assert emitting.is_duplicate(source=source, event_id="e-1")
    assert gear.emit(source).emission is Emission.DUPLICATE
    assert not AutomationEvent.objects.exists()


@pytest.mark.contract("LIF-05")
def test_lif_05_duplicates_are_looked_for_in_the_active_queue_and_among_the_seen_alone() -> None:
    source = gear.source()
    event = gear.event(source)
    SeenEvent.objects.all().delete()
    assert emitting.is_duplicate(source=source, event_id="e-1")
    ended(event, EventOutcome.SUCCEEDED)
    assert not emitting.is_duplicate(source=source, event_id="e-1")


@pytest.mark.contract("LIF-05")
def test_lif_05_two_pollers_make_one_event() -> None:
    source = gear.source()
    found: list[Emission] = []
    ready = threading.Barrier(2)

    def poll() -> None:
        try:
            ready.wait(10)
            found.append(gear.emit(source).emission)
        finally:
            connection.close()

    pollers = [threading.Thread(target=poll) for _ in range(2)]
    for poller in pollers:
        poller.start()
    for poller in pollers:
        poller.join(20)
    assert sorted(one.value for one in found) == ["duplicate", "new"]
    assert AutomationEvent.objects.count() == SeenEvent.objects.count() == 1


@pytest.mark.contract("LIF-05")
def test_lif_05_a_person_emits_again_what_failed_once() -> None:
    source = gear.source()
    event = gear.event(source, thread="issue-7")
    ended(event, EventOutcome.FAILED)
    again = emitting.emit_again(event_pk=event.pk, actor="ada", reason="the token was wrong")
    assert isinstance(again, AutomationEvent)
    assert (again.status, again.emission, again.payload, again.thread) == ("PENDING", 2, event.payload, "issue-7")
    assert SeenEvent.objects.values_list("outcome", "emissions").get() == (None, 2)
    before = everything()
    refused = emitting.emit_again(event_pk=event.pk, actor="bob")
    assert isinstance(refused, Refusal)
    assert everything() == before


@pytest.mark.contract("LIF-05")
@pytest.mark.parametrize("outcome", [EventOutcome.SUCCEEDED, EventOutcome.NO_RULE, EventOutcome.OWN_ACTOR])
def test_lif_05_what_did_not_fail_is_not_emitted_again(outcome: EventOutcome) -> None:
    event = gear.event(gear.source())
    ended(event, outcome)
    before = everything()
    assert isinstance(emitting.emit_again(event_pk=event.pk, actor="ada"), Refusal)
    assert everything() == before


@pytest.mark.contract("LIF-05")
def test_lif_05_a_failed_event_that_was_cleared_is_refused_until_a_person_forgets_it() -> None:
    """The document's own loss: seen for 30 days beside completed for 7."""
    source = gear.source()
    event = gear.event(source)
    ended(event, EventOutcome.FAILED)
    assert isinstance(emitting.forget_failed(source=source, event_id="e-1", actor="ada"), Refusal)
    event.delete()
    assert gear.emit(source).emission is Emission.DUPLICATE
    assert SeenEvent.objects.get().outcome == "FAILED"
    assert emitting.forget_failed(source=source, event_id="e-1", actor="ada") is None
    assert gear.emit(source).emission is Emission.NEW
    assert isinstance(emitting.forget_failed(source=source, event_id="e-1", actor="ada"), Refusal)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("event_id", {"event_id": ""}),
        ("event_id", {"event_id": "x" * 513}),
        ("event_id", {"event_id": "a\nb"}),
        ("thread", {"thread": "x" * 501}),
        ("actor", {"actor": "\x00"}),
        ("occurred_at", {"occurred_at": datetime(2026, 3, 1)}),  # noqa: DTZ001  that is what is refused
        ("payload", {"payload": {"a": float("nan")}}),
        ("payload", {"payload": {"a": "\x00"}}),
        ("payload", {"payload": {"a": "x" * 1_048_577}}),
    ],
)
def test_what_cannot_be_stored_names_its_field_and_changes_nothing(field: str, values: dict[str, Any]) -> None:
    source = gear.source()
    before = everything()
    asked: dict[str, Any] = {"event_id": "e-1", "payload": {}, "occurred_at": gear.AT, "cursor": "9"} | values
    refused = emitting.emit_event(source=source, **asked)
    assert isinstance(refused, Refusal)
    assert refused.field == field
    assert everything() == before


@pytest.mark.contract("LIF-02")
@pytest.mark.parametrize(
    "values", [{"status": "DISPATCHED"}, {"payload": {}}, {"version": 7, "waits_for": "money"}, {"thread": "x"}]
)
def test_lif_02_the_database_refuses_what_is_no_edge(values: dict[str, Any]) -> None:
    event = gear.event(gear.source())
    ended(event, EventOutcome.NO_RULE)
    before = everything()
    with pytest.raises(DatabaseError), transaction.atomic():
        AutomationEvent.objects.filter(pk=event.pk).update(**({"version": 2} | values))
    assert everything() == before
