"""Names that change their mind, servers that take their time, and the one allowance there is."""

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator

import pytest

from dpp_project.outbound import http_exchange
from dpp_project.outbound.connecting import Rules
from dpp_project.outbound.network import Internet
from dpp_project.outbound.refusals import Blocked, Failure, Refused
from runs.packs.pack import Reach
from runs.packs.url.content import Kind
from runs.packs.url.fetching import FetchedPage, Fetcher
from runs.packs.url.reasons import Discarded
from tests.gear.servers.web import PAGE, PUBLIC, PUBLIC_2, PUBLIC_V6, SOCKETS, Loopback, Outside, Web, unused_port

pytestmark = pytest.mark.contract("DPP-62")
NAMES = {"good.example": [PUBLIC], "evil.example": [PUBLIC_2]}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    made = Web(tmp_path_factory.mktemp("web"))
    yield made
    made.close()


class Rebinding(Loopback):
    """Each name answers a public address the first time, and a private one ever after."""

    async def resolve(self, host: str, *, caller: str = "") -> list[str]:
        again = host in self.asked
        public = await super().resolve(host)
        return ["127.0.0.1"] if again else public


def over(network: Loopback, **values: int) -> Fetcher:
    return Fetcher(Outside(network), network.tls, **values)


def allowed(hosts: dict[str, tuple[str, int]], *, ca_file: str | None = None) -> Fetcher:
    """Through the real network, where the operator named these."""
    return Fetcher(Outside(reach=Reach(rules=Rules(private_hosts=hosts))), http_exchange.tls_trusting(ca_file))


def fetch(fetcher: Fetcher, url: str, *, seconds: float = 3.0) -> FetchedPage:
    async def whole() -> FetchedPage:
        try:
            return await fetcher.fetch(url, seconds=seconds)
        finally:
            await asyncio.sleep(0)

    return asyncio.run(whole())


def refused(fetcher: Fetcher, url: str, *, seconds: float = 3.0) -> Refused:
    with pytest.raises(Refused) as found:
        fetch(fetcher, url, seconds=seconds)
    return found.value


def test_pack_url_a_name_is_asked_once_and_what_was_checked_is_dialled(web: Web) -> None:
    network = Rebinding(web, NAMES)
    assert fetch(over(network), "https://good.example/ok").status_code == 200
    assert network.asked == ["good.example"]
    assert network.dialled == [(PUBLIC, 443)]


def test_pack_url_a_name_that_changed_between_hops_is_refused_at_the_hop(web: Web) -> None:
    network = Rebinding(web, NAMES)
    found = refused(over(network), "https://good.example/r?https%3A%2F%2Fgood.example%2Fok")
    assert (found.reason, found.typed_ip, found.at) == (Blocked.LOOPBACK, None, "https://good.example/ok")
    assert network.asked == ["good.example", "good.example"]
    assert network.dialled == [(PUBLIC, 443)]


@pytest.mark.parametrize("hops", range(1, 6))
def test_pack_url_each_hop_is_resolved_anew(web: Web, hops: int) -> None:
    network = Loopback(web, NAMES)
    assert fetch(over(network), f"https://good.example/chain{hops}").status_code == 200
    assert network.asked == ["good.example"] * (hops + 1)


@pytest.mark.parametrize("allowed", range(5))
def test_pack_url_the_caller_may_follow_fewer_redirects(web: Web, allowed: int) -> None:
    fetcher = over(Loopback(web, NAMES), redirects_max=allowed)
    assert refused(fetcher, f"https://good.example/chain{allowed + 1}").reason is Discarded.TOO_MANY_REDIRECTS


def test_pack_url_no_one_follows_more_than_five(web: Web) -> None:
    fetcher = over(Loopback(web, NAMES), redirects_max=50)
    assert refused(fetcher, "https://good.example/chain6").reason is Discarded.TOO_MANY_REDIRECTS


@pytest.mark.parametrize(
    "answers", [[PUBLIC, "10.0.0.1"], ["10.0.0.1", PUBLIC], [PUBLIC_V6, PUBLIC, "::1"], [PUBLIC] * 20 + ["127.0.0.1"]]
)
def test_pack_url_one_private_answer_among_public_ones_refuses_the_name(web: Web, answers: list[str]) -> None:
    network = Loopback(web, {"mixed.example": answers})
    assert isinstance(refused(over(network), "https://mixed.example/ok").reason, Blocked)
    assert network.dialled == []


def test_pack_url_the_next_address_is_tried_and_they_are_tried_v4_first(web: Web) -> None:
    class FirstIsDead(Loopback):
        async def connect(self, address: str, port: int) -> socket.socket:
            made = await super().connect(address, port)
            if address == PUBLIC:
                made.close()
                raise ConnectionRefusedError
            return made

    network = FirstIsDead(web, {"good.example": [PUBLIC_V6, PUBLIC, PUBLIC_2]})
    assert fetch(over(network), "https://good.example/ok").status_code == 200
    assert network.dialled == [(PUBLIC, 443), (PUBLIC_2, 443)]


