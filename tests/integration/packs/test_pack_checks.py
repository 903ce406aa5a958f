"""`manage.py check` names what a pack lacks, and what one may reach that it should not."""

import re
from pathlib import Path

import pytest

from dpp_project.settings import ENV
from runs import checks
from runs.packs import registry
from tests.gear.builders import pack_page

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operations.md"


def test_a_pack_that_lacks_something_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    before = checks.packs_that_cannot_work(None)
    monkeypatch.setenv("DPP_URL_CA_FILE", "/no/such/file.pem")
    found = [message for message in checks.packs_that_cannot_work(None) if message not in before]
    assert [(message.id, message.msg) for message in found] == [
        ("dpp.I001", "The url pack cannot work: DPP_URL_CA_FILE names no file.")
    ]


@pytest.mark.parametrize(
    ("hosts", "https", "found"), [("a=10.0.0.1:443", "on", 1), ("a=10.0.0.1:443", "off", 0), (None, "on", 0)]
)
def test_a_way_to_private_places_is_reported_in_production(
    monkeypatch: pytest.MonkeyPatch, hosts: str | None, https: str, found: int
) -> None:
    changed = ENV.model_copy(update={"DPP_URL_PRIVATE_HOSTS": hosts, "DPP_HTTPS": https == "on"})
    monkeypatch.setattr(checks, "ENV", changed)
    assert [message.id for message in checks.packs_that_may_reach_private_places(None)] == ["dpp.W006"] * found


def test_the_ids_stand_in_the_operations_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "dpp.I001" in page
    assert "dpp.W006" in page


def test_every_variable_that_a_pack_reads_stands_in_the_operations_page() -> None:
    rows = set(re.findall(r"^\| `([A-Z0-9_]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {name for pack in registry.packs_for_sale().values() for name in pack.environment} <= rows


@pytest.mark.contract("DPP-60")
def test_dpp_60_every_pack_for_sale_has_an_example_that_fits_a_price_and_a_page() -> None:
    for pack in registry.packs_for_sale().values():
        inputs = pack.inputs.model_validate(dict(pack.example))
        estimate = pack.estimate(inputs)
        assert 0 <= estimate.least_micros <= estimate.most_micros, pack.name
        assert pack.prices, pack.name
        assert pack.memory_bytes > 0, pack.name
        if pack.name not in registry.ONLY_FOR_TESTS:
            assert pack_page.shown(pack.name), pack.name
