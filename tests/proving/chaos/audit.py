"""What must be true when the dust has settled, read from the services themselves and held against the receipts."""

import hashlib
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import boto3
import psycopg
from psycopg.rows import dict_row

from dpp_project.devstack import environment
from tests.proving.chaos import automations_audit, caps_audit, events_audit, homes_audit
from tests.proving.chaos.automated import AutomatedTenant
from tests.proving.chaos.automations_audit import AutomationFindings
from tests.proving.chaos.capped import CappedTenant
from tests.proving.chaos.caps_audit import CapFindings
from tests.proving.chaos.customers import Books, Order
from tests.proving.chaos.events_audit import EventFindings
from tests.proving.chaos.homes import HomeKeepers
from tests.proving.chaos.homes_audit import HomeFindings
from tests.proving.chaos.receiver import Endpoint
from tests.proving.chaos.stand import Stand

MESSAGES: Final = ("", "NotVisible", "Delayed")
FREED: Final = frozenset({"QUEUE_ENQUEUE_FAILED", "SUBMIT_ABANDONED"})

_RUNS: Final = """
SELECT run_id::text, tenant_id, idempotency_key, status, money_state, finalize_stage AS stage, version,
       reservation_max_cost_usd_micros AS reserved, actual_cost_usd_micros AS actual, last_error_reason_code AS reason,
       result_bucket, result_key, result_sha256, dead_lettered_at IS NOT NULL AS dead_lettered,
       (SELECT count(*) FROM run_history h WHERE h.run_id = r.run_id AND h.stage = 'COMMITTED') AS commits,
       (SELECT count(*) FROM run_history h
         WHERE h.run_id = r.run_id AND h.status = 'PROCESSING' AND h.stage IS NULL) AS starts,
       (SELECT max(actor) FROM run_history h WHERE h.run_id = r.run_id AND h.stage = 'COMMITTED') AS ended_by,
       (SELECT count(*) FROM ledger_entries l WHERE l.run_id = r.run_id AND l.kind = 'CHARGE') AS charges,
       (SELECT coalesce(-sum(amount_usd_micros), 0)::bigint FROM ledger_entries l WHERE l.run_id = r.run_id) AS taken
  FROM runs r
"""
_OPEN: Final = """
SELECT status, money_state, finalize_stage AS stage, count(*) FROM runs
 WHERE finalize_stage IS DISTINCT FROM 'COMMITTED' GROUP BY 1, 2, 3
"""


@dataclass
class Findings:
    """What was counted, and what is wrong."""

    wrong: list[str] = field(default_factory=list)
    accepted: int = 0
    rows: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    ended_by: Counter[str] = field(default_factory=Counter)
    charged_micros: int = 0
    credited_micros: int = 0
    deposits: int = 0
    results_read: int = 0
    dead_letters: int = 0
    events: EventFindings = field(default_factory=EventFindings)
    caps: CapFindings = field(default_factory=CapFindings)
    homes: HomeFindings = field(default_factory=HomeFindings)
    automations: AutomationFindings = field(default_factory=AutomationFindings)


def open_work(stand: Stand) -> list[str]:
    """What is not over yet, in words; empty when nothing can happen any more."""
    with psycopg.connect(stand.values["DATABASE_URL"], connect_timeout=5) as connection:
        rows = connection.execute(_OPEN).fetchall()
        found = [f"{count} runs {status} {money} {stage or ''}".rstrip() for status, money, stage, count in rows]
        (pending,) = connection.execute("SELECT count(*) FROM pending_credits").fetchone() or (0,)
        found += events_audit.open_events(connection)
        found += homes_audit.open_homes(connection)
        found += automations_audit.open_automations(connection)
    if pending:
        found.append(f"{pending} credits on their way")
    sqs = _client(stand, "sqs")
    for name in environment.QUEUES:
        attributes = sqs.get_queue_attributes(QueueUrl=stand.values[name], AttributeNames=["All"])["Attributes"]
        count = sum(int(attributes.get(f"ApproximateNumberOfMessages{which}", 0)) for which in MESSAGES)
        if count:
            found.append(f"{count} messages in {name}")
    return found