@pytest.mark.parametrize("path", ["slow", "slow-head", "slow-body"])
def test_pack_url_a_server_that_drips_has_no_longer_than_one_that_is_silent(web: Web, path: str) -> None:
    started = time.monotonic()
    found = refused(over(Loopback(web, NAMES)), f"https://good.example/{path}", seconds=0.5)
    assert found.reason is Failure.TIMEOUT
    assert time.monotonic() - started < 3.0


def test_pack_url_redirects_share_one_time(web: Web) -> None:
    where = "https://good.example/r?https%3A%2F%2Fevil.example%2Fslow"
    started = time.monotonic()
    assert refused(over(Loopback(web, NAMES)), where, seconds=0.5).reason is Failure.TIMEOUT
    assert time.monotonic() - started < 3.0


@pytest.mark.parametrize(
    ("path", "kind", "status"),
    [
        ("ok", Kind.HTML, 200),
        ("gzip", Kind.HTML, 200),
        ("deflate", Kind.HTML, 200),
        ("no-type", Kind.HTML, 200),
        ("missing", Kind.HTML, 404),
    ],
)
def test_pack_url_a_page_comes_whole(web: Web, path: str, kind: Kind, status: int) -> None:
    page = fetch(over(Loopback(web, NAMES)), f"https://good.example/{path}")
    assert (page.body, page.kind, page.status_code, page.truncated) == (PAGE.encode(), kind, status, False)
    assert page.is_success is (status == 200)


def test_pack_url_what_is_no_text_is_not_downloaded(web: Web) -> None:
    page = fetch(over(Loopback(web, NAMES)), "https://good.example/pdf")
    assert (page.body, page.kind, page.content_type) == (b"", Kind.OTHER, "application/pdf")


def test_pack_url_what_a_url_says_reaches_the_server_in_ascii(web: Web) -> None:
    fetch(over(Loopback(web, NAMES)), "https://good.example/ok?q=한국어&r=%20%2F|#part")
    assert web.taken[-1] == "/ok?q=%ED%95%9C%EA%B5%AD%EC%96%B4&r=%20%2F%7C"


def test_pack_url_an_allowed_name_is_reached_at_its_one_place_and_nothing_beside_it(web: Web) -> None:
    """The operator's allowance: through the real network and real TLS, and no way from there to its neighbours."""
    fetcher = allowed({"good.example": ("127.0.0.1", web.good)}, ca_file=str(web.ca_file))
    with SOCKETS.counted() as events:
        assert fetch(fetcher, "https://good.example/ok").final_url == "https://good.example/ok"
        there = f"https%3A%2F%2F127.0.0.1%3A{web.good}%2Fok"
        assert refused(fetcher, f"https://good.example/r?{there}").reason is Blocked.PORT_NOT_ALLOWED
        assert refused(fetcher, "https://good.example/r?https%3A%2F%2F127.0.0.1%2Fok").reason is Blocked.LOOPBACK
        assert refused(fetcher, "https://127.0.0.1/ok").reason is Blocked.LOOPBACK
        assert refused(fetcher, "https://localhost/ok").reason is Blocked.INTERNAL_NAME
    assert events == [("socket.connect", f"('127.0.0.1', {web.good})")] * 3


def test_pack_url_an_allowance_does_not_excuse_a_certificate(web: Web) -> None:
    fetcher = allowed({"good.example": ("127.0.0.1", web.good)})
    assert refused(fetcher, "https://good.example/ok").reason is Failure.TLS_ERROR


def test_pack_url_the_real_network_asks_for_the_certificate_of_the_name(web: Web) -> None:
    """The authority is trusted and the certificate is its own; it is another name's."""
    fetcher = allowed({"wrongname.example": ("127.0.0.1", web.good)}, ca_file=str(web.ca_file))
    assert refused(fetcher, "https://wrongname.example/ok").reason is Failure.TLS_ERROR


def test_pack_url_the_real_resolver_says_what_it_does_not_know() -> None:
    network = Internet()
    assert asyncio.run(network.resolve("localhost", caller="")) != []
    with pytest.raises(socket.gaierror):
        asyncio.run(network.resolve("no-such-name.invalid", caller=""))


def test_pack_url_the_real_network_wants_todays_tls() -> None:
    tls = http_exchange.tls_trusting()
    assert tls.verify_mode is ssl.CERT_REQUIRED
    assert tls.check_hostname is True
    assert tls.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_pack_url_an_unchecked_address_never_reaches_the_socket(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the door ever be left open, the last step still refuses."""
    network = Loopback(web, {"loop.example": ["127.0.0.1"]})
    fetcher = over(network)
    verdicts = iter([None, Blocked.LOOPBACK])
    monkeypatch.setattr("dpp_project.outbound.addresses.address_refusal", lambda _address: next(verdicts))
    with pytest.raises(AssertionError, match="not checked"):
        fetch(fetcher, "https://loop.example/ok")
    assert network.dialled == []


def test_pack_url_nobody_listening_is_a_connect_error(web: Web) -> None:
    with unused_port() as nobody:
        network = Loopback(web, NAMES, {PUBLIC: nobody})
        assert refused(over(network), "https://good.example/ok").reason is Failure.CONNECT_ERROR
