"""Auth errors go after 90 days, with their memberships and decisions; a fault that was not met since goes with them.

In batches, each a transaction of its own: errors by the order of their ids, which is the order of recording; then days
of the trend; then clusters that were last seen before the period, that no rule names, and that no alias binds to one
which stays. An error whose event is still on its way goes too: the event then finds none and becomes a dead letter.
Ages go by the earlier of the database's clock and this process's.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction

from dpp_project import retention, uuid7
from dpp_project.jobs import deadline
from dpp_project.jobs.registry import PassReport
from dpp_project.lifecycle import cleaning
from dpp_project.retention import DataKind

KIND: Final = "auth_errors"
BATCH: Final = 1_000

KINDS = (
    DataKind(
        name=KIND,
        tables=(
            *("auth_error", "auth_error_cluster_member", "auth_error_decision", "auth_error_cluster"),
            *("auth_error_cluster_day", "auth_error_cluster_decision", "cluster_alias"),
        ),
        states="an error: NEW to PROCESSED, FAILED, RESOLVED or IGNORED; a cluster: seen, decided, an alias of another",
        made_by="tenants' services, the platform; clusters by the analysis",
        read_by="operators, decisions, trends",
        days=90,
        until="after an error was recorded, or a cluster was last seen",
        why="A quarter to look back on: trends, and what was decided before a fault came back.",
        deleted_by="the job `auth_errors_retention`",
    ),
    DataKind(
        name="auth_error_rules",
        tables=("auth_error_rule",),
        states="in force, ended",
        made_by="operators",
        read_by="the analysis",
        until="for good",
        why="Who decided that errors of a fault end by themselves, and when.",
        deleted_by="no part of the platform",
    ),
)

# By id, which finds them, and by the database's own time: an id is made by the clock of the process that recorded it.
_ERRORS: Final = (
    "SELECT auth_error_id FROM auth_error WHERE auth_error_id < %s AND recorded_at < %s ORDER BY auth_error_id LIMIT %s"
)
_DELETE_ERRORS: Final = (
    "DELETE FROM auth_error_decision WHERE auth_error_id = ANY(%s)",
    "DELETE FROM auth_error_cluster_member WHERE auth_error_id = ANY(%s)",
    "DELETE FROM auth_error WHERE auth_error_id = ANY(%s)",
)
_CLUSTERS: Final = """
SELECT cluster_id FROM auth_error_cluster old
 WHERE last_seen_at < %s
   AND NOT EXISTS (SELECT 1 FROM auth_error_rule WHERE cluster_id = old.cluster_id)
   AND NOT EXISTS (SELECT 1 FROM auth_error WHERE cluster_id = old.cluster_id)
   AND NOT EXISTS (SELECT 1 FROM auth_error_cluster_member WHERE cluster_id = old.cluster_id)
   AND NOT EXISTS (SELECT 1 FROM cluster_alias
                    WHERE (source_id = old.cluster_id OR target_id = old.cluster_id) AND ended_at IS NULL)
 ORDER BY last_seen_at LIMIT %s
   FOR UPDATE SKIP LOCKED
"""
_DELETE_CLUSTERS: Final = (
    "DELETE FROM auth_error_cluster_decision WHERE cluster_id = ANY(%s)",
    "DELETE FROM cluster_alias WHERE source_id = ANY(%s)",
    "DELETE FROM cluster_alias WHERE target_id = ANY(%s)",
    "DELETE FROM auth_error_cluster_day WHERE cluster_id = ANY(%s)",
    "DELETE FROM auth_error_cluster WHERE cluster_id = ANY(%s)",
)


def delete_old_auth_errors(*, now: datetime, limit: int) -> PassReport:
    oldest = retention.retention_cutoff(KIND, now=cleaning.cleanup_moment(now))
    errors = clusters = 0
    while errors < limit and not deadline.is_over():
        count = _forget_auth_error_batch(
            _ERRORS, [uuid7.first_at(oldest), oldest, min(BATCH, limit - errors)], _DELETE_ERRORS
        )
        errors += count
        if count < BATCH:
            break
    while clusters < limit and not deadline.is_over():
        count = _forget_auth_error_batch(_CLUSTERS, [oldest, min(BATCH, limit - clusters)], _DELETE_CLUSTERS)
        clusters += count
        if count < BATCH:
            break
    changed = errors + clusters
    return PassReport(seen=changed, changed=changed, detail={"errors": errors, "clusters": clusters})


def preview_deleting_auth_errors(*, now: datetime, limit: int) -> PassReport:
    oldest = retention.retention_cutoff(KIND, now=cleaning.cleanup_moment(now))
    with connection.cursor() as cursor:
        cursor.execute(_ERRORS, [uuid7.first_at(oldest), oldest, limit])
        seen = len(cursor.fetchall())
    return PassReport(seen=seen, changed=seen)


def _forget_auth_error_batch(chosen: str, values: Sequence[Any], deletes: Sequence[str]) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(chosen, values)
        ids = [row[0] for row in cursor.fetchall()]
        for statement in deletes if ids else ():
            cursor.execute(statement, [ids])
    return len(ids)
