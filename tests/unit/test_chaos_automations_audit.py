"""What `make chaos` finds of automations: events lost, doubled or wrongly ended, charges that do not add up."""

from typing import Any

import pytest

from tests.proving.chaos.automated import Happening
from tests.proving.chaos.automations_audit import wrong_with_events, wrong_with_task

Row = dict[str, Any]


def task(**changes: Any) -> Row:
    row: Row = {"task_id": "t", "number": "task-20260301-001", "tenant_id": "t_chaos", "status": "COMPLETED"}
    row |= {"outcome": "SUCCEEDED", "reason": "", "attempts": 2, "attempts_max": 3, "ceiling": 500, "charged": 70}
    return row | changes


def attempt(number: int, status: str = "SUCCEEDED", *, charged: int, **changes: Any) -> Row:
    row: Row = {"task_id": "t", "attempt": number, "status": status, "charged": charged, "run_id": f"r{number}"}
    row |= {"tenant_id": "t_chaos", "idempotency_key": f"t:{number}", "actual": charged, "taken": charged}
    return row | {"run_status": "COMPLETED" if status == "SUCCEEDED" else "FAILED"} | changes


FIRST, SECOND = attempt(1, "FAILED", charged=50), attempt(2, charged=20)


def test_a_task_whose_attempts_add_up_is_right() -> None:
    assert list(wrong_with_task(task(), [FIRST, SECOND])) == []
    gone = attempt(1, "FAILED", charged=0, idempotency_key=None, actual=None)
    assert list(wrong_with_task(task(charged=20), [gone, SECOND])) == [], "a run that gave its key back cost nothing"


@pytest.mark.parametrize(
    ("row", "attempts", "said"),
    [
        (task(charged=20), [SECOND], "2 attempts"),
        (task(), [FIRST, SECOND | {"run_status": "FAILED"}], "do not say the same"),
        (task(), [FIRST, SECOND | {"run_status": None}], "do not say the same"),
        (task(), [FIRST, SECOND | {"idempotency_key": "t:1"}], "another key"),
        (task(), [FIRST, SECOND | {"taken": 40}], "different charges"),
        (task(charged=50), [FIRST, SECOND], "charged 50 of 500"),
        (task(ceiling=60), [FIRST, SECOND], "charged 70 of 60"),
        (task(outcome="FAILED", attempts_max=2), [FIRST, SECOND], "ended FAILED"),
        (task(), [attempt(1, charged=50), SECOND | {"status": "FAILED", "run_status": "FAILED"}], "ended SUCCEEDED"),
        (task(attempts=1, charged=50, outcome="FAILED"), [FIRST], "gave up after 1 of 3"),
    ],
)
def test_what_does_not_add_up_is_found(row: Row, attempts: list[Row], said: str) -> None:
    (found,) = wrong_with_task(row, attempts)
    assert said in found


def event(**changes: Any) -> Row:
    row: Row = {"source": "github", "event_id": "e", "emission": 1, "emissions": 1, "status": "COMPLETED"}
    row |= {"outcome": "SUCCEEDED", "seen_outcome": "SUCCEEDED", "reason": "", "task_id": "t"}
    return row | changes


DROPPED = {"outcome": "NO_RULE", "seen_outcome": "NO_RULE", "reason": "no rule", "task_id": None}
FAILED = {"outcome": "FAILED", "seen_outcome": "FAILED"}


def judged(wants: str, *rows: Row, **of_task: Any) -> list[str]:
    happened = [Happening("github", "e", wants, times=1)]
    return list(wrong_with_events(happened, rows, {"t": task(**of_task)}))


def test_each_event_ended_once_and_as_its_kind_may() -> None:
    assert judged("work", event()) == []
    assert judged("work", event(**FAILED), outcome="FAILED", reason="WORKER_TIMEOUT") == []
    assert judged("fail", event(**FAILED), outcome="FAILED", reason="PACK_FAILED") == []
    assert judged("ignore", event(**DROPPED)) == []
    unfit = {"reason": "the template does not fit the event: it lacks event.body.cost_usd", "task_id": None}
    assert judged("lack", event(**FAILED, **unfit)) == []


@pytest.mark.parametrize(
    ("wants", "rows", "of_task"),
    [
        ("work", [], {}),
        ("work", [event(), event()], {}),
        ("work", [event(), event(event_id="of nobody's")], {}),
        ("work", [event(status="DISPATCHED")], {}),
        ("work", [event(seen_outcome=None)], {}),
        ("work", [event(emissions=2)], {}),
        ("work", [event(**DROPPED)], {}),
        ("work", [event()], {"outcome": "FAILED"}),
        ("work", [event(**FAILED)], {"outcome": "FAILED", "reason": "PACK_FAILED"}),
        ("fail", [event()], {}),
        ("ignore", [event()], {}),
        ("lack", [event(**DROPPED)], {}),
    ],
)
def test_an_event_that_is_lost_doubled_or_ended_otherwise_is_found(
    wants: str, rows: list[Row], of_task: dict[str, Any]
) -> None:
    assert judged(wants, *rows, **of_task) != []