def audit(
    stand: Stand,
    books: Books,
    endpoints: Sequence[Endpoint],
    *,
    told: str,
    capped: CappedTenant,
    keepers: HomeKeepers,
    automated: AutomatedTenant,
) -> Findings:
    """`told` is the tenant whose runs' ends come to the first of the webhooks; the other is of the one with caps."""
    findings = Findings(wrong=list(books.wrong))
    with psycopg.connect(stand.values["DATABASE_URL"], row_factory=dict_row) as connection:
        rows: dict[str, dict[str, Any]] = {row["run_id"]: row for row in connection.execute(_RUNS)}
        entries = connection.execute(
            "SELECT tenant_id, kind, reference, amount_usd_micros AS micros FROM ledger_entries"
        ).fetchall()
        letters = connection.execute("SELECT count(*) AS count FROM dead_letters").fetchone() or {"count": 0}
        findings.wrong += events_audit.wrong_with_reports(connection, books, findings.events)
        findings.wrong += events_audit.wrong_with_webhooks(
            connection,
            endpoints[0],
            [row for row in rows.values() if row["tenant_id"] == told],
            tenant_id=told,
            freed=FREED,
            found=findings.events,
        )
        findings.wrong += caps_audit.wrong_with_caps(connection, capped, endpoints[1], findings.caps)
        findings.wrong += homes_audit.wrong_with_homes(stand, connection, keepers, findings.homes)
        findings.wrong += automations_audit.wrong_with_automations(connection, automated, findings.automations)
        bought = automations_audit.bought(connection)
    findings.rows, findings.dead_letters = len(rows), int(letters["count"])
    for row in rows.values():
        findings.wrong += [f"{row['run_id']}: {what}" for what in _wrong_with(row)]
        findings.ends[f"{row['status']} {row['reason'] or ''}".strip()] += 1
        findings.ended_by[str(row["ended_by"]).partition(":")[0]] += 1
        findings.charged_micros += row["taken"]
    findings.wrong += _receipts_kept(books, rows, bought, findings)
    findings.wrong += _deposits_entered(books, entries, findings)
    findings.wrong += _nothing_left_in_redis(stand, books, entries)
    findings.wrong += [f"still open: {what}" for what in open_work(stand)]
    proved, said = stand.proves_its_money()
    if not proved:
        findings.wrong.append(f"money_verify: {said}")
    for name, code in stand.second_ones_ended().items():
        findings.wrong.append(f"the second {name}, which nobody killed, ended with {code}")
    findings.wrong += _results_there(stand, rows.values(), findings)
    return findings


def _wrong_with(row: dict[str, Any]) -> Iterator[str]:
    """Whatever a customer knows of it, each row must have ended once and been charged once."""
    if row["stage"] != "COMMITTED":
        yield f"has not ended: {row['status']} {row['money_state']} {row['stage']}"
        return
    if row["commits"] != 1:
        yield f"ended {row['commits']} times"
    if row["starts"] > 1:
        yield f"was started {row['starts']} times"
    if row["charges"] != (1 if row["actual"] else 0):
        yield f"has {row['charges']} charges for {row['actual']} micros"
    if row["taken"] != row["actual"]:
        yield f"its bill says {row['actual']}, the ledger {row['taken']}"
    if row["actual"] > row["reserved"]:
        yield f"was charged {row['actual']} of {row['reserved']} held"
    if row["money_state"] == "REFUNDED" and row["actual"]:
        yield f"was refunded and charged {row['actual']}"


