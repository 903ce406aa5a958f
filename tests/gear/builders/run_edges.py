"""Every edge as a call on a row, and the states it is won from."""

from collections.abc import Callable
from typing import Any

from django.db import connection

from runs import transitions
from runs.claims import Lost, Won
from runs.intents import Intent
from runs.models import Run
from runs.states import MoneyState, Status
from tests.gear.builders import runs as gear

HOUR = 3_600
MINUTE = 60
STATES: dict[str, Callable[[], Run]] = {
    "accepted": gear.accepted,
    "reserved": gear.reserved,
    "working": gear.working,
    "claimed": gear.claimed,
    "committed": gear.committed,
    "disputed": gear.disputed,
    "expired": gear.expired,
}


def ledger(run: Run) -> list[tuple[str, int]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT kind, amount_usd_micros FROM ledger_entries WHERE run_id = %s ORDER BY kind DESC", [run.run_id]
        )
        return [(str(kind), int(micros)) for kind, micros in cursor.fetchall()]


def seconds_from_now(run: Run, column: str) -> float:
    """By the database's clock, as the edges measure."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT extract(epoch FROM {column} - clock_timestamp()) FROM runs WHERE run_id = %s",  # noqa: S608
            [run.run_id],
        )
        return float(cursor.fetchone()[0])


Call = Callable[[Run], Won | Lost]


def on(edge: Callable[..., Won | Lost], **arguments: Any) -> Call:
    return lambda run: edge(run_id=run.run_id, version=run.version, **arguments)


def claim(edge: Callable[..., Won | Lost], intent: Intent, **arguments: Any) -> Call:
    return lambda run: edge(run=run, intent=intent, actor="test", **arguments)


CALLS: dict[str, Call] = {
    "drop": on(transitions.drop),
    "resume": on(transitions.resume, actor="test"),
    "reserve": on(transitions.reserve, actor="test"),
    "start": on(transitions.start, lease_token="another-lease", actor="test"),
    "claim_worked": claim(
        transitions.claim_worked, gear.COMPLETED, lease_token=gear.LEASE_TOKEN, token="another-claim"
    ),
    "claim_lease_expired": claim(transitions.claim_lease_expired, gear.fee()),
    "claim_never_started": claim(transitions.claim_never_started, gear.REFUND),
    "claim_abandoned": claim(transitions.claim_abandoned, gear.REFUND),
    "claim_unsent": claim(transitions.claim_unsent, gear.REFUND),
    "claim_dead_lettered": claim(transitions.claim_dead_lettered, gear.REFUND),
    "claim_canceled": claim(transitions.claim_canceled, gear.REFUND),
    "retake": lambda run: transitions.retake(run=run, actor="test"),
    "reintend": lambda run: transitions.reintend(claim=gear.claim_of(run, actor="test"), charge_micros=gear.FEE_MICROS),
    "commit": lambda run: transitions.commit(claim=gear.claim_of(run, actor="test"), taken_micros=gear.ACTUAL_MICROS),
    "dispute": on(transitions.dispute, actor="test"),
    "resolve": on(transitions.resolve, refunded=False, actor="test"),
    "expire": on(transitions.expire, actor="test"),
    "forget": on(transitions.forget),
}

# The states each edge is won from, once every age and mark that it waits for is there.
WON_FROM: dict[str, set[str]] = {
    "drop": {"accepted"},
    "resume": {"accepted"},
    "reserve": {"accepted"},
    "start": {"reserved"},
    "claim_worked": {"working"},
    "claim_lease_expired": {"working"},
    "claim_never_started": {"reserved"},
    "claim_abandoned": {"accepted"},
    "claim_unsent": {"reserved"},
    "claim_dead_lettered": {"reserved"},
    "claim_canceled": {"reserved"},
    "retake": {"claimed"},
    "reintend": {"claimed"},
    "commit": {"claimed"},
    "dispute": {"committed", "expired"},
    "resolve": {"disputed"},
    "expire": {"committed", "disputed"},
    "forget": {"expired"},
}


def ripe(run: Run) -> Run:
    """Old in every way that an edge asks for."""
    ages = {"created_at": 2 * HOUR, "updated_at": 2 * HOUR, "retention_until": 400 * 86_400}
    if run.status == Status.PROCESSING:
        ages["lease_expires_at"] = 1
    if run.finalize_claimed_at:
        ages["finalize_claimed_at"] = HOUR
    if run.status == Status.QUEUED and run.money_state == MoneyState.RESERVED:
        ages["dead_lettered_at"] = 1
    return gear.aged(run, **ages)
