"""Looks which tenants' balances have crossed their own line, so that their webhooks hear budget.low.

A hold is a script in Redis, and no statement in Postgres that could write a message beside it: so a job looks. A
balance that falls below the line and rises again between two looks tells nothing. An unknown balance (lost, or money
is closed) is neither low nor high.
"""

from datetime import datetime
from typing import Final

from budget.money import format_usd
from budget.redis import view
from dpp_project.jobs import deadline
from dpp_project.jobs.registry import PassReport
from dpp_project.jobs.skipped_rows import SkippedRows
from dpp_project.stores import redis
from tenants.webhooks import low_balance
from tenants.webhooks.low_balance import BalanceLine

AT_ONCE: Final = 500


def tell_low_balances(*, now: datetime, limit: int) -> PassReport:
    """Two at once: one of them tells of each crossing."""
    del now
    seen = changed = unknown = 0
    after, skipped = "", SkippedRows("low_balances")
    while seen < limit and not deadline.is_over():
        lines = low_balance.balance_lines(after=after, limit=min(AT_ONCE, limit - seen))
        if not lines:
            break
        after = lines[-1].tenant_id
        for line, balance_micros in zip(lines, _balances(lines), strict=True):
            seen += 1
            if balance_micros is None:
                unknown += 1
            else:
                payload = _payload(line, balance_micros)
                with skipped.each(line.tenant_id):
                    changed += low_balance.judge_balance(line, balance_micros=balance_micros, payload=payload)
    return PassReport(seen=seen, changed=changed, errors=skipped.errors, detail={"unknown": unknown, **skipped.detail})


def _balances(lines: list[BalanceLine]) -> list[int | None]:
    with redis.redis_client().pipeline(transaction=False) as pipe:
        for line in lines:
            view.queue_balance(pipe, line.tenant_id)
        return [view.seen_balance(answer).balance_micros for answer in pipe.execute()]


def _payload(line: BalanceLine, balance_micros: int) -> dict[str, object]:
    threshold_micros = line.micros or 0
    return {
        "balance": format_usd(balance_micros),
        "balance_usd_micros": balance_micros,
        "threshold": format_usd(threshold_micros),
        "threshold_usd_micros": threshold_micros,
        "href": "/v1/budget",
    }
