"""Who handles which event is said once, and what no queue is there for waits in order."""

import threading
from types import SimpleNamespace

import pytest

from dpp_project import discovery
from dpp_project.outbox import events, handlers, queue
from dpp_project.outbox.events import Event, Handler
from dpp_project.outbox.models import EventDeadLetter
from tests.gear.source import REPOSITORY

pytestmark = pytest.mark.contract("AUT-05", "AUT-06")


def nothing(_event: Event) -> None:
    """Handled."""


def declared(monkeypatch: pytest.MonkeyPatch, *modules: object) -> None:
    monkeypatch.setattr(discovery, "discovered_modules", lambda name: modules if name == "events" else ())


def test_aut_06_handlers_of_all_apps_are_found_by_their_type(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Handler("a.b.v1", nothing), Handler("a.c.v1", nothing)
    declared(monkeypatch, SimpleNamespace(HANDLERS=(second,)), SimpleNamespace(), SimpleNamespace(HANDLERS=(first,)))
    assert handlers.event_handlers.__wrapped__() == {"a.b.v1": first, "a.c.v1": second}


def test_aut_06_two_handlers_of_one_type_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    declared(monkeypatch, SimpleNamespace(HANDLERS=(Handler("a.b.v1", nothing), Handler("a.b.v1", nothing))))
    with pytest.raises(ValueError, match=r"two handlers are declared for a\.b\.v1"):
        handlers.event_handlers.__wrapped__()


def test_aut_05_one_publisher_and_four_consumers_run_in_a_process() -> None:
    assert [loop.name for loop in events.LOOPS] == [
        "events-publisher",
        "events-consumer-1",
        "events-consumer-2",
        "events-consumer-3",
        "events-consumer-4",
    ]


@pytest.mark.parametrize("loop", [events.LOOPS[0], events.LOOPS[1]], ids=lambda loop: loop.name)
def test_aut_05_without_a_queue_a_loop_waits_for_its_stop(loop: events.Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "URL", None)
    stop = threading.Event()
    stop.set()
    loop.run(stop)
    assert stop.is_set()


def test_each_test_that_the_page_of_events_names_is_there() -> None:
    page = REPOSITORY.joinpath("docs", "events.md").read_text(encoding="utf-8")
    named = {word.strip("`,.|()") for word in page.split() if word.strip("`,.|()").startswith("test_")}
    there = {path.stem for path in REPOSITORY.joinpath("tests").rglob("test_*.py")}
    assert len(named) >= 7
    assert named - there == set()


def test_each_reason_of_a_letter_is_on_the_page_of_events() -> None:
    page = REPOSITORY.joinpath("docs", "events.md").read_text(encoding="utf-8")
    assert [reason for reason in EventDeadLetter.Reason.values if f"`{reason}`" not in page] == []
