"""The steps of runs as they are committed, for those who wait for them: one statement for all, from `run_history`.

The trigger writes a row there for each version, in the transaction that makes it, so that the history is as new as the
run, and what follows a version is found by the primary key: 2,000 ids that have no news touch no row of a table.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import connection, connections

from dpp_project.process_env import ENV
from dpp_project.processes.per_process import PerProcess
from dpp_project.stores import postgres
from dpp_project.stores.postgres import DATABASE_AWAY
from dpp_project.waiting.watcher import News, Watcher
from runs.states import Stage

LOOK_SECONDS: Final = 0.05
_OTHER_CONNECTIONS: Final = 3
"""Beside the threads' and this watcher's: the workspaces' watcher, the heartbeat, and whatever looks at metrics."""

# LATERAL and LIMIT keep the planner, which cannot know how many ids there are, from reading the whole table for them.
_STEPS: Final = """
SELECT watched.run_id::text, step.version, step.at, step.status, step.money_state, step.stage,
       runs.actual_cost_usd_micros, runs.last_error_reason_code
  FROM unnest(%s::uuid[], %s::bigint[]) AS watched (run_id, version)
 CROSS JOIN LATERAL (
       SELECT version, at, status, money_state, stage
         FROM run_history
        WHERE run_history.run_id = watched.run_id AND run_history.version > watched.version
          AND money_state <> 'NONE'
        ORDER BY version LIMIT 50) AS step
  LEFT JOIN runs ON step.stage = 'COMMITTED' AND runs.run_id = watched.run_id
 ORDER BY step.version
"""


@dataclass(frozen=True, slots=True)
class RunStep:
    """One version of a run. Cost and reason are known of the one that ended it."""

    version: int
    at: datetime
    status: str
    money_state: str
    ended: bool
    cost_micros: int | None
    reason_code: str | None


def steps_after(seen: Mapping[str, int]) -> Iterator[News]:
    """What lies beyond these versions, in the order of versions; steps without money are nobody's to see."""
    ids = "{" + ",".join(seen) + "}"
    versions = "{" + ",".join(map(str, seen.values())) + "}"
    with connection.cursor() as cursor:
        cursor.execute(_STEPS, [ids, versions])
        rows = cursor.fetchall()
    for run_id, version, at, status, money_state, stage, cost_micros, reason_code in rows:
        ended = stage == Stage.COMMITTED
        yield News(run_id, version, RunStep(version, at, status, money_state, ended, cost_micros, reason_code))


def steps_to_the_end(run_id: uuid.UUID) -> list[RunStep]:
    """All steps of a run so far, up to the one that ended it: disputes and the end of its retention come after that."""
    found: list[RunStep] = []
    while some := list(steps_after({str(run_id): found[-1].version if found else -1})):
        for news in some:
            found.append(news.what)
            if news.what.ended:
                return found
    return found


@PerProcess
def run_steps_watcher() -> Watcher[int]:
    """Its connection is its own while anyone waits, and goes back to the pool when nobody does."""
    postgres.make_room(ENV.DPP_API_THREADS + 1 + _OTHER_CONNECTIONS)
    return Watcher("runs", steps_after, every_seconds=LOOK_SECONDS, away=DATABASE_AWAY, rest=connections.close_all)
