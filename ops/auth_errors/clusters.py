"""Clusters: made by INSERT … ON CONFLICT alone, joined, merged by alias, resolved, and reopened by what comes back.

A merge moves no member: `source` counts as `target` while its alias lives, and events that come later count there too,
because each of them asks for the root. Ending the alias gives back exactly what there was.

Locks go upward: an analysis takes its own cluster's row, then its root's. Merges wait for each other, so that two at
once cannot close a circle between them.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Greatest, Now

from dpp_project import uuid7
from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from dpp_project.stores import advisory_lock
from ops.auth_errors import metrics
from ops.auth_errors.models import AuthError, Cluster, ClusterAlias
from ops.auth_errors.normaliser.versions import VersionedHash
from ops.auth_errors.states import ClusterStatus

NORMALISER: Final = "normaliser"
_MERGES: Final = (int.from_bytes(b"merg"), 0)
"""One lock for all merges: they are rare, and asked for by people."""
_CHAIN_MAX: Final = 1_000

_UPSERT: Final = """
INSERT INTO auth_error_cluster AS kept
       (cluster_id, hash_version, stack_hash, exception_class, top_frame, newest_error_id, first_seen_at, last_seen_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (hash_version, stack_hash) DO UPDATE
   SET newest_error_id = GREATEST(kept.newest_error_id, excluded.newest_error_id),
       first_seen_at = LEAST(kept.first_seen_at, excluded.first_seen_at),
       last_seen_at = GREATEST(kept.last_seen_at, excluded.last_seen_at)
RETURNING cluster_id, cluster_id = %s
"""
_JOIN: Final = """
WITH joined AS (
    INSERT INTO auth_error_cluster_member (cluster_id, auth_error_id) VALUES (%s, %s)
        ON CONFLICT (auth_error_id, cluster_id) DO NOTHING RETURNING cluster_id
), counted AS (
    UPDATE auth_error_cluster SET occurrences = occurrences + 1 FROM joined
     WHERE auth_error_cluster.cluster_id = joined.cluster_id
)
INSERT INTO auth_error_cluster_day AS kept (cluster_id, day, tenant_id, occurrences)
SELECT cluster_id, %s::date, %s, 1 FROM joined
    ON CONFLICT (cluster_id, day, tenant_id) DO UPDATE SET occurrences = kept.occurrences + 1
"""
_ROOT: Final = """
WITH RECURSIVE chain (id, depth) AS (
    SELECT %s::uuid, 0
     UNION ALL
    SELECT alias.target_id, chain.depth + 1
      FROM chain JOIN cluster_alias alias ON alias.source_id = chain.id AND alias.ended_at IS NULL
     WHERE chain.depth < %s
)
SELECT id FROM chain ORDER BY depth DESC LIMIT 1
"""
_TREE: Final = """
WITH RECURSIVE tree (root, id) AS (
    SELECT id, id FROM unnest(%s::uuid[]) AS asked (id)
     UNION
    SELECT tree.root, alias.source_id
      FROM tree JOIN cluster_alias alias ON alias.target_id = tree.id AND alias.ended_at IS NULL
)
SELECT root, id FROM tree
"""


@dataclass(frozen=True, slots=True)
class Joined:
    cluster_id: uuid.UUID
    root_id: uuid.UUID
    """What it counts as; itself where it is not merged."""
    has_regressed: bool


def is_known_cluster(hashed: VersionedHash) -> bool:
    return Cluster.objects.filter(hash_version=hashed.version, stack_hash=hashed.stack_hash).exists()


def join_cluster(error: AuthError, *, own: VersionedHash, follows: VersionedHash | None, top_frame: str) -> Joined:
    """In the transaction of its analysis: the error is a member of its cluster, and counted there once."""
    cluster_id, is_new = _upsert(error, own=own, top_frame=top_frame)
    with connection.cursor() as cursor:
        cursor.execute(_JOIN, [cluster_id, error.pk, error.recorded_at.date(), error.tenant_id])
    if is_new and follows is not None:
        _follow_earlier_cluster(cluster_id, follows)
    root_id = root_of(cluster_id)
    if root_id != cluster_id:
        Cluster.objects.filter(pk=root_id).update(last_seen_at=Greatest("last_seen_at", error.recorded_at))
    return Joined(cluster_id, root_id, has_regressed=_regress({cluster_id, root_id}, seen_at=error.recorded_at))


def _upsert(error: AuthError, *, own: VersionedHash, top_frame: str) -> tuple[uuid.UUID, bool]:
    wanted = uuid7.new_uuid7()
    with connection.cursor() as cursor:
        cursor.execute(
            _UPSERT,
            [
                *(wanted, own.version, own.stack_hash, error.exception_class, top_frame, error.pk),
                *(error.recorded_at, error.recorded_at, wanted),
            ],
        )
        cluster_id, is_new = cursor.fetchone()
    return cluster_id, is_new


def _follow_earlier_cluster(cluster_id: uuid.UUID, follows: VersionedHash) -> None:
    """A newer version of the normaliser names a known fault anew: the new cluster counts as the one it had."""
    earlier = Cluster.objects.filter(hash_version=follows.version, stack_hash=follows.stack_hash).first()
    if earlier is not None:
        ClusterAlias.objects.create(source_id=cluster_id, target=earlier, by=NORMALISER)


def _regress(cluster_ids: set[uuid.UUID], *, seen_at: datetime) -> bool:
    """What was resolved is open again, and says when. An error that was reported before it was resolved is no news."""
    regressed = Cluster.objects.filter(
        pk__in=cluster_ids, status=ClusterStatus.RESOLVED, resolved_at__lt=seen_at
    ).update(status=ClusterStatus.OPEN, resolved_at=None, regressed_at=Now())
    if regressed:
        metrics.REGRESSED.inc()
    return bool(regressed)


def root_of(cluster_id: uuid.UUID) -> uuid.UUID:
    with connection.cursor() as cursor:
        cursor.execute(_ROOT, [cluster_id, _CHAIN_MAX])
        found: uuid.UUID = cursor.fetchone()[0]
    return found


def trees_of(cluster_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[uuid.UUID]]:
    """Each with everything that counts as it, itself first."""
    trees: dict[uuid.UUID, list[uuid.UUID]] = {one: [one] for one in cluster_ids}
    with connection.cursor() as cursor:
        cursor.execute(_TREE, [list(cluster_ids)])
        for root, member in cursor.fetchall():
            if member != root:
                trees[root].append(member)
    return trees


def tree_of(cluster_id: uuid.UUID) -> list[uuid.UUID]:
    return trees_of([cluster_id])[cluster_id]


def mark_cluster_resolved(cluster_id: uuid.UUID) -> None:
    """In the transaction of the decision."""
    Cluster.objects.filter(pk=cluster_id).update(status=ClusterStatus.RESOLVED, resolved_at=Now(), regressed_at=None)


def merge_clusters(*, source_id: uuid.UUID, into_id: uuid.UUID, by: str) -> ClusterAlias | Refusal:
    """`source` counts as `into` from now on. The same again is answered with the alias that stands."""
    with transaction.atomic():
        advisory_lock.lock_until_commit(_MERGES)
        found = Cluster.objects.in_bulk([source_id, into_id])
        if source_id not in found:
            return Refusal(ReasonCode.NOT_FOUND, "there is no such cluster", "cluster_id")
        if into_id not in found:
            return Refusal(ReasonCode.VALIDATION_FAILED, "there is no such cluster", "into")
        standing = _alias_of(source_id)
        if standing is not None:
            if standing.target_id == into_id:
                return standing
            return Refusal(ReasonCode.CONFLICT, f"it counts as {standing.target_id} already; unmerge it first", "into")
        if root_of(into_id) == source_id:
            detail = "it is this cluster" if into_id == source_id else "it counts as this cluster; unmerge it first"
            return Refusal(ReasonCode.CONFLICT, detail, "into")
        alias = ClusterAlias.objects.create(source_id=source_id, target_id=into_id, by=by)
        Cluster.objects.filter(pk=root_of(into_id)).update(
            last_seen_at=Greatest("last_seen_at", found[source_id].last_seen_at)
        )
        _record_cluster_act("cluster merged", source_id, by, after={"into": into_id})
    return ClusterAlias.objects.get(pk=alias.pk)


def unmerge_cluster(*, cluster_id: uuid.UUID, by: str) -> ClusterAlias | Refusal:
    """It stands for itself again, with every member of its own, those of the meantime too."""
    with transaction.atomic():
        advisory_lock.lock_until_commit(_MERGES)
        if not Cluster.objects.filter(pk=cluster_id).exists():
            return Refusal(ReasonCode.NOT_FOUND, "there is no such cluster", "cluster_id")
        standing = _alias_of(cluster_id)
        if standing is None:
            return Refusal(ReasonCode.CONFLICT, "it is not merged", "cluster_id")
        ClusterAlias.objects.filter(pk=standing.pk).update(ended_by=by, ended_at=Now())
        _look_again(root_of(standing.target_id))
        _record_cluster_act("cluster unmerged", cluster_id, by, before={"into": standing.target_id})
    return ClusterAlias.objects.get(pk=standing.pk)


def merged_into(cluster_id: uuid.UUID) -> uuid.UUID | None:
    alias = _alias_of(cluster_id)
    return None if alias is None else alias.target_id


def _alias_of(cluster_id: uuid.UUID) -> ClusterAlias | None:
    return ClusterAlias.objects.filter(source_id=cluster_id, ended_at__isnull=True).first()


def _look_again(root_id: uuid.UUID) -> None:
    """When it was last seen, without what has left it."""
    newest = Cluster.objects.filter(pk__in=tree_of(root_id)).values_list("newest_error_id", flat=True)
    latest = AuthError.objects.filter(pk__in=[one for one in newest if one]).order_by("-recorded_at").first()
    if latest is not None:
        Cluster.objects.filter(pk=root_id).update(last_seen_at=Greatest(F("first_seen_at"), latest.recorded_at))


def _record_cluster_act(act: str, cluster_id: uuid.UUID, by: str, **facts: Any) -> None:
    trail.record_in_trail(act, actor=by, subject=f"cluster {cluster_id}", **facts)
