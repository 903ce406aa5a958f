"""Why an address was not fetched, or not whole. The words are the document's; docs/packs/url.md explains each."""

from enum import StrEnum


class Discarded(StrEnum):
    """In `discard_log`."""

    TIMEOUT = "TIMEOUT"
    NON_HTTPS = "NON_HTTPS"
    TOO_MANY_REDIRECTS = "TOO_MANY_REDIRECTS"
    CONTENT_TOO_LARGE = "CONTENT_TOO_LARGE"
    INVALID_URL = "INVALID_URL"
    USERINFO_NOT_ALLOWED = "USERINFO_NOT_ALLOWED"
    DNS_ERROR = "DNS_ERROR"
    CONNECT_ERROR = "CONNECT_ERROR"
    TLS_ERROR = "TLS_ERROR"
    PROTOCOL_ERROR = "PROTOCOL_ERROR"
    UNSUPPORTED_ENCODING = "UNSUPPORTED_ENCODING"
    BAD_ENCODING = "BAD_ENCODING"
    DUPLICATE_URL = "DUPLICATE_URL"
    MAX_URLS = "MAX_URLS"
    HOLD_EXHAUSTED = "HOLD_EXHAUSTED"
    TIMEBOX = "TIMEBOX"


class Blocked(StrEnum):
    """In `blocked_log`: a rule of security."""

    LOOPBACK = "LOOPBACK"
    PRIVATE_IP = "PRIVATE_IP"
    LINK_LOCAL = "LINK_LOCAL"
    MULTICAST = "MULTICAST"
    RESERVED_IP = "RESERVED_IP"
    IP_OBFUSCATED = "IP_OBFUSCATED"
    INTERNAL_NAME = "INTERNAL_NAME"
    PORT_NOT_ALLOWED = "PORT_NOT_ALLOWED"


class FetchRefused(Exception):  # noqa: N818  an outcome of one address
    """This address is not fetched. `resolved_ip` is what a name led to, where that was the reason."""

    def __init__(self, reason: Discarded | Blocked, *, resolved_ip: str | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.resolved_ip = resolved_ip
        self.at: str | None = None
        """Where it was met, when a redirect led there."""
