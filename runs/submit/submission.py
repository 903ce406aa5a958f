"""`POST /v1/runs` as a use case: from a request to a run that is held, queued and known by its key.

Idempotency key: (tenant, Idempotency-Key); the unique index decides, the row is the truth. The order, and what a death
after each step leaves (docs/concurrency.md has the same windows with their tests):

    lock            rate, lock, mapping, glance at the balance, a turn       a lock that lapses in 5 s, a turn that
                    in the line, one trip                                    its tenant did not use
    read            body parsed and checked: a wrong one has cost a token     the lock is given back, or lapses
    accept          INSERT row, inputs, turn: QUEUED, money NONE              a row nobody sees; a retry resumes it, the
                                                                             sweep of abandoned submits ends it
    hold            the money, one trip                                      the same, and its refund finds the hold
    date anew       CAS of a row whose date the hold refused: nothing held   the same; the retry holds with that date
    reserve         CAS to money RESERVED                                    a good run without a message: the requeuer
    map             mapping and lock, one trip                               the same; a retry is answered from the row
    send            one message                                              nothing: the run is under way

A handler may be slow and its lock lapse: then a second one resumes the row by compare-and-set, and the first one loses
its next step, reads again and answers what it finds. A failed send may have been taken: it is a claim like any other
(DPP-09); a submit that loses the claim finds the run started.

A submit without a key of its caller's (`submit_derived`) is metered first, then read, and its key derived by one
statement (`derived_key.py`); from there it is as any other. A death before `accept` leaves nothing of it, either.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from redis import RedisError

from runs.submissions import Submission
from runs.submit import derived_key, key_lock
from runs.submit.answer import BUDGET_UNAVAILABLE, SubmitAnswer
from runs.submit.hold_and_send import HoldAndSend
from runs.submit.key_lock import EarlyMeter, KeyLock, TripMeter
from runs.submit.run_of_key import Row, RunOfKey


def submit_run(
    *,
    tenant_id: str,
    idempotency_key: str,
    read: Callable[[], Submission],
    entry: TripMeter | None,
    capped: Sequence[str | None] = (),
    share_weight: int = 1,
) -> SubmitAnswer:
    """See the module. `capped` are the scopes with a cap: None for the tenant, a lineage for the key. `entry` is None
    for a request that has been metered. `share_weight` is the tenant's.

    Raises what the database raises, and what `entry` and `read` raise to refuse the request. A retry with the same key
    goes on from there.
    """
    lock = KeyLock(tenant_id, idempotency_key)
    try:
        found = key_lock.take_key_lock(lock, entry, capped=capped, share_weight=share_weight)
    except RedisError as error:
        if entry is not None:
            entry.missed(error)
        return BUDGET_UNAVAILABLE
    try:
        if entry is not None:
            entry.passed(found.entry, found.money)
        asked = read()
        runs = RunOfKey(asked, lock, found)
        run = runs.first()
        if not isinstance(run, Row):
            return run
        return HoldAndSend(asked, lock, runs, found).carry(run)
    finally:
        if lock.held:
            key_lock.release_key_lock(lock)


def submit_derived(
    *,
    tenant_id: str,
    read: Callable[[], Submission],
    entry: EarlyMeter,
    capped: Sequence[str | None] = (),
    share_weight: int = 1,
) -> tuple[str, SubmitAnswer]:
    """For a caller without a key: the one that was derived, and what `submit_run` answers under it.

    Metered first, so that a request beyond the tenant's rate costs no statement. Raises as `submit_run` does.
    """
    entry.take()
    asked = read()
    key = derived_key.derived_key_of(tenant_id=tenant_id, payload_hash=asked.payload_hash)
    asked = replace(asked, idempotency_key=key)
    return key, submit_run(
        tenant_id=tenant_id,
        idempotency_key=key,
        read=lambda: asked,
        entry=None,
        capped=capped,
        share_weight=share_weight,
    )
