"""Every edge of a run's life, one function each. Nobody else writes status, money state or stage.

Each edge is one statement with its guard in the WHERE: it moves the row from the version its caller saw, or it moves
nothing and answers LOST. Losing is normal; the loser reads again, or stops. The winner gets the row's new version, or
the claim it has won (claims.py). Leases and ages are measured by the database's clock, so that a machine with a wrong
one can do no harm.
`docs/state_machine.md` lists the edges; a test compares.
"""

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from budget.ledger import ENTRIES_OF_ENDED_RUN
from budget.money import minimum_fee_micros
from dpp_project.constants import LEASE_TTL_SECONDS, RESERVATION_TTL_SECONDS, RETENTION_DAYS
from dpp_project.reasons import ReasonCode
from runs import timing
from runs.claims import LOST, Claim, Claimed, Lost, Moved, Seen, Won, new_token
from runs.intents import Intent
from runs.models import Run, RunHistory, RunInputs
from runs.statements import compared, written_once
from runs.states import MoneyState, Stage, Status

FREES_ITS_KEY: Final = (ReasonCode.QUEUE_ENQUEUE_FAILED, ReasonCode.SUBMIT_ABANDONED)
"""A run that ended so never reached its caller: the same Idempotency-Key may be used again."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A new row, QUEUED and at money NONE, version 0."""

    run_id: uuid.UUID
    created_at: datetime


@dataclass(frozen=True, slots=True)
class AlreadyAccepted:
    """The tenant used this key before; whether for the same request, the hash tells."""

    run_id: uuid.UUID
    payload_hash: str


@dataclass(frozen=True, slots=True)
class Lease:
    run_id: uuid.UUID
    token: str


def _moved(changed: int, version: int) -> Moved | Lost:
    return Moved(version + 1) if changed else LOST


def _won(changed: int) -> Won | Lost:
    return Won() if changed else LOST


def _step(actor: str) -> dict[str, Any]:
    """What every edge but the renewing and postponing ones writes beside its own columns."""
    return {"version": F("version") + 1, "last_actor": actor, "updated_at": Now()}


def _unclaimed(run_id: uuid.UUID, version: int) -> Q:
    return Q(run_id=run_id, version=version, finalize_stage__isnull=True)


_UNHELD: Final = compared(status=Status.QUEUED, money_state=MoneyState.NONE)
_WAITING: Final = compared(status=Status.QUEUED, money_state=MoneyState.RESERVED)
_PROCESSING: Final = compared(status=Status.PROCESSING)


def _seconds_ago(seconds: int) -> Any:
    return Now() - timedelta(seconds=seconds)


def _in_seconds(seconds: int) -> Any:
    return Now() + timedelta(seconds=seconds)


# From the request to the queue.


_ACCEPT: Final = """
WITH made AS (
    INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, idempotency_key,
                      payload_hash, reservation_max_cost_usd_micros, minimum_fee_usd_micros, retention_until,
                      trace_id, last_actor)
    VALUES (%(run_id)s, %(tenant_id)s, %(pack_type)s, %(profile_version)s, 'QUEUED', 'NONE', %(idempotency_key)s,
            %(payload_hash)s, %(reserved)s, %(minimum_fee)s, now() + make_interval(days => %(retention_days)s),
            %(trace_id)s, %(actor)s)
    ON CONFLICT (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING run_id, created_at
), sent AS (
    INSERT INTO run_inputs (run_id, inputs, artifacts, timebox_sec, min_reliability_score, inline)
    SELECT run_id, %(inputs)s::jsonb, %(artifacts)s::jsonb, %(timebox_sec)s, %(min_reliability_score)s, %(inline)s
      FROM made
)
SELECT run_id, created_at, NULL::text FROM made
UNION ALL
SELECT run_id, created_at, payload_hash FROM runs
 WHERE tenant_id = %(tenant_id)s AND idempotency_key = %(idempotency_key)s AND NOT EXISTS (SELECT FROM made)
"""


