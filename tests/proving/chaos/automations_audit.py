"""Each event from its hook to its message: one task, whose attempts are runs, one result, one message, or a named end.

Held against what the services noted when their hooks were answered, and to the micro against runs and ledger.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import Connection

from tests.proving.chaos.automated import AutomatedTenant, Happening
from tests.proving.chaos.events_audit import wrong_with_letters

OPEN: Final = (
    ("events of automations", "SELECT count(*) FROM automation_event WHERE status <> 'COMPLETED'"),
    ("tasks of automations", "SELECT count(*) FROM automation_task WHERE status <> 'COMPLETED'"),
    ("attempts of automations", "SELECT count(*) FROM automation_attempt WHERE status IN ('OPEN', 'RUNNING')"),
    ("messages of automations", "SELECT count(*) FROM automation_message WHERE status = 'PENDING'"),
)
_EVENTS: Final = """
SELECT source.name AS source, event.event_id, event.emission, event.status, event.outcome, event.reason,
       seen.outcome AS seen_outcome, seen.emissions, task.task_id::text
  FROM automation_event event JOIN automation_source source USING (source_id)
  LEFT JOIN seen_event seen USING (source_id, event_id)
  LEFT JOIN automation_task task ON task.event_id = event.event_pk
"""
_TASKS: Final = """
SELECT task_id::text, number, tenant_id, status, outcome, reason, attempts, attempts_max,
       max_cost_usd_micros AS ceiling, charged_usd_micros AS charged,
       (SELECT count(*) FROM automation_thread_mapping m WHERE m.task_id = t.task_id) AS mappings
  FROM automation_task t
"""
_ATTEMPTS: Final = """
SELECT a.task_id::text, a.attempt, a.status, a.reason, a.charged_usd_micros AS charged, a.run_id::text,
       r.tenant_id, r.idempotency_key, r.status AS run_status, r.last_error_reason_code AS run_reason,
       r.actual_cost_usd_micros AS actual,
       (SELECT coalesce(-sum(amount_usd_micros), 0)::bigint FROM ledger_entries l WHERE l.run_id = r.run_id) AS taken
  FROM automation_attempt a LEFT JOIN runs r USING (run_id) ORDER BY a.task_id, a.attempt
"""
_RESULTS: Final = "SELECT task_id::text, run_id::text, outcome FROM automation_result"
_MESSAGES: Final = """
SELECT 'msg_' || replace(message_id::text, '-', '') AS id, number, key, kind, status, task_id::text, last_error, body
  FROM automation_message
"""
_ASKED_TO_FAIL: Final = "PACK_FAILED"
"""What a run ends with whose event asked it to."""


@dataclass
class AutomationFindings:
    events: int = 0
    repeated: int = 0
    tasks: int = 0
    runs: int = 0
    charged_micros: int = 0
    messages: int = 0
    letters: int = 0
    doubled: int = 0
    alarms: int = 0


def open_automations(connection: Connection[Any]) -> list[str]:
    counted = ((what, connection.execute(query).fetchone() or (0,)) for what, query in OPEN)
    return [f"{count} {what}" for what, (count,) in counted if count]


def bought(connection: Connection[Any]) -> set[str]:
    """The runs that attempts of automations account for. `connection` answers rows as dictionaries."""
    return {row["run_id"] for row in connection.execute(_ATTEMPTS) if row["run_id"] is not None}


def wrong_with_automations(
    connection: Connection[Any], tenant: AutomatedTenant, found: AutomationFindings
) -> Iterator[str]:
    """`connection` answers rows as dictionaries."""
    events = connection.execute(_EVENTS).fetchall()
    tasks = {row["task_id"]: row for row in connection.execute(_TASKS)}
    attempts: dict[str, list[Mapping[str, Any]]] = {task_id: [] for task_id in tasks}
    for row in connection.execute(_ATTEMPTS):
        attempts.setdefault(row["task_id"], []).append(row)
    results = connection.execute(_RESULTS).fetchall()
    messages = connection.execute(_MESSAGES).fetchall()
    found.events, found.tasks = len(events), len(tasks)
    found.repeated = sum(one.times > 1 for one in tenant.notes.happened)
    found.runs = sum(len(those) for those in attempts.values())
    found.charged_micros = sum(row["charged"] for row in tasks.values())
    found.alarms = sum(row["kind"] != "RESULT" for row in messages)
    yield from wrong_with_events(tenant.notes.happened, events, tasks)
    for task_id, task in tasks.items():
        yield from (f"{task['number']}: {what}" for what in wrong_with_task(task, attempts[task_id]))
        yield from (
            f"{task['number']}: {what}" for what in _wrong_at_its_end(task, attempts[task_id], results, messages)
        )
    yield from _wrong_with_messages(tenant, messages, found)


def wrong_with_events(
    happened: Iterable[Happening], events: Iterable[Mapping[str, Any]], tasks: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Each once, none that did not happen, and each ended as its kind may."""
    wanted = {(one.source, one.event_id): one for one in happened}
    counted = Counter((row["source"], row["event_id"]) for row in events)
    yield from (f"the event {place} was taken, and is not there" for place in wanted.keys() - counted.keys())
    yield from (f"the event {place} stands {count} times" for place, count in counted.items() if count != 1)
    for row in events:
        one = wanted.get((row["source"], row["event_id"]))
        if one is None:
            yield f"an event stands that no service handed over: {row}"
            continue
        outcome = row["outcome"]
        if row["status"] != "COMPLETED" or (row["emission"], row["emissions"], row["seen_outcome"]) != (1, 1, outcome):
            yield f"an event is not over, or was not seen once: {row}"
        task = tasks.get(row["task_id"])
        if one.wants in {"ignore", "lack"}:
            named = ("NO_RULE", "no rule") if one.wants == "ignore" else ("FAILED", "the template does not fit")
            if task is not None or outcome != named[0] or not row["reason"].startswith(named[1]):
                yield f"an event that should have ended {named} did not: {row}"
        elif task is None or task["outcome"] != outcome:
            yield f"an event and its task ended differently: {row}, {task}"
        elif one.wants == "fail" and outcome != "FAILED":
            yield f"an event whose runs fail has {outcome}: {row}"
        elif one.wants == "work" and _ASKED_TO_FAIL in task["reason"]:
            yield f"an event that is work failed by itself: {row}, {task}"


