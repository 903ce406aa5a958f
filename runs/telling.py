"""The webhook message of a run's end, as parts of the statements that end it (transitions.py)."""

from collections.abc import Iterable
from typing import Final

from budget import ledger
from dpp_project.reasons import ReasonCode
from tenants.webhooks import messages

COLUMNS: Final = (
    "tenant_id, run_id, version, pack_type, status, money_state, last_error_reason_code AS reason, "
    "coalesce(actual_cost_usd_micros, 0) AS used_micros, trace_id"
)
"""What a statement RETURNS of a run that it moved."""


def listed_reasons(reasons: Iterable[ReasonCode]) -> str:
    return ", ".join(f"'{reason.value}'" for reason in reasons)


def ended_clause(*, untold: Iterable[ReasonCode]) -> str:
    """A CTE beside `ended`. Runs that ended for one of these reasons never were, to their caller."""
    return messages.of_runs(
        rows="ended",
        event=(
            f"CASE WHEN reason IN ({listed_reasons(untold)}) THEN NULL WHEN status = 'COMPLETED' THEN 'run.completed' "
            "WHEN money_state = 'SETTLED' THEN 'run.failed' ELSE 'run.refunded' END"
        ),
        refunded=ledger.GIVEN_BACK,
    )


RESOLVED: Final = messages.of_runs(
    rows="resolved",
    event="CASE WHEN money_state = 'REFUNDED' THEN 'run.refunded' ELSE 'run.upheld' END",
    # A refund makes the whole charge go back; before it, what a failure of ours cost may have gone back already.
    refunded=(
        "CASE WHEN money_state = 'REFUNDED' THEN used_micros ELSE coalesce(("
        "SELECT amount_usd_micros FROM ledger_entries paid WHERE paid.tenant_id = resolved.tenant_id "
        "AND paid.kind = 'ADJUST' AND paid.reference = 'refund:' || run_id), 0) END"
    ),
)
"""A CTE beside `resolved`, a dispute's end."""