def accept(
    *,
    run_id: uuid.UUID,
    tenant_id: str,
    pack_type: str,
    profile_version: str,
    idempotency_key: str | None,
    payload_hash: str,
    reserved_micros: int,
    inputs: Mapping[str, Any],
    artifacts: Mapping[str, Any] | None,
    timebox_sec: int,
    min_reliability_score: float,
    inline: bool,
    trace_id: str | None,
    actor: str,
) -> Accepted | AlreadyAccepted:
    """INSERT the run and what was sent, in one statement; the tenant's key is taken by it.

    Of two at once the second waits for the first and is answered the first's id. The row the second met may be dropped
    (402) before it is read: then the statement is asked again, and inserts.
    """
    values: dict[str, Any] = {
        "run_id": run_id,
        "tenant_id": tenant_id,
        "pack_type": pack_type,
        "profile_version": profile_version,
        "idempotency_key": idempotency_key,
        "payload_hash": payload_hash,
        "reserved": reserved_micros,
        "minimum_fee": minimum_fee_micros(reserved_micros),
        "retention_days": RETENTION_DAYS,
        "inputs": json.dumps(inputs, ensure_ascii=False),
        "artifacts": None if artifacts is None else json.dumps(artifacts, ensure_ascii=False),
        "timebox_sec": timebox_sec,
        "min_reliability_score": min_reliability_score,
        "inline": inline,
        "trace_id": trace_id,
        "actor": actor,
    }
    with connection.cursor() as cursor:
        while True:
            cursor.execute(_ACCEPT, values)
            row = cursor.fetchone()
            if row is None:
                # Met in the index, but committed after this statement's snapshot: the next one sees it, or its place.
                continue
            found_id, created_at, found_hash = row
            if found_hash is None:
                return Accepted(found_id, created_at)
            return AlreadyAccepted(found_id, found_hash)


def drop(*, run_id: uuid.UUID, version: int) -> Won | Lost:
    """402: the money was not there, so the row was never. Its inputs and history go with it."""
    changed, _ = Run.objects.filter(_unclaimed(run_id, version), _UNHELD).delete()
    return _won(changed)


def resume(*, run_id: uuid.UUID, version: int, actor: str) -> Moved | Lost:
    """A retry of the same key takes the row over before it reserves: the first handler can then do neither step."""
    return _moved(Run.objects.filter(_unclaimed(run_id, version), _UNHELD).update(**_step(actor)), version)


def reserve(*, run_id: uuid.UUID, version: int, actor: str) -> Moved | Lost:
    """The hold stands in Redis; from now on a worker may start the run."""
    return _moved(_reserve(run_id=run_id, version=version, actor=actor), version)


@written_once
def _reserve(*, run_id: uuid.UUID, version: int, actor: str) -> int:
    return Run.objects.filter(_unclaimed(run_id, version), _UNHELD).update(
        money_state=MoneyState.RESERVED,
        next_send_at=_in_seconds(timing.FIRST_SEND_AGAIN_SECONDS),
        **_step(actor),
    )


# At work.


def start(*, run_id: uuid.UUID, version: int, lease_token: str, actor: str) -> Moved | Lost:
    """One worker takes the run, whose money is held and which nobody has claimed. The loser acks and does nothing."""
    return _moved(_start(run_id=run_id, version=version, lease_token=lease_token, actor=actor), version)


@written_once
def _start(*, run_id: uuid.UUID, version: int, lease_token: str, actor: str) -> int:
    return Run.objects.filter(_unclaimed(run_id, version), _WAITING).update(
        status=Status.PROCESSING,
        lease_token=lease_token,
        lease_expires_at=_in_seconds(LEASE_TTL_SECONDS),
        **_step(actor),
    )


_RENEW: Final = """
UPDATE runs SET lease_expires_at = statement_timestamp() + make_interval(secs => %(seconds)s)
  FROM unnest(%(run_ids)s::uuid[], %(tokens)s::text[]) AS held (run_id, token)
 WHERE runs.run_id = held.run_id AND runs.lease_token = held.token AND runs.status || '' = 'PROCESSING'
   AND runs.finalize_stage IS NULL AND runs.lease_expires_at >= statement_timestamp()
RETURNING runs.run_id
"""


