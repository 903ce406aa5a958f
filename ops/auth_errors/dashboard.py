"""Auth errors on the console's first page: which faults are open, and which came back."""

from datetime import timedelta

from django.db.models import QuerySet, Sum
from django.urls import reverse

from dpp_project import clock
from dpp_project.console.dashboard import Figure, Panel, dashboard_panel
from ops.auth_errors import reads
from ops.auth_errors.models import Cluster, ClusterDay
from ops.auth_errors.states import ClusterStatus

COUNTED_MAX = 1_000
"""More are shown as such: the page must not count a million."""


@dashboard_panel(title="Auth errors", order=85, permission="auth_errors.view_cluster")
def auth_errors_panel() -> Panel:
    today, place = clock.now().date(), reverse("admin:auth_errors_cluster_changelist")
    opened = reads.root_clusters().filter(status=ClusterStatus.OPEN)
    errors = ClusterDay.objects.filter(day=today).aggregate(count=Sum("occurrences"))["count"] or 0
    before = ClusterDay.objects.filter(day=today - timedelta(days=1)).aggregate(count=Sum("occurrences"))["count"] or 0
    errors_list = reverse("admin:auth_errors_autherror_changelist")
    return Panel(
        title="Auth errors",
        description="Failed sign-ins that tenants report, and our own, by fault.",
        figures=[
            Figure(label="Open faults", value=_cluster_count_text(opened), link=f"{place}?status__exact=OPEN"),
            Figure(
                label="Came back",
                value=_cluster_count_text(opened.filter(regressed_at__isnull=False)),
                note="Resolved once, and met again since.",
                link=place,
            ),
            Figure(label="Errors today", value=str(errors), note=f"{before} yesterday (UTC).", link=errors_list),
        ],
    )


def _cluster_count_text(rows: QuerySet[Cluster]) -> str:
    count = rows[: COUNTED_MAX + 1].count()
    return f"more than {COUNTED_MAX}" if count > COUNTED_MAX else str(count)
