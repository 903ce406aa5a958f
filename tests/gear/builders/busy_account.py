"""A tenant that has bought: runs in every state, a cap, several keys, webhooks that work and one that does not."""

from datetime import timedelta

from budget.caps import setting
from dpp_project import clock
from runs.claims import Claim
from runs.finish import finalization
from runs.finish.finalization import Committed
from runs.models import Run
from runs.operators import disputes
from tenants import services
from tenants.models import Tenant
from tenants.scopes import Scope
from tenants.webhooks.models import DeliveryStatus, WebhookAttempt
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import a_key
from tests.gear.builders.webhook_sending import an_endpoint, deliveries_due


def completed_run(tenant: Tenant) -> Run:
    """Executed, charged and committed, its result in the bucket."""
    claimed = recovery.worker_claimed(tenant)
    assert isinstance(finalization.finish_claim(Claim.stored(claimed, actor="worker")), Committed)
    return gear.row(claimed.run_id)


def failed_run(tenant: Tenant) -> Run:
    claimed = recovery.worker_claimed(tenant, intent=gear.fee())
    assert isinstance(finalization.finish_claim(Claim.stored(claimed, actor="worker")), Committed)
    return gear.row(claimed.run_id)


def disputed_run(tenant: Tenant) -> Run:
    run = completed_run(tenant)
    assert isinstance(disputes.open_dispute(run_id=run.run_id, reason="half a page", actor="operator:bob"), Run)
    return gear.row(run.run_id)


def buys(shop: Shop) -> dict[str, Run]:
    """A run of each kind by name."""
    tenant = shop.tenant
    canceled = shop.submit().json()["run_id"]
    shop.cancel(canceled)
    for _ in range(3):
        completed_run(tenant)
    return {
        "completed": completed_run(tenant),
        "failed": failed_run(tenant),
        "disputed": disputed_run(tenant),
        "working": recovery.at_work(tenant),
        "stuck": recovery.lease_ran_out(tenant),
        "queued": recovery.queued(tenant),
        "canceled": Run.objects.get(pk=canceled),
    }


def has_much(shop: Shop) -> dict[str, Run]:
    """All of it; the account has something on each page."""
    tenant_id = shop.tenant.tenant_id
    setting.set_caps(
        tenant_id=tenant_id, lineage_id=None, changes={"day": 5_000_000, "month": 50_000_000}, actor="test"
    )
    runs = buys(shop)
    services.issue_key(
        tenant_id=tenant_id, scopes=["runs:read"], label="야간 작업, nightly", expires_at=None, actor="test"
    )
    a_key(shop.tenant, scopes={Scope.RUNS_READ}, expires_at=clock.now() + timedelta(days=3))
    endpoint = an_endpoint(shop.tenant, url="https://good.example/hooks/dpp", proven=True)
    broken = an_endpoint(
        shop.tenant,
        url="https://bad.example/hooks/of-a-receiver-with-a-long-name",
        consecutive_failures=4,
        failing_since=clock.now() - timedelta(hours=2),
    )
    delivered = {"status": DeliveryStatus.DELIVERED, "ended_at": clock.now(), "next_attempt_at": None}
    for delivery in deliveries_due(endpoint, 3, **delivered):
        WebhookAttempt.objects.create(delivery=delivery, at=clock.now(), status_code=204, ms=41, error="")
    deliveries_due(broken, 2)
    return runs
