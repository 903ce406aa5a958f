"""There is room again, of a concurrency key or of a tenant with a limit: the first runs that were kept back go into the
line once more, each with a message.

    draw     a turn for each                       a turn that its tenant did not use
    back     under the lock                        in the line without a message: the requeuer sends it, it is long due
    send     ten in a request                      the same

The right column says what a death leaves there. One before all of it leaves them kept back, and the requeuer, which
calls this for every key and every tenant that has some, wakes them within its minute.

The turns are drawn behind the tenant's runs that are in the line, and not behind those that it kept back: their numbers
are not used, and with a thousand of them the next would wait for a thousand runs of every other tenant.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import structlog
from django.db import transaction
from django.db.models import QuerySet
from redis import RedisError

from dpp_project.stores.postgres import DATABASE_AWAY
from runs import turns
from runs.models import Run, RunTurn
from runs.submit import wake_worker
from runs.submit.wake_worker import Wakeup
from tenants.models import Tenant

log = structlog.get_logger("dpp.run")

MOST_AT_ONCE: Final = 100


def wake_next(tenant_id: str, concurrency_key: str) -> int:
    """How many were put back into the line. Safe at any time, and beside itself: what is too many is parked again."""
    return _wake(
        tenant_id,
        turns.parked_turns(tenant_id, concurrency_key),
        lock=partial(turns.lock_key, tenant_id, concurrency_key),
        room=partial(turns.room_of, tenant_id, concurrency_key),
    )


def wake_limited(tenant_id: str) -> int:
    """The same for what the tenant's own limit keeps back."""
    return _wake(
        tenant_id,
        turns.limited_turns(tenant_id),
        lock=partial(turns.lock_tenant, tenant_id),
        room=partial(turns.room_of_tenant, tenant_id),
    )


def _wake(tenant_id: str, kept: QuerySet[RunTurn], *, lock: Callable[[], None], room: Callable[[], int]) -> int:
    with transaction.atomic():
        lock()  # else who just counted no room, and keeps its run back after this, was woken by none
        wanted = kept[: max(0, min(room(), MOST_AT_ONCE))].count()
    if not wanted:
        return 0
    drawn = _drawn(tenant_id, wanted)
    with transaction.atomic():
        lock()
        first = list(kept.values_list("run_id", flat=True)[: max(0, min(room(), wanted))])
        woken = [
            run_id for run_id, turn in zip(first, drawn, strict=False) if turns.back_in_line(run_id, fair_pass=turn)
        ]
    failed = wake_worker.send_wakeups([Wakeup.of(run) for run in Run.objects.filter(run_id__in=woken)])
    if failed:
        log.warning("the queue did not take what woke the next runs", tenant_id=tenant_id, failed=len(failed))
    return len(woken)


def _drawn(tenant_id: str, wanted: int) -> list[int]:
    weight = Tenant.objects.values_list("share_weight", flat=True).get(tenant_id=tenant_id)
    waiting = turns.in_line(tenant_id)
    behind = waiting if waiting < turns.COUNTED_MOST else None  # of more it is not known how many; numbers would meet
    first = turns.draw_turn(tenant_id=tenant_id, share_weight=weight, behind=behind)
    return [first, *(turns.draw_turn(tenant_id=tenant_id, share_weight=weight) for _ in range(wanted - 1))]


# For those who have other work: what cannot be now, the requeuer's next pass does.


def wake_next_if_possible(tenant_id: str, concurrency_key: str) -> int:
    return _if_possible(partial(wake_next, tenant_id, concurrency_key), tenant_id=tenant_id)


def wake_limited_if_possible(tenant_id: str) -> int:
    return _if_possible(partial(wake_limited, tenant_id), tenant_id=tenant_id)


def draw_near_if_possible(tenant_id: str) -> None:
    """Many were kept back: what the tenant submits from now on draws behind those in the line, and not behind them."""
    _if_possible(lambda: len(_drawn(tenant_id, 1)), tenant_id=tenant_id)


def _if_possible(act: Callable[[], int], *, tenant_id: str) -> int:
    try:
        return act()
    except (RedisError, *DATABASE_AWAY) as error:
        log.warning("the next runs were not woken", tenant_id=tenant_id, exc_info=error)
        return 0
