"""Runs in the line before the workers, and workers that start the one whose turn it is."""

import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

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


def start_counting_at_once(runs: Sequence[Run], monkeypatch: pytest.MonkeyPatch, *, count: str) -> None:
    """Each by the message of its own run, so that no row keeps them apart, only the lock under which they count.

    Who has counted (by this function of `turns`) waits for the others; under the lock they do not come.
    """
    all_counted, real = threading.Barrier(len(runs)), getattr(turns, count)

    def counted(*of: str) -> int:
        room: int = real(*of)
        with suppress(threading.BrokenBarrierError):
            all_counted.wait(1)
        return room

    def begin(run: Run) -> None:
        starting.start_run(run.run_id, lease_token=uuid.uuid4().hex, in_turn=False)

    monkeypatch.setattr(turns, count, counted)
    recovery.at_once(*[partial(begin, run) for run in runs])


def stands(run: Run) -> str | None:
    return RunTurn.objects.filter(run_id=run.run_id).values_list("stands", flat=True).first()


def with_weight(tenant: Tenant, weight: int) -> Tenant:
    Tenant.objects.filter(pk=tenant.pk).update(share_weight=weight)
    tenant.share_weight = weight
    return tenant
