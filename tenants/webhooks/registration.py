"""What is asked of a URL before an endpoint has it; each delivery asks the same again, and pins what it found.

The name is resolved here too, so that a mistake is met by who made it and not three days later by a log. What a name
of the inside leads to is nobody's business: every way for a name not to lead to a public address has one answer.
"""

import asyncio
import threading
from enum import StrEnum
from typing import Final

from dpp_project.outbound import connecting, locations
from dpp_project.outbound.refusals import Blocked, Failure, Refused
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from tenants.webhooks import reach

LOOKUP_SECONDS: Final = 3.0
FIELD: Final = "url"
AT_ONCE: Final = 2
"""In a process: of its six threads, most are left to others, however many tenants register names that do not answer."""
TURN_SECONDS: Final = 0.5
OWN_SECONDS: Final = 0.5
_turns: Final = threading.BoundedSemaphore(AT_ONCE)
_asking: Final[set[str]] = set()
_asked: Final = threading.Condition()
"""Of one tenant one lookup at a time; its others wait for it and for no turn: they could keep all from everybody."""
_NOT_PUBLIC: Final = "its address is not a public one; give a name that leads to public addresses only"
_CURES: Final[dict[StrEnum, str]] = {
    Failure.NON_HTTPS: "must be https",
    Failure.USERINFO_NOT_ALLOWED: "must hold no user name and no password; the signature says who calls",
    Failure.INVALID_URL: f"must be a URL of at most {locations.URL_CHARACTERS_MAX} characters, such as"
    " https://example.com/webhooks, without spaces",
    Failure.TIMEOUT: f"its name was not resolved within {LOOKUP_SECONDS:.0f} seconds; try again",
    Blocked.PORT_NOT_ALLOWED: f"must use port {locations.PORT}, so leave the port out",
}
_UNRESOLVED: Final = "its name leads to no public address; check the name and its DNS records"


def checked_url(url: str, *, tenant_id: str) -> str | Refusal:
    """The URL as it is kept and called: one reading of it, in ASCII. Waits for the name's addresses."""
    if "#" in url:
        return invalid(FIELD, "must have no fragment (#...): it is never sent")
    try:
        location = locations.parse_location(url)
        written = location.url
        if len(written) > locations.URL_CHARACTERS_MAX:
            return invalid(FIELD, _CURES[Failure.INVALID_URL])
        return written if _webhook_url_checked_alone(written, tenant_id) else _busy()
    except Refused as refused:
        return invalid(FIELD, _webhook_url_refusal_text(refused))


def _webhook_url_checked_alone(url: str, tenant_id: str) -> bool:
    with _asked:
        if not _asked.wait_for(lambda: tenant_id not in _asking, timeout=OWN_SECONDS):
            return False
        _asking.add(tenant_id)
    try:
        return _in_turn(url, tenant_id)
    finally:
        with _asked:
            _asking.discard(tenant_id)
            _asked.notify_all()


def _in_turn(url: str, tenant_id: str) -> bool:
    """False where others' lookups take too long to wait for. Raises Refused."""
    if not _turns.acquire(timeout=TURN_SECONDS):
        return False
    try:
        rules, network = reach.webhook_rules(), reach.webhook_network()
        asyncio.run(
            connecting.check_connecting(url, rules=rules, network=network, seconds=LOOKUP_SECONDS, caller=tenant_id)
        )
    finally:
        _turns.release()
    return True


def _busy() -> Refusal:
    detail = "other names are being looked up, and are slow; try again"
    return Refusal(ReasonCode.SERVICE_UNAVAILABLE, detail, retry_after_seconds=round(LOOKUP_SECONDS))


def endpoint_origin(url: str) -> str:
    """The URL for logs and the audit trail: what stands behind the host may hold a token."""
    return locations.parse_location(url).origin


def _webhook_url_refusal_text(refused: Refused) -> str:
    if refused.reason in _CURES:
        return _CURES[refused.reason]
    return _NOT_PUBLIC if refused.typed_ip is not None else _UNRESOLVED
