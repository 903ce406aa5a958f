"""Why an address was not reached. The words are the url pack's document's; docs/packs/url.md explains each."""

from enum import StrEnum


class Failure(StrEnum):
    """It could not be read, or did not answer as it should."""

    TIMEOUT = "TIMEOUT"
    NON_HTTPS = "NON_HTTPS"
    INVALID_URL = "INVALID_URL"
    USERINFO_NOT_ALLOWED = "USERINFO_NOT_ALLOWED"
    DNS_ERROR = "DNS_ERROR"
    CONNECT_ERROR = "CONNECT_ERROR"
    TLS_ERROR = "TLS_ERROR"
    PROTOCOL_ERROR = "PROTOCOL_ERROR"


class Blocked(StrEnum):
    """A rule of security refuses it."""

    LOOPBACK = "LOOPBACK"
    PRIVATE_IP = "PRIVATE_IP"
    LINK_LOCAL = "LINK_LOCAL"
    MULTICAST = "MULTICAST"
    RESERVED_IP = "RESERVED_IP"
    IP_OBFUSCATED = "IP_OBFUSCATED"
    INTERNAL_NAME = "INTERNAL_NAME"
    PORT_NOT_ALLOWED = "PORT_NOT_ALLOWED"


class Refused(Exception):  # noqa: N818  an outcome of one address
    """This address is not reached.

    `typed_ip` is the address that the URL itself names, where that was the reason. It is never what a name led to:
    the names of the inside, and where they lead, are nobody's business.
    """

    def __init__(self, reason: StrEnum, *, typed_ip: str | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.typed_ip = typed_ip
        self.at: str | None = None
        """Where it was met, when a redirect led there."""


def read_outbound_refusal(reason: str) -> Failure | Blocked:
    """The reason of this name. ValueError for another word."""
    try:
        return Blocked(reason)
    except ValueError:
        return Failure(reason)
