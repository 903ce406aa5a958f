"""What no endpoint may be, at registration: each refused URL names the field and the cure, and leaves no row."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpp_project.outbound.connecting import Rules
from dpp_project.refusals import Refusal
from tenants.webhooks import reach, registration, services
from tenants.webhooks.models import WebhookEndpoint, WebhookSecret
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.webhooks import PUBLIC, NamesOfTests, registered
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.contract("HOOK-06")]

NOT_PUBLIC = "its address is not a public one"
UNRESOLVED = "its name leads to no public address"
REFUSED = {
    "http://receiver.example/": "must be https",
    "ftp://receiver.example/": "must be https",
    "javascript:alert(1)": "must be https",
    "//receiver.example/": "must be a URL",
    "receiver.example/hook": "must be a URL",
    "https://": "must be a URL",
    "https:///hook": "must be a URL",
    "https://receiver.example/a b": "must be a URL",
    "https://receiver.example/a\nb": "must be a URL",
    "https://receiver.example\\@127.0.0.1/": "must be a URL",
    "https://receiver..example/": "must be a URL",
    "https://[::1": "must be a URL",
    "https://receiver.example/" + "a" * 2_048: "must be a URL",
    "https://receiver.example/" + "\N{HANGUL SYLLABLE GA}" * 700: "must be a URL",
    "https://ada:pw@receiver.example/": "no user name",
    "https://ada@receiver.example/": "no user name",
    "https://receiver.example/#part": "no fragment",
    "https://receiver.example/#": "no fragment",
    "https://receiver.example:8443/": "must use port 443",
    "https://receiver.example:80/": "must use port 443",
    "https://127.0.0.1/": NOT_PUBLIC,
    "https://127.1/": NOT_PUBLIC,
    "https://2130706433/": NOT_PUBLIC,
    "https://0x7f000001/": NOT_PUBLIC,
    "https://0177.0.0.1/": NOT_PUBLIC,
    "https://10.0.0.8/": NOT_PUBLIC,
    "https://169.254.169.254/latest/meta-data/": NOT_PUBLIC,
    "https://[::1]/": NOT_PUBLIC,
    "https://[::ffff:127.0.0.1]/": NOT_PUBLIC,
    "https://[fe80::1]/": NOT_PUBLIC,
    "https://[64:ff9b::7f00:1]/": NOT_PUBLIC,
    "https://0.0.0.0/": NOT_PUBLIC,
    "https://localhost/": UNRESOLVED,
    "https://metadata.google.internal/": UNRESOLVED,
    "https://intranet/": UNRESOLVED,
    "https://inside.example/": UNRESOLVED,
    "https://mixed.example/": UNRESOLVED,
    "https://none.example/": UNRESOLVED,
}


@pytest.fixture(autouse=True)
def _names_of_the_inside(names: NamesOfTests) -> None:
    names.names |= {"inside.example": ["10.0.0.8"], "mixed.example": [PUBLIC, "127.0.0.1"]}


@pytest.mark.parametrize("url", REFUSED)
def test_hook_06_a_url_that_must_not_be_called_is_refused_with_its_cure(url: str) -> None:
    answer = services.create_endpoint(tenant_id=a_tenant().tenant_id, url=url, events=["run.failed"], actor="test")
    assert isinstance(answer, Refusal)
    assert (answer.reason.value, answer.field) == ("VALIDATION_FAILED", "url")
    assert REFUSED[url] in answer.detail
    assert not WebhookEndpoint.objects.exists()
    assert not WebhookSecret.objects.exists()


@pytest.mark.parametrize("url", REFUSED)
def test_hook_06_an_endpoint_is_not_moved_there_either(url: str) -> None:
    endpoint = registered().endpoint
    answer = services.change_endpoint(
        tenant_id=endpoint.tenant_id, endpoint_id=endpoint.endpoint_id, actor="test", url=url, events=["run.upheld"]
    )
    assert isinstance(answer, Refusal)
    assert answer.field == "url"
    same = WebhookEndpoint.objects.get(pk=endpoint.pk)
    assert (same.url, same.events) == (endpoint.url, endpoint.events)


def test_hook_06_names_of_the_inside_have_one_answer_wherever_they_lead() -> None:
    """A name that leads inside, one that leads nowhere and one that has no address: a caller learns which of none."""
    said = set()
    for name in ("inside.example", "mixed.example", "none.example", "localhost"):
        refused = registration.checked_url(f"https://{name}/", tenant_id="t_a")
        assert isinstance(refused, Refusal)
        said.add(refused.detail)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://Receiver.EXAMPLE/Hook?a=1&b=%20", "https://receiver.example/Hook?a=1&b=%20"),
        ("https://receiver.example", "https://receiver.example/"),
        ("https://receiver.example:443/hook", "https://receiver.example/hook"),
        ("https://receiver.example./hook", "https://receiver.example/hook"),
        (f"https://{PUBLIC}/hook", f"https://{PUBLIC}/hook"),
        ("https://b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example/", "https://xn--bcher-kva.example/"),
        (
            "https://receiver.example/\N{HANGUL SYLLABLE GA}",
            "https://receiver.example/%EA%B0%80",
        ),
    ],
)
def test_hook_06_a_url_is_kept_in_its_one_reading(names: NamesOfTests, url: str, kept: str) -> None:
    names.names["xn--bcher-kva.example"] = [PUBLIC]
    assert registered(url=url).endpoint.url == kept


def test_hook_06_a_name_server_that_never_answers_is_waited_for_within_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registration, "LOOKUP_SECONDS", 0.05)
    began = time.monotonic()
    refused = registration.checked_url("https://never.example/", tenant_id="t_a")
    assert isinstance(refused, Refusal)
    assert "not resolved within" in refused.detail
    assert time.monotonic() - began < 5


def test_hook_06_names_that_never_answer_hold_two_threads_of_a_process_and_no_more(
    names: NamesOfTests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "TURN_SECONDS", 0.05)
    monkeypatch.setattr(registration, "LOOKUP_SECONDS", 5.0)
    with ThreadPoolExecutor(registration.AT_ONCE) as slow:
        asked = [
            slow.submit(registration.checked_url, "https://never.example/", tenant_id=f"t_{number}")
            for number in range(registration.AT_ONCE)
        ]
        wait_until(lambda: len(names.asked) == registration.AT_ONCE, what="all turns to be taken")
        refused = registration.checked_url("https://receiver.example/", tenant_id="t_b")
        assert isinstance(refused, Refusal)
        assert (refused.reason.value, refused.retry_after_seconds) == ("SERVICE_UNAVAILABLE", 5)
        names.let_go.set()
        assert all(isinstance(one.result(10), Refusal) for one in asked)
    assert registration.checked_url("https://receiver.example/", tenant_id="t_b") == "https://receiver.example/"


def test_hook_06_lookups_are_counted_to_the_tenant_that_asks(names: NamesOfTests) -> None:
    tenant = a_tenant()
    registered(tenant)
    assert names.asked == [("receiver.example", tenant.tenant_id)]


def test_hook_06_the_operators_exceptions_are_for_single_names(
    names: NamesOfTests, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = Rules(private_hosts={"receiver.test": ("127.0.0.1", 8443)})
    monkeypatch.setattr(reach, "webhook_rules", lambda: allowed)
    assert registered(url="https://receiver.test/hook").endpoint.url == "https://receiver.test/hook"
    assert names.asked == []
    for url in ("https://other.test/", "https://127.0.0.1/", "https://receiver.test:8443/"):
        assert isinstance(registration.checked_url(url, tenant_id="t_a"), Refusal)


def test_hook_06_a_registration_asks_and_dials_nothing(names: NamesOfTests) -> None:
    with pytest.raises(AssertionError, match="dialled"):
        asyncio.run(names.connect(PUBLIC, 443))
    assert registration.checked_url("https://receiver.example/", tenant_id="t_a") == "https://receiver.example/"


def test_hook_06_one_tenant_takes_one_turn_and_its_others_wait_for_none(
    names: NamesOfTests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could keep every turn, one request after the other, and no other tenant would register anything."""
    monkeypatch.setattr(registration, "TURN_SECONDS", 10.0)
    monkeypatch.setattr(registration, "OWN_SECONDS", 0.05)
    monkeypatch.setattr(registration, "LOOKUP_SECONDS", 10.0)
    with ThreadPoolExecutor(1) as slow:
        asked = slow.submit(registration.checked_url, "https://never.example/", tenant_id="t_greedy")
        wait_until(lambda: len(names.asked) == 1, what="its first lookup")
        began = time.monotonic()
        refused = registration.checked_url("https://receiver.example/", tenant_id="t_greedy")
        assert isinstance(refused, Refusal)
        assert refused.reason.value == "SERVICE_UNAVAILABLE"
        assert registration.checked_url("https://receiver.example/", tenant_id="t_b") == "https://receiver.example/"
        assert time.monotonic() - began < 5
        assert names.asked == [("never.example", "t_greedy"), ("receiver.example", "t_b")]
        names.let_go.set()
        assert isinstance(asked.result(10), Refusal)
    assert registration.checked_url("https://receiver.example/", tenant_id="t_greedy") == "https://receiver.example/"
