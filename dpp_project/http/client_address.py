"""Whose request it is: the address of the connection, or what a proxy that we know says about it. Pure."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

_IpRange = IPv4Network | IPv6Network
_IpAddress = IPv4Address | IPv6Address

_SITE_BITS: Final = 64
"""Of an IPv6 address: what one customer of a provider has to himself."""


class ClientAddresses:
    """`X-Forwarded-For` counts only as far as proxies of ours have written it, from the right to the left."""

    def __init__(self, trusted_proxies: Sequence[str]) -> None:
        self._trusted: tuple[_IpRange, ...] = tuple(ip_network(one, strict=False) for one in trusted_proxies)

    def is_proxy(self, text: str) -> bool:
        address = _parsed(text)
        return address is not None and self._is_trusted(address)

    def of(self, peer: str, forwarded_for: str) -> str:
        if not self._trusted or not self.is_proxy(peer):
            return peer
        found = peer
        for said in reversed(forwarded_for.split(",")):
            address = _parsed(said.strip())
            if address is None:
                break
            found = str(address)
            if not self._is_trusted(address):
                break
        return found

    def _is_trusted(self, address: _IpAddress) -> bool:
        return any(address in network for network in self._trusted if network.version == address.version)


def site_of(text: str) -> str:
    """What is limited together: an IPv4 address, or the /64 that an IPv6 address is one of."""
    if ":" not in text:
        return text
    address = _parsed(text)
    if address is None or address.version == 4:
        return text if address is None else str(address)
    return str(ip_network((address, _SITE_BITS), strict=False))


def is_loopback(text: str) -> bool:
    address = _parsed(text)
    return address is not None and address.is_loopback


def _parsed(text: str) -> _IpAddress | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
