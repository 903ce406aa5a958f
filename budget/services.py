"""Where money is held, taken, given back and asked for. Each use case names its idempotency key, and what is true if
it dies. What comes in, or is put right, is entered in entries.py.

A hold, settle or refund is one script, one round trip: it happened whole or not at all, and asking again repeats the
first answer. `Unavailable` is a normal answer: nothing is known to have happened, and asking again later is right.

Where a tenant's money turns out to be lost (its balance, what is counted under its caps, or the hold that the run's row
promises), these functions rebuild the tenant, and their callers do not. That rebuild fences the caller's row, so the
answer is `AskAgain`: read the row again, then ask again. Where the tenant cannot be rebuilt now, because another
rebuild is at work or a store is away, the answer is Unavailable.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

import redis

from budget import metrics
from budget.outcomes import (
    AskAgain,
    Closed,
    HoldLost,
    HoldOutcome,
    NoHold,
    RefundOutcome,
    SettleOutcome,
    Unavailable,
)
from budget.rebuild import rebuild
from budget.redis import keys, scripts, view
from budget.redis.gate import GateClosed
from budget.redis.windows import NO_CAPS_KNOWN, NOWHERE, Counted, LeastRevisions

ScriptAnswer = TypeVar("ScriptAnswer")

BALANCE_LOST: Final = Unavailable(Closed.BALANCE)
CAPS_LOST: Final = Unavailable(Closed.CAPS)
GATE_PAUSE: Final = timedelta(milliseconds=20)
GATE_TRIES: Final = keys.VERIFY_GATE_MS // 20 + 2


def hold(
    *,
    tenant_id: str,
    run_id: str,
    reserved_micros: int,
    created_at_ms: int,
    counted: Counted = NOWHERE,
    least: LeastRevisions = NO_CAPS_KNOWN,
) -> HoldOutcome:
    """Take the run's price off the balance, and count it in the windows of its date. Key: the run.

    `counted` says where, as the run's row does; `least` is the newest change of caps that the caller has heard of. The
    hold that brings a newer one than Redis has makes good what a death between its commit and Redis left.

    The row must exist before, at money NONE; after Held or AlreadyHeld the caller marks it RESERVED by CAS. Dying in
    between leaves a hold that a retry of the same submit, or the row's finisher, finds. DateBehind proves that nothing
    is held: only then may the row be dated anew.
    """
    answer = _counted_money_operation(
        "hold",
        lambda: scripts.shared_scripts().reserve(
            tenant_id=tenant_id,
            run_id=run_id,
            reserved_micros=reserved_micros,
            created_at_ms=created_at_ms,
            counted=counted,
            least=least,
        ),
    )
    if isinstance(answer, HoldLost) or answer == BALANCE_LOST:
        return _rebuilt(tenant_id)
    if answer == CAPS_LOST:
        return _rebuilt(tenant_id, otherwise=CAPS_LOST)
    return answer


def settle(*, tenant_id: str, run_id: str, charge_micros: int, counted: Counted = NOWHERE) -> SettleOutcome:
    """End a hold with a charge. Key: the run; the first settle or refund decides, later ones repeat its answer.

    The row must be CLAIMED with this charge as its intent. Dying before the commit leaves a receipt for 24 hours;
    the row's next finisher gets the same answer.
    """
    answer = _counted_money_operation(
        "settle",
        lambda: scripts.shared_scripts().settle(
            tenant_id=tenant_id, run_id=run_id, charge_micros=charge_micros, counted=counted
        ),
    )
    if isinstance(answer, NoHold) or answer == BALANCE_LOST:
        return _rebuilt(tenant_id)
    return answer


def refund(*, tenant_id: str, run_id: str, was_held: bool = False, counted: Counted = NOWHERE) -> RefundOutcome:
    """End a hold without a charge, and stop one that may still be coming. Key and crash window as for `settle`.

    `was_held`: the run's row says that its price was held. Where Redis knows of no hold then, it has lost it; without
    the row's word it may never have been made.
    """
    answer = _counted_money_operation(
        "refund",
        lambda: scripts.shared_scripts().refund_full(
            tenant_id=tenant_id, run_id=run_id, was_held=was_held, counted=counted
        ),
    )
    if isinstance(answer, NoHold) or answer == BALANCE_LOST:
        return _rebuilt(tenant_id)
    return answer


def _rebuilt(tenant_id: str, *, otherwise: Unavailable = BALANCE_LOST) -> AskAgain | Unavailable:
    return AskAgain() if rebuild.try_rebuild_tenant(tenant_id) else otherwise


def _counted_money_operation(operation: str, ask: Callable[[], ScriptAnswer]) -> ScriptAnswer:
    answer = asked_while_gated(ask)
    label = answer.closed.value if isinstance(answer, Unavailable) else type(answer).__name__
    metrics.OPERATIONS.labels(operation, label).inc()
    return answer


def asked_while_gated(ask: Callable[[], ScriptAnswer]) -> ScriptAnswer:
    """A tenant that is only being verified is open again within VERIFY_GATE_MS: the caller is not told of it."""
    for _ in range(GATE_TRIES):
        answer = ask()
        if answer != Unavailable(Closed.GATE):
            break
        time.sleep(GATE_PAUSE.total_seconds())
    return answer


@dataclass(frozen=True, slots=True)
class Available:
    balance_micros: int


def balance(*, tenant_id: str) -> Available | Unavailable:
    """What can be held now; never zero for want of knowing. One round trip, unless it was lost and is rebuilt first."""
    found = _balance(tenant_id)
    if found == BALANCE_LOST and rebuild.try_rebuild_tenant(tenant_id):
        return _balance(tenant_id)
    return found


def _balance(tenant_id: str) -> Available | Unavailable:
    money = scripts.shared_scripts()
    try:
        epoch = money.gate.epoch()
        seen = view.look_at_balance(money.client, tenant_id)
        if seen.mark.epoch != epoch and seen.mark.epoch != money.gate.renewed():
            return Unavailable(Closed.EPOCH)
    except GateClosed:
        return Unavailable(Closed.EPOCH)
    except redis.RedisError:
        return Unavailable(Closed.REDIS)
    if seen.mark.gate is not None:
        return Unavailable(Closed.GATE)
    return BALANCE_LOST if seen.balance_micros is None else Available(seen.balance_micros)
