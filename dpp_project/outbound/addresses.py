"""Which addresses may be reached at all: of IPv4 all but those listed, of IPv6 global unicast less those listed.

The tables stand here and not in `ipaddress`, whose answers change with the version of Python. They are the IANA
special-purpose registries, read on the side of refusing: an address that means another one (6to4, Teredo, NAT64,
mapped) is refused whatever it means, because a router would unwrap it behind every check.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from dpp_project.outbound.refusals import Blocked

_V4: Final = {
    Blocked.LOOPBACK: "127.0.0.0/8",
    Blocked.PRIVATE_IP: "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16",
    Blocked.LINK_LOCAL: "169.254.0.0/16",
    Blocked.MULTICAST: "224.0.0.0/4",
    # This network, carriers' NAT, protocol assignments, documentation, AS112, relays, benchmarks, the future, Azure.
    Blocked.RESERVED_IP: (
        "0.0.0.0/8 100.64.0.0/10 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24"
        " 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 168.63.129.16/32"
    ),
}
_V6: Final = {
    Blocked.LOOPBACK: "::1/128",
    Blocked.PRIVATE_IP: "fc00::/7 fec0::/10",
    Blocked.LINK_LOCAL: "fe80::/10",
    Blocked.MULTICAST: "ff00::/8",
    # Teredo and other protocol assignments, documentation, 6to4, AS112.
    Blocked.RESERVED_IP: "2001::/23 2001:db8::/32 2002::/16 3fff::/20 2620:4f:8000::/48",
}
_V4_NETWORKS: Final = [(IPv4Network(text), reason) for reason, texts in _V4.items() for text in texts.split()]
_V6_NETWORKS: Final = [(IPv6Network(text), reason) for reason, texts in _V6.items() for text in texts.split()]
_V6_GLOBAL: Final = IPv6Network("2000::/3")


def address_refusal(text: str) -> Blocked | None:
    """Why this address may not be reached; None when it may."""
    address = ip_address(text)
    if isinstance(address, IPv4Address):
        return _refusal_of_v4(address)
    if address.ipv4_mapped is not None:
        return _refusal_of_v4(address.ipv4_mapped) or Blocked.RESERVED_IP
    return _refusal_of_v6(address)


def _refusal_of_v4(address: IPv4Address) -> Blocked | None:
    return next((reason for network, reason in _V4_NETWORKS if address in network), None)


def _refusal_of_v6(address: IPv6Address) -> Blocked | None:
    plain = IPv6Address(int(address))  # without a zone
    listed = next((reason for network, reason in _V6_NETWORKS if plain in network), None)
    if listed is not None:
        return listed
    return None if address.scope_id is None and plain in _V6_GLOBAL else Blocked.RESERVED_IP
