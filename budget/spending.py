"""Charges by day (UTC), for plots."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.db.models import Sum
from django.db.models.functions import TruncDate

from budget.models import LedgerEntry


@dataclass(frozen=True, slots=True)
class Spending:
    days: Sequence[date]
    micros: Sequence[int]


def spending_by_day(*, now: datetime, days: int, tenant_id: str | None = None) -> Spending:
    """The last `days` days, today included; a day without charges is zero."""
    today = now.astimezone(UTC).date()
    shown = [today - timedelta(days=back) for back in reversed(range(days))]
    start = datetime(shown[0].year, shown[0].month, shown[0].day, tzinfo=UTC)
    charges = LedgerEntry.objects.filter(kind=LedgerEntry.Kind.CHARGE, created_at__gte=start)
    if tenant_id is not None:
        charges = charges.filter(tenant_id=tenant_id)
    rows = (
        charges.annotate(day=TruncDate("created_at", tzinfo=UTC)).values_list("day").annotate(Sum("amount_usd_micros"))
    )
    found = dict(rows.order_by())
    return Spending(shown, [-(found.get(day) or 0) for day in shown])
