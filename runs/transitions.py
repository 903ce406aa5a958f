"""Every edge of a run's life, one function each. Nobody else writes status, money state or stage.

Each edge is one statement with its guard in the WHERE: it moves the row from the version its caller saw, or it moves
nothing and answers LOST. Losing is normal; the loser reads again, or stops. The winner gets the row's new version, or
the claim it has won (claims.py). Leases and ages are measured by the database's clock, so that a machine with a wrong
one can do no harm. `docs/state_machine.md` lists the edges; a test compares.
"""

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import BigIntegerField, Case, DateField, DateTimeField, DurationField, F, JSONField, Q, When
from django.db.models.functions import Greatest, Least, Now

from budget import ledger
from dpp_project.constants import LEASE_TTL_SECONDS, RESERVATION_TTL_SECONDS
from dpp_project.reasons import ReasonCode
from runs import telling, timing, turns
from runs.claims import (
    LOST,
    Accepted,
    AlreadyAccepted,
    Claim,
    Claimed,
    Lease,
    Lost,
    Moved,
    SeenRun,
    Won,
    counted_of,
    new_token,
)
from runs.compiled_update import CompiledUpdate, Given, compared_row
from runs.intents import FREES_ITS_KEY, OWN_FAILURES, Intent
from runs.models import Run, RunHistory, RunInputs
from runs.states import MoneyState, Stage, Status
from runs.submissions import Submission, values_of


def _moved_or_lost(changed: int, version: int) -> Moved | Lost:
    return Moved(version + 1) if changed else LOST


def _won_or_lost(changed: int) -> Won | Lost:
    return Won() if changed else LOST


_SEEN: Final = Q(run_id=Given("run_id"), version=Given("version"))
"""The row as the edge's caller saw it."""
_UNCLAIMED: Final = Q(finalize_stage__isnull=True)
_UNHELD: Final = compared_row(status=Status.QUEUED, money_state=MoneyState.NONE) & _UNCLAIMED
_WAITING: Final = compared_row(status=Status.QUEUED, money_state=MoneyState.RESERVED) & _UNCLAIMED
_PROCESSING: Final = compared_row(status=Status.PROCESSING) & _UNCLAIMED
_CLAIMED: Final = compared_row(finalize_stage=Stage.CLAIMED)
_COMMITTED: Final = compared_row(finalize_stage=Stage.COMMITTED)

_STEP: Final[dict[str, Any]] = {"version": F("version") + 1, "last_actor": Given("actor"), "updated_at": Now()}
"""What every edge but the renewing and postponing ones writes beside its own columns."""


def _ago(argument: str) -> Any:
    return Now() - Given(argument, DurationField())


def _from_now(argument: str) -> Any:
    return Now() + Given(argument, DurationField())


# From the request to the queue.


_ACCEPT: Final = f"""
WITH made AS (
    INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, idempotency_key,
                      payload_hash, reservation_max_cost_usd_micros, minimum_fee_usd_micros, retention_until,
                      trace_id, last_actor, lineage_id, price_version, spend_day)
    VALUES (%(run_id)s, %(tenant_id)s, %(pack_type)s, %(profile_version)s, 'QUEUED', 'NONE', %(idempotency_key)s,
            %(payload_hash)s, %(reserved)s, %(minimum_fee)s, now() + make_interval(days => %(retention_days)s),
            %(trace_id)s, %(actor)s, %(lineage_id)s, %(price_version)s,
            (SELECT greatest((now() AT TIME ZONE known_zone(zone))::date, %(not_before)s::date)
               FROM tenants WHERE tenant_id = %(tenant_id)s))
    ON CONFLICT (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING run_id, created_at, spend_day
), sent AS (
    INSERT INTO run_inputs (run_id, inputs, artifacts, timebox_sec, min_reliability_score, inline)
    SELECT run_id, %(inputs)s::jsonb, %(artifacts)s::jsonb, %(timebox_sec)s, %(min_reliability_score)s, %(inline)s
      FROM made
), told AS (
    INSERT INTO run_metadata (run_id, tenant_id, created_at, key, value)
    SELECT run_id, %(tenant_id)s, created_at, key, value FROM made, jsonb_each_text(%(metadata)s::jsonb)
), waits AS ({turns.ENTER})
SELECT run_id, created_at, NULL::text, spend_day FROM made
UNION ALL
SELECT run_id, created_at, payload_hash, NULL FROM runs
 WHERE tenant_id = %(tenant_id)s AND idempotency_key = %(idempotency_key)s AND NOT EXISTS (SELECT FROM made)
"""  # noqa: S608  our own words


