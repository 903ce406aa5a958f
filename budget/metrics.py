"""What the money counts, and its levels at a scrape (DPP-74)."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import redis
from django.db.models import Count, DurationField, ExpressionWrapper, Min
from django.db.models.functions import Now
from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily, Metric

from budget.models import PendingCredit
from budget.redis import scripts
from budget.redis.gate import GateClosed
from dpp_project.jobs.models import JobReport
from dpp_project.observe.metrics import metrics_collector

UNKNOWN: Final = Decimal("NaN")

OPERATIONS = Counter("dpp_money_operations_total", "Holds, settles and refunds, by answer.", ["operation", "answer"])
REBUILDS = Counter("dpp_budget_rebuilds_total", "Rebuilds from the ledger, of all tenants or of one.", ["scope"])


@metrics_collector("budget")
def collect_money() -> Iterable[Metric]:
    is_open, is_behind = _gate()
    yield GaugeMetricFamily("dpp_budget_open", "1 while money can be held; 0 while it is rebuilt.", value=is_open)
    behind = "1 while money is closed because Postgres went back in time: an operator must act."
    yield GaugeMetricFamily("dpp_ledger_behind", behind, value=is_behind)
    age = ExpressionWrapper(Now() - Min("created_at"), DurationField())
    waiting = PendingCredit.objects.aggregate(count=Count("pk"), oldest=age)
    yield GaugeMetricFamily(
        "dpp_pending_credits", "Entries that may not have reached their balance.", value=waiting["count"]
    )
    oldest_seconds = 0 if waiting["oldest"] is None else waiting["oldest"].total_seconds()
    yield GaugeMetricFamily("dpp_pending_credit_oldest_seconds", "Age of the oldest of them.", value=oldest_seconds)
    report = JobReport.objects.filter(job="money_verify", ended_at__isnull=False, dry_run=False)
    last = report.order_by("-started_at").first()
    if last is None:
        return
    unproved = last.detail.get("unproved", 0)
    yield GaugeMetricFamily(
        "dpp_money_drift_usd_micros", "What the proofs find missing or too much.", value=_drift(last)
    )
    yield GaugeMetricFamily("dpp_money_tenants_differing", "Tenants for whom the last proof failed.", value=last.errors)
    yield GaugeMetricFamily("dpp_money_tenants_unproved", "Tenants who could not be compared.", value=unproved)


def _drift(last: JobReport) -> Any:
    """0 is said only where every tenant was compared: where one was not, and no other differs, nothing is known."""
    drift: int | None = last.detail.get("drift_usd_micros")
    if drift is None or (drift == 0 and last.detail.get("unproved")):
        return UNKNOWN
    return drift


def _gate() -> tuple[bool, bool]:
    """Whether it is open; whether it waits for an operator."""
    try:
        scripts.shared_scripts().gate.renewed()
    except GateClosed as closed:
        return False, closed.ledger_is_behind
    except redis.RedisError:
        return False, False
    return True, False
