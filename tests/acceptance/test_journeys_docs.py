"""Readers' ways through the documentation in a real browser (DPP-94)."""

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from dpp_project.documentation import chapters
from tests.gear.servers.browser import DESKTOP, PHONE, Journey, browser, journey, needs_browser, pictured, served
from tests.gear.waiting import wait_until
from tests.proving import proofs

__all__ = ["browser", "journey", "served"]

pytestmark = [needs_browser, pytest.mark.contract("DPP-94", "DPP-71")]

SOME = {
    "/docs/": "A first run",
    "/docs/tutorial/": "A key with a cap",
    "/docs/paying/": "The minimum fee",
    "/docs/api/": "Idempotency-Key",
    "/docs/packs/url/": "https",
    "/docs/problems/": "SPEND_CAP_REACHED",
    "/docs/adr/": "Django, DRF and Celery stand",
}
LOOKS = [(width, dark) for width in (DESKTOP, PHONE) for dark in (False, True)]


def focused(journey: Journey) -> str:
    return str(journey.driver.execute_script("return document.activeElement.id || document.activeElement.innerText"))


def presses(journey: Journey, *keys: str) -> None:
    for key in keys:
        journey.driver.switch_to.active_element.send_keys(key)


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_dpp_94_the_docs_are_read_by_anyone(journey: Journey, width: int, *, dark: bool) -> None:
    journey.looks(width=width, dark=dark)
    for path, said in SOME.items():
        journey.goes(path)
        journey.sees(said)
        pictured(journey, path)


def test_dpp_94_a_reader_searches_with_the_keyboard_alone(journey: Journey) -> None:
    journey.goes("/docs/")
    presses(journey, "/")
    assert focused(journey) == "search"
    presses(journey, "minimum fee")
    journey.sees("What a run costs: The minimum fee")
    journey.is_accessible()
    pictured(journey, "docs-search")
    presses(journey, Keys.ARROW_DOWN)
    assert "The minimum fee" in focused(journey)
    presses(journey, Keys.ARROW_UP)
    assert focused(journey) == "search"
    presses(journey, Keys.ENTER)
    wait_until(
        lambda: journey.driver.current_url.endswith("/docs/paying/#the-minimum-fee"), seconds=10, what="the page"
    )
    journey.goes("/docs/api/", looks_at_it=False)
    presses(journey, "/", "SPEND_CAP_REACHED")
    journey.sees("Reason codes: SPEND_CAP_REACHED")
    presses(journey, Keys.ESCAPE)
    journey.does_not_see("Reason codes: SPEND_CAP_REACHED")
    presses(journey, Keys.CONTROL + "a", "zzzz-nothing")
    journey.sees("Nothing has “zzzz-nothing”.")


def test_dpp_94_a_reader_skips_to_the_content_and_goes_by_links(journey: Journey) -> None:
    journey.goes("/docs/quickstart/")
    presses(journey, Keys.TAB)
    assert focused(journey) == "Skip to content"
    presses(journey, Keys.ENTER)
    assert focused(journey) == "content"
    journey.clicks("Waiting")
    journey.sees("Step by step: events")
    journey.shown("//nav[@aria-label='On this page']//a[.='How far it is']").click()
    assert journey.driver.current_url.endswith("/docs/waiting/#how-far-it-is")


def test_dpp_94_a_reader_finds_pages_on_a_phone(journey: Journey) -> None:
    journey.looks(width=PHONE, dark=True)
    journey.goes("/docs/caps/")
    assert not journey.driver.find_element(By.CSS_SELECTOR, ".menu nav").is_displayed()
    journey.clicks("All pages", looks_at_it=True)
    pictured(journey, "docs-menu")
    journey.clicks("Webhooks", looks_at_it=True)
    journey.types("Search", "scopes")
    journey.sees("Keys: Scopes")
    journey.is_accessible()
    pictured(journey, "docs-search")


def test_dpp_71_the_reference_is_shown_without_network(journey: Journey) -> None:
    """Its axe is Swagger UI's own affair: that page is another's work, kept as it comes."""
    journey.goes("/docs/reference/", looks_at_it=False)
    journey.sees("/v1/runs/{run_id}")
    pictured(journey, "docs-reference")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(DESKTOP, True), (PHONE, False)])
def test_dpp_94_every_page_of_the_docs(journey: Journey, width: int, *, dark: bool) -> None:
    journey.looks(width=width, dark=dark)
    for name, chapter in chapters.documentation_chapters().items():
        journey.goes(f"/docs/{name}/")
        journey.sees(chapter.title)
    assert len(chapters.documentation_chapters()) > 20, "each is looked at as the journey goes there"
    proofs.report(cases=1)
