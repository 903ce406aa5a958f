"""The only writer of the monitor's columns, by compare-and-set on the time of the last look.

An observation holds for the `rev` that was read before the look began. Where the reconciler had an effect meanwhile,
rows and look may belong to different moments: a home that was made after the list would be called lost. Such a look is
dropped, and the next one is due at once. Of two monitors that looked at once, the first to write wins. The time of a
look is the database's, and grows by at least a microsecond, so that it never stands for two looks.
"""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from ops.workspaces.rows.timeline import add_to_timeline
from ops.workspaces.rows.writing import writing_as
from ops.workspaces.states import Writer

ACTOR: Final = "monitor"
AT_WORK_SECONDS: Final = 2
TO_CONVERGE_SECONDS: Final = 5
STABLE_SECONDS: Final = 30

# What has an operation or was not to be seen is looked at every 2 s, what is to change every 5, the rest every 30; what
# the reconciler or the API has touched since the last look at once. A look that lies in the future was written before
# the database's clock was set back.
_DUE: Final = """
SELECT w.workspace_id, w.spec, w.conditions, w.phase, w.observed_at, w.observed_rev, w.generation,
    w.observed_generation, w.rev, w.operation, w.archive_key, w.home_ctx ->> 'volume', w.error_info,
    w.deleted_at IS NOT NULL
FROM workspaces w
WHERE w.driver_id = %(driver_id)s AND w.purged_at IS NULL
    AND (w.deleted_at IS NULL OR w.phase <> 'DELETED')
    AND (w.observed_at IS NULL OR w.observed_rev < w.rev OR w.observed_generation < w.generation
        OR w.observed_at > statement_timestamp() + make_interval(secs => %(stable)s)
        OR w.observed_at <= statement_timestamp() - make_interval(secs => CASE
            WHEN w.operation <> 'NONE' OR w.conditions #>> '{policy.healthy,stale}' = 'true' THEN %(at_work)s
            WHEN w.desired_state <> w.phase THEN %(to_converge)s
            ELSE %(stable)s END))
ORDER BY w.observed_at NULLS FIRST
"""
_UNCHANGED: Final = """
UPDATE workspaces w
SET observed_at = greatest(statement_timestamp(), w.observed_at + interval '1 microsecond'),
    observed_rev = s.rev, observed_generation = s.generation
FROM unnest(%s::uuid[], %s::timestamptz[], %s::bigint[], %s::bigint[]) AS s(id, observed_at, rev, generation)
WHERE w.workspace_id = s.id AND w.observed_at = s.observed_at AND w.rev = s.rev
"""
_CHANGED: Final = """
UPDATE workspaces w
SET observed_at = greatest(statement_timestamp(), w.observed_at + interval '1 microsecond'),
    observed_rev = %(observed_rev)s, observed_generation = %(generation)s,
    conditions = %(conditions)s::jsonb, phase = %(phase)s
WHERE w.workspace_id = %(id)s AND w.observed_at IS NOT DISTINCT FROM %(observed_at)s AND w.rev = %(rev)s
"""
# A look that failed sees nothing, and so proves nothing: neither its time nor the rev moves.
_STALE: Final = """
UPDATE workspaces w SET conditions = (
    SELECT jsonb_object_agg(key, CASE WHEN key LIKE 'infra.%%' OR key IN ('storage.volume_ready', 'policy.healthy')
        THEN value || '{"stale": true}' ELSE value END) FROM jsonb_each(w.conditions))
FROM unnest(%s::uuid[], %s::timestamptz[]) AS s(id, observed_at)
WHERE w.workspace_id = s.id AND w.observed_at = s.observed_at
    AND NOT coalesce((w.conditions #> '{storage.volume_ready,stale}')::boolean, false)
"""


@dataclass(frozen=True, slots=True, eq=False)
class WatchedRow:
    """A row as it stood before the look."""

    workspace_id: uuid.UUID
    spec: dict[str, Any]
    conditions: dict[str, Any]
    phase: str
    observed_at: datetime | None
    observed_rev: int
    generation: int
    observed_generation: int
    rev: int
    operation: str
    archive_key: str | None
    home: str | None
    error_info: dict[str, Any] | None
    is_deleted: bool

    @property
    def is_touched(self) -> bool:
        """Since the last look the reconciler had an effect."""
        return self.observed_rev < self.rev


def due_observations(driver_id: str) -> list[WatchedRow]:
    with connection.cursor() as cursor:
        cursor.execute(
            _DUE,
            {
                "driver_id": driver_id,
                "at_work": AT_WORK_SECONDS,
                "to_converge": TO_CONVERGE_SECONDS,
                "stable": STABLE_SECONDS,
            },
        )
        return [_watched(row) for row in cursor]


def write_unchanged(rows: Sequence[WatchedRow]) -> int:
    if not rows:
        return 0
    with writing_as(Writer.MONITOR), connection.cursor() as cursor:
        cursor.execute(
            _UNCHANGED,
            [
                [row.workspace_id for row in rows],
                [row.observed_at for row in rows],
                [row.rev for row in rows],
                [row.generation for row in rows],
            ],
        )
        return int(cursor.rowcount)


def write_changed(row: WatchedRow, *, is_whole: bool, conditions: dict[str, Any], phase: str) -> bool:
    """A look that was not whole counts for nothing that was done since the last one that was."""
    with writing_as(Writer.MONITOR), connection.cursor() as cursor:
        cursor.execute(
            _CHANGED,
            {
                "id": row.workspace_id,
                "observed_at": row.observed_at,
                "rev": row.rev,
                "observed_rev": row.rev if is_whole else row.observed_rev,
                "generation": row.generation,
                "conditions": json.dumps(conditions),
                "phase": phase,
            },
        )
        won = bool(cursor.rowcount > 0)
        if won and phase != row.phase:
            reason = conditions["policy.healthy"]["reason"]
            add_to_timeline(row.workspace_id, "PhaseChanged", actor=ACTOR, before=row.phase, after=phase, reason=reason)
    return won


def write_stale(rows: Sequence[WatchedRow]) -> int:
    """Of a look that failed whole."""
    looked_at = [row for row in rows if row.observed_at is not None]
    if not looked_at:
        return 0
    with writing_as(Writer.MONITOR), connection.cursor() as cursor:
        cursor.execute(_STALE, [[row.workspace_id for row in looked_at], [row.observed_at for row in looked_at]])
        return int(cursor.rowcount)


def _watched(row: tuple[Any, ...]) -> WatchedRow:
    columns = list(row)
    for place in (1, 2, 12):
        columns[place] = _observed_json_value(columns[place])
    return WatchedRow(*columns)


def _observed_json_value(stored: Any) -> Any:
    """Django leaves JSON of plain cursors as text."""
    return json.loads(stored) if isinstance(stored, str) else stored
