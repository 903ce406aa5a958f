"""Tenants and keys on the console's first page."""

from datetime import timedelta
from urllib.parse import urlencode

from django.db.models import Count, Q
from django.urls import reverse

from dpp_project import clock
from dpp_project.console.dashboard import Figure, Panel, dashboard_panel
from tenants import services
from tenants.models import ApiKey, Tenant

SOON = timedelta(days=7)
IDLE = timedelta(days=90)
ACTIVE = {"status__exact": "ACTIVE"}


@dashboard_panel(title="Tenants and keys", order=60, permission="tenants.view_tenant")
def tenants_and_keys_panel() -> Panel:
    now = clock.now()
    live = Q(status="ACTIVE") & (Q(expires_at=None) | Q(expires_at__gt=now))
    tenants = Tenant.objects.aggregate(
        active=Count("pk", Q(status="ACTIVE")), suspended=Count("pk", Q(status="SUSPENDED"))
    )
    keys = ApiKey.objects.aggregate(
        live=Count("pk", live),
        ending=Count("pk", live & Q(expires_at__lte=now + SOON)),
        idle=Count("pk", live & Q(created_at__lt=now - IDLE) & (Q(last_used_at=None) | Q(last_used_at__lt=now - IDLE))),
    )
    tenant_list, key_list = reverse("admin:tenants_tenant_changelist"), reverse("admin:tenants_apikey_changelist")
    return Panel(
        title="Tenants and keys",
        figures=[
            Figure(
                label="Submits",
                value="stopped for all" if services.all_submits_are_stopped() else "taken",
                link=tenant_list,
            ),
            Figure(label="Active tenants", value=str(tenants["active"]), link=tenant_list),
            Figure(label="Suspended", value=str(tenants["suspended"]), link=f"{tenant_list}?status__exact=SUSPENDED"),
            Figure(label="Valid keys", value=str(keys["live"]), link=key_list),
            Figure(
                label="Ending within 7 days",
                value=str(keys["ending"]),
                link=f"{key_list}?{urlencode({'expires_at__gt': now, 'expires_at__lte': now + SOON} | ACTIVE)}",
            ),
            Figure(
                label="Not used in 90 days",
                value=str(keys["idle"]),
                note="Candidates to revoke.",
                link=f"{key_list}?{urlencode({'created_at__lt': now - IDLE} | ACTIVE)}",
            ),
        ],
    )
