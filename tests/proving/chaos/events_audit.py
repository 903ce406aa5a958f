"""Each event accounted for: every report analysed once and in a cluster, every run's end told under one id."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from psycopg import Connection

from tests.proving.chaos.customers import Books
from tests.proving.chaos.receiver import Endpoint

OPEN: Final = (
    ("events on their way", "SELECT count(*) FROM outbox_message WHERE handled_at IS NULL AND status <> 'DEAD'"),
    ("auth errors not analysed", "SELECT count(*) FROM auth_error WHERE status IN ('NEW', 'ANALYSIS_REQUESTED')"),
    ("webhooks not fanned out", "SELECT count(*) FROM webhook_message WHERE fanned_out_at IS NULL"),
    ("webhooks on their way", "SELECT count(*) FROM webhook_delivery WHERE status IN ('PENDING', 'HELD')"),
)
_REPORTS: Final = """
SELECT auth_error_id::text, tenant_id, dedup_key, status, version, cluster_id::text AS cluster,
       (SELECT count(*) FROM auth_error_cluster_member m WHERE m.auth_error_id = e.auth_error_id) AS members,
       (SELECT count(*) FROM outbox_message o WHERE o.aggregate_id = e.auth_error_id::text) AS events,
       (SELECT count(*) FROM outbox_message o JOIN processed_message p USING (outbox_id)
         WHERE o.aggregate_id = e.auth_error_id::text AND o.handled_at IS NOT NULL AND p.status = 'DONE') AS done
  FROM auth_error e
"""
_CLUSTERS: Final = """
SELECT cluster_id::text, occurrences,
       (SELECT count(*) FROM auth_error_cluster_member m WHERE m.cluster_id = c.cluster_id) AS members,
       (SELECT coalesce(sum(occurrences), 0)::bigint FROM auth_error_cluster_day d
         WHERE d.cluster_id = c.cluster_id) AS by_day
  FROM auth_error_cluster c
"""
_MESSAGES: Final = """
SELECT 'msg_' || replace(message_id::text, '-', '') AS id, event, payload ->> 'run_id' AS run_id,
       (SELECT count(*) FROM webhook_delivery d WHERE d.message_id = m.message_id AND d.status = 'DELIVERED')
         AS delivered,
       (SELECT count(*) FROM webhook_delivery d WHERE d.message_id = m.message_id) AS deliveries
  FROM webhook_message m WHERE tenant_id = %s