def accept(
    *, run_id: uuid.UUID, asked: Submission, actor: str, not_before: date | None = None, fair_pass: int | None = None
) -> Accepted | AlreadyAccepted:
    """INSERT the run, what was sent and its turn, in one statement; the tenant's key is taken by it.

    The database dates the run, in the tenant's zone: whose day, week and month it counts in. `not_before` is the latest
    date that this process has met, so that a clock that was set back dates no run into a window that has ended.

    Of two at once the second waits for the first and is answered the first's id. The row the second met may be dropped
    (402) before it is read: then the statement is asked again, and inserts.
    """
    values = values_of(asked, run_id=run_id, actor=actor, not_before=not_before, fair_pass=fair_pass)
    with connection.cursor() as cursor:
        while True:
            cursor.execute(_ACCEPT, values)
            row = cursor.fetchone()
            if row is None:
                # Met in the index, but committed after this statement's snapshot: the next one sees it, or its place.
                continue
            found_id, created_at, found_hash, spend_day = row
            if found_hash is None:
                return Accepted(found_id, created_at, spend_day)
            return AlreadyAccepted(found_id, found_hash)


def drop(*, run_id: uuid.UUID, version: int) -> Won | Lost:
    """402: the money was not there, so the row was never. Its inputs and history go with it."""
    changed, _ = Run.objects.filter(_UNHELD, run_id=run_id, version=version).delete()
    return _won_or_lost(changed)


_RESUME: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _UNHELD), spend_day=Greatest(F("spend_day"), Given("not_before", DateField())), **_STEP
)


def resume(*, run_id: uuid.UUID, version: int, actor: str, not_before: date | None = None) -> Moved | Lost:
    """A retry of the same key takes the row over before it reserves: the first handler can then do neither step.

    `not_before` dates the row anew. Only a hold that was refused for the row's date may ask for it: that refusal proves
    that nothing is held under the earlier date.
    """
    return _moved_or_lost(_RESUME(run_id=run_id, version=version, actor=actor, not_before=not_before), version)


_RESERVE: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _UNHELD),
    money_state=MoneyState.RESERVED,
    next_send_at=_from_now("send_again"),
    **_STEP,
)


def reserve(*, run_id: uuid.UUID, version: int, actor: str) -> Moved | Lost:
    """The hold stands in Redis; from now on a worker may start the run."""
    send_again = timedelta(seconds=timing.FIRST_SEND_AGAIN_SECONDS)
    return _moved_or_lost(_RESERVE(run_id=run_id, version=version, actor=actor, send_again=send_again), version)


# At work.


_START: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _WAITING),
    status=Status.PROCESSING,
    lease_token=Given("lease_token"),
    lease_expires_at=_from_now("lease"),
    **_STEP,
)


def start(*, run_id: uuid.UUID, version: int, lease_token: str, actor: str) -> Moved | Lost:
    """One worker takes the run, whose money is held and which nobody has claimed. The loser acks and does nothing."""
    lease = timedelta(seconds=LEASE_TTL_SECONDS)
    changed = _START(run_id=run_id, version=version, lease_token=lease_token, lease=lease, actor=actor)
    return _moved_or_lost(changed, version)


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


