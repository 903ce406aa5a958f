"""What waits is counted at a scrape."""

import pytest

from dpp_project.outbox import metrics
from tests.gear.builders import events as gear

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("AUT-05", "AUT-07")]


def test_aut_05_a_scrape_tells_what_waits_where_and_for_how_long() -> None:
    gear.a_letter(status="DEAD")
    gear.a_letter(status="DONE")
    old, _ = gear.written(), gear.written()
    gear.aged(old, seconds=100)
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in metrics.waiting_events()
        for sample in family.samples
    }
    oldest = found.pop(("dpp_events_oldest_due_seconds",))
    assert 100 <= oldest < 160
    assert found == {
        ("dpp_events_waiting", "unpublished"): 2.0,
        ("dpp_events_waiting", "claimed"): 0.0,
        ("dpp_events_waiting", "unhandled"): 0.0,
        ("dpp_event_letters",): 2.0,
    }
