"""Parses a URL once, into the name, port and request target that all later steps use.

Two programs that read the same URL differently are how such checks are passed by. So what is odd is refused rather than
read, and the text itself is not looked at again.
"""

import re
import socket
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import quote, urljoin

import idna

from dpp_project.outbound import addresses
from dpp_project.outbound.refusals import Blocked, Failure, Refused

URL_CHARACTERS_MAX: Final = 2_048
PORT: Final = 443
_HOST_MAX: Final = 253
_ODD: Final = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PARTS: Final = re.compile(r"[A-Za-z]+://([^/?#]+)([^#]*)")
_V6_HOST: Final = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::([0-9]{0,5}))?")
_NAME_AND_PORT: Final = re.compile(r"([^:\[\]]+)(?::([0-9]{0,5}))?")
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_TARGET_SAFE: Final = "!$%&'()*+,-./:;=?@_~[]"
_INTERNAL: Final = frozenset(
    {"alt", "arpa", "corp", "home", "internal", "intranet", "invalid", "lan", "local", "localdomain", "localhost"}
    | {"onion", "private", "test"}
)


@dataclass(frozen=True)
class Location:
    host: str
    """ASCII, lower case, no dot at the end; or an address without brackets."""
    is_address: bool
    target: str
    """The request target: path and query, ASCII."""

    @property
    def authority(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def url(self) -> str:
        return f"https://{self.authority}{self.target}"

    @property
    def origin(self) -> str:
        """The URL without what only its server need know."""
        return f"https://{self.authority}/"

    @property
    def is_internal_name(self) -> bool:
        """A name that only a local network answers."""
        return not self.is_address and ("." not in self.host or self.host.rpartition(".")[2] in _INTERNAL)


def parse_location(url: str) -> Location:
    """Raises Refused."""
    if len(url) > URL_CHARACTERS_MAX or _ODD.search(url):
        raise Refused(Failure.INVALID_URL)
    scheme = _SCHEME.match(url)
    if scheme is None:
        raise Refused(Failure.INVALID_URL)
    if scheme[1].lower() != "https":
        raise Refused(Failure.NON_HTTPS)
    parts = _PARTS.match(url)
    if parts is None:
        raise Refused(Failure.INVALID_URL)
    authority, rest = parts[1], parts[2]
    if "@" in authority:
        raise Refused(Failure.USERINFO_NOT_ALLOWED)
    host, is_address = _host(authority)
    return Location(host=host, is_address=is_address, target=_target(rest))


def follow_location(here: Location, where: str) -> Location:
    """The place that a Location header names, seen from here."""
    if len(where) > URL_CHARACTERS_MAX or _ODD.search(where):
        raise Refused(Failure.INVALID_URL)
    try:
        return parse_location(urljoin(here.url, where))
    except ValueError:
        raise Refused(Failure.INVALID_URL) from None


def _host(authority: str) -> tuple[str, bool]:
    found = _V6_HOST.fullmatch(authority) or _NAME_AND_PORT.fullmatch(authority)
    if found is None:
        raise Refused(Failure.INVALID_URL)
    if found[2] and int(found[2]) != PORT:
        raise Refused(Blocked.PORT_NOT_ALLOWED)
    if authority.startswith("["):
        try:
            return socket.inet_ntop(socket.AF_INET6, IPv6Address(found[1]).packed), True
        except AddressValueError:
            raise Refused(Failure.INVALID_URL) from None
    return _v4_or_name(found[1])


def _v4_or_name(text: str) -> tuple[str, bool]:
    name = _ascii(text).removesuffix(".")
    labels = name.split(".")
    if len(name) > _HOST_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise Refused(Failure.INVALID_URL)
    if not _NUMBER.fullmatch(labels[-1]):
        return name, False
    # A name that ends in a number is an address (as browsers read it), and only its plain form is taken.
    try:
        return str(IPv4Address(text.removesuffix("."))), True
    except AddressValueError:
        raise _disguised(name) from None


def _ascii(text: str) -> str:
    if text.isascii():
        return text.lower()
    try:
        return idna.encode(text, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError):
        # Digits of other scripts become an address, which is no name to IDNA.
        try:
            return idna.uts46_remap(text, std3_rules=False).encode("ascii").decode("ascii").lower()
        except (idna.IDNAError, UnicodeError):
            raise Refused(Failure.INVALID_URL) from None


def _disguised(name: str) -> Refused:
    """127.1, 0x7f000001, 0177.0.0.1, 2130706433: reported as the address the C library would parse."""
    try:
        meant = socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        return Refused(Blocked.IP_OBFUSCATED)
    return Refused(addresses.address_refusal(meant) or Blocked.IP_OBFUSCATED, typed_ip=meant)


def _target(rest: str) -> str:
    target = rest if rest.startswith("/") else f"/{rest}"
    return quote(target, safe=_TARGET_SAFE)