_CLAIM: Final[dict[str, Any]] = {
    "finalize_stage": Stage.CLAIMED,
    "finalize_token": Given("token"),
    "finalize_claimed_at": Now(),
    "intent_status": Given("intent_status"),
    "intent_money_state": Given("intent_money_state"),
    "intent_charge_usd_micros": Given("charge_micros"),
    "intent_reason_code": Given("reason"),
    "last_error_detail": Given("detail"),
    "tokens_consumed": Given("tokens_consumed"),
    "result_bucket": Given("bucket"),
    "result_key": Given("key"),
    "result_sha256": Given("sha256"),
    "result_artifacts": Given("artifacts", JSONField()),
    **_STEP,
}


def _claim(
    edge: CompiledUpdate,
    run: SeenRun,
    *,
    intent: Intent,
    actor: str,
    token: str | None = None,
    was_held: bool = True,
    **guarded: object,
) -> Claimed | Lost:
    """`guarded`: what the edge's guard compares beside the row as it was seen."""
    token = token or new_token()
    seen = {"run_id": run.run_id, "version": run.version}
    if not edge(**seen, token=token, **intent.stored(), actor=actor, **guarded):
        return LOST
    return Claimed(
        Claim(
            run_id=run.run_id,
            tenant_id=run.tenant_id,
            trace_id=run.trace_id,
            version=run.version + 1,
            token=token,
            actor=actor,
            money_state=intent.money_state,
            charge_micros=intent.charge_micros,
            was_held=was_held,
            counted=counted_of(run),
        )
    )


_CLAIM_WORKED: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _PROCESSING, lease_token=Given("lease_token")), **_CLAIM
)


def claim_worked(*, run: SeenRun, lease_token: str, token: str, intent: Intent, actor: str) -> Claimed | Lost:
    """The worker that holds the lease has finished, well or badly. An expired lease still wins if nobody reaped it.

    The token is the worker's own: should the answer get lost, it knows its claim by it.
    """
    return _claim(_CLAIM_WORKED, run, intent=intent, actor=actor, token=token, lease_token=lease_token)


_CLAIM_LEASE_EXPIRED: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _PROCESSING, lease_expires_at__lt=Now()), **_CLAIM
)


def claim_lease_expired(*, run: SeenRun, intent: Intent, actor: str) -> Claimed | Lost:
    """The reaper's: nobody renewed the lease."""
    return _claim(_CLAIM_LEASE_EXPIRED, run, intent=intent, actor=actor)


_CLAIM_NEVER_STARTED: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _WAITING, created_at__lt=_ago("reservation")), **_CLAIM
)


def claim_never_started(*, run: SeenRun, intent: Intent, actor: str) -> Claimed | Lost:
    """The sweeper's: queued for as long as a reservation stands."""
    reservation = timedelta(seconds=RESERVATION_TTL_SECONDS)
    return _claim(_CLAIM_NEVER_STARTED, run, intent=intent, actor=actor, reservation=reservation)


_CLAIM_ABANDONED: Final = CompiledUpdate(Run.objects.filter(_SEEN, _UNHELD, updated_at__lt=_ago("untouched")), **_CLAIM)


def claim_abandoned(*, run: SeenRun, intent: Intent, actor: str) -> Claimed | Lost:
    """A submit that died before it marked its money: the refund finds the hold, or leaves a tombstone against it."""
    untouched = timedelta(seconds=timing.ABANDONED_AFTER_SECONDS)
    return _claim(_CLAIM_ABANDONED, run, intent=intent, actor=actor, was_held=False, untouched=untouched)


_CLAIM_UNSENT: Final = CompiledUpdate(Run.objects.filter(_SEEN, _WAITING), **_CLAIM)


def claim_unsent(*, run: SeenRun, intent: Intent, actor: str) -> Claimed | Lost:
    """The submitter's, when the queue refused the message, or seemed to: a worker may have started the run already."""
    return _claim(_CLAIM_UNSENT, run, intent=intent, actor=actor)


