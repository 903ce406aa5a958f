"""A run in words: where it stands, what it waits for, who acts next and when. Pure: told by command and admin."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from budget.money import format_exact_usd
from dpp_project.constants import LEASE_HEARTBEAT_INTERVAL_SECONDS, REAPER_INTERVAL_SECONDS, RESERVATION_TTL_SECONDS
from dpp_project.durations import duration_text
from runs.states import MoneyState, Stage, Status
from runs.timing import ABANDONED_AFTER_SECONDS, RECONCILE_AFTER_SECONDS, TOMBSTONE_DAYS

PATIENCE = timedelta(minutes=3)
"""Recovery looks every 30 or 60 s; what is due for longer than this is overdue, and the job may not be running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What of a row the explanation rests on."""

    status: Status
    money_state: MoneyState
    stage: Stage | None
    reserved_micros: int
    charge_micros: int | None
    intent_status: str | None
    intent_charge_micros: int | None
    intent_reason: str | None
    reason: str | None
    last_actor: str
    created_at: datetime
    updated_at: datetime
    lease_expires_at: datetime | None
    worker: str | None
    claimed_at: datetime | None
    next_send_at: datetime | None
    send_count: int
    dead_lettered_at: datetime | None
    retention_until: datetime
    in_line: str | None = None
    """What it waits for in the line before the workers, or its own message's lane; None where it has neither."""
    kept_back_by: str | None = None
    """What has as many at work as it may: its key or its tenant."""


@dataclass(frozen=True, slots=True)
class Next:
    """One who will act, if nobody before did. `at` None: any moment, on a message or a decision."""

    actor: str
    at: datetime | None
    does: str


@dataclass(frozen=True, slots=True)
class Explanation:
    stands: str
    waits_for: str
    next: Sequence[Next]
    overdue: str | None = None


def describe_run(facts: Facts, *, now: datetime) -> Explanation:
    """The row in words. The actor expected next stands first, later safety nets after."""
    if facts.stage is Stage.COMMITTED:
        return _explanation_of_ended_run(facts)
    if facts.stage is Stage.CLAIMED:
        explanation = _explanation_of_claimed_run(facts)
    elif facts.status is Status.PROCESSING:
        explanation = _working(facts, now)
    elif facts.money_state is MoneyState.NONE:
        explanation = _unheld(facts)
    else:
        explanation = _queued(facts)
    return _with_overdue(explanation, now)


def _unheld(facts: Facts) -> Explanation:
    return Explanation(
        stands="Accepted; its money is not held yet, and its tenant does not see it.",
        waits_for="the request that made it to hold the money.",
        next=[
            Next("the submitting request", None, "holds the money, or drops the row if there is too little"),
            Next(
                "the hold auditor",
                facts.updated_at + timedelta(seconds=ABANDONED_AFTER_SECONDS),
                "takes the submit for dead, returns any hold, and ends it as FAILED, SUBMIT_ABANDONED",
            ),
        ],
    )


def _queued(facts: Facts) -> Explanation:
    swept = Next(
        "the sweeper",
        facts.created_at + timedelta(seconds=RESERVATION_TTL_SECONDS),
        "returns the hold and ends it as FAILED, RESERVATION_EXPIRED",
    )
    if facts.dead_lettered_at is not None:
        return Explanation(
            stands=f"Queued, {_usd(facts.reserved_micros)} held. Its message died once and was sent once more.",
            waits_for="a worker to receive that message.",
            next=[
                Next("a worker", None, "starts it"),
                Next("the dead-letter consumer", None, "returns the hold if the message dies again"),
                swept,
            ],
        )
    if facts.kept_back_by is not None:
        return Explanation(
            stands=f"Queued, {_usd(facts.reserved_micros)} held, kept back.",
            waits_for=facts.in_line or f"a place of its {facts.kept_back_by}.",
            next=[
                Next(f"the end of a run of its {facts.kept_back_by}", None, "wakes the first that is kept back"),
                Next("the requeuer", None, "does so within a minute where that was lost, or the limit was raised"),
                swept,
            ],
        )
    again = f", its message sent again {facts.send_count} times" if facts.send_count else ""
    return Explanation(
        stands=f"Queued, {_usd(facts.reserved_micros)} held{again}.",
        waits_for=facts.in_line or "a worker to receive its message.",
        next=[
            Next("a worker", None, "starts it"),
            Next("the requeuer", facts.next_send_at, "sends the message again, in case it was lost"),
            swept,
        ],
    )


