"""What the money's rebuild and audit must know of runs: the port that budget declares, filled."""

import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Now

from budget import ports
from budget.ports import Ask, EndedRun, HeldOn, OpenRun, Reserved
from budget.redis.windows import Counted
from dpp_project import clock
from runs import timing, transitions
from runs.models import Run
from runs.run_ids import first_run_id_at
from runs.states import UNENDED_MONEY, MoneyState, Stage

ACTOR: Final = "rebuild"
CHUNK: Final = 2_000
FENCED_AT_ONCE: Final = 2_000
"""Well under a second, where Postgres is given up after 20."""
_UUID_BYTES: Final = 16
_RUN_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_STANDING: Final = """
SELECT run_id::text, finalize_stage IS NOT NULL FROM runs WHERE run_id = ANY(%s::uuid[]) AND money_state <> 'NONE'
"""


class OpenRunsOfTheTable:
    """What is read is read in the caller's transaction, in pieces, so that a million open runs fit into memory."""

    def fence(self, *, tenant_id: str | None) -> Iterator[int]:
        """The ids are looked up once, 16 bytes each: a run that comes later needs no fence."""
        found = _to_fence(tenant_id).order_by()
        packed = b"".join(run_id.bytes for run_id in found.values_list("run_id", flat=True).iterator(chunk_size=CHUNK))
        size = FENCED_AT_ONCE * _UUID_BYTES
        for at in range(0, len(packed), size):
            some = packed[at : at + size]
            run_ids = [uuid.UUID(bytes=some[one : one + _UUID_BYTES]) for one in range(0, len(some), _UUID_BYTES)]
            yield transitions.fence(run_ids=run_ids, actor=ACTOR)

    def reserved(self, *, tenant_id: str | None) -> Iterator[Reserved]:
        runs = _budget_runs_of_tenant(Run.objects.filter(money_state=MoneyState.RESERVED), tenant_id).order_by()
        sums = runs.values_list("tenant_id").annotate(Count("run_id"), Sum("reservation_max_cost_usd_micros"))
        for owner, count, micros in sums.iterator(chunk_size=CHUNK):
            yield Reserved(owner, count, int(micros))

    def held_by_date(self, *, tenant_ids: Sequence[str]) -> Iterator[HeldOn]:
        """A run at money NONE counts nothing yet, and its date is one all the same."""
        runs = Run.objects.filter(money_state__in=sorted(UNENDED_MONEY), tenant_id__in=tenant_ids)
        held = Sum("reservation_max_cost_usd_micros", filter=Q(money_state=MoneyState.RESERVED), default=0)
        by_date = runs.exclude(spend_day=None).order_by().values_list("tenant_id", "lineage_id", "spend_day")
        for owner, lineage_id, day, micros in by_date.annotate(held=held).iterator(chunk_size=CHUNK):
            yield HeldOn(owner, lineage_id, day, int(micros))

    def open(self, *, tenant_id: str | None) -> Iterator[OpenRun]:
        runs = _budget_runs_of_tenant(Run.objects.filter(money_state__in=sorted(UNENDED_MONEY)), tenant_id)
        rows = runs.order_by("tenant_id").values_list(
            *("tenant_id", "run_id", "reservation_max_cost_usd_micros", "created_at", "money_state", "finalize_stage"),
            *("lineage_id", "spend_day"),
        )
        for owner, run_id, reserved_micros, created_at, money_state, stage, lineage_id, day in rows.iterator(
            chunk_size=CHUNK
        ):
            yield OpenRun(
                tenant_id=owner,
                run_id=str(run_id),
                reserved_micros=reserved_micros,
                created_at_ms=created_at_ms(created_at),
                reserved=money_state == MoneyState.RESERVED,
                claimed=stage == Stage.CLAIMED,
                counted=Counted(None if lineage_id is None else str(lineage_id), day),
            )

    def ended(self, *, tenant_id: str | None, within: timedelta) -> Iterator[EndedRun]:
        """By the time of the last step: one disputed or expired since is named again, which does no harm."""
        runs = _budget_runs_of_tenant(
            Run.objects.filter(finalize_stage=Stage.COMMITTED, updated_at__gte=Now() - within), tenant_id
        )
        rows = runs.order_by("tenant_id").values_list(
            "tenant_id", "run_id", "reservation_max_cost_usd_micros", "actual_cost_usd_micros"
        )
        for owner, run_id, reserved_micros, actual_micros in rows.iterator(chunk_size=CHUNK):
            charge_micros = actual_micros or 0  # a committed row has one; the type does not know
            yield EndedRun(
                tenant_id=owner,
                run_id=str(run_id),
                charge_micros=charge_micros,
                refund_micros=reserved_micros - charge_micros,
            )

    def still_open(self, *, run_ids: Collection[str]) -> Collection[str]:
        asked = [run_id for run_id in run_ids if _RUN_ID.fullmatch(run_id)]
        found = Run.objects.filter(run_id__in=asked).exclude(finalize_stage=Stage.COMMITTED)
        return {str(run_id) for run_id in found.values_list("run_id", flat=True)}

    def standing(self, ask: Ask, run_ids: Collection[str]) -> Mapping[str, bool]:
        """A run made more than a year ago stands unasked: its row may have been forgotten, and none is lost so late."""
        asked, long_ago = [], {}
        oldest = first_run_id_at(clock.now() - timedelta(days=timing.TOMBSTONE_DAYS))
        for run_id in run_ids:
            if uuid.UUID(run_id) < oldest:
                long_ago[run_id] = True
            else:
                asked.append(run_id)
        return long_ago | dict(ask(_STANDING, [asked]))


def _to_fence(tenant_id: str | None) -> QuerySet[Run]:
    """Claimed runs, and those whose money is not marked, but for runs that have not moved since their last fence.

    Only a process that has read such a one since knows its version, and it takes a step (`retake`, `resume`) before it
    moves money. So a fence that was cut goes on from there.
    """
    between = Q(finalize_stage=Stage.CLAIMED) | Q(finalize_stage__isnull=True, money_state=MoneyState.NONE)
    return _budget_runs_of_tenant(Run.objects.filter(between).exclude(last_actor=ACTOR), tenant_id)


def _budget_runs_of_tenant(runs: QuerySet[Run], tenant_id: str | None) -> QuerySet[Run]:
    return runs if tenant_id is None else runs.filter(tenant_id=tenant_id)


def created_at_ms(created_at: datetime) -> int:
    """The creation as the reserve script keeps it."""
    return int(created_at.timestamp() * 1_000)


def register_runs_for_budget() -> None:
    ports.register_open_runs(OpenRunsOfTheTable())
