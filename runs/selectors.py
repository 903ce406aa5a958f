"""What tenants may read of runs. Every query here is bound to one tenant; recovery's own stand in scans.py."""

import uuid

from django.db.models import QuerySet

from runs.models import Run
from runs.states import MoneyState


def for_tenant(tenant_id: str) -> QuerySet[Run]:
    """All of a tenant's runs, those included whose money is not held yet. For the submit path."""
    return Run.objects.filter(tenant_id=tenant_id)


def visible_to(tenant_id: str) -> QuerySet[Run]:
    """What the tenant is shown: a run exists for it once its money is held."""
    return for_tenant(tenant_id).exclude(money_state=MoneyState.NONE)


def by_key(tenant_id: str, idempotency_key: str) -> Run | None:
    """The run that this key stands for, whatever became of it."""
    return for_tenant(tenant_id).filter(idempotency_key=idempotency_key).first()


def one(tenant_id: str, run_id: uuid.UUID) -> Run | None:
    """The tenant's run, or nothing: another's run and no run look the same."""
    return visible_to(tenant_id).filter(run_id=run_id).first()


def one_with_inputs(tenant_id: str, run_id: uuid.UUID) -> Run | None:
    """The tenant's run together with what was sent, in one query; of a tombstone the latter is gone."""
    return visible_to(tenant_id).select_related("sent").filter(run_id=run_id).first()
