"""What tenants may read of runs. Every query here is bound to one tenant; recovery's own stand in for_recovery.py."""

import uuid
from datetime import date, datetime
from typing import Final

from django.db import connection
from django.db.models import F, Func, QuerySet
from django.db.models.expressions import RawSQL

from dpp_project import clock
from runs.intents import FREES_ITS_KEY
from runs.models import Run
from runs.reads.with_inputs import RunReader
from runs.states import MoneyState, Status
from tenants.models import Tenant


def visible_to(tenant_id: str) -> QuerySet[Run]:
    """What the tenant is shown: a run exists for it once its money is held.

    The planner is not told which tenant: one that came since the last ANALYZE would count as one of no runs, any index
    that begins with the tenant would do, and a page would read and sort all the runs there are. So it expects as many
    as tenants have on average.
    """
    some_tenant = RawSQL("(SELECT %s::text)", [tenant_id])
    return Run.objects.filter(tenant_id=some_tenant).exclude(money_state=MoneyState.NONE)


def run_of_tenant(tenant_id: str, run_id: uuid.UUID) -> Run | None:
    """The tenant's run, or nothing: another's run and no run look the same."""
    return _if_of(tenant_id, Run.objects.filter(run_id=run_id).exclude(money_state=MoneyState.NONE).first())


def _if_of(tenant_id: str, run: Run | None) -> Run | None:
    """The tenant is compared here and not in the statement: a planner with old figures takes a new tenant for one of no
    runs, and reads all of them by the tenant's index instead of the one by its key.
    """
    return run if run is not None and run.tenant_id == tenant_id else None


def is_gone(run: Run) -> bool:
    """Past its retention, by the clock: the job that deletes may come later."""
    return run.retention_until <= clock.now()


_SHOWN: Final = RunReader(sent=("run_id", "timebox_sec", "min_reliability_score", "inline"), metadata=True)


def run_of_tenant_with_inputs(tenant_id: str, run_id: uuid.UUID) -> Run | None:
    """The tenant's run with what was asked of it, but for the inputs themselves; of a tombstone that is gone."""
    return _if_of(tenant_id, _SHOWN.one("runs.run_id = %s AND runs.money_state <> 'NONE'", run_id))


def of_key(tenant_id: str, idempotency_key: str, *, run_id: uuid.UUID | None = None) -> Run | None:
    """The run that this key stands for, whatever became of it, and only if it is `run_id` where that is given."""
    if run_id is None:
        return _SHOWN.one("runs.tenant_id = %s AND runs.idempotency_key = %s", tenant_id, idempotency_key)
    return _if_of(tenant_id, _SHOWN.one("runs.run_id = %s AND runs.idempotency_key = %s", run_id, idempotency_key))


def tombstones_of_trace(tenant_id: str, trace_id: str, *, lineage_id: uuid.UUID, since: datetime) -> list[uuid.UUID]:
    """Of a trace and a key with its rotations, the runs whose data are gone, and with them the Idempotency-Key.

    Without those that gave their key up because their submit had failed. It reads all that the tenant was sold `since`.
    """
    found = Run.objects.filter(tenant_id=tenant_id, created_at__gte=since, status=Status.EXPIRED)
    found = found.filter(trace_id=trace_id, lineage_id=lineage_id).exclude(intent_reason_code__in=FREES_ITS_KEY)
    return list(found.order_by("created_at").values_list("run_id", flat=True))


_TODAY: Final = """
SELECT (now() AT TIME ZONE known_zone(zone))::date, known_zone(zone),
       (SELECT run_id FROM runs WHERE runs.tenant_id = tenants.tenant_id AND idempotency_key = %s)
  FROM tenants WHERE tenant_id = %s
"""


def today_and_run_of_key(tenant_id: str, idempotency_key: str) -> tuple[date, str, uuid.UUID | None]:
    """The database's date in the tenant's zone, that zone, and the run that the key stands for."""
    with connection.cursor() as cursor:
        cursor.execute(_TODAY, [idempotency_key, tenant_id])
        today, zone, run_id = cursor.fetchone()
    return today, zone, run_id


def zone_of(tenant_id: str) -> str:
    """The one that its runs are dated in."""
    zone: str = Tenant.objects.values_list(Func(F("zone"), function="known_zone"), flat=True).get(tenant_id=tenant_id)
    return zone
