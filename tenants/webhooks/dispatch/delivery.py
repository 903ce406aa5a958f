"""One attempt: the message signed and sent, and what came of it. Nothing of the answer is kept but its status.

The address is resolved, checked and pinned at each attempt, whatever it was at registration. No redirect is followed.
Names have five seconds with the connection, all of it has fifteen, however slowly the other side speaks. An answer must
be HTTP and whole, as far as its first 4 KiB; they are dropped as they came, compressed or not.
"""

import ssl
import time
from dataclasses import dataclass
from typing import Final

from dpp_project import clock
from dpp_project.outbound.connecting import Rules
from dpp_project.outbound.exchanging import OutboundRequest, exchange_outbound
from dpp_project.outbound.network import Network
from dpp_project.outbound.refusals import Refused
from tenants.webhooks import signing
from tenants.webhooks.dispatch.schedule import retry_after_seconds

CONNECT_SECONDS: Final = 5.0
WHOLE_SECONDS: Final = 15.0
ANSWER_BYTES_MAX: Final = 4_096
USER_AGENT: Final = "dpp-webhooks/1"
_SUCCESS: Final = range(200, 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedLetter:
    """What is sent, and where to."""

    url: str
    webhook_id: str
    body: bytes
    secrets: tuple[str, ...]
    tenant_id: str

    def __repr__(self) -> str:
        return f"SealedLetter({self.webhook_id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptMade:
    """What came of it: a status, or the class of fault that stood in the way of one."""

    status_code: int | None
    ms: int
    error: str = ""
    retry_after: float = 0.0

    @property
    def is_success(self) -> bool:
        return self.status_code in _SUCCESS


async def attempt_delivery(letter: SealedLetter, *, rules: Rules, network: Network, tls: ssl.SSLContext) -> AttemptMade:
    """Raises nothing that the other side could bring about."""
    began = time.monotonic()
    signed = signing.signature_headers(
        webhook_id=letter.webhook_id, at=clock.now(), body=letter.body, secrets=list(letter.secrets)
    )
    request = OutboundRequest(
        url=letter.url,
        headers=[("content-type", "application/json"), ("user-agent", USER_AGENT), *signed],
        body=letter.body,
        answer_bytes_max=ANSWER_BYTES_MAX,
        is_answer_cut=True,
    )
    try:
        answer = await exchange_outbound(
            request,
            rules=rules,
            network=network,
            tls=tls,
            seconds=WHOLE_SECONDS,
            connect_seconds=CONNECT_SECONDS,
            caller=letter.tenant_id,
        )
    except Refused as refused:
        return AttemptMade(status_code=None, ms=_ms_since(began), error=refused.reason.value)
    asked = retry_after_seconds(answer.head.first("retry-after"), now=clock.now())
    return AttemptMade(status_code=answer.head.status, ms=_ms_since(began), retry_after=asked)


def _ms_since(began: float) -> int:
    return round((time.monotonic() - began) * 1_000)
