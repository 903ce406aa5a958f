"""What a job may ask of the world, and what its worker does for it: no job dials, resolves or holds a key."""

import asyncio
import contextlib
import dataclasses
import gc
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpp_project.outbound import network as outbound_network
from dpp_project.outbound.network import Internet
from dpp_project.reasons import ReasonCode
from runs.box.box import Box
from runs.box.outcomes import Done, Failed, PackOutcome, Stopped
from tests.gear.builders.box import MODULE, a_job, begin
from tests.gear.servers.web import PUBLIC, PUBLIC_2, SOCKETS, Loopback, Web
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("HRD-16", "DPP-62")
ATTACKS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "url_attacks.json").read_text(encoding="utf-8")
)
NAMES = {"good.example": [PUBLIC], "evil.example": [PUBLIC_2], "loop.example": ["127.0.0.1"]}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    made = Web(tmp_path_factory.mktemp("web"))
    yield made
    made.close()


class Odd(Loopback):
    """`slow.example` never answers its resolver, `deaf.example` its connection; both count who waits."""

    def __init__(self, web: Web) -> None:
        super().__init__(web, NAMES | {"deaf.example": [PUBLIC_2]})
        self.waiting = 0

    async def resolve(self, host: str, *, caller: str = "") -> list[str]:
        if host == "slow.example":
            self.asked.append(host)
            await self._for_ever()
        return await super().resolve(host, caller=caller)

    async def connect(self, address: str, port: int) -> socket.socket:
        if address == PUBLIC_2:
            await self._for_ever()
        return await super().connect(address, port)

    async def _for_ever(self) -> None:
        self.waiting += 1
        try:
            await asyncio.sleep(600)
        finally:
            self.waiting -= 1


@pytest.fixture(scope="module")
def network(web: Web) -> Odd:
    return Odd(web)


@pytest.fixture(scope="module")
def box(network: Odd) -> Iterator[Box]:
    made = Box([MODULE], network=network)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _fresh(network: Odd) -> None:
    network.asked.clear()
    network.dialled.clear()


def run(box: Box, attribute: str, *urls: str, number: int = 0, seconds: float = 10.0) -> PackOutcome:
    return begin(box, a_job(attribute, inputs={"urls": [*urls], "number": number}, timebox_seconds=seconds)).wait()


def data(outcome: PackOutcome) -> dict[str, Any]:
    assert isinstance(outcome, Done), outcome
    return outcome.data


def crashed(outcome: PackOutcome) -> None:
    assert isinstance(outcome, Failed), outcome
    assert outcome.reason is ReasonCode.PACK_CRASHED


def sockets_held() -> int:
    """Of this process."""
    gc.collect()
    held = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own
            held += str(entry.readlink()).startswith("socket:")
    return held


def test_a_job_that_reads_no_url_itself_is_refused_by_its_worker(box: Box, network: Odd) -> None:
    """Each attack that is not a redirect, put to the worker as it stands: the same word, and no socket."""
    refused = [attack for attack in ATTACKS if ".example" not in attack["url"] and attack["outcome"] != "OK"]
    urls = [attack["url"].ljust(attack.get("padded_to", 0), "a") for attack in refused]
    with SOCKETS.counted() as events:
        found = data(run(box, "CONNECT_TO", *urls))
    expected = {
        url: f"{attack['outcome']} {attack.get('resolved_ip')}" for url, attack in zip(urls, refused, strict=True)
    }
    assert len(refused) > 60
    assert found == expected
    assert (events, network.asked, network.dialled) == ([], [], [])


def test_a_name_that_leads_inside_is_refused_without_its_address(box: Box, network: Odd) -> None:
    assert data(run(box, "CONNECT_TO", "https://loop.example/")) == {"https://loop.example/": "LOOPBACK None"}
    assert network.dialled == []


def test_a_connection_is_made_by_the_worker_to_what_it_checked(box: Box, network: Odd) -> None:
    assert data(run(box, "CONNECT_TO", "https://good.example/any")) == {"https://good.example/any": "127.0.0.1"}
    assert (network.asked, network.dialled) == (["good.example"], [(PUBLIC, 443)])


def test_a_pack_that_reaches_nothing_has_no_connection(box: Box, network: Odd) -> None:
    crashed(run(box, "CONNECT_NOWHERE", "https://good.example/"))
    assert (network.asked, network.dialled) == ([], [])


