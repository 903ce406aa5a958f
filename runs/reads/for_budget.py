"""What the money's rebuild and audit must know of runs: the port that budget declares, filled."""

from collections.abc import Iterator
from datetime import datetime

from budget import ports
from budget.ports import EndedRun, OpenRun
from runs import transitions
from runs.models import Run
from runs.states import UNENDED_MONEY, MoneyState, Stage

ACTOR = "rebuild"
CHUNK = 2_000


class OpenRunsOfTheTable:
    """Each call reads in the caller's transaction, in pieces, so that a million open runs fit into memory."""

    def fence(self, *, tenant_id: str | None) -> int:
        return transitions.fence(tenant_id=tenant_id, actor=ACTOR)

    def open(self, *, tenant_id: str | None) -> Iterator[OpenRun]:
        runs = Run.objects.filter(money_state__in=sorted(UNENDED_MONEY))
        if tenant_id is not None:
            runs = runs.filter(tenant_id=tenant_id)
        rows = runs.values_list(
            "tenant_id", "run_id", "reservation_max_cost_usd_micros", "created_at", "money_state"
        ).iterator(chunk_size=CHUNK)
        for owner, run_id, reserved_micros, created_at, money_state in rows:
            yield OpenRun(
                tenant_id=owner,
                run_id=str(run_id),
                reserved_micros=reserved_micros,
                created_at_ms=created_at_ms(created_at),
                reserved=money_state == MoneyState.RESERVED,
            )

    def ended_since(self, *, tenant_id: str | None, since: datetime) -> Iterator[EndedRun]:
        """By the time of the last step: one disputed or expired since is named again, which does no harm."""
        runs = Run.objects.filter(finalize_stage=Stage.COMMITTED, updated_at__gte=since)
        if tenant_id is not None:
            runs = runs.filter(tenant_id=tenant_id)
        rows = runs.values_list(
            "tenant_id", "run_id", "reservation_max_cost_usd_micros", "actual_cost_usd_micros"
        ).iterator(chunk_size=CHUNK)
        for owner, run_id, reserved_micros, actual_micros in rows:
            charge_micros = actual_micros or 0  # a committed row has one; the type does not know
            yield EndedRun(
                tenant_id=owner,
                run_id=str(run_id),
                charge_micros=charge_micros,
                refund_micros=reserved_micros - charge_micros,
            )


def created_at_ms(created_at: datetime) -> int:
    """The creation as the reserve script keeps it."""
    return int(created_at.timestamp() * 1_000)


def register() -> None:
    ports.register(OpenRunsOfTheTable())