def renew(*, leases: Iterable[Lease]) -> set[uuid.UUID]:
    """The runs whose lease holds on; whose id is missing must stop its pack. The only edge that keeps the version.

    A lease that has run out is never revived: the reaper may be deciding on it.
    """
    held = list(leases)
    if not held:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(
            _RENEW,
            {
                "seconds": LEASE_TTL_SECONDS,
                "run_ids": [lease.run_id for lease in held],
                "tokens": [lease.token for lease in held],
            },
        )
        return {run_id for (run_id,) in cursor.fetchall()}


# The claim: who wins it decides how the run ends, and writes that down before any money moves.


Columns = dict[str, str | int | None]


def _decided(intent: Intent) -> Columns:
    pointer = intent.result
    return {
        "intent_status": intent.status.value,
        "intent_money_state": intent.money_state.value,
        "intent_charge_usd_micros": intent.charge_micros,
        "intent_reason_code": None if intent.reason is None else intent.reason.value,
        "last_error_detail": intent.detail,
        "tokens_consumed": intent.tokens_consumed,
        "result_bucket": None if pointer is None else pointer.bucket,
        "result_key": None if pointer is None else pointer.key,
        "result_sha256": None if pointer is None else pointer.sha256,
    }


def _claimed(seen: Seen, *, token: str, intent: Intent, actor: str) -> Claimed:
    """The claim that has been won on the row as it was seen."""
    return Claimed(
        Claim(
            run_id=seen.run_id,
            tenant_id=seen.tenant_id,
            version=seen.version + 1,
            token=token,
            actor=actor,
            money_state=intent.money_state,
            charge_micros=intent.charge_micros,
        )
    )


def _write_claim(guard: Q, token: str, decided: Columns, actor: str) -> int:
    return Run.objects.filter(guard).update(
        finalize_stage=Stage.CLAIMED, finalize_token=token, finalize_claimed_at=Now(), **decided, **_step(actor)
    )


def _claim(run: Seen, guard: Q, *, intent: Intent, actor: str) -> Claimed | Lost:
    token = new_token()
    changed = _write_claim(_unclaimed(run.run_id, run.version) & guard, token, _decided(intent), actor)
    return _claimed(run, token=token, intent=intent, actor=actor) if changed else LOST


def claim_worked(*, run: Seen, lease_token: str, token: str, intent: Intent, actor: str) -> Claimed | Lost:
    """The worker that holds the lease has finished, well or badly. An expired lease still wins if nobody reaped it.

    The token is the worker's own: should the answer get lost, it knows its claim by it.
    """
    changed = _claim_worked(
        run_id=run.run_id,
        version=run.version,
        lease_token=lease_token,
        token=token,
        actor=actor,
        **_decided(intent),
    )
    return _claimed(run, token=token, intent=intent, actor=actor) if changed else LOST


@written_once
def _claim_worked(
    *, run_id: uuid.UUID, version: int, lease_token: str, token: str, actor: str, **decided: str | int | None
) -> int:
    guard = _unclaimed(run_id, version) & _PROCESSING & Q(lease_token=lease_token)
    return _write_claim(guard, token, decided, actor)


def claim_lease_expired(*, run: Seen, intent: Intent, actor: str) -> Claimed | Lost:
    """The reaper's: nobody renewed the lease."""
    return _claim(run, _PROCESSING & Q(lease_expires_at__lt=Now()), intent=intent, actor=actor)


def claim_never_started(*, run: Seen, intent: Intent, actor: str) -> Claimed | Lost:
    """The sweeper's: queued for as long as a reservation stands."""
    guard = _WAITING & Q(created_at__lt=_seconds_ago(RESERVATION_TTL_SECONDS))
    return _claim(run, guard, intent=intent, actor=actor)


def claim_abandoned(*, run: Seen, intent: Intent, actor: str) -> Claimed | Lost:
    """A submit that died before it marked its money: the refund finds the hold, or leaves a tombstone against it."""
    guard = _UNHELD & Q(updated_at__lt=_seconds_ago(timing.ABANDONED_AFTER_SECONDS))
    return _claim(run, guard, intent=intent, actor=actor)


def claim_unsent(*, run: Seen, intent: Intent, actor: str) -> Claimed | Lost:
    """The submitter's, when the queue refused the message, or seemed to: a worker may have started the run already."""
    return _claim(run, _WAITING, intent=intent, actor=actor)


