"""Runs whose money is really held, brought to where a crash would leave them, and the law over all of it."""

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import F
from redis import Redis

from budget import entries, services
from budget.models import LedgerEntry
from budget.outcomes import Held, Settled
from budget.rebuild import rebuild
from budget.rebuild.plan import Credit
from budget.redis import scripts, view
from budget.verification import ledger_audit, verify
from budget.verification.verify import Verdict
from dpp_project import clock
from dpp_project.aws import clients
from dpp_project.jobs.registry import PassReport, RunOnce
from dpp_project.settings import ENV
from runs import transitions
from runs.bucket import storage
from runs.claims import counted_of
from runs.intents import Intent, ResultPointer
from runs.models import Run
from runs.reads.for_budget import created_at_ms
from tenants.models import Tenant
from tenants.scopes import OPERATOR_TENANT_ID
from tests.gear.builders import runs as gear
from tests.gear.builders.money import add_money, open_money, standing_balance, tell
from tests.gear.builders.tenants import ReadyRows, Written
from tests.gear.faults.proxy import Proxy

FUNDS_MICROS = 10_000_000


class Died(BaseException):
    """The process ends here: nothing that catches errors may catch it."""


def funded(*, opens: bool = False) -> Tenant:
    rows = ReadyRows()
    tenant_id = rows.tenant()
    return stored_with_money(rows, rows.top_up(tenant_id, FUNDS_MICROS), opens=opens).tenant


def stored_with_money(rows: ReadyRows, first: Credit, *, opens: bool) -> Written:
    """The rows in Postgres, then the money in Redis. `opens`: it is empty, and all money closed until now."""
    written = rows.write()
    if not opens:
        add_money(first)
    elif set(written.stood_before) <= {OPERATOR_TENANT_ID}:
        open_money(first, without=written.stood_before)
    else:
        rebuild.rebuild_all()
        tell(first)
    return written


@pytest.fixture
def tenant(valkey: Redis, aws: str, transactional_db: None) -> Tenant:
    """One with money; the queues are empty, and money is open."""
    empty_queues()
    return funded(opens=True)


def unmarked(tenant: Tenant, **values: Any) -> Run:
    """Held in Redis, and its row still at money NONE: the submit died in between."""
    run = gear.accepted(tenant_id=tenant.tenant_id, **values)
    outcome = services.hold(
        tenant_id=tenant.tenant_id,
        run_id=str(run.run_id),
        reserved_micros=run.reservation_max_cost_usd_micros,
        created_at_ms=created_at_ms(run.created_at),
        counted=counted_of(run),
    )
    assert isinstance(outcome, Held)
    return run


def queued(tenant: Tenant, **values: Any) -> Run:
    run = unmarked(tenant, **values)
    gear.won(transitions.reserve(run_id=run.run_id, version=run.version, actor="submit"))
    return gear.row(run.run_id)


def at_work(tenant: Tenant, **values: Any) -> Run:
    run = queued(tenant, **values)
    gear.won(transitions.start(run_id=run.run_id, version=run.version, lease_token=gear.LEASE_TOKEN, actor="worker"))
    return gear.row(run.run_id)


def worker_claimed(tenant: Tenant, *, intent: Intent | None = None) -> Run:
    """Claimed by its worker, the result stored; the worker died before any money moved."""
    run = at_work(tenant)
    gear.won(
        transitions.claim_worked(
            run=run,
            lease_token=gear.LEASE_TOKEN,
            token=gear.TOKEN,
            intent=intent or completed(run),
            actor="worker",
        )
    )
    return gear.row(run.run_id)


def completed(run: Run) -> Intent:
    key = storage.envelope_key(tenant_id=run.tenant_id, run_id=run.run_id, created_at=run.created_at)
    digest = storage.shared_run_storage().put(key, b"{}", content_type=storage.ENVELOPE_CONTENT_TYPE)
    return Intent.completed(
        actual_micros=gear.ACTUAL_MICROS,
        reserved_micros=gear.RESERVED_MICROS,
        result=ResultPointer(bucket=ENV.DPP_BUCKET, key=key, sha256=digest),
    )


# What each loop finds due.


def lease_ran_out(tenant: Tenant) -> Run:
    return gear.aged(at_work(tenant), lease_expires_at=1)


def waited_an_hour(tenant: Tenant) -> Run:
    return gear.aged(queued(tenant), created_at=3_601)


def left_claimed(tenant: Tenant) -> Run:
    return gear.aged(worker_claimed(tenant), finalize_claimed_at=301)


def abandoned(tenant: Tenant) -> Run:
    return gear.aged(unmarked(tenant), updated_at=61)


def unsent(tenant: Tenant) -> Run:
    return gear.aged(queued(tenant), next_send_at=1)


def past_retention(tenant: Tenant) -> Run:
    run = gear.aged(worker_claimed(tenant), finalize_claimed_at=301)
    settled = services.settle(
        tenant_id=tenant.tenant_id,
        run_id=str(run.run_id),
        charge_micros=run.intent_charge_usd_micros or 0,
        counted=counted_of(run),
    )
    assert isinstance(settled, Settled)
    gear.won(transitions.commit(claim=gear.claim_of(run), taken_micros=settled.charge_micros))
    return gear.aged(gear.row(run.run_id), retention_until=1)


# Many at once, by one statement; their money is held by a rebuild.