def wrong_with_task(task: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Attempts follow one another, each is one run under its own key, and their charges are the task's."""
    if [row["attempt"] for row in attempts] != list(range(1, task["attempts"] + 1)):
        yield f"{task['attempts']} attempts, and these stand: {attempts}"
    for row in attempts:
        ended = {"COMPLETED": "SUCCEEDED", "FAILED": "FAILED"}.get(row["run_status"], "none")
        if row["status"] != ended or row["tenant_id"] != task["tenant_id"]:
            yield f"an attempt and its run do not say the same: {row}"
        if row["idempotency_key"] not in {None, f"{task['task_id']}:{row['attempt']}"}:
            yield f"a run has another key than its attempt: {row}"
        if not row["charged"] == (row["actual"] or 0) == row["taken"]:
            yield f"an attempt, its run and the ledger have different charges: {row}"
    if task["charged"] != sum(row["charged"] or 0 for row in attempts) or task["charged"] > task["ceiling"]:
        yield f"charged {task['charged']} of {task['ceiling']}, its attempts {attempts}"
    succeeded = [row for row in attempts if row["status"] == "SUCCEEDED"]
    if (task["outcome"] == "SUCCEEDED") != (bool(succeeded) and succeeded == list(attempts[-1:])):
        yield f"ended {task['outcome']} after {attempts}"
    if task["outcome"] == "FAILED" and task["attempts"] != task["attempts_max"]:
        yield f"gave up after {task['attempts']} of {task['attempts_max']} attempts: {task['reason']}"


def _wrong_at_its_end(
    task: Mapping[str, Any],
    attempts: Sequence[Mapping[str, Any]],
    results: Sequence[Any],
    messages: Sequence[Any],
) -> Iterator[str]:
    """One result of its last run, one message under its key, no mapping any more."""
    last = attempts[-1]["run_id"] if attempts else None
    mine = [(row["run_id"], row["outcome"]) for row in results if row["task_id"] == task["task_id"]]
    if mine != [(last, task["outcome"])]:
        yield f"its results are {mine}, not {[(last, task['outcome'])]}"
    said = [row["key"] for row in messages if row["task_id"] == task["task_id"] and row["kind"] == "RESULT"]
    if said != [f"result:{task['task_id']}"]:
        yield f"its messages are {said}"
    if task["mappings"]:
        yield f"{task['mappings']} mappings of it are left"


def _wrong_with_messages(tenant: AutomatedTenant, messages: list[Any], found: AutomationFindings) -> Iterator[str]:
    """Each is SENT, and came under its own id, with one body that is its own; no other came."""
    for row in messages:
        if row["status"] != "SENT":
            yield f"{row['number']} was not sent: {row}"
    known = {row["id"]: row | {"event": "automation.message", "run_id": None} for row in messages}
    letters = tenant.said.taken()
    found.messages, found.letters = len(messages), len(letters)
    taken = Counter(letter.webhook_id for letter in letters if letter.answered == 204)
    found.doubled = sum(count > 1 for count in taken.values())
    yield from wrong_with_letters(tenant.said, known, must_come=known.keys())
    for letter in letters:
        row, said = known.get(letter.webhook_id), letter.told["data"]
        if row and (said["message"], said["task"], said["text"]) != (row["number"], row["task_id"], row["body"]):
            yield f"a message says {said}, and its row {row}"
