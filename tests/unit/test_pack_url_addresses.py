"""Which addresses the url pack may reach: a table of those that mean something else, whatever the Python."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp_project.outbound.addresses import address_refusal
from dpp_project.outbound.refusals import Blocked

pytestmark = pytest.mark.contract("DPP-62")

REFUSED = {
    Blocked.LOOPBACK: "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1",
    Blocked.PRIVATE_IP: "10.1.1.1 172.16.0.1 172.31.255.255 192.168.0.1 fc00::1 fdff::1 fec0::1 ::ffff:10.0.0.1",
    Blocked.LINK_LOCAL: "169.254.169.254 fe80::1 fe80::1%eth0 ::ffff:169.254.169.254",
    Blocked.MULTICAST: "224.0.0.1 239.255.255.250 ff02::1 ff0e::1",
    Blocked.RESERVED_IP: (
        "0.0.0.0 100.64.0.1 100.127.255.255 192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.1"
        " 203.0.113.9 240.0.0.1 255.255.255.255 168.63.129.16 :: ::7f00:1 64:ff9b::7f00:1 64:ff9b::a00:1"
        " 64:ff9b:1::1 2002:7f00:1:: 2001:0:7f00:1::1 2001:db8::1 3fff::1 5f00::1 100::1 4000::1 ::ffff:0:7f00:1"
        " ::ffff:8.8.8.8 2606:4700::1111%eth0"
    ),
}
PUBLIC = (
    "8.8.8.8 93.184.216.34 172.15.255.255 172.32.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.0.1"
    " 192.169.0.1 198.17.0.1 198.20.0.1 223.255.255.255 2606:4700::1111 2a00:1450:4001:81b::200e 2400::1"
)


@pytest.mark.parametrize(
    ("address", "reason"), [(address, reason) for reason, listed in REFUSED.items() for address in listed.split()]
)
def test_pack_url_refuses_an_address_that_is_not_public(address: str, reason: Blocked) -> None:
    assert address_refusal(address) is reason


@pytest.mark.parametrize("address", PUBLIC.split())
def test_pack_url_reaches_public_addresses_up_to_the_edges_of_the_table(address: str) -> None:
    assert address_refusal(address) is None


@given(st.ip_addresses())
def test_pack_url_reaches_nothing_that_the_library_calls_other_than_global(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if address_refusal(str(address)) is None:
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=4))
def test_pack_url_refuses_every_v6_form_of_a_v4_address(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    forms = [
        0xFFFF << 32 | number,
        number,
        0x64FF9B << 96 | number,
        0x2002 << 112 | number << 80,
        0x20010000 << 96 | number,
    ]
    assert all(address_refusal(str(ipaddress.IPv6Address(form))) is not None for form in forms)
