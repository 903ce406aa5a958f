"""The line that runs wait in, where tenants share by weight and each orders its own runs (DPP-87, DPP-98).

A turn is a number: the worker takes the lowest. Each of a tenant's is a stride behind the one before, the stride is
shorter the greater its weight, and none is before what has started; so what one tenant floods makes its own turns far,
and nobody else's. Whose turn it is says the lowest number; which of its runs starts then, its tenant: by priority, then
by age. Where that is not the one with the lowest number, the two change numbers, in the transaction of the start: each
number has one start, and a priority costs no other tenant anything.

A key of concurrency keeps no permits that could be lost: who is at work is counted from the rows (`run_turns`, moved by
a trigger with the run), under an advisory lock of the key. So is a tenant that may have only so many at work, from the
runs. What there is no room for is kept back: PARKED for its key, LIMITED for its tenant. What makes room wakes the
first that was, and the requeuer does so for all whose waking was lost.

Redis hands the numbers out. Where it has lost them, the clock is behind every number that was ever drawn. The numbers
of what is kept back are never used: who is woken draws anew, as far ahead as its tenant has runs in the line, or it
would wait for as many of the others' as its tenant had drawn.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.db import connection
from django.db.models import QuerySet
from redis.client import Pipeline

from budget.redis import keys as money_keys
from dpp_project.stores import advisory_lock, redis
from dpp_project.stores.lua import LuaScript
from runs.models import ConcurrencyLimit, RunTurn
from tenants.models import Tenant

STRIDE: Final = 2_520
"""Of weight 1, in microseconds, since the clock stands in for a lost number: a platform that starts fewer than 400 runs
a second in turns of weight 1 stays behind it. Divisible by 1 to 10."""
NEAR: Final = 32
OVERTAKEN_BY: Final = NEAR * STRIDE
"""Numbers nearer than that are left: those that are drawn at once are in no order of their runs' ages."""
COUNTED_MOST: Final = 10_000
KEPT_BACK_AT_ONCE: Final = 1_000
UNBOUNDED: Final = 1_000_000
_IN_LINE_OR_LIMITED: Final = (RunTurn.Stands.WAITING, RunTurn.Stands.LIMITED)
_KEPT_BACK: Final = (RunTurn.Stands.PARKED, RunTurn.Stands.LIMITED)
NOW: Final = "fair:now"
GUESS: Final = "fair:guess"
_DRAW: Final = LuaScript(Path(__file__).parent / "lua" / "draw_turn.lua")
_NOTE: Final = LuaScript(Path(__file__).parent / "lua" / "note_turn.lua")

ENTER: Final = """
    INSERT INTO run_turns (run_id, tenant_id, pack_type, fair_pass, priority, concurrency_key)
    SELECT run_id, %(tenant_id)s, %(pack_type)s, %(fair_pass)s::bigint, %(priority)s, %(concurrency_key)s
      FROM made WHERE %(fair_pass)s::bigint IS NOT NULL
"""
"""Beside the statement that accepts the run."""


def last_turn(tenant_id: str) -> str:
    return f"fair:last:{tenant_id}"


# The numbers.


def turn_stride(share_weight: int) -> int:
    return STRIDE // share_weight


def queue_draw(
    pipeline: Pipeline, *, tenant_id: str, share_weight: int, below: int, mapping: str, lock: str, token: str
) -> None:
    """Of `below` open runs and more a turn is drawn, where the lock is held and its key has no run."""
    names = [money_keys.holds_key(tenant_id), NOW, GUESS, last_turn(tenant_id), mapping, lock]
    _DRAW.queue(pipeline, keys=names, args=[below, turn_stride(share_weight), token])


def drawn_turn(answer: tuple[int, str | None]) -> tuple[int, int | None]:
    """The tenant's open runs, and the turn."""
    open_runs, turn = answer
    return open_runs, None if turn is None else int(turn)


def draw_turn(*, tenant_id: str, share_weight: int, behind: int | None = None) -> int:
    """`behind` so many turns of its tenant's, instead of behind all that it ever drew. Raises RedisError."""
    names = [money_keys.holds_key(tenant_id), NOW, GUESS, last_turn(tenant_id)]
    args: list[str | int] = [0, turn_stride(share_weight)]
    if behind is not None:
        args += ["", behind]
    _, turn = drawn_turn(_DRAW(redis.redis_client(), keys=names, args=args))
    assert turn is not None  # noqa: S101  below no open runs one is always drawn
    return turn