_CLAIM_DEAD_LETTERED: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _WAITING, dead_lettered_at__isnull=False), **_CLAIM
)


def claim_dead_lettered(*, run: SeenRun, intent: Intent, actor: str) -> Claimed | Lost:
    """The dead-letter consumer's: the run's message died twice and no worker ever started it."""
    return _claim(_CLAIM_DEAD_LETTERED, run, intent=intent, actor=actor)


_CLAIM_CANCELED: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _UNCLAIMED, compared_row(status=Given("status"), money_state=MoneyState.RESERVED)),
    **_CLAIM,
)


def claim_canceled(*, run: SeenRun, intent: Intent, actor: str) -> Claimed | Lost:
    """The owner's: everything back while the run is queued, the minimum fee once a worker has it."""
    seen = Status.QUEUED if intent.money_state is MoneyState.REFUNDED else Status.PROCESSING
    return _claim(_CLAIM_CANCELED, run, intent=intent, actor=actor, status=seen.value)


# From the claim to the end.


_RETAKE: Final = CompiledUpdate(
    Run.objects.filter(
        _SEEN, _CLAIMED, Q(finalize_claimed_at__lt=_ago("stood")) | Q(finalize_token=Given("own_token"))
    ),
    finalize_token=Given("token"),
    finalize_claimed_at=Now(),
    **_STEP,
)


def retake(*, run: Run, actor: str, own_token: str | None = None) -> Claimed | Lost:
    """Take a claim over, intent and all: one that has stood too long, or one's own whose version a rebuild raised.

    One's own keeps its token, so that the finisher still knows the claim when an answer gets lost.
    """
    token = own_token or new_token()
    changed = _RETAKE(
        run_id=run.run_id,
        version=run.version,
        stood=timedelta(seconds=timing.RECONCILE_AFTER_SECONDS),
        own_token=own_token,
        token=token,
        actor=actor,
    )
    if not changed:
        return LOST
    return Claimed(replace(Claim.stored(run, actor=actor), version=run.version + 1, token=token))


_REINTEND: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _CLAIMED, finalize_token=Given("token"), intent_status=Status.COMPLETED),
    intent_status=Status.FAILED,
    intent_money_state=MoneyState.SETTLED,
    intent_charge_usd_micros=Given("charge_micros"),
    intent_reason_code=ReasonCode.RESULT_LOST,
    result_bucket=None,
    result_key=None,
    result_sha256=None,
    result_artifacts=None,
    **_STEP,
)


def reintend(*, claim: Claim, charge_micros: int) -> Claimed | Lost:
    """The stored result is gone for good: what was to be completed fails, at the minimum fee, which is what it charges.

    The one exception to "nobody decides twice": a compare-and-set of its own, before this finisher moves any money.
    """
    changed = _REINTEND(
        run_id=claim.run_id,
        version=claim.version,
        token=claim.token,
        charge_micros=charge_micros,
        actor=claim.actor,
    )
    if not changed:
        return LOST
    return Claimed(
        replace(claim, version=claim.version + 1, money_state=MoneyState.SETTLED, charge_micros=charge_micros)
    )


_COMMIT: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _CLAIMED, finalize_token=Given("token")),
    status=F("intent_status"),
    money_state=F("intent_money_state"),
    actual_cost_usd_micros=Least(Given("taken_micros", BigIntegerField()), F("intent_charge_usd_micros")),
    last_error_reason_code=F("intent_reason_code"),
    idempotency_key=Case(When(intent_reason_code__in=FREES_ITS_KEY, then=None), default=F("idempotency_key")),
    finalize_stage=Stage.COMMITTED,
    **_STEP,
)
_ENDED: Final = (
    f"RETURNING {telling.COLUMNS}, intent_charge_usd_micros AS due_micros, last_actor AS actor, lineage_id, spend_day, "
    f"CASE WHEN last_error_reason_code IN ({telling.listed_reasons(OWN_FAILURES)}) "
    "THEN last_error_reason_code END AS own_failure"
)
_TELL_ENDED: Final = telling.ended_clause(untold=FREES_ITS_KEY)


