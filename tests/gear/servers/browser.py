"""A real browser at a real API: what a person would see, and what she would not, checked on each page.

A journey fails on any error on the browser's console (what the Content-Security-Policy refuses is one), on any request
to another origin, and on any violation that axe finds (tests/data/axe) on a page that is looked at.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.gear.servers.live_api import an_api
from tests.gear.source import REPOSITORY
from tests.gear.waiting import wait_until

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="Chromium or its driver is not installed: make setup-browser"
)
AXE: Final = REPOSITORY / "tests/data/axe/axe.min.js"
FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PATIENCE_SECONDS: Final = 40
"""A suite beside others keeps pages waiting."""
DESKTOP: Final = 1_400
PHONE: Final = 390
REFUSED: Final = "Failed to load resource: the server responded with a status of 4"
RUN_AXE: Final = """
const done = arguments[arguments.length - 1];
axe.run(document, { resultTypes: ["violations"] }).then(
  found => done(found.violations.map(one => `${one.id}: ${one.help}: ` + one.nodes.map(
    node => `${node.html.slice(0, 160)} (${node.any.concat(node.all, node.none).map(it => it.message).join("; ")})`
  ).slice(0, 3).join(" | "))),
  error => done([String(error)]));
"""


@dataclass
class Journey:
    """One person's way through the pages. What went wrong in the browser is kept until `ends_well` asks."""

    driver: webdriver.Chrome
    origin: str
    foreign: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    dark: bool = False

    def begins(self, *, width: int = DESKTOP, dark: bool = False) -> None:
        """With an empty browser, of this width and in this light."""
        self.driver.get("about:blank")
        self._collect()
        self.foreign.clear()
        self.complaints.clear()
        self._cdp("Storage.clearDataForOrigin", origin=self.origin, storageTypes="all")
        self._cdp("Network.clearBrowserCookies")
        self.looks(width=width, dark=dark)

    def looks(self, *, width: int, dark: bool) -> None:
        height = 844 if width == PHONE else 900
        self.dark = dark
        self._cdp(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width == PHONE
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._cdp("Emulation.setEmulatedMedia", media="screen", features=[scheme])

    def operator(self, user: User) -> None:
        """Signed in to the console, without its form."""
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.create()
        self.holds("sessionid", str(session.session_key))

    def holds(self, cookie: str, value: str, *, path: str = "/") -> None:
        self._cdp("Network.setCookie", name=cookie, value=value, url=f"{self.origin}{path}", path=path)

    def goes(self, path: str, *, looks_at_it: bool = True) -> None:
        self.driver.get(f"{self.origin}{path}")
        if looks_at_it:
            self.is_accessible()

    def clicks(self, text: str, *, looks_at_it: bool = False) -> None:
        """A link or button by its words; the page that follows, if one does, has come when this returns."""
        self._click(f"//*[self::a or self::button or self::summary][normalize-space(.)={_quoted(text)}]")
        if looks_at_it:
            self.is_accessible()

    def _click(self, xpath: str) -> None:
        """On a page that has come whole: one that still grows moves its buttons away from under the mouse."""
        self.is_loaded()
        element = self.shown(xpath)
        leads_on = element.tag_name != "summary" and element.get_attribute("type") != "button"
        self.driver.execute_script("window.stillHere = true")
        element.click()
        if leads_on:
            gone = "return window.stillHere !== true"
            wait_until(
                lambda: self.driver.execute_script(gone), seconds=PATIENCE_SECONDS, what=f"what {xpath} leads to"
            )
        self.is_loaded()

    def types(self, label: str, value: str) -> None:
        """Into the field of this label, instead of what stood there."""
        named = f"//label[starts-with(normalize-space(.), {_quoted(label)})]"
        wanted = self.shown(named).get_attribute("for")
        element = self.driver.find_element(By.ID, str(wanted))
        if element.get_attribute("type") not in {"checkbox", "radio"}:
            element.clear()
            element.send_keys(value)
        else:
            element.click()

    def sends(self, *, looks_at_it: bool = False) -> None:
        """The form of a page of the console that asks before it acts."""
        self._click("//*[@id='content']//form//button[@type='submit']")
        if looks_at_it:
            self.is_accessible()

    def sees(self, *texts: str) -> None:
        for text in texts:
            try:
                wait_until(lambda wanted=text: wanted in self.text(), seconds=PATIENCE_SECONDS, what="it")  # type: ignore[misc]
            except AssertionError:
                raise AssertionError(f"{text!r} is not on {self.driver.current_url}:\n{self.text()[:1_500]}") from None

    def does_not_see(self, *texts: str) -> None:
        shown = self.text()
        assert [text for text in texts if text in shown] == []

    def text(self) -> str:
        return str(self.driver.execute_script("return document.body ? document.body.innerText : ''"))

    def shown(self, xpath: str) -> WebElement:
        """The first that a person can see; waits for it."""
        found: list[WebElement] = []

        def look() -> bool:
            found[:] = [one for one in self.driver.find_elements(By.XPATH, xpath) if one.is_displayed()]
            return bool(found)

        wait_until(look, seconds=PATIENCE_SECONDS, what=f"{xpath} on {self.driver.current_url}")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found[0])
        return found[0]

    def is_loaded(self) -> None:
        ready = "return document.readyState"
        wait_until(lambda: self.driver.execute_script(ready) == "complete", seconds=PATIENCE_SECONDS, what="the page")

    def is_accessible(self) -> None:
        """By axe, and no wider than the screen."""
        self.driver.execute_script(axe())
        where = f"{self.path} ({self.width()} px)"
        self.complaints += [f"{where}: {one}" for one in self.driver.execute_async_script(RUN_AXE)]
        wide = self.driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        if wide > 1:
            self.complaints.append(f"{where}: wider than the screen by {wide} px")

    @property
    def path(self) -> str:
        return urlsplit(self.driver.current_url).path

    def width(self) -> int:
        return int(self.driver.execute_script("return window.innerWidth"))

    def picture(self, path: Path) -> None:
        """Of the whole page."""
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        width = self.width()
        self._cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=min(int(height), 6_000),
            deviceScaleFactor=1,
            mobile=width == PHONE,
        )
        self.driver.save_screenshot(str(path))

    def ends_well(self) -> None:
        self._collect()
        found = [f"asked elsewhere: {url}" for url in self.foreign] + self.complaints
        assert not found, "\n".join(found)

    def _collect(self) -> None:
        documents = set()
        for entry in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            what = message["params"]
            if message["method"] == "Network.requestWillBeSent":
                url = what["request"]["url"]
                if not url.startswith((f"{self.origin}/", "data:", "blob:", "about:")):
                    self.foreign.append(url)
            elif message["method"] == "Network.responseReceived" and what["type"] == "Document":
                documents.add(what["response"]["url"])
        for entry in self.driver.get_log("browser"):  # type: ignore[no-untyped-call]
            # A form that is refused is answered 4xx, with the page that says why.
            refused = any(entry["message"].startswith(f"{url} - {REFUSED}") for url in documents)
            if entry["level"] == "SEVERE" and not refused:
                self.complaints.append(f"console: {entry['message']}")

    def _cdp(self, command: str, **values: Any) -> None:
        self.driver.execute_cdp_cmd(command, values)


