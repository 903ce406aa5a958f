"""What is said of a run in each of its states, and when somebody is late (DPP-47)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dpp_project.durations import duration_text
from runs.operators.explanation import Facts, describe_run, explanation_time
from runs.states import LEGAL, MoneyState, Stage, Status

pytestmark = pytest.mark.contract("DPP-47")

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def after(**parts: int) -> datetime:
    return START + timedelta(**parts)


def facts(status: str, money: str, stage: str | None = None, **values: Any) -> Facts:
    defaults: dict[str, Any] = {
        "status": Status(status),
        "money_state": MoneyState(money),
        "stage": Stage(stage) if stage else None,
        "reserved_micros": 250_000,
        "charge_micros": 50_000 if stage == "COMMITTED" else None,
        "intent_status": "COMPLETED" if stage else None,
        "intent_charge_micros": 50_000 if stage else None,
        "intent_reason": None,
        "reason": None,
        "last_actor": "worker",
        "created_at": START,
        "updated_at": START,
        "lease_expires_at": after(seconds=120),
        "worker": None,
        "claimed_at": START if stage else None,
        "next_send_at": after(seconds=150),
        "send_count": 0,
        "dead_lettered_at": None,
        "retention_until": after(days=30),
    }
    return Facts(**(defaults | values))


TOLD: dict[str, tuple[Facts, str, str, list[tuple[str, datetime | None]]]] = {
    "unheld": (
        facts("QUEUED", "NONE"),
        "Accepted; its money is not held yet, and its tenant does not see it.",
        "the request that made it to hold the money.",
        [("the submitting request", None), ("the hold auditor", after(seconds=60))],
    ),
    "held": (
        facts("QUEUED", "RESERVED"),
        "Queued, $0.250000 held.",
        "a worker to receive its message.",
        [("a worker", None), ("the requeuer", after(seconds=150)), ("the sweeper", after(hours=1))],
    ),
    "sent again": (
        facts("QUEUED", "RESERVED", send_count=2),
        "Queued, $0.250000 held, its message sent again 2 times.",
        "a worker to receive its message.",
        [("a worker", None), ("the requeuer", after(seconds=150)), ("the sweeper", after(hours=1))],
    ),
    "dead-lettered": (
        facts("QUEUED", "RESERVED", dead_lettered_at=START),
        "Queued, $0.250000 held. Its message died once and was sent once more.",
        "a worker to receive that message.",
        [("a worker", None), ("the dead-letter consumer", None), ("the sweeper", after(hours=1))],
    ),
    "working": (
        facts("PROCESSING", "RESERVED"),
        "A worker is at it; $0.250000 held.",
        "its worker, which renews the lease every 30 s.",
        [("its worker", None), ("the reaper", after(seconds=120))],
    ),
    "lease run out": (
        facts("PROCESSING", "RESERVED", lease_expires_at=after(seconds=-1)),
        "A worker had it and no longer renews its lease.",
        "the reaper, which looks every 30 s.",
        [("the reaper", after(seconds=-1))],
    ),
    "claimed": (
        facts("PROCESSING", "RESERVED", "CLAIMED"),
        "Claimed by worker: it will end as COMPLETED at $0.050000. That is decided.",
        "its claimer to move the money and commit.",
        [("worker", None), ("the reconciler", after(minutes=5))],
    ),
    "claimed to fail": (
        facts(
            "QUEUED",
            "RESERVED",
            "CLAIMED",
            intent_status="FAILED",
            intent_charge_micros=0,
            intent_reason="RESERVATION_EXPIRED",
            last_actor="sweeper",
        ),
        "Claimed by sweeper: it will end as FAILED at $0.000000, RESERVATION_EXPIRED. That is decided.",
        "its claimer to move the money and commit.",
        [("sweeper", None), ("the reconciler", after(minutes=5))],
    ),
    "completed": (
        facts("COMPLETED", "SETTLED", "COMMITTED"),
        "Ended as COMPLETED; charged $0.050000.",
        "nothing.",
        [("the retention", after(days=30))],
    ),
    "refunded": (
        facts("FAILED", "REFUNDED", "COMMITTED", charge_micros=0, reason="CANCELED_BY_OWNER"),
        "Ended as FAILED, CANCELED_BY_OWNER; everything returned.",
        "nothing.",
        [("the retention", after(days=30))],
    ),
    "refunded after a dispute": (
        facts("COMPLETED", "REFUNDED", "COMMITTED"),
        "Ended as COMPLETED; refunded; $0.050000 was charged before.",
        "nothing.",
        [("the retention", after(days=30))],
    ),
    "disputed": (
        facts("COMPLETED", "DISPUTED", "COMMITTED"),
        "Ended as COMPLETED; its charge of $0.050000 is in dispute.",
        "an operator's decision.",
        [("an operator", None), ("the retention", after(days=30))],
    ),
    "tombstone": (
        facts("EXPIRED", "SETTLED", "COMMITTED"),
        "Ended as EXPIRED; charged $0.050000.",
        "nothing.",
        [("the retention", after(days=395))],
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_dpp_47_each_state_is_told_in_words(case: str) -> None:
    given, stands, waits_for, upcoming = TOLD[case]
    told = describe_run(given, now=START)
    assert (told.stands, told.waits_for) == (stands, waits_for)
    assert [(step.actor, step.at) for step in told.next] == upcoming
    assert all(step.does for step in told.next)
    assert told.overdue is None


def test_dpp_47_every_legal_combination_has_words_and_somebody_who_acts() -> None:
    for status, money, stage in LEGAL:
        told = describe_run(facts(status, money, stage), now=START)
        assert told.stands
        assert told.next


@pytest.mark.parametrize(
    ("given", "minutes", "actor"),
    [
        (facts("QUEUED", "NONE"), 5, "the hold auditor"),
        (facts("QUEUED", "RESERVED"), 6, "the requeuer"),
        (facts("QUEUED", "RESERVED", dead_lettered_at=START), 64, "the sweeper"),
        (facts("PROCESSING", "RESERVED"), 6, "the reaper"),
        (facts("PROCESSING", "RESERVED", "CLAIMED"), 9, "the reconciler"),
    ],
)
def test_dpp_47_who_is_late_is_named(given: Facts, minutes: int, actor: str) -> None:
    told = describe_run(given, now=after(minutes=minutes))
    assert told.overdue is not None
    assert told.overdue.startswith(f"{actor} should have acted ")
    assert describe_run(given, now=after(minutes=minutes - 3)).overdue is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (150, "2 min 30 s"), (3_600, "1 h"), (90_000, "1 d 1 h")],
)
def test_explain_spans_are_short(seconds: int, said: str) -> None:
    assert duration_text(timedelta(seconds=seconds)) == said


def test_explain_moments_are_said_from_now() -> None:
    assert explanation_time(None, now=START) == "any moment"
    assert explanation_time(after(seconds=150), now=START) == "2026-03-01 12:02:30 UTC, in 2 min 30 s"
    assert explanation_time(after(seconds=-5), now=START) == "2026-03-01 11:59:55 UTC, 5 s ago"