def test_a_connection_cannot_be_turned_against_the_workers_network(box: Box, web: Web) -> None:
    taken = len(web.taken)
    found = data(run(box, "REDIAL", "https://good.example/", number=web.plain))
    assert found.pop("peer") == web.good, "it still leads where it led"
    found.pop("dial by sending")  # kernels differ: refused, or sent to its peer
    assert found == dict.fromkeys(["take apart", "dial", "bind", "listen", "accept"], 13)
    assert len(web.taken) <= taken + 1


@pytest.mark.parametrize(
    "call", ["CALL_FOR_EVER", "CALL_FOR_NO_TIME", "CALL_WITHOUT_URL", "CALL_ENGINE", "CLOSE_UNOPENED"]
)
def test_a_call_that_no_pack_of_ours_makes_ends_the_run(box: Box, network: Odd, call: str) -> None:
    crashed(run(box, call))
    assert (network.asked, network.dialled) == ([], [])


def test_a_run_has_no_more_connections_at_once_than_thirty(box: Box, network: Odd) -> None:
    before = sockets_held()
    crashed(run(box, "HOARD_CONNECTIONS", "https://deaf.example/", number=31))
    wait_until(lambda: network.waiting == 0, what="the calls under way are cut")
    assert sockets_held() == before


def test_five_of_a_run_are_at_one_host_at_once(box: Box, network: Odd) -> None:
    asked = {"urls": ["https://slow.example/"], "number": 30}
    running = begin(box, a_job("HOARD_CONNECTIONS", inputs=asked, timebox_seconds=60.0))
    outcomes: list[PackOutcome] = []
    following = threading.Thread(target=lambda: outcomes.append(running.wait()))
    following.start()
    wait_until(lambda: network.waiting == 5, what="five are under way")
    assert (len(network.asked), network.dialled) == (5, [])
    running.stop()
    following.join()
    assert isinstance(outcomes[0], Stopped)
    wait_until(lambda: network.waiting == 0, what="a cancel ends them")


@pytest.mark.parametrize("name", ["slow.example", "deaf.example"])
def test_what_never_answers_ends_with_the_calls_time(box: Box, network: Odd, name: str) -> None:
    begun = time.monotonic()
    assert data(run(box, "CONNECT_TO", f"https://{name}/")) == {f"https://{name}/": "TIMEOUT None"}
    assert time.monotonic() - begun < 4.0
    assert network.waiting == 0


def test_what_never_answers_ends_with_the_run(box: Box, network: Odd) -> None:
    outcome = run(box, "HOARD_CONNECTIONS", "https://slow.example/", number=1, seconds=0.5)
    assert isinstance(outcome, Failed)
    assert outcome.reason is ReasonCode.TIMEBOX_EXCEEDED
    wait_until(lambda: network.waiting == 0, what="its call is cut")


def test_a_worker_that_lacks_what_a_pack_needs_begins_no_job(box: Box) -> None:
    job = dataclasses.replace(a_job("CONNECT_TO"), lacks=["a wrong DPP_URL_PRIVATE_HOSTS"])
    outcome = begin(box, job).wait()
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.detail) == (
        ReasonCode.ENGINE_UNAVAILABLE,
        "Not installed: a wrong DPP_URL_PRIVATE_HOSTS",
    )


def test_names_are_asked_for_in_so_many_threads_and_one_caller_leaves_the_others_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name server that never answers, and a tenant whose runs are cut and come again: the other still is heard."""
    let_go = threading.Event()

    def look_up(host: str) -> list[str]:
        if host != "quick.example":
            let_go.wait(60)
        return [PUBLIC]

    monkeypatch.setattr(outbound_network, "_addresses", look_up)
    internet = Internet()

    async def ask() -> None:
        for _ in range(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await asyncio.gather(*(internet.resolve("slow.example", caller="t_slow") for _ in range(30)))
        lookups = [thread for thread in threading.enumerate() if thread.name == "lookup"]
        assert len(lookups) == outbound_network.LOOKUPS_OF_ONE_CALLER_MAX
        assert await internet.resolve("quick.example", caller="t_other") == [PUBLIC]

    try:
        asyncio.run(ask())
    finally:
        let_go.set()
    wait_until(lambda: not [one for one in threading.enumerate() if one.name == "lookup"], what="the threads end")
