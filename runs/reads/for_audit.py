"""What the audit of the ledger must know of committed runs: the port that budget declares, filled."""

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from django.db.models import Q, QuerySet

from budget import ports
from budget.ports import CommittedRun, RunPosition
from runs import timing
from runs.intents import OWN_FAILURES
from runs.models import Run
from runs.states import MoneyState, Stage

KEPT_FOR: Final = timedelta(days=timing.TOMBSTONE_DAYS - 1)
"""A row goes a year after its retention, which its owner may end as soon as the run has. A day less: clocks differ."""

_SOLD: Final = """
SELECT run_id, pack_type, coalesce(last_error_reason_code, '') AS reason, tokens_consumed AS tokens FROM runs
"""
_METADATA_VALUES: Final = """
SELECT run_id, value FROM run_metadata WHERE key = %(metadata_key)s AND tenant_id = %(tenant_id)s
"""


class CommittedRunsOfTheTable:
    """Pages are found by key: a tenant's ten-millionth run costs what its first did."""

    def page(self, tenant_id: str, *, after: RunPosition | None, limit: int) -> Sequence[CommittedRun]:
        runs = Run.objects.filter(tenant_id=tenant_id)
        if after is not None:
            at, run_id = after
            runs = runs.filter(Q(created_at__gt=at) | Q(run_id__gt=run_id), created_at__gte=at)
        return _committed(runs.filter(finalize_stage=Stage.COMMITTED).order_by("created_at", "run_id")[:limit])

    def those(self, run_ids: Sequence[uuid.UUID]) -> Sequence[CommittedRun]:
        return _committed(Run.objects.filter(run_id__in=run_ids, finalize_stage=Stage.COMMITTED))

    def kept_for(self) -> timedelta:
        return KEPT_FOR

    def sold(self) -> str:
        return _SOLD

    def metadata_values(self) -> str:
        return _METADATA_VALUES


def _committed(runs: QuerySet[Run]) -> list[CommittedRun]:
    found = []
    rows = runs.values_list(
        "tenant_id", "run_id", "created_at", "actual_cost_usd_micros", "money_state", "last_error_reason_code"
    )
    for tenant_id, run_id, created_at, actual_micros, money_state, reason in rows:
        cost_micros = actual_micros or 0  # a committed row has one; the type does not know
        # A run whose intent was to refund has cost nothing: only a dispute refunds what was charged.
        returned = cost_micros if money_state == MoneyState.REFUNDED else 0
        found.append(
            CommittedRun(tenant_id, run_id, created_at, cost_micros, returned, own_failure=reason in OWN_FAILURES)
        )
    return found


def register_runs_for_audit() -> None:
    ports.register_committed(CommittedRunsOfTheTable())