def queue_note(pipeline: Pipeline, *, fair_pass: int) -> None:
    _NOTE.queue(pipeline, keys=[NOW], args=[fair_pass])


def in_line(tenant_id: str) -> int:
    """How many of the tenant's runs wait for a turn; no more are counted than a flood has."""
    waiting = RunTurn.objects.filter(tenant_id=tenant_id, stands=RunTurn.Stands.WAITING)
    return waiting[:COUNTED_MOST].count()


@dataclass(frozen=True, slots=True)
class NumberTaken:
    """A run starts in the turn of another of its tenant's, and gives its own number for that."""

    overtaken: uuid.UUID
    number: int
    given: int


def take_number(taken: NumberTaken) -> bool:
    """Beside the start, in one transaction. False: another has started in that turn."""
    whose = RunTurn.objects.filter(run_id=taken.overtaken, stands=RunTurn.Stands.WAITING, fair_pass=taken.number)
    return bool(whose.update(fair_pass=taken.given))


# The keys.


def lock_key(tenant_id: str, concurrency_key: str) -> None:
    """To the end of this transaction no other counts, parks or wakes the key's runs."""
    advisory_lock.lock_name_until_commit(f"runs at work {tenant_id} {concurrency_key}")


def room_of(tenant_id: str, concurrency_key: str) -> int:
    """How many more of the key may start. At work is a run from its start to its end, whatever became of its worker."""
    return most_of(tenant_id, concurrency_key) - at_work(tenant_id, concurrency_key)


def most_of(tenant_id: str, concurrency_key: str) -> int:
    found = ConcurrencyLimit.objects.filter(tenant_id=tenant_id, key=concurrency_key)
    return found.values_list("most_at_work", flat=True).first() or 1


def at_work(tenant_id: str, concurrency_key: str) -> int:
    of_key = RunTurn.objects.filter(tenant_id=tenant_id, concurrency_key=concurrency_key)
    return of_key.filter(stands=RunTurn.Stands.AT_WORK).count()


def park_key(tenant_id: str, concurrency_key: str, *, met: uuid.UUID) -> int:
    """The one that was met and the others of the key that wait or are limited, so that no worker looks at them again
    before there is room. Under the key's lock.

    Of a flood a thousand: the slots of a process wait meanwhile, and who meets the next parks the next thousand. A row
    that its run's end is just deleting is left, but for the one that was met, which would be met again.
    """
    waiting = RunTurn.objects.filter(
        tenant_id=tenant_id, concurrency_key=concurrency_key, stands__in=_IN_LINE_OR_LIMITED
    ).select_for_update(skip_locked=True)
    run_ids = list(waiting.values_list("run_id", flat=True)[:KEPT_BACK_AT_ONCE])
    return RunTurn.objects.filter(run_id__in=[met, *run_ids], stands__in=_IN_LINE_OR_LIMITED).update(
        stands=RunTurn.Stands.PARKED
    )


def park_run(run_id: uuid.UUID) -> None:
    RunTurn.objects.filter(run_id=run_id, stands=RunTurn.Stands.WAITING).update(stands=RunTurn.Stands.PARKED)


def parked_turns(tenant_id: str, concurrency_key: str) -> QuerySet[RunTurn]:
    """In the order of their tenant: by priority, then by age."""
    of_key = RunTurn.objects.filter(tenant_id=tenant_id, concurrency_key=concurrency_key)
    return of_key.filter(stands=RunTurn.Stands.PARKED).order_by("-priority", "run_id")


def back_in_line(run_id: uuid.UUID, *, fair_pass: int) -> bool:
    """In a turn that its tenant has drawn for it."""
    one = RunTurn.objects.filter(run_id=run_id, stands__in=_KEPT_BACK)
    return bool(one.update(stands=RunTurn.Stands.WAITING, fair_pass=fair_pass))


