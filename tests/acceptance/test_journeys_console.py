"""Operators' ways through the console in a real browser (DPP-94)."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.utils.text import capfirst

from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.busy_account import disputed_run, has_much
from tests.gear.builders.console import PASSWORD
from tests.gear.builders.shop import Shop
from tests.gear.servers.browser import DESKTOP, PHONE, Journey, browser, journey, needs_browser, pictured, served
from tests.gear.waiting import wait_until
from tests.proving import proofs

__all__ = ["browser", "journey", "served"]

pytestmark = [needs_browser, pytest.mark.contract("DPP-94")]


def test_dpp_94_an_operator_signs_in_and_finds_a_run(journey: Journey, shop: Shop) -> None:
    User.objects.create_superuser("ada", password=PASSWORD)
    run_id = shop.submit().json()["run_id"]
    journey.goes("/admin/")
    journey.types("Username", "ada")
    journey.types("Password", PASSWORD)
    journey.clicks("Log in arrow_forward", looks_at_it=True)
    journey.sees("Queued")
    journey.goes("/admin/runs/run/?status__exact=QUEUED")
    journey.sees(run_id)


def ada(journey: Journey) -> None:
    journey.operator(User.objects.create_superuser("ada"))


def test_dpp_94_an_operator_finds_a_stuck_run_and_ends_it(journey: Journey, shop: Shop) -> None:
    run = gear.aged(recovery.at_work(shop.tenant), lease_expires_at=600)
    ada(journey)
    journey.goes("/admin/")
    journey.sees("Expired leases")
    journey.goes(f"/admin/runs/run/?status__exact=PROCESSING&tenant={shop.tenant.tenant_id}")
    journey.clicks(str(run.run_id), looks_at_it=True)
    journey.sees("no longer renews its lease", "Overdue")
    journey.goes(f"/admin/runs/run/{run.run_id}/cancel/")
    journey.sends()
    wait_until(lambda: gear.row(run.run_id).status == "FAILED", what="the end of the run")
    journey.sees("CANCELED_BY_OPERATOR")


def test_dpp_94_an_operator_ends_a_dispute(journey: Journey, shop: Shop) -> None:
    run = disputed_run(shop.tenant)
    ada(journey)
    journey.goes("/admin/runs/run/?money_state__exact=DISPUTED", looks_at_it=False)
    journey.clicks(str(run.run_id))
    journey.goes(f"/admin/runs/run/{run.run_id}/refund/")
    journey.types("Reason", "half of the page was read")
    journey.sends()
    wait_until(lambda: gear.row(run.run_id).money_state == "REFUNDED", what="the refund")
    journey.sees("Refunded.", "half of the page was read")


def test_dpp_94_an_operator_rotates_a_key_and_reads_a_statement(journey: Journey, shop: Shop) -> None:
    ada(journey)
    journey.looks(width=PHONE, dark=True)
    journey.goes(f"/admin/tenants/apikey/{shop.issued.key.pk}/rotate/")
    journey.sends()
    journey.sees("It is shown only once")
    shop.issued.key.refresh_from_db()
    assert shop.issued.key.replaced_by is not None
    journey.goes(f"/admin/budget/account/{shop.tenant.pk}/change/")
    journey.sees("Statements as CSV")


def test_dpp_94_the_first_page_follows_what_happens(journey: Journey, shop: Shop) -> None:
    """Its numbers come anew by themselves."""
    gear.reserved(tenant_id=shop.tenant.tenant_id)
    ada(journey)
    journey.goes("/admin/", looks_at_it=False)
    queued = "//*[@data-live='Runs']//dt[normalize-space(.)='Queued']/following-sibling::dd[1]"
    assert journey.shown(queued).text == "1"
    gear.reserved(tenant_id=shop.tenant.tenant_id)
    journey.sees("Queued\n2\n")


@pytest.mark.parametrize(("width", "dark"), [(DESKTOP, False), (PHONE, True)])
def test_dpp_94_the_consoles_main_pages_full(journey: Journey, shop: Shop, width: int, *, dark: bool) -> None:
    runs = has_much(shop)
    ada(journey)
    journey.looks(width=width, dark=dark)
    pages = {
        "": "$9.745",  # what is owed to tenants
        "runs/run/": str(runs["completed"].run_id),
        f"runs/run/{runs['completed'].run_id}/change/": "COMPLETED SETTLED COMMITTED",
        f"budget/account/{shop.tenant.pk}/change/": "48.995",  # what is left under the month's cap
    }
    for path, said in pages.items():
        journey.goes(f"/admin/{path}")
        journey.sees(said)
        pictured(journey, f"console-full-{path}")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(DESKTOP, True), (PHONE, False)])
def test_dpp_94_every_list_of_the_console(journey: Journey, shop: Shop, width: int, *, dark: bool) -> None:
    """And the first page with nothing in it."""
    ada(journey)
    journey.looks(width=width, dark=dark)
    journey.goes("/admin/")
    journey.sees("No run yet. This stands here until there is one.")
    pictured(journey, "console-empty")
    has_much(shop)
    for model in admin.site._registry:
        journey.goes(f"/admin/{model._meta.app_label}/{model._meta.model_name}/")
        journey.sees(str(capfirst(model._meta.verbose_name_plural)))
    journey.goes("/admin/workspaces/workspace/board/")
    journey.sees("All workspaces as a list")
    proofs.report(cases=1)


@pytest.mark.parametrize(("width", "dark"), [(DESKTOP, True), (PHONE, False)])
def test_dpp_94_the_pages_of_documentation(journey: Journey, db: None, width: int, *, dark: bool) -> None:
    journey.looks(width=width, dark=dark)
    journey.goes("/docs/problems/")
    journey.sees("Reason codes")