def claim_dead_lettered(*, run: Seen, intent: Intent, actor: str) -> Claimed | Lost:
    """The dead-letter consumer's: the run's message died twice and no worker ever started it."""
    return _claim(run, _WAITING & Q(dead_lettered_at__isnull=False), intent=intent, actor=actor)


def claim_canceled(*, run: Seen, intent: Intent, actor: str) -> Claimed | Lost:
    """The owner's: everything back while the run is queued, the minimum fee once a worker has it."""
    seen = Status.QUEUED if intent.money_state is MoneyState.REFUNDED else Status.PROCESSING
    guard = compared(status=seen, money_state=MoneyState.RESERVED)
    return _claim(run, guard, intent=intent, actor=actor)


# From the claim to the end.


def retake(*, run: Run, actor: str, own_token: str | None = None) -> Claimed | Lost:
    """Take a claim over, intent and all: one that has stood too long, or one's own whose version a rebuild raised.

    One's own keeps its token, so that the finisher still knows the claim when an answer gets lost.
    """
    token = own_token or new_token()
    right = Q(finalize_claimed_at__lt=_seconds_ago(timing.RECONCILE_AFTER_SECONDS))
    if own_token is not None:
        right |= Q(finalize_token=own_token)
    changed = Run.objects.filter(
        right, compared(finalize_stage=Stage.CLAIMED), run_id=run.run_id, version=run.version
    ).update(finalize_token=token, finalize_claimed_at=Now(), **_step(actor))
    if not changed:
        return LOST
    return Claimed(replace(Claim.stored(run, actor=actor), version=run.version + 1, token=token))


def reintend(*, claim: Claim, charge_micros: int) -> Claimed | Lost:
    """The stored result is gone for good: what was to be completed fails, at the minimum fee, which is what it charges.

    The one exception to "nobody decides twice": a compare-and-set of its own, before this finisher moves any money.
    """
    changed = Run.objects.filter(
        compared(finalize_stage=Stage.CLAIMED),
        run_id=claim.run_id,
        version=claim.version,
        finalize_token=claim.token,
        intent_status=Status.COMPLETED,
    ).update(
        intent_status=Status.FAILED,
        intent_money_state=MoneyState.SETTLED,
        intent_charge_usd_micros=charge_micros,
        intent_reason_code=ReasonCode.RESULT_LOST,
        result_bucket=None,
        result_key=None,
        result_sha256=None,
        **_step(claim.actor),
    )
    if not changed:
        return LOST
    return Claimed(
        replace(claim, version=claim.version + 1, money_state=MoneyState.SETTLED, charge_micros=charge_micros)
    )


_COMMIT: Final = f"""
WITH ended AS (
    UPDATE runs
       SET status = intent_status,
           money_state = intent_money_state,
           actual_cost_usd_micros = least(%(taken)s::bigint, intent_charge_usd_micros),
           last_error_reason_code = intent_reason_code,
           idempotency_key = CASE WHEN intent_reason_code = ANY(%(frees)s::text[]) THEN NULL ELSE idempotency_key END,
           finalize_stage = 'COMMITTED',
           version = version + 1,
           last_actor = %(actor)s,
           updated_at = statement_timestamp()
     WHERE run_id = %(run_id)s AND version = %(version)s AND finalize_token = %(token)s
       AND finalize_stage || '' = 'CLAIMED'
    RETURNING tenant_id, run_id, %(taken)s::bigint AS taken_micros, intent_charge_usd_micros AS due_micros,
              %(actor)s::text AS actor
), {ENTRIES_OF_ENDED_RUN}
SELECT count(*) FROM ended
"""  # noqa: S608  no value is written into it


