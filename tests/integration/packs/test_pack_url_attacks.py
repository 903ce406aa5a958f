"""Each attack of tests/data/url_attacks.json ends as it should, and what it aimed at was not touched.

The network leads every address to a listener on loopback. So a rule that fails is seen there: a connection was taken.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpp_project.outbound import addresses, http_exchange
from dpp_project.outbound.network import Internet, Network
from dpp_project.outbound.refusals import Blocked, Refused
from runs.packs.url.fetching import FetchedPage, Fetcher
from tests.gear.servers.web import (
    PUBLIC,
    PUBLIC_2,
    PUBLIC_3,
    PUBLIC_4,
    PUBLIC_5,
    PUBLIC_V6,
    SOCKETS,
    Loopback,
    Outside,
    Web,
    unused_port,
)

pytestmark = pytest.mark.contract("DPP-62")

ATTACKS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "url_attacks.json").read_text(encoding="utf-8")
)
NAMES = {
    "good.example": [PUBLIC],
    "evil.example": [PUBLIC_2],
    "six.example": [PUBLIC_V6],
    "xn--bcher-kva.example": [PUBLIC],
    "badca.example": [PUBLIC_3],
    "wrongname.example": [PUBLIC],
    "plain.example": [PUBLIC_4],
    "refused.example": [PUBLIC_5],
    "loop.example": ["127.0.0.1"],
    "meta.example": ["169.254.169.254"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "nat64l.example": ["64:ff9b:1::a00:1"],
    "sixto4.example": ["2002:7f00:1::"],
    "teredo.example": ["2001:0:7f00:1::1"],
    "zero.example": ["0.0.0.0"],  # noqa: S104  an answer of DNS
    "cgnat.example": ["100.64.0.1"],
    "ula.example": ["fd00::1"],
    "compat.example": ["::7f00:1"],
    "site.example": ["fec0::1"],
    "srv6.example": ["5f00::1"],
    "bench.example": ["198.18.0.1"],
    "mixed.example": [PUBLIC, "127.0.0.1"],
    "mixed6.example": [PUBLIC, "::1"],
}
SECONDS = 0.7


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    made = Web(tmp_path_factory.mktemp("web"))
    yield made
    made.close()


def fetcher_over(network: Network) -> Fetcher:
    return Fetcher(Outside(network), network.tls if isinstance(network, Loopback) else http_exchange.tls_trusting())


async def outcome_of(fetcher: Fetcher, url: str) -> dict[str, str]:
    try:
        found = await fetcher.fetch(url, seconds=SECONDS)
    except Refused as refused:
        told = {"outcome": refused.reason.value, "resolved_ip": refused.typed_ip, "at": refused.at}
        return {name: value for name, value in told.items() if value}
    finally:
        await asyncio.sleep(0)
    assert isinstance(found, FetchedPage)
    return {"outcome": "TRUNCATED" if found.truncated else "OK", "final_url": found.final_url}


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack["name"] for attack in ATTACKS])
def test_pack_url_an_attack_ends_as_it_should(web: Web, attack: dict[str, Any]) -> None:
    url = attack["url"].ljust(attack.get("padded_to", 0), "a")
    expected = {name: attack[name] for name in ("outcome", "final_url", "resolved_ip", "at") if name in attack}
    with unused_port() as nobody:
        ports = {PUBLIC_3: web.stranger, PUBLIC_4: web.plain, PUBLIC_5: nobody}
        network = Loopback(web, NAMES, ports)
        taken = len(web.taken)
        assert asyncio.run(outcome_of(fetcher_over(network), url)) == expected
    assert all(addresses.address_refusal(address) is None and port == 443 for address, port in network.dialled)
    assert len(web.taken) - taken <= len(network.dialled)
    if attack["outcome"] in set(Blocked) and "/r?" not in url:
        assert network.dialled == []


LITERALS = [
    attack
    for attack in ATTACKS
    if attack["outcome"] not in {"OK", "TRUNCATED"}
    and ".example/" not in attack["url"]
    and "long" not in attack["name"]
]


def test_pack_url_the_real_network_is_not_touched_for_a_literal_that_is_refused() -> None:
    """No stand-in here: the interpreter tells of every socket that connects and every name that is asked for."""
    network = Internet()

    async def all_of_them() -> list[dict[str, str]]:
        return [await outcome_of(fetcher_over(network), attack["url"]) for attack in LITERALS]

    with SOCKETS.counted() as events:
        outcomes = asyncio.run(all_of_them())
    assert len(LITERALS) > 60
    assert [outcome["outcome"] for outcome in outcomes] == [attack["outcome"] for attack in LITERALS]
    assert events == []


def test_pack_url_the_count_of_sockets_would_see_one() -> None:
    network = Internet()

    async def connect() -> None:
        with pytest.raises(ConnectionRefusedError), unused_port() as nobody:
            await network.connect("127.0.0.1", nobody)

    with SOCKETS.counted() as events:
        asyncio.run(connect())
    assert [event for event, _ in events] == ["socket.connect"]


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"])
def test_pack_url_no_proxy_of_the_environment_is_used(web: Web, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with unused_port() as nobody:
        monkeypatch.setenv(name, f"http://127.0.0.1:{nobody}")
        network = Loopback(web, NAMES)
        found = asyncio.run(outcome_of(fetcher_over(network), "https://good.example/ok"))
    assert found == {"outcome": "OK", "final_url": "https://good.example/ok"}
