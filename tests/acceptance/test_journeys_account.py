"""Customers' ways through their account pages in a real browser (DPP-94)."""

import pytest

from tenants.account import sessions
from tenants.models import ApiKey
from tenants.webhooks.models import WebhookEndpoint
from tests.gear.builders.account import a_visitor
from tests.gear.builders.busy_account import has_much
from tests.gear.builders.shop import Shop
from tests.gear.servers.browser import DESKTOP, PHONE, Journey, browser, journey, needs_browser, pictured, served
from tests.proving import proofs

__all__ = ["browser", "journey", "served"]

pytestmark = [needs_browser, pytest.mark.contract("DPP-94", "DPP-84")]

FULL = {
    "": "$8.995",
    "statement/": "$9.745",
    "usage/": "$0.255",
    "keys/": "야간 작업, nightly",
    "caps/": "$48.995",
    "webhooks/": "https://bad.example/hooks/of-a-receiver-with-a-long-name",
    "workspaces/": "No workspace yet.",
    "activity/": "signed in to the account pages",
}
"""What each page is for, of a tenant that has bought: its one figure or name."""
EMPTY = {
    "": "No run yet.",
    "runs/": "No run yet.",
    "statement/": "$10.00",
    "usage/": "has been charged.",
    "keys/": "this one",
    "caps/": "No cap: runs are bounded by the balance alone.",
    "webhooks/": "No webhook yet",
    "workspaces/": "No workspace yet.",
    "activity/": "signed in to the account pages",
}
"""What a new customer sees there: what is missing, and what to do."""


def comes_in(journey: Journey, shop: Shop) -> None:
    """Without the form, which a journey of its own fills in."""
    visitor = a_visitor(shop.issued)
    journey.holds(sessions.COOKIE, visitor.client.cookies[sessions.COOKIE].value, path=sessions.PATH)


def test_dpp_94_a_customer_signs_in_sees_her_run_and_signs_out(journey: Journey, shop: Shop) -> None:
    run_id = shop.submit().json()["run_id"]
    journey.goes("/account/runs/")
    journey.types("API key", f"dpp_AAAAAAAA_{'B' * 43}")
    journey.clicks("Sign in", looks_at_it=True)
    journey.sees("The key is not valid")
    journey.types("API key", shop.issued.plaintext)
    journey.clicks("Sign in", looks_at_it=True)
    journey.sees("Runs", run_id)
    journey.clicks(run_id, looks_at_it=True)
    journey.sees("queued", "$0.25", "Receipt")
    journey.clicks("Sign out")
    journey.goes(f"/account/runs/{run_id}/", looks_at_it=False)
    journey.sees("Sign in with an API key of yours")
    journey.does_not_see(run_id)


def test_dpp_94_a_customer_sets_a_cap_and_a_run_meets_it(journey: Journey, shop: Shop) -> None:
    comes_in(journey, shop)
    journey.goes("/account/caps/")
    journey.types("Each day, in USD", "0.1000")
    journey.clicks("Set the caps", looks_at_it=True)
    journey.sees("The caps are in force.", "$0.10")
    assert shop.submit().json()["reason_code"] == "SPEND_CAP_REACHED"
    journey.clicks("Change the caps")
    journey.types("Each day, in USD", "much")
    journey.clicks("Set the caps", looks_at_it=True)
    journey.sees("four decimals")


def test_dpp_94_a_customer_makes_rotates_and_revokes_a_key(journey: Journey, shop: Shop) -> None:
    comes_in(journey, shop)
    journey.goes("/account/keys/")
    journey.types("What it is for", "nightly")
    journey.types("runs:read", "")
    journey.clicks("Make the key", looks_at_it=True)
    journey.sees("shown only once")
    key = ApiKey.objects.get(label="nightly")
    journey.goes(f"/account/keys/{key.key_id}/")
    journey.clicks("Rotate the key")
    journey.clicks("Make the new key")
    journey.sees("shown only once")
    journey.goes(f"/account/keys/{key.key_id}/")
    journey.clicks("Revoke the key")
    journey.clicks("Revoke it for good", looks_at_it=True)
    journey.sees("is revoked")
    key.refresh_from_db()
    assert (key.status, key.replaced_by is not None) == ("REVOKED", True)


def test_dpp_94_a_customer_pauses_an_endpoint_and_resumes_it(journey: Journey, shop: Shop) -> None:
    has_much(shop)
    comes_in(journey, shop)
    journey.looks(width=PHONE, dark=True)
    journey.goes("/account/webhooks/")
    journey.clicks("https://good.example/hooks/dpp", looks_at_it=True)
    journey.clicks("Pause")
    journey.sees("Paused: its events are held.")
    endpoint = WebhookEndpoint.objects.get(url="https://good.example/hooks/dpp")
    assert endpoint.status == "PAUSED"
    journey.clicks("Resume", looks_at_it=True)
    journey.sees("Resumed")


def test_dpp_94_a_customer_reads_her_statement_on_a_phone(journey: Journey, shop: Shop) -> None:
    runs = has_much(shop)
    comes_in(journey, shop)
    journey.looks(width=PHONE, dark=False)
    journey.goes("/account/statement/")
    journey.sees("Closing", "Opening", str(runs["completed"].run_id), "charge")
    journey.clicks(str(runs["completed"].run_id), looks_at_it=True)
    journey.sees("Download the result", "Returned from the hold")


@pytest.mark.parametrize(("width", "dark"), [(DESKTOP, False), (PHONE, True)])
def test_dpp_94_every_account_page_full(journey: Journey, shop: Shop, width: int, *, dark: bool) -> None:
    runs = has_much(shop)
    comes_in(journey, shop)
    journey.looks(width=width, dark=dark)
    of_runs = {"completed": "Download the result", "failed": "WORKER_TIMEOUT", "working": "Cancel the run"}
    pages = FULL | {f"runs/{runs[name].run_id}/": said for name, said in of_runs.items()}
    for path, said in (pages | {"runs/": str(runs["completed"].run_id)}).items():
        journey.goes(f"/account/{path}")
        journey.sees(said)
        pictured(journey, f"account-full-{path}")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(DESKTOP, True), (PHONE, False)])
def test_dpp_94_every_account_page_empty(journey: Journey, shop: Shop, width: int, *, dark: bool) -> None:
    comes_in(journey, shop)
    journey.looks(width=width, dark=dark)
    for path, said in EMPTY.items():
        journey.goes(f"/account/{path}")
        journey.sees(said)
        pictured(journey, f"account-empty-{path}")
    proofs.report(cases=1)