_PARKED_WITH_ROOM: Final = """
SELECT line.tenant_id, line.concurrency_key
  FROM run_turns line
  LEFT JOIN concurrency_limits most ON most.tenant_id = line.tenant_id AND most.key = line.concurrency_key
 WHERE line.concurrency_key IS NOT NULL
 GROUP BY 1, 2
HAVING bool_or(stands = 'PARKED') AND count(*) FILTER (WHERE stands = 'AT_WORK') < coalesce(max(most.most_at_work), 1)
"""


def keys_to_wake() -> Sequence[tuple[str, str]]:
    """Keys that have room and runs that are parked: one statement, however many keys a tenant has named."""
    with connection.cursor() as cursor:
        cursor.execute(_PARKED_WITH_ROOM)
        return [(tenant_id, key) for tenant_id, key in cursor.fetchall()]


# The limit of a tenant.


def lock_tenant(tenant_id: str) -> None:
    """To the end of this transaction no other counts or keeps back the tenant's runs. Before the lock of a key."""
    advisory_lock.lock_name_until_commit(f"runs at work {tenant_id}")


def room_of_tenant(tenant_id: str) -> int:
    """How many more of a tenant's may start; the limit is read anew, under the lock."""
    most = Tenant.objects.values_list("most_at_work", flat=True).get(tenant_id=tenant_id)
    return UNBOUNDED if most is None else most - at_work_of_tenant(tenant_id)


# By the status alone, of which there are as many as there are slots: by the tenant would read its backlog.
_AT_WORK_OF_TENANT: Final = "SELECT count(*) FROM runs WHERE status = 'PROCESSING' AND (tenant_id || '') = %s"


def at_work_of_tenant(tenant_id: str) -> int:
    """From their start to their end, whatever became of their workers."""
    with connection.cursor() as cursor:
        cursor.execute(_AT_WORK_OF_TENANT, [tenant_id])
        (count,) = cursor.fetchone()
    return int(count)


# An express run, and one whose message died, have no turn: they get one, under the row's lock, so that their end
# deletes it.
_KEEP_BACK: Final = f"""
WITH met AS (
    SELECT run_id, tenant_id, pack_type FROM runs
     WHERE run_id = %(run_id)s AND (status || '') = 'QUEUED' AND (money_state || '') = 'RESERVED'
       AND finalize_stage IS NULL
       FOR NO KEY UPDATE
), made AS (
    INSERT INTO run_turns (run_id, tenant_id, pack_type, fair_pass, stands)
    SELECT run_id, tenant_id, pack_type, 0, 'LIMITED' FROM met
    ON CONFLICT (run_id) DO UPDATE SET stands = 'LIMITED' WHERE run_turns.stands = 'WAITING'
), others AS (
    UPDATE run_turns SET stands = 'LIMITED'
     WHERE run_id IN (SELECT run_id FROM run_turns
                       WHERE tenant_id = %(tenant_id)s AND stands = 'WAITING' AND run_id <> %(run_id)s
                       LIMIT {KEPT_BACK_AT_ONCE} FOR UPDATE SKIP LOCKED)
    RETURNING run_id
)
SELECT count(*) FROM others
"""  # noqa: S608  our own words


def keep_back(run_id: uuid.UUID, *, tenant_id: str) -> int:
    """The one that was met and the others of its tenant that wait: there is no room. Under the tenant's lock."""
    with connection.cursor() as cursor:
        cursor.execute(_KEEP_BACK, {"run_id": run_id, "tenant_id": tenant_id})
        (others,) = cursor.fetchone()
    return 1 + int(others)


def limited_turns(tenant_id: str) -> QuerySet[RunTurn]:
    """In the order of their tenant."""
    kept = RunTurn.objects.filter(tenant_id=tenant_id, stands=RunTurn.Stands.LIMITED)
    return kept.order_by("-priority", "run_id")


def tenants_to_wake() -> Sequence[str]:
    """Tenants some of whose runs their limit keeps back, or kept back before it was lifted."""
    kept = RunTurn.objects.filter(stands=RunTurn.Stands.LIMITED)
    return list(kept.order_by().values_list("tenant_id", flat=True).distinct())


# For people.


def turns_before(turn: RunTurn, *, most: int) -> int:
    """How many turns are before it, up to `most`."""
    earlier = RunTurn.objects.filter(fair_pass__lt=turn.fair_pass, stands=RunTurn.Stands.WAITING)
    return earlier[:most].count()
