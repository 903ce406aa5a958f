"""From a URL and rules to a connected socket, by way of the checks. Nothing else in the product dials strangers.

The URL is read strictly, its name resolved once, all its addresses checked, and the connection made to an address that
was checked, never to the name again. So a name server that answers differently the next time is not asked a next time.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from dpp_project.outbound import addresses, locations
from dpp_project.outbound.network import Network
from dpp_project.outbound.refusals import Blocked, Failure, Refused

ADDRESSES_TRIED: Final = 3
CONNECT_SECONDS: Final = 4.0


@dataclass(frozen=True, kw_only=True)
class Rules:
    """By default https at port 443 of public addresses."""

    private_hosts: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """The operator's exceptions: single names, each at one address and port."""
    is_operators: bool = False
    """The operator wrote this URL into the settings: any address, port, http too."""


@dataclass(frozen=True)
class _Place:
    """Where a connection goes: addresses that were checked, or what the operator named."""

    addresses: Sequence[str]
    port: int = locations.PORT
    is_operators: bool = False


async def connect_outbound(
    url: str, *, rules: Rules, network: Network, seconds: float, caller: str = ""
) -> socket.socket:
    """A connected socket that does not block, within its time, or Refused. TLS is the caller's."""
    try:
        async with asyncio.timeout(seconds):
            place = await _admit(url, rules, network, caller)
            return await _dial(place, network)
    except TimeoutError:
        raise Refused(Failure.TIMEOUT) from None


async def check_connecting(url: str, *, rules: Rules, network: Network, seconds: float, caller: str = "") -> None:
    """Whether `connect_outbound` would dial it now, or Refused. Nothing is dialled; its name may lead elsewhere."""
    try:
        async with asyncio.timeout(seconds):
            await _admit(url, rules, network, caller)
    except TimeoutError:
        raise Refused(Failure.TIMEOUT) from None


async def _admit(url: str, rules: Rules, network: Network, caller: str) -> _Place:
    """The only way to a connection. One address of the name that is not public refuses the name."""
    if rules.is_operators:
        return await _operators_place(url, network, caller)
    here = locations.parse_location(url)
    if (allowed := rules.private_hosts.get(here.host)) is not None:
        return _Place([allowed[0]], allowed[1], is_operators=True)
    if here.is_internal_name:
        raise Refused(Blocked.INTERNAL_NAME)
    found = [here.host] if here.is_address else await _resolve(here.host, network, caller)
    for address in found:
        if (reason := addresses.address_refusal(address)) is not None:
            raise Refused(reason, typed_ip=address if here.is_address else None)
    return _Place(_in_turn(found))


async def _operators_place(url: str, network: Network, caller: str) -> _Place:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = [str(ip_address(host))]
    except ValueError:
        found = await _resolve(host, network, caller)
    return _Place(_in_turn(found), port, is_operators=True)


def _in_turn(found: Sequence[str]) -> Sequence[str]:
    return sorted(found, key=lambda address: ":" in address)[:ADDRESSES_TRIED]


async def _resolve(host: str, network: Network, caller: str) -> list[str]:
    try:
        found = await network.resolve(host, caller=caller)
    except (OSError, UnicodeError) as error:
        raise Refused(Failure.DNS_ERROR) from error
    if not found:
        raise Refused(Failure.DNS_ERROR)
    return found


async def _dial(place: _Place, network: Network) -> socket.socket:
    for address in place.addresses:
        if not place.is_operators and addresses.address_refusal(address) is not None:
            raise AssertionError("an address that was not checked reached the socket")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await network.connect(address, place.port)
        except OSError:  # TimeoutError among them: the next address may answer
            continue
    raise Refused(Failure.CONNECT_ERROR)
