"""A pack that lacks its engine is refused before anything is held, and /readyz says what to install (DPP-60)."""

import dataclasses
import json

import pytest
from django.test import Client

from dpp_project.pages import health
from runs.packs import registry
from tests.gear.builders.shop import Shop, a_request_key

pytestmark = pytest.mark.contract("DPP-60")
CURE = "words for the probe: apt-get install probe-words"


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = dataclasses.replace(registry.pack_named("probe"), missing=lambda: [CURE])
    without = dict(registry.packs_for_sale()) | {"probe": lacks}
    monkeypatch.setattr(registry, "packs_for_sale", lambda: without)


@pytest.mark.usefixtures("lacking")
def test_a_submit_to_a_pack_without_its_engine_is_503_and_holds_nothing(shop: Shop) -> None:
    response = shop.submit()
    body = json.loads(response.content)
    assert (response.status_code, body["reason_code"]) == (503, "ENGINE_UNAVAILABLE")
    assert int(response.headers["Retry-After"]) > 0
    assert response.headers["X-DPP-Budget-Remaining"] == "10.0000"
    assert CURE not in body["detail"], "how to install it is the operator's business"
    assert list(shop.runs()) == []


def test_a_replay_needs_no_engine(shop: Shop, request: pytest.FixtureRequest) -> None:
    key = a_request_key()
    first = shop.submit(key=key)
    request.getfixturevalue("lacking")
    again = shop.submit(key=key)
    assert (again.status_code, again.content) == (202, first.content)


@pytest.mark.contract("DPP-72")
@pytest.mark.usefixtures("lacking")
def test_dpp_72_readyz_names_what_is_missing_and_stays_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "latest_probes", lambda: {"redis": {"state": "up", "ms": 1.0}})
    response = client.get("/readyz")
    assert response.status_code == 200
    assert json.loads(response.content)["missing"]["probe"] == [CURE]
