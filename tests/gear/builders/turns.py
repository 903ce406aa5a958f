"""Runs in the line before the workers, and workers that start the one whose turn it is."""

import uuid
from collections import Counter
from typing import Any

from runs import turns
from runs.claims import Lease
from runs.models import Run, RunTurn
from runs.worker import leases, starting
from runs.worker.starting import StartedRun
from tenants.models import Tenant
from tests.gear.builders import recovery

KEY = "the-key"


def in_line(tenant: Tenant, **values: Any) -> Run:
    """Held, and in the line by a turn that its tenant drew for it."""
    turn = turns.draw_turn(tenant_id=tenant.tenant_id, share_weight=tenant.share_weight)
    return recovery.queued(tenant, pack_type="probe", fair_pass=turn, **values)


def start(named: uuid.UUID | None = None) -> StartedRun | None:
    """By a message of the queue of runs; without `named`, one whose own run was started before."""
    token = uuid.uuid4().hex
    if named is None:
        run_id = Run.objects.exclude(status="QUEUED").values_list("run_id", flat=True).first()
        named = run_id or RunTurn.objects.values_list("run_id", flat=True).latest("fair_pass")
    found = starting.start_run(named, lease_token=token, in_turn=True)
    if found is not None:
        leases.take_run_lease(Lease(found.run.run_id, token), fair_pass=found.fair_pass)
    return found


def starts(count: int) -> Counter[str]:
    """How many of each tenant start in so many turns."""
    return Counter(found.run.tenant_id for _ in range(count) if (found := start()) is not None)


def stands(run: Run) -> str | None:
    return RunTurn.objects.filter(run_id=run.run_id).values_list("stands", flat=True).first()


def with_weight(tenant: Tenant, weight: int) -> Tenant:
    Tenant.objects.filter(pk=tenant.pk).update(share_weight=weight)
    tenant.share_weight = weight
    return tenant