"""
TOLD: Final = {
    ("COMPLETED", "SETTLED"): "run.completed",
    ("FAILED", "SETTLED"): "run.failed",
    ("FAILED", "REFUNDED"): "run.refunded",
}


@dataclass
class EventFindings:
    reports: int = 0
    clusters: int = 0
    messages: int = 0
    letters: int = 0
    doubled: int = 0


def open_events(connection: Connection[Any]) -> list[str]:
    found = []
    for what, query in OPEN:
        (count,) = connection.execute(query).fetchone() or (0,)
        if count:
            found.append(f"{count} {what}")
    return found


def wrong_with_reports(connection: Connection[Any], books: Books, found: EventFindings) -> Iterator[str]:
    """`connection` answers rows as dictionaries."""
    rows = {row["auth_error_id"]: row for row in connection.execute(_REPORTS)}
    kinds: dict[int, set[str]] = defaultdict(set)
    for report in books.reports:
        row = rows.get(report.auth_error_id or "")
        if row is None or (row["tenant_id"], row["dedup_key"]) != (report.account.tenant_id, report.request_id):
            yield f"the report {report.request_id} was answered {report.auth_error_id}, and its row is {row}"
            continue
        kinds[report.kind].add(row["cluster"])
    found.reports, found.clusters = len(books.reports), len(kinds)
    tenants = {report.account.tenant_id for report in books.reports}
    ours = sum(row["tenant_id"] in tenants for row in rows.values())
    if ours != len(books.reports):
        yield f"{len(books.reports)} reports were made, {ours} stand"
    for row in rows.values():
        seen = (row["status"], row["version"], row["members"], row["events"], row["done"])
        if seen != ("ANALYSIS_COMPLETED", 2, 1, 2, 2):
            yield f"auth error {row['auth_error_id']}: {row}"
    yield from _wrong_with_clusters(connection, kinds)
    for row in connection.execute("SELECT reason, detail, event_type FROM event_dead_letter"):
        yield f"an event was given up: {row}"


def _wrong_with_clusters(connection: Connection[Any], kinds: Mapping[int, set[str]]) -> Iterator[str]:
    for kind, those in kinds.items():
        if len(those) > 1:
            yield f"reports of kind {kind} are in {len(those)} clusters: {those}"
    if len({cluster for those in kinds.values() for cluster in those}) != len(kinds):
        yield f"reports of two kinds are in one cluster: {dict(kinds)}"
    for row in connection.execute(_CLUSTERS):
        if not row["occurrences"] == row["members"] == row["by_day"]:
            yield f"cluster {row['cluster_id']} counts wrongly: {row}"


def wrong_with_webhooks(
    connection: Connection[Any],
    endpoint: Endpoint,
    runs: Iterable[Mapping[str, Any]],
    *,
    tenant_id: str,
    freed: frozenset[str],
    found: EventFindings,
) -> Iterator[str]:
    """`runs` are rows of the one tenant that has a webhook."""
    messages = {row["id"]: row for row in connection.execute(_MESSAGES, [tenant_id])}
    told: dict[str, list[str]] = defaultdict(list)
    for row in messages.values():
        told[row["run_id"]].append(row["event"])
        if (row["deliveries"], row["delivered"]) != (1, 1):
            yield f"webhook {row['id']} of {row['run_id']}: {row['delivered']} of {row['deliveries']} delivered"
    for run in runs:
        wanted = [] if run["reason"] in freed else [TOLD.get((run["status"], run["money_state"]), "nothing")]
        if (events := told.pop(run["run_id"], [])) != wanted:
            yield f"{run['run_id']} ended {run['status']} {run['money_state']} {run['reason']}, and told {events}"
    yield from (f"a webhook tells of {run_id}, which is not there: {events}" for run_id, events in told.items())
    found.messages, found.letters = len(messages), len(endpoint.taken())
    found.doubled = sum(count > 1 for count in _taken(endpoint).values())
    yield from wrong_with_letters(endpoint, messages, must_come=messages.keys())


def wrong_with_letters(
    endpoint: Endpoint, messages: Mapping[str, Mapping[str, Any]], *, must_come: AbstractSet[str]
) -> Iterator[str]:
    """What came is a message, signed, under its own id, with one body; and these came."""
    letters = endpoint.taken()
    bodies: dict[str, set[bytes]] = defaultdict(set)
    for letter in letters:
        bodies[letter.webhook_id].add(letter.body)
        if not letter.is_signed(endpoint.secret):
            yield f"webhook {letter.webhook_id} came without a signature that holds"
    missing = must_come - _taken(endpoint).keys()
    yield from (f"webhook {name} of {messages[name]['run_id']} never came" for name in missing)
    yield from (f"webhook {name} came, and is of no message" for name in bodies.keys() - messages.keys())
    yield from (f"webhook {name} came with {len(those)} bodies" for name, those in bodies.items() if len(those) > 1)
    for letter in letters:
        row = messages.get(letter.webhook_id)
        if row and (letter.told["type"], letter.told["data"].get("run_id")) != (row["event"], row["run_id"]):
            yield f"webhook {letter.webhook_id} says {letter.told}, and its message {row}"


def _taken(endpoint: Endpoint) -> Counter[str]:
    return Counter(letter.webhook_id for letter in endpoint.taken() if letter.answered == 204)
