"""The ticket reaper against a processor that comes back at the same moment: one of them ends the ticket."""

import threading

import pytest
from django.db import connection
from redis import Redis

from ops.tickets import reaper, transitions
from ops.tickets.models import Ticket, TicketResult
from ops.tickets.states import TicketStatus
from ops.tickets.transitions import EdgeOutcome
from tests.gear.builders import tickets as gear
from tests.gear.faults.rivals import OnAnotherConnection, one_after_the_other
from tests.proving import proofs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("TKT-03")]


@pytest.mark.parametrize("rounds", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_tkt_03_of_finish_and_clean_one_wins_in_every_round(rounds: int) -> None:
    tickets = [gear.taken() for _ in range(rounds)]
    barrier = threading.Barrier(2, timeout=30)
    outcomes: dict[str, list[EdgeOutcome]] = {"finish": [], "clean": []}
    errors: list[BaseException] = []

    def play(name: str) -> None:
        try:
            for ticket in tickets:
                barrier.wait()
                outcomes[name].append(gear.finish(ticket) if name == "finish" else gear.clean(ticket))
        except BaseException as error:
            errors.append(error)
            barrier.abort()
            raise
        finally:
            connection.close()

    threads = [threading.Thread(target=play, args=(name,)) for name in outcomes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not errors, errors
    assert TicketResult.objects.count() == rounds
    for ticket, finished, cleaned in zip(tickets, outcomes["finish"], outcomes["clean"], strict=True):
        assert {finished, cleaned} == {EdgeOutcome.WON, EdgeOutcome.LOST}
        status = TicketStatus.DONE if finished is EdgeOutcome.WON else TicketStatus.FAILED
        assert (gear.row(ticket.pk).status, gear.result(ticket).status) == (status, status)
    proofs.report(cases=rounds)


def test_tkt_03_the_second_waits_for_the_first_and_changes_nothing() -> None:
    first = gear.stale()
    assert one_after_the_other(lambda: gear.finish(first), lambda: gear.clean(first)) == (
        EdgeOutcome.WON,
        EdgeOutcome.LOST,
    )
    assert (gear.row(first.pk).status, gear.result(first).processor_id) == (TicketStatus.DONE, "OPS_CYCLE")
    second = gear.stale()
    assert one_after_the_other(lambda: gear.clean(second), lambda: gear.finish(second)) == (
        EdgeOutcome.WON,
        EdgeOutcome.LOST,
    )
    assert (gear.row(second.pk).status, gear.result(second).processor_id) == (TicketStatus.FAILED, "TICKET_REAPER")


def test_tkt_03_a_ticket_finished_between_search_and_cleaning_stays_finished(
    valkey: Redis, aws: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished, left = gear.stale(seconds=200_000), gear.stale(seconds=100_000)
    clean = transitions.clean_ticket

    def after_a_rival(**values: object) -> EdgeOutcome:
        if values["request_id"] == finished.pk:
            assert OnAnotherConnection(lambda: gear.finish(finished)).answer() is EdgeOutcome.WON
        return clean(**values)  # type: ignore[arg-type]

    monkeypatch.setattr(transitions, "clean_ticket", after_a_rival)
    ran = reaper.reap_tickets()
    report = ran.report
    assert (report.stale_count, report.cleaned_count, ran.skipped) == (2, 1, ()), "a lost edge is no failure"
    assert [item.request_id for item in report.cleaned_items] == [str(left.pk)]
    assert gear.row(finished.pk).status == TicketStatus.DONE
    assert gear.result(finished).processor_id == "OPS_CYCLE"


def test_tkt_03_two_reapers_at_once_clean_each_ticket_once(valkey: Redis, aws: str) -> None:
    tickets = [gear.stale() for _ in range(6)]
    rivals = [OnAnotherConnection(reaper.reap_tickets) for _ in range(3)]
    reports = [rival.answer().report for rival in rivals]
    cleaned = [item.request_id for report in reports for item in report.cleaned_items]
    assert sorted(cleaned) == sorted(str(ticket.pk) for ticket in tickets)
    assert len({report.asof for report in reports}) == 3
    assert Ticket.objects.filter(status=TicketStatus.FAILED).count() == 6
