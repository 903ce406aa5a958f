"""Which run a message starts: in the queue of runs the one whose turn it is, else the one it names. (DPP-30, DPP-87)

    choose   the row that is to start                                    nothing is left
    start    CAS to PROCESSING with a lease. Where the tenant or the     the reaper, when the lease has run out
             key has a limit, counted under their locks; where
             another of the tenant's goes before the run whose turn it
             is, the two change numbers: all in one transaction

The right column says what a death leaves there. A loser of the compare-and-set, or of the number, chooses again: each
loss is another's start. What its key, or its tenant, has no room for is kept back, and the message goes on to the next
in line; so a message is given back without a start only when no run waits that this worker could start.
"""

import enum
import threading
import uuid
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Final

from django.db import transaction

from runs import transitions, turns
from runs.claims import LOST
from runs.models import Run
from runs.packs import registry
from runs.reads import for_worker
from runs.reads.for_worker import WaitingRun
from runs.states import Status
from runs.submit import next_of_key
from runs.turns import NumberTaken

ACTOR: Final = "worker"
_CHOOSING: Final = threading.Lock()
"""The slots of a process choose one after the other: at once they would all choose the same run, and one have it."""


class UnknownRun(LookupError):  # noqa: N818  named for the finding
    """No row has this id: the message is not ours."""


class _Refused(enum.Enum):
    LOST = "lost"  # another was faster


@dataclass(frozen=True, slots=True)
class _Full:
    """There are as many at work as may be, of its key or of its tenant."""

    of_key: bool
    kept_back: int


@dataclass(frozen=True, slots=True)
class StartedRun:
    """`fair_pass` is the number in whose turn it started, which may have been another's of its tenant."""

    run: Run
    fair_pass: int | None
    concurrency_key: str | None
    has_limit: bool


def start_run(named: uuid.UUID, *, lease_token: str, in_turn: bool, again: bool = False) -> StartedRun | None:
    """The run that is now this worker's; None where there is none to start. `again`: an answer to this very token may
    have got lost.

    Raises UnknownRun, UnknownPack, and what the database raises.
    """
    if again and (mine := for_worker.held_by(lease_token)) is not None:
        return StartedRun(mine.run, None, mine.concurrency_key, mine.has_limit)
    own_too = True
    while True:
        with _CHOOSING if in_turn else nullcontext():
            found = _waiting_run_to_start(named, in_turn=in_turn, own_too=own_too)
            if not found.run.waits_for_worker or (found.is_kept_back and not own_too):
                return None
            registry.pack_named(found.run.pack_type)
            outcome = _start(found, lease_token)
        if isinstance(outcome, WaitingRun):
            return _as_started(found, outcome)
        if isinstance(outcome, _Full):
            _after_keeping_back(found, outcome)
        if not in_turn:
            return None
        own_too = own_too and not (isinstance(outcome, _Full) and found.run.run_id == named)


def _waiting_run_to_start(named: uuid.UUID, *, in_turn: bool, own_too: bool) -> WaitingRun:
    found = (
        for_worker.next_in_line(named, packs=registry.packs_for_sale(), own_too=own_too)
        if in_turn
        else for_worker.read_for_worker(named)
    )
    if found is None:
        raise UnknownRun(named)
    return found


# What is sent here waits for Redis and SQS: after the lock, where no other slot waits for it.


def _as_started(chosen: WaitingRun, found: WaitingRun) -> StartedRun:
    if found is not chosen and found.concurrency_key is not None:
        next_of_key.wake_next_if_possible(found.run.tenant_id, found.concurrency_key)
    return StartedRun(found.run, found.in_pass, found.concurrency_key, found.has_limit)


def _after_keeping_back(found: WaitingRun, full: _Full) -> None:
    if full.kept_back > turns.NEAR:
        next_of_key.draw_near_if_possible(found.run.tenant_id)
    if full.of_key and found.has_limit:  # its tenant's place is another run's
        next_of_key.wake_limited_if_possible(found.run.tenant_id)


def _start(found: WaitingRun, lease_token: str) -> WaitingRun | _Refused | _Full:
    taken = _number_taken(found)
    if found.concurrency_key is None and not found.has_limit and taken is None:
        return _run_started_or_lost(found, lease_token)
    with transaction.atomic():
        if (full := _full_limit_at_start(found)) is not None:
            return full
        first = _first_of_key(found)
        if taken is not None and not turns.take_number(taken):
            return _Refused.LOST
        outcome = _run_started_or_lost(first, lease_token)
        if outcome is _Refused.LOST:
            transaction.set_rollback(True)  # the number as well
        elif first is not found:
            turns.park_run(found.run.run_id)  # its turn, and the message that stood for it, are another's now
    return outcome


def _full_limit_at_start(found: WaitingRun) -> _Full | None:
    """Counts under the locks, of the tenant and then of the key, to the end of the transaction."""
    tenant_id, key = found.run.tenant_id, found.concurrency_key
    if found.has_limit:
        turns.lock_tenant(tenant_id)
        if turns.room_of_tenant(tenant_id) < 1:
            return _Full(of_key=False, kept_back=turns.keep_back(found.run.run_id, tenant_id=tenant_id))
    if key is not None:
        turns.lock_key(tenant_id, key)
        if turns.room_of(tenant_id, key) < 1:
            return _Full(of_key=True, kept_back=turns.park_key(tenant_id, key, met=found.run.run_id))
    return None


def _number_taken(found: WaitingRun) -> NumberTaken | None:
    """From the run whose turn it is, where that is far before its own; neighbours are left."""
    if found.overtaken is None or found.in_pass is None or found.fair_pass is None:
        return None
    if found.in_pass >= found.fair_pass - turns.OVERTAKEN_BY:
        return None
    return NumberTaken(found.overtaken, number=found.in_pass, given=found.fair_pass)


def _first_of_key(found: WaitingRun) -> WaitingRun:
    """A parked one that goes before it, in its turn: it was parked when there was no room, and there is some now."""
    if found.concurrency_key is None or found.is_kept_back or found.priority is None:
        return found
    parked = turns.parked_turns(found.run.tenant_id, found.concurrency_key)
    first = parked.filter(pack_type__in=list(registry.packs_for_sale())).first()
    if first is None or (-first.priority, first.run_id) > (-found.priority, found.run.run_id):
        return found
    earlier = for_worker.read_for_worker(first.run_id)
    if earlier is None or not earlier.run.waits_for_worker:
        return found
    return replace(earlier, fair_pass=found.fair_pass, in_pass=found.in_pass, overtaken=found.overtaken)


def _run_started_or_lost(found: WaitingRun, lease_token: str) -> WaitingRun | _Refused:
    run = found.run
    moved = transitions.start(run_id=run.run_id, version=run.version, lease_token=lease_token, actor=ACTOR)
    if moved is LOST:
        return _Refused.LOST
    run.status, run.version = Status.PROCESSING, moved.version
    return found