def _receipts_kept(
    books: Books, rows: dict[str, dict[str, Any]], bought: AbstractSet[str], findings: Findings
) -> Iterator[str]:
    """Each receipt is a row, each row that kept its key a receipt or an attempt, and what was read stands."""
    known: dict[str, Order] = {}
    for order in books.orders:
        if order.run_id is None:
            yield f"{order.idempotency_key} was never answered"
            continue
        known[order.run_id] = order
        row = rows.get(order.run_id)
        if row is None or row["idempotency_key"] != order.idempotency_key:
            yield f"{order.run_id} was accepted as {order.idempotency_key}, and its row is {row}"
            continue
        yield from _read_as_it_stands(order, row)
    findings.accepted = len(known)
    keys = Counter(row["idempotency_key"] for row in rows.values() if row["idempotency_key"] is not None)
    yield from (f"{key} has {count} runs" for key, count in keys.items() if count > 1)
    for row in rows.values():
        is_nobodys = row["run_id"] not in known and row["run_id"] not in bought
        if is_nobodys and (row["reason"] not in FREED or row["taken"] or row["idempotency_key"]):
            yield f"{row['run_id']} belongs to nobody: {row}"


def _read_as_it_stands(order: Order, row: dict[str, Any]) -> Iterator[str]:
    if order.seen is None:
        yield f"{order.run_id} was never seen to end; it is {row['status']}"
        return
    used_micros = int(Decimal(order.seen["cost"]["used"]) * 1_000_000)
    if (order.seen["status"], order.seen["money_state"]) != (row["status"], row["money_state"]):
        yield f"{order.run_id} was seen {order.seen['status']} {order.seen['money_state']}, and is {row}"
    if used_micros != row["actual"] // 100 * 100:
        yield f"{order.run_id} was billed {order.seen['cost']['used']}, the row says {row['actual']}"
    if order.canceled and row["reason"] != "CANCELED_BY_OWNER":
        yield f"{order.run_id} was canceled with success, and ended {row['status']} {row['reason']}"


def _deposits_entered(books: Books, entries: list[dict[str, Any]], findings: Findings) -> Iterator[str]:
    """Each top-up that was answered stands once, with its amount; and no other."""
    entered = Counter(
        (entry["tenant_id"], entry["reference"], entry["micros"])
        for entry in entries
        if entry["kind"] == "TOPUP" and str(entry["reference"]).startswith("chaos-")
    )
    promised = Counter((it.account.tenant_id, it.reference, it.micros) for it in books.deposits if it.answered)
    findings.deposits, findings.credited_micros = len(promised), sum(micros for _, _, micros in promised)
    if entered != promised:
        yield f"top-ups: only promised {promised - entered}, only entered {entered - promised}"


def _nothing_left_in_redis(stand: Stand, books: Books, entries: list[dict[str, Any]]) -> Iterator[str]:
    """No hold, and the balance is the ledger's sum."""
    client = stand.redis()
    for tenant_id in sorted({it.account.tenant_id for it in books.deposits}):
        holds: Any = client.hgetall(f"holds:{tenant_id}")
        if holds:
            yield f"{tenant_id} has orphan holds: {holds}"
        total = sum(entry["micros"] for entry in entries if entry["tenant_id"] == tenant_id)
        balance: Any = client.get(f"budget:{tenant_id}:balance_usd_micros")
        if balance is None or int(balance) != total:
            yield f"{tenant_id} has a balance of {balance}, its ledger sums up to {total}"


def _results_there(stand: Stand, rows: Any, findings: Findings) -> Iterator[str]:
    """What was sold can be had, byte for byte."""
    s3 = _client(stand, "s3")
    for row in rows:
        if row["status"] != "COMPLETED":
            continue
        url = s3.generate_presigned_url(
            "get_object", Params={"Bucket": row["result_bucket"], "Key": row["result_key"]}, ExpiresIn=600
        )
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  loopback
                found = hashlib.sha256(answer.read()).hexdigest()
        except OSError as error:
            yield f"the result of {row['run_id']} cannot be had: {error}"
            continue
        findings.results_read += 1
        if found != row["result_sha256"]:
            yield f"the result of {row['run_id']} is another than was sealed"


def _client(stand: Stand, service: str) -> Any:
    make: Any = boto3.client
    return make(
        service,
        endpoint_url=stand.values["SQS_ENDPOINT_URL"],
        region_name=stand.values["AWS_REGION"],
        aws_access_key_id=stand.values["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=stand.values["AWS_SECRET_ACCESS_KEY"],
    )
