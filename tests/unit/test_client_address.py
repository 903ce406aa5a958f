"""Whose request it is, whatever its headers say (HRD-10)."""

import pytest

from dpp_project.http.client_address import ClientAddresses, is_loopback, site_of

pytestmark = pytest.mark.contract("HRD-10")

PROXY, OTHER, CLIENT, LIE = "10.0.0.1", "10.0.0.2", "203.0.113.7", "198.51.100.9"


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "client"),
    [
        ([], PROXY, CLIENT, PROXY),  # off unless set
        (["10.0.0.0/8"], LIE, CLIENT, LIE),  # who is no proxy of ours says nothing
        (["10.0.0.0/8"], PROXY, CLIENT, CLIENT),
        (["10.0.0.0/8"], PROXY, f"{LIE}, {CLIENT}", CLIENT),  # what the client itself wrote stands to the left
        (["10.0.0.0/8"], PROXY, f"{LIE},{CLIENT} , {OTHER}", CLIENT),
        (["10.0.0.1"], PROXY, f"{CLIENT}, {OTHER}", OTHER),
        (["10.0.0.0/8"], PROXY, "", PROXY),
        (["10.0.0.0/8"], PROXY, "unknown", PROXY),
        (["10.0.0.0/8"], PROXY, f"{CLIENT}, nonsense", PROXY),
        (["10.0.0.0/8"], PROXY, f"{OTHER}, {PROXY}", OTHER),
        (["fd00::/8"], "fd00::1", "2001:db8::7", "2001:db8::7"),
        (["10.0.0.0/8"], "::ffff:10.0.0.1", CLIENT, CLIENT),
        (["fd00::/8"], PROXY, CLIENT, PROXY),
    ],
)
def test_hrd_10_a_header_counts_as_far_as_our_proxies_wrote_it(
    trusted: list[str], peer: str, forwarded: str, client: str
) -> None:
    assert ClientAddresses(trusted).of(peer, forwarded) == client


def test_hrd_10_an_address_of_a_provider_is_limited_with_its_neighbours() -> None:
    assert site_of(CLIENT) == CLIENT
    assert site_of("2001:db8:1:2::7") == site_of("2001:db8:1:2:ffff::1") == "2001:db8:1:2::/64"
    assert site_of("2001:db8:1:3::7") != site_of("2001:db8:1:2::7")
    assert site_of("::ffff:203.0.113.7") == CLIENT
    assert site_of("testserver:") == "testserver:"


@pytest.mark.parametrize(("address", "is_ours"), [("127.0.0.9", True), ("::1", True), (CLIENT, False), ("", False)])
def test_hrd_10_this_machine_is_told_from_others(address: str, *, is_ours: bool) -> None:
    assert is_loopback(address) is is_ours
