"""Spend caps against the books: what was charged and held at each hold, from the rows, their history and the ledger.

Of the moment of a hold it is known that it lies between the row's birth and the step that marks it held; of what goes
back, that it does so after the step that claims the run's end. So what was counted at least is known at each moment,
and a limit that it passes was passed. A change binds from the answer `enforced: true`; until then either limit may.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from psycopg import Connection

from tests.proving.chaos.capped import PERIODS, CapNotes, CappedTenant, CapRefused
from tests.proving.chaos.events_audit import wrong_with_letters
from tests.proving.chaos.receiver import Endpoint

_RUNS: Final = """
SELECT run_id::text, lineage_id::text, spend_day, idempotency_key IS NOT NULL AS stands,
       reservation_max_cost_usd_micros AS reserved,
       (SELECT coalesce(-sum(amount_usd_micros), 0)::bigint FROM ledger_entries l WHERE l.run_id = r.run_id) AS taken,
       (SELECT count(*) FROM ledger_entries l WHERE l.run_id = r.run_id
           AND (l.lineage_id, l.spend_day) IS DISTINCT FROM (r.lineage_id, r.spend_day)) AS entered_elsewhere,
       extract(epoch FROM min(h.at))::float8 AS born_at,
       extract(epoch FROM min(h.at) FILTER (WHERE h.money_state = 'RESERVED'))::float8 AS held_at,
       extract(epoch FROM min(h.at) FILTER (WHERE h.stage IS NOT NULL))::float8 AS claimed_at
  FROM runs r JOIN run_history h USING (run_id) WHERE tenant_id = %s GROUP BY run_id
"""
_CHANGES: Final = """
SELECT extract(epoch FROM at)::float8 AS at, subject LIKE 'caps of tenant%%' AS is_of_tenant, after FROM audit_entries
 WHERE act = 'spend caps set' AND tenant_id = %s ORDER BY id
"""
_MESSAGES: Final = """
SELECT 'msg_' || replace(message_id::text, '-', '') AS id, event, key, payload, payload ->> 'run_id' AS run_id
  FROM webhook_message WHERE tenant_id = %s
"""


@dataclass
class CapFindings:
    accepted: int = 0
    refused: int = 0
    changes: int = 0
    messages: int = 0
    charged_micros: int = 0
    fullest_percent: float = 0.0
    """Of a limit, at an accept."""


@dataclass(frozen=True)
class CountedRun:
    """A run as a cap counts it. Times are Postgres's, in seconds; None: it never came to that."""

    name: str
    reserved: int
    taken: int
    born_at: float
    held_at: float | None
    claimed_at: float | None


@dataclass(frozen=True)
class Limit:
    """One revision's limit, in micros. It may bind from `at`, and does from `enforced_at`; None: nobody was told so."""

    micros: int
    at: float
    enforced_at: float | None


def most_allowed(limits: Sequence[Limit], *, since: float, until: float) -> int:
    """The highest of the limits that may have bound a hold of that time."""
    bound = [
        place for place, limit in enumerate(limits) if limit.enforced_at is not None and limit.enforced_at <= since
    ]
    return max(limit.micros for limit in limits[bound[-1] if bound else 0 :] if limit.at <= until)


def held_past(runs: Iterable[CountedRun], limits: Sequence[Limit], found: CapFindings) -> Iterator[str]:
    """Each hold with which more was counted than its limit; all runs are of one window of one scope."""
    steps: list[tuple[float, int, int, CountedRun]] = []
    for run in runs:
        if run.held_at is not None:
            steps.append((run.held_at, 0, run.reserved, run))
            if run.claimed_at is not None:
                steps.append((run.claimed_at, 1, run.taken - run.reserved, run))
    counted = 0
    for at, is_end, micros, run in sorted(steps, key=lambda step: step[:2]):
        counted += micros
        if is_end:
            continue
        allowed = most_allowed(limits, since=run.born_at, until=at)
        if counted > allowed:
            yield f"{run.name} was held at {at:.3f} with {counted} micros counted, and {allowed} allowed"
        found.fullest_percent = max(found.fullest_percent, 100 * counted / max(1, allowed))