def commit(*, claim: Claim, taken_micros: int) -> Moved | Lost:
    """Write the end that the claim decided, with its ledger entries, in one statement.

    `taken_micros` is what the receipt of the settle or refund says. Where that is more than the intent, the ledger gets
    the charge as taken and an ADJUST of the difference. A loser writes nothing: another finisher has the run.

    A run that is given back whole keeps nothing of what its caller sent: the inputs go in the same transaction. The
    row of them stays, for a replay's receipt repeats its timebox and reliability.

    The same statement writes the message for the tenant's webhooks, but for a run that frees its key: its caller never
    got it.
    """
    if claim.money_state is not MoneyState.REFUNDED:
        return _moved_or_lost(_end_with_entries(claim, taken_micros), claim.version)
    with transaction.atomic():
        ended = _end_with_entries(claim, taken_micros)
        if ended:
            RunInputs.objects.filter(run_id=claim.run_id).update(inputs={}, artifacts=None)
    return _moved_or_lost(ended, claim.version)


def _end_with_entries(claim: Claim, taken_micros: int) -> int:
    sql, values = _COMMIT.written(
        run_id=claim.run_id, version=claim.version, token=claim.token, taken_micros=taken_micros, actor=claim.actor
    )
    return ledger.end_run_with_entries(f"{sql} {_ENDED}", values, taken_micros=taken_micros, beside=_TELL_ENDED)


# After the end.


_DISPUTE: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _COMMITTED, compared_row(money_state=MoneyState.SETTLED)),
    money_state=MoneyState.DISPUTED,
    **_STEP,
)


def dispute(*, run_id: uuid.UUID, version: int, actor: str) -> Moved | Lost:
    """A settled charge is doubted; until it is resolved nothing moves."""
    return _moved_or_lost(_DISPUTE(run_id=run_id, version=version, actor=actor), version)


_RESOLVE: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _COMMITTED, compared_row(money_state=MoneyState.DISPUTED)),
    money_state=Given("money_state"),
    **_STEP,
)


def resolve(*, run_id: uuid.UUID, version: int, refunded: bool, actor: str) -> Moved | Lost:
    """Upheld: the charge stands. Refunded: the caller writes the ADJUST entry in the same transaction."""
    money_state = MoneyState.REFUNDED if refunded else MoneyState.SETTLED
    sql, values = _RESOLVE.written(run_id=run_id, version=version, money_state=money_state.value, actor=actor)
    told = f"WITH resolved AS ({sql} RETURNING {telling.COLUMNS}),{telling.RESOLVED} SELECT count(*) FROM resolved"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(told, values)
        (changed,) = cursor.fetchone()
    return _moved_or_lost(changed, version)


_EXPIRE: Final = CompiledUpdate(
    Run.objects.filter(_SEEN, _COMMITTED, status__in=[Status.COMPLETED, Status.FAILED], retention_until__lt=Now()),
    status=Status.EXPIRED,
    idempotency_key=None,
    result_bucket=None,
    result_key=None,
    result_sha256=None,
    result_artifacts=None,
    last_error_detail=None,
    **_STEP,
)


def expire(*, run_id: uuid.UUID, version: int, actor: str) -> Moved | Lost:
    """Past its retention the run becomes a tombstone: key, pointer, inputs and earlier history go; its money stays.

    Delete the stored result first: after this nobody knows where it lay.
    """
    with transaction.atomic():
        changed = _EXPIRE(run_id=run_id, version=version, actor=actor)
        if changed:
            _allow_retention()
            RunInputs.objects.filter(run_id=run_id).delete()
            RunHistory.objects.filter(run_id=run_id, version__lte=version).delete()
    return _moved_or_lost(changed, version)