_MANY: Final = """
INSERT INTO runs (run_id, tenant_id, pack_type, status, money_state, payload_hash, version,
                  reservation_max_cost_usd_micros, minimum_fee_usd_micros, retention_until, lease_token,
                  lease_expires_at, finalize_stage, finalize_token, finalize_claimed_at, intent_status,
                  intent_money_state, intent_charge_usd_micros, intent_reason_code, result_bucket, result_key,
                  result_sha256, next_send_at, last_actor)
SELECT gen_random_uuid(), %(tenant_id)s, 'probe', 'PROCESSING', 'RESERVED', repeat('a', 64), %(version)s, 250000, 5000,
       now() + interval '30 days', 'the-lease', now() - interval '1 second' - n / 10 * interval '1 millisecond',
       %(stage)s, %(token)s, %(claimed_at)s, %(ends)s, %(money)s, %(charge)s, %(reason)s, %(bucket)s, %(key)s, %(sha)s,
       now(), 'worker'
  FROM generate_series(1, %(count)s) n
RETURNING run_id
"""


def many_at_work(tenant: Tenant, count: int) -> list[UUID]:
    """At work, and their lease has run out."""
    return _many(tenant, count, version=2)


def many_claimed(tenant: Tenant, count: int, *, ends: str) -> list[UUID]:
    """Left claimed by their workers: COMPLETED ones share an object in the bucket, FAILED ones have none."""
    claim = {"version": 3, "stage": "CLAIMED", "token": gear.TOKEN, "ends": ends, "money": "SETTLED"}
    claim |= {"claimed_at": clock.now() - timedelta(seconds=400)}
    if ends == "FAILED":
        return _many(tenant, count, **claim, charge=gear.FEE_MICROS, reason="PACK_FAILED")
    key = f"dpp/{tenant.tenant_id}/2026/03/01/shared/{storage.ENVELOPE_NAME}"
    sha = storage.shared_run_storage().put(key, b"{}", content_type=storage.ENVELOPE_CONTENT_TYPE)
    return _many(tenant, count, **claim, charge=gear.ACTUAL_MICROS, bucket=ENV.DPP_BUCKET, key=key, sha=sha)


def _many(tenant: Tenant, count: int, **values: Any) -> list[UUID]:
    entries.top_up(
        tenant_id=tenant.tenant_id,
        amount_micros=count * gear.RESERVED_MICROS,
        reference=secrets.token_hex(8),
        reason="",
        actor="test",
    )
    unset = dict.fromkeys(("stage", "token", "claimed_at", "ends", "money", "charge", "reason", "bucket", "key", "sha"))
    with connection.cursor() as cursor:
        cursor.execute(_MANY, {"tenant_id": tenant.tenant_id, "count": count, **unset, **values})
        run_ids = [run_id for (run_id,) in cursor.fetchall()]
    rebuild.rebuild_all()
    return run_ids


# What must hold afterwards.


def run_loop(run_once: RunOnce, *, limit: int = 100) -> PassReport:
    return run_once(now=clock.now(), limit=limit)


def law_holds(tenant: Tenant) -> None:
    """The balance follows from ledger and holds, and the ledger from the runs."""
    proof = verify.verify_tenant_money(tenant.tenant_id)
    assert proof.verdict is Verdict.PROVED, proof
    assert [found for chunk in ledger_audit.audit_ledger(tenant.tenant_id) for found in chunk.differences] == []


def balance_micros(tenant: Tenant) -> int:
    return standing_balance(tenant.tenant_id)


def held_micros(tenant: Tenant) -> dict[str, int]:
    return dict(view.look_at_money(scripts.shared_scripts().client, tenant.tenant_id).holds)


def charges(run: Run) -> list[int]:
    entries = LedgerEntry.objects.filter(run_id=run.run_id).order_by("amount_usd_micros")
    return list(entries.values_list("amount_usd_micros", flat=True))


def minutes_pass(run: Run, *, seconds: int = 301) -> None:
    """The claim grows old, by the database's clock."""
    Run.objects.filter(run_id=run.run_id).update(
        finalize_claimed_at=F("finalize_claimed_at") - timedelta(seconds=seconds)
    )


def empty_queues() -> None:
    for url in (ENV.DPP_QUEUE_URL, ENV.DPP_DLQ_URL):
        clients.sqs_client().purge_queue(QueueUrl=url)


def at_once(*actions: Callable[[], object]) -> list[object]:
    """All of them side by side, each on a connection of its own; their answers, or the first error."""
    barrier = threading.Barrier(len(actions))
    answers: list[object] = [None] * len(actions)
    errors: list[BaseException] = []

    def act(at: int, action: Callable[[], object]) -> None:
        try:
            barrier.wait(10)
            answers[at] = action()
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            connection.close()

    threads = [threading.Thread(target=act, args=(at, action)) for at, action in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    return answers


@contextmanager
def redis_through_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Money travels through a proxy that can fail."""
    target = urlsplit(settings.REDIS_URL)
    with Proxy(str(target.hostname), target.port or 6379) as proxy, monkeypatch.context() as patch:
        patch.setattr(settings, "REDIS_URL", f"redis://127.0.0.1:{proxy.port}/0")
        scripts.forget_scripts()
        try:
            yield proxy
        finally:
            scripts.forget_scripts()
    scripts.forget_scripts()