def pictured(journey: Journey, name: str) -> None:
    """Kept where DPP_PICTURES names a folder, for a person to look at."""
    folder = os.environ.get("DPP_PICTURES")
    if folder:
        scheme = "dark" if journey.dark else "light"
        width = journey.width()
        journey.picture(Path(folder) / f"{name.strip('/').replace('/', '-')[:60]}-{width}-{scheme}.png")
        journey.looks(width=width, dark=journey.dark)


@cache
def axe() -> str:
    return AXE.read_text(encoding="utf-8")


def _quoted(text: str) -> str:
    return f'"{text}"' if "'" in text else f"'{text}'"


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """One for the process, with a folder of its own."""
    folder = tempfile.mkdtemp(prefix="dpp-browser-")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={folder}", f"--window-size={DESKTOP},900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(executable_path=DRIVER))
    driver.set_script_timeout(30)
    yield driver
    driver.quit()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def served(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API as the product starts it, with its static files; its origin. Its heartbeats end with the module."""
    call_command("collectstatic", interactive=False, verbosity=0)
    with an_api(tmp_path_factory.mktemp("served"), threads=4) as api:
        yield f"http://127.0.0.1:{api.port}"


@pytest.fixture
def journey(browser: webdriver.Chrome, served: str) -> Iterator[Journey]:
    """What went wrong in the browser fails the test at its end, if nothing else did."""
    made = Journey(browser, served)
    made.begins()
    yield made
    made.ends_well()
