"""How caps that stand in Postgres come into force in Redis. Safe to repeat, beside itself and late, by the revision.

After a death before this, the next hold whose process knows of the newer revision meets a scope that is older, or is
absent, and the tenant is rebuilt; so it is after a rebuild that read the row before the change.
"""

import structlog
from redis import RedisError

from budget import services
from budget.caps import rows
from budget.outcomes import CapsAbsent, CapsAnswer, CapsInForce
from budget.rebuild import rebuild
from budget.redis import scripts, view
from tenants.models import SpendCap

log = structlog.get_logger("dpp.budget")


def put_in_force(row: SpendCap, *, new: bool = False) -> bool:
    """Whether every hold from here on meets these limits, or later ones. Key: (scope, revision).

    `new`: nobody can have used this scope's key yet, so that its counters begin at nothing. Any other scope that does
    not stand is counted first, and the rebuild of its tenant is what counts. False: Redis is away, or the money is
    being rebuilt; the next hold brings the change.
    """
    answer = _put(row, new=new)
    if isinstance(answer, CapsAbsent) and rebuild.try_rebuild_tenant(row.tenant_id):
        answer = _put(row, new=False)
    if isinstance(answer, CapsInForce) and (not answer.again or _is_of_postgres(row)):
        return True
    if isinstance(answer, CapsInForce) and rebuild.try_rebuild_tenant(row.tenant_id):
        return True
    log.warning("caps are not in force yet", scope=str(row), revision=row.revision, answer=repr(answer))
    return False


def _is_of_postgres(row: SpendCap) -> bool:
    """Whether what is in force already is a change that Postgres knows.

    One that went back in time gives a lost change's revision to another: Redis has the limits of the lost one then, and
    takes the other for done.
    """
    lineage_id = None if row.lineage_id is None else str(row.lineage_id)
    try:
        seen = view.look_at_caps(scripts.shared_scripts().client, row.tenant_id, lineage_id)
    except RedisError:
        return False
    now = rows.row_of(row.tenant_id, row.lineage_id)
    if seen is None or now is None:
        return False
    for known in (row, now):  # a later change may have been committed meanwhile, and not have come to Redis yet
        if seen.revision == known.revision:
            return dict(seen.limits) == rows.limits_of(known)
    return row.revision < seen.revision < now.revision


def _put(row: SpendCap, *, new: bool) -> CapsAnswer:
    return services.asked_while_gated(
        lambda: scripts.shared_scripts().put_caps(
            tenant_id=row.tenant_id,
            lineage_id=None if row.lineage_id is None else str(row.lineage_id),
            revision=row.revision,
            limits=rows.limits_of(row),
            new=new,
        )
    )