def wrong_with_caps(
    connection: Connection[Any], tenant: CappedTenant, endpoint: Endpoint, found: CapFindings
) -> Iterator[str]:
    """`connection` answers rows as dictionaries."""
    name = tenant.keeper.tenant_id
    rows = connection.execute(_RUNS, [name]).fetchall()
    changes = connection.execute(_CHANGES, [name]).fetchall()
    limits = {
        (scope, period): _limits(changes, tenant.notes, scope, period)
        for scope in ("tenant", "key")
        for period in PERIODS
    }
    found.changes, found.refused = len(changes), len(tenant.notes.refused)
    found.accepted, found.charged_micros = sum(row["stands"] for row in rows), sum(row["taken"] for row in rows)
    for row in rows:
        if row["entered_elsewhere"] or row["spend_day"] is None or row["lineage_id"] is None:
            yield f"{row['run_id']} and its entries do not say the same of where it counts: {row}"
    for (scope, period), those in limits.items():
        for day, runs in _windows(rows, tenant.lineage_id if scope == "key" else None, period).items():
            window = f"the {scope}'s cap {f'of {day}' if day else 'in total'}"
            yield from (f"{window}: {what}" for what in held_past(map(_counted, runs), those, found))
            charged, most = sum(row["taken"] for row in runs), max(limit.micros for limit in those)
            if charged > most:
                yield f"{window}: {charged} micros were charged, and no limit was ever above {most}"
            shown = tenant.notes.at_the_end.get((scope, period), {})
            if shown.get("window") in {"ever", str(day)} and shown["used_usd_micros"] != charged:
                yield f"{window}: {charged} micros were charged, and GET /v1/budget says {shown}"
    if not tenant.notes.at_the_end:
        yield "what was left of the caps was not spent to its end"
    messages = connection.execute(_MESSAGES, [name]).fetchall()
    yield from _wrong_with_messages(messages, tenant.notes.refused, limits, found)
    full = {row["id"] for row in messages if row["payload"]["percent"] == 100}
    yield from wrong_with_letters(endpoint, {row["id"]: row for row in messages}, must_come=full)


def _limits(changes: Iterable[dict[str, Any]], notes: CapNotes, scope: str, period: str) -> list[Limit]:
    """In the order of their revisions, from the audit trail, which notes of each what it changed."""
    limits: list[Limit] = []
    column = f"{period}_usd_micros"
    for change in changes:
        if change["is_of_tenant"] != (scope == "tenant"):
            continue
        revision = int(change["after"]["revision"])
        told = [it.at for it in notes.enforced if it.scope == scope and it.revision >= revision]
        micros = change["after"].get(column, limits[-1].micros if limits else None)
        limits.append(Limit(int(micros), change["at"], min(told, default=None)))
    return limits


def _windows(
    rows: Iterable[dict[str, Any]], lineage_id: str | None, period: str
) -> dict[date | None, list[dict[str, Any]]]:
    """Runs that count for a scope, by the date that the window is of; None for the total."""
    windows: dict[date | None, list[dict[str, Any]]] = {}
    for row in rows:
        if lineage_id in {None, row["lineage_id"]}:
            windows.setdefault(row["spend_day"] if period == "day" else None, []).append(row)
    return windows


def _counted(row: dict[str, Any]) -> CountedRun:
    return CountedRun(row["run_id"], row["reserved"], row["taken"], row["born_at"], row["held_at"], row["claimed_at"])


def _wrong_with_messages(
    messages: Iterable[dict[str, Any]],
    refused: Iterable[CapRefused],
    limits: dict[tuple[str, str], list[Limit]],
    found: CapFindings,
) -> Iterator[str]:
    """A window that refused has told so once: a limit stands for its revision, since none was given twice."""
    told: Counter[tuple[str, str, str, int]] = Counter()
    for row in messages:
        cap = row["payload"]
        if row["event"] != "cap.reached":
            yield f"a webhook that nobody asked for: {row}"
        elif cap["percent"] == 100:
            told[_window_of(cap)] += 1
        elif cap["used_usd_micros"] * 100 < cap["limit_usd_micros"] * cap["percent"]:
            yield f"a webhook tells of {cap['percent']} % too early: {cap}"
    found.messages = told.total()
    yield from (f"cap.reached came {count} times of {window}" for window, count in told.items() if count > 1)
    for refusal in refused:
        if told[_window_of(refusal.cap)] == 0 and _stood(refusal, limits):
            yield f"nobody was told of {refusal.cap}, which refused a run at {refusal.at:.3f}"
            told[_window_of(refusal.cap)] += 1  # said once


def _window_of(cap: dict[str, Any]) -> tuple[str, str, str, int]:
    return cap["scope"], cap["period"], cap["window"], cap["limit_usd_micros"]


def _stood(refusal: CapRefused, limits: dict[tuple[str, str], list[Limit]]) -> bool:
    """Whether the limit that refused was still the last one when that was heard; one that goes is not told of."""
    those = [limit for limit in limits[refusal.cap["scope"], refusal.cap["period"]] if limit.at <= refusal.at]
    return those[-1].micros == int(refusal.cap["limit_usd_micros"])