def _working(facts: Facts, now: datetime) -> Explanation:
    expires_at = facts.lease_expires_at or facts.updated_at
    reaped = Next("the reaper", expires_at, "charges the minimum fee and ends it as FAILED, WORKER_TIMEOUT")
    if expires_at < now:
        return Explanation(
            stands=f"A worker{_worker_in_explanation(facts)} had it and no longer renews its lease.",
            waits_for=f"the reaper, which looks every {REAPER_INTERVAL_SECONDS} s.",
            next=[reaped],
        )
    return Explanation(
        stands=f"A worker{_worker_in_explanation(facts)} is at it; {_usd(facts.reserved_micros)} held.",
        waits_for=f"its worker, which renews the lease every {LEASE_HEARTBEAT_INTERVAL_SECONDS} s.",
        next=[Next("its worker", None, "finishes it"), reaped],
    )


def _worker_in_explanation(facts: Facts) -> str:
    return f" ({facts.worker})" if facts.worker else ""


def _explanation_of_claimed_run(facts: Facts) -> Explanation:
    ending = f"{facts.intent_status} at {_usd(facts.intent_charge_micros)}"
    if facts.intent_reason:
        ending += f", {facts.intent_reason}"
    claimed_at = facts.claimed_at or facts.updated_at
    return Explanation(
        stands=f"Claimed by {facts.last_actor}: it will end as {ending}. That is decided.",
        waits_for="its claimer to move the money and commit.",
        next=[
            Next(facts.last_actor, None, "commits it"),
            Next(
                "the reconciler",
                claimed_at + timedelta(seconds=RECONCILE_AFTER_SECONDS),
                "takes the claim over and carries out what was decided",
            ),
        ],
    )


def _explanation_of_ended_run(facts: Facts) -> Explanation:
    how = f"Ended as {facts.status}" + (f", {facts.reason}" if facts.reason else "")
    money = {
        MoneyState.SETTLED: f"charged {_usd(facts.charge_micros)}",
        MoneyState.REFUNDED: f"refunded; {_usd(facts.charge_micros)} was charged before"
        if facts.charge_micros
        else "everything returned",
        MoneyState.DISPUTED: f"its charge of {_usd(facts.charge_micros)} is in dispute",
    }[facts.money_state]
    forgotten = Next(
        "the retention",
        facts.retention_until + timedelta(days=TOMBSTONE_DAYS),
        "deletes the tombstone; the ledger entries stay",
    )
    if facts.status is Status.EXPIRED:
        upcoming = [forgotten]
    else:
        upcoming = [
            Next("the retention", facts.retention_until, "deletes result, inputs and history, and leaves a tombstone")
        ]
    if facts.money_state is MoneyState.DISPUTED:
        operator = Next("an operator", None, "upholds the charge or refunds it")
        return Explanation(stands=f"{how}; {money}.", waits_for="an operator's decision.", next=[operator, *upcoming])
    return Explanation(stands=f"{how}; {money}.", waits_for="nothing.", next=upcoming)


def _with_overdue(explanation: Explanation, now: datetime) -> Explanation:
    late = [step for step in explanation.next if step.at is not None and step.at + PATIENCE < now]
    if not late:
        return explanation
    said = f"{late[0].actor} should have acted {duration_text(now - (late[0].at or now))} ago: does its job run?"
    return Explanation(explanation.stands, explanation.waits_for, explanation.next, said)


def _usd(micros: int | None) -> str:
    return f"${format_exact_usd(micros or 0)}"


def explanation_time(at: datetime | None, *, now: datetime) -> str:
    if at is None:
        return "any moment"
    said = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{said}, in {duration_text(at - now)}" if at > now else f"{said}, {duration_text(now - at)} ago"