def clear_inputs(*, run_ids: Collection[uuid.UUID]) -> int:
    """An ended run's inputs go before its retention; the rest of what was sent stays, and is shown."""
    return RunInputs.objects.filter(run_id__in=run_ids, run__finalize_stage=Stage.COMMITTED).update(inputs={})


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
    return _won_or_lost(changed)


def _allow_retention() -> None:
    """To the end of this transaction the database lets history and old tombstones go."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL dpp.retention = 'on'")


# Beside the edges: who may be woken when. The version stays, so a worker that is just starting is not disturbed.


_POSTPONE_SEND: Final = CompiledUpdate(
    Run.objects.filter(
        _WAITING,
        run_id=Given("run_id"),
        send_count=Given("send_count"),
        next_send_at__lte=Now(),
    ).filter(Q(dead_lettered_at__isnull=True) | Q(dead_lettered_at=Given("dead_lettered_at", DateTimeField()))),
    send_count=F("send_count") + 1,
    next_send_at=_from_now("send_again"),
)


def postpone_send(*, run_id: uuid.UUID, send_count: int, dead_lettered_at: datetime | None = None) -> Won | Lost:
    """The one who wins sends the message again; the next time is further off. `send_count` is what its caller saw, and
    `dead_lettered_at`: a message that died meanwhile is the dead-letter consumer's.
    """
    send_again = timedelta(seconds=timing.send_again_seconds(send_count + 1))
    return _won_or_lost(
        _POSTPONE_SEND(run_id=run_id, send_count=send_count, dead_lettered_at=dead_lettered_at, send_again=send_again)
    )


_MARK_DEAD_LETTERED: Final = CompiledUpdate(
    Run.objects.filter(_WAITING, run_id=Given("run_id"), dead_lettered_at__isnull=True), dead_lettered_at=Now()
)


def mark_dead_lettered(*, run_id: uuid.UUID) -> Won | Lost:
    """The run's message died for the first time: the one who wins sends it once more. The requeuer keeps off."""
    return _won_or_lost(_MARK_DEAD_LETTERED(run_id=run_id))


_END_RETENTION: Final = """
WITH ended AS (
    UPDATE runs SET retention_until = greatest(created_at, least(clock_timestamp(), %(now)s))
     WHERE run_id = %(run_id)s AND finalize_stage = 'COMMITTED' AND retention_until > least(clock_timestamp(), %(now)s)
    RETURNING run_id
), untold AS (
    DELETE FROM run_metadata WHERE run_id = %(run_id)s AND EXISTS (
        SELECT FROM runs WHERE run_id = %(run_id)s AND finalize_stage || '' = 'COMMITTED') RETURNING run_id
)
SELECT (SELECT count(*) FROM ended), (SELECT count(*) FROM untold)
"""


def end_retention(*, run_id: uuid.UUID, now: datetime) -> tuple[bool, int]:
    """An ended run's time is over from now on, and its metadata go: whether it was not over before, and how many."""
    with connection.cursor() as cursor:
        cursor.execute(_END_RETENTION, {"run_id": run_id, "now": now})
        ended, untold = cursor.fetchone()
    return bool(ended), untold


def fence(*, run_ids: Sequence[uuid.UUID], actor: str) -> int:
    """A rebuild raises the version of these runs, where they are between two effects: no step under way can commit.

    Between two effects are the claimed ones and those whose money is not marked. An actor on its way loses its
    compare-and-set and reads again; the rebuild then counts what the rows say.
    """
    between = Q(finalize_stage=Stage.CLAIMED) | Q(finalize_stage__isnull=True, money_state=MoneyState.NONE)
    runs = Run.objects.filter(between, run_id__in=run_ids)
    return runs.update(version=F("version") + 1, last_actor=actor, updated_at=Now())
