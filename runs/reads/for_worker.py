"""What a worker reads of a run: the one that its message names, or whose turn it is, and everything that was sent."""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from django.db import connection

from runs.models import Run, RunTurn
from runs.reads.with_inputs import RunReader
from runs.states import Status

_WHOLE: Final = RunReader()
KEPT_BACK: Final = (RunTurn.Stands.PARKED, RunTurn.Stands.LIMITED)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRun:
    """A run that a worker may start, as it is now. `fair_pass` to `stands` are of its turn, where it has one."""

    run: Run
    fair_pass: int | None = None
    priority: int | None = None
    concurrency_key: str | None = None
    stands: str | None = None
    in_pass: int | None = None
    """The number in whose turn it starts: the lowest of the line; None where its own message starts it."""
    overtaken: uuid.UUID | None = None
    """The run that has that number, where its tenant has another one that goes before it."""
    has_limit: bool = False
    """Its tenant may have only so many at work at once."""

    @property
    def is_kept_back(self) -> bool:
        return self.stands in KEPT_BACK


def read_for_worker(run_id: uuid.UUID) -> WaitingRun | None:
    """None where there is no such row; an expired run has no `sent`."""
    return _one(_worker_sql_of_named_run(), {"named": run_id})


def next_in_line(named: uuid.UUID, *, packs: Collection[str], own_too: bool) -> WaitingRun | None:
    """What a message that names this run stands for: the run itself where it has no turn, or where its message died
    before, it is kept back and `own_too`; else whose turn it is among these packs; else the run itself again, whatever
    became of it.

    Of a run that is kept back the first message is a permit like all others: else a tenant would have its runs started
    out of turn by naming keys.
    """
    return _one(_in_line(), {"named": named, "packs": [*packs], "own_too": own_too})


def held_by(lease_token: str) -> WaitingRun | None:
    """The run that was started under this token, whose answer got lost."""
    held = Run.objects.filter(status=Status.PROCESSING, finalize_stage__isnull=True, lease_token=lease_token)
    run_id = held.values_list("run_id", flat=True).first()
    return None if run_id is None else read_for_worker(run_id)


_OF_TURN: Final = (
    "line.fair_pass, line.priority, line.concurrency_key, line.stands, "
    "(SELECT most_at_work IS NOT NULL FROM tenants WHERE tenants.tenant_id = runs.tenant_id)"
)
# By the run's own key: `status` as it stands would invite an index of all that is queued (compiled_update.py).
_WAITS: Final = "(status || '') = 'QUEUED' AND (money_state || '') = 'RESERVED' AND finalize_stage IS NULL"


@cache
def _worker_sql_of_named_run() -> str:
    return (
        f"SELECT {_WHOLE.columns}, {_OF_TURN}, NULL, NULL FROM {_WHOLE.tables} LEFT JOIN run_turns line USING (run_id) "  # noqa: S608  the models' own names
        "WHERE runs.run_id = %(named)s"
    )


@cache
def _in_line() -> str:
    """The line is read by its own indexes, and no run beside the one: `stands` follows the run by a trigger.

    The planner is not shown that packs are compared: it would take few of those that wait for ours, and sort them all.
    """
    here = "stands = 'WAITING' AND coalesce(pack_type = ANY(%(packs)s), false)"
    return f"""
WITH head AS (
    SELECT run_id, tenant_id, fair_pass FROM run_turns WHERE {here} ORDER BY fair_pass, run_id LIMIT 1
), best AS (
    SELECT mine.run_id, head.run_id AS overtaken, head.fair_pass AS in_pass FROM head CROSS JOIN LATERAL (
        SELECT run_id FROM run_turns WHERE tenant_id = head.tenant_id AND {here}
         ORDER BY priority DESC, run_id LIMIT 1) mine
), own AS (
    SELECT runs.run_id FROM runs LEFT JOIN run_turns USING (run_id)
     WHERE runs.run_id = %(named)s AND {_WAITS}
       AND (stands IS NULL OR stands IN ('PARKED', 'LIMITED') AND dead_lettered_at IS NOT NULL AND %(own_too)s)
)
SELECT {_WHOLE.columns}, {_OF_TURN}, (SELECT in_pass FROM best WHERE best.run_id = runs.run_id),
       (SELECT overtaken FROM best WHERE best.run_id = runs.run_id)
  FROM {_WHOLE.tables} LEFT JOIN run_turns line USING (run_id)
 WHERE runs.run_id = coalesce((SELECT run_id FROM own), (SELECT run_id FROM best), %(named)s)
"""  # noqa: S608  the models' own names


def _one(sql: str, values: dict[str, Any]) -> WaitingRun | None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        row: Sequence[Any] | None = cursor.fetchone()
    if row is None:
        return None
    fair_pass, priority, concurrency_key, stands, has_limit, in_pass, overtaken = row[_WHOLE.width :]
    run = _WHOLE.instance(row)
    return WaitingRun(
        run=run,
        fair_pass=fair_pass,
        priority=priority,
        concurrency_key=concurrency_key,
        stands=stands,
        has_limit=has_limit,
        in_pass=in_pass,
        overtaken=None if overtaken == run.run_id else overtaken,
    )