def commit(*, claim: Claim, taken_micros: int) -> Moved | Lost:
    """Write the end that the claim decided, with its ledger entries, in one statement.

    `taken_micros` is what the receipt of the settle or refund says. Where that is more than the intent, the ledger gets
    the charge as taken and an ADJUST of the difference. A loser writes nothing: another finisher has the run.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _COMMIT,
            {
                "run_id": claim.run_id,
                "version": claim.version,
                "token": claim.token,
                "taken": taken_micros,
                "actor": claim.actor,
                "frees": list(FREES_ITS_KEY),
            },
        )
        (ended,) = cursor.fetchone()
    return _moved(ended, claim.version)


# After the end.


def dispute(*, run_id: uuid.UUID, version: int, actor: str) -> Moved | Lost:
    """A settled charge is doubted; until it is resolved nothing moves."""
    changed = Run.objects.filter(
        compared(finalize_stage=Stage.COMMITTED, money_state=MoneyState.SETTLED), run_id=run_id, version=version
    ).update(money_state=MoneyState.DISPUTED, **_step(actor))
    return _moved(changed, version)


def resolve(*, run_id: uuid.UUID, version: int, refunded: bool, actor: str) -> Moved | Lost:
    """Upheld: the charge stands. Refunded: the caller writes the ADJUST entry in the same transaction."""
    changed = Run.objects.filter(
        compared(finalize_stage=Stage.COMMITTED, money_state=MoneyState.DISPUTED), run_id=run_id, version=version
    ).update(money_state=MoneyState.REFUNDED if refunded else MoneyState.SETTLED, **_step(actor))
    return _moved(changed, version)


def expire(*, run_id: uuid.UUID, version: int, actor: str) -> Moved | Lost:
    """Past its retention the run becomes a tombstone: key, pointer, inputs and earlier history go; its money stays.

    Delete the stored result first: after this nobody knows where it lay.
    """
    with transaction.atomic():
        changed = Run.objects.filter(
            compared(finalize_stage=Stage.COMMITTED),
            run_id=run_id,
            version=version,
            status__in=[Status.COMPLETED, Status.FAILED],
            retention_until__lt=Now(),
        ).update(
            status=Status.EXPIRED,
            idempotency_key=None,
            result_bucket=None,
            result_key=None,
            result_sha256=None,
            last_error_detail=None,
            **_step(actor),
        )
        if changed:
            _allow_retention()
            RunInputs.objects.filter(run_id=run_id).delete()
            RunHistory.objects.filter(run_id=run_id, version__lte=version).delete()
    return _moved(changed, version)


def forget(*, run_id: uuid.UUID, version: int) -> Won | Lost:
    """A tombstone has stood for a year: the row goes. Its ledger entries never do."""
    with transaction.atomic():
        _allow_retention()
        changed, _ = (
            Run.objects.filter(
                run_id=run_id,
                version=version,
                status=Status.EXPIRED,
                retention_until__lt=Now() - timedelta(days=timing.TOMBSTONE_DAYS),
            )
            .exclude(money_state=MoneyState.DISPUTED)
            .delete()
        )
    return _won(changed)


def _allow_retention() -> None:
    """To the end of this transaction the database lets history and old tombstones go."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL dpp.retention = 'on'")


# Beside the edges: who may be woken when. The version stays, so a worker that is just starting is not disturbed.


def postpone_send(*, run_id: uuid.UUID, send_count: int) -> Won | Lost:
    """The one who wins sends the message again; the next time is further off. `send_count` is what its caller saw."""
    changed = Run.objects.filter(
        _WAITING,
        run_id=run_id,
        send_count=send_count,
        finalize_stage__isnull=True,
        dead_lettered_at__isnull=True,
        next_send_at__lte=Now(),
    ).update(send_count=F("send_count") + 1, next_send_at=_in_seconds(timing.send_again_seconds(send_count + 1)))
    return _won(changed)


def mark_dead_lettered(*, run_id: uuid.UUID) -> Won | Lost:
    """The run's message died for the first time: the one who wins sends it once more. The requeuer keeps off."""
    changed = Run.objects.filter(
        _WAITING, run_id=run_id, finalize_stage__isnull=True, dead_lettered_at__isnull=True
    ).update(dead_lettered_at=Now())
    return _won(changed)


def fence(*, tenant_id: str | None, actor: str) -> int:
    """A rebuild raises the version of every run between two effects, so that no step under way can commit.

    These are the claimed ones and those whose money is not marked. An actor on its way loses its compare-and-set and
    reads again; the rebuild then counts what the rows say.
    """
    between = Q(finalize_stage=Stage.CLAIMED) | Q(finalize_stage__isnull=True, money_state=MoneyState.NONE)
    runs = Run.objects.filter(between)
    if tenant_id is not None:
        runs = runs.filter(tenant_id=tenant_id)
    return runs.update(**_step(actor))
