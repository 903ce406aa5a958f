"""What automations reach outside: the rules, authorities and network of webhooks, under the same exceptions.

Operators write these addresses, and still they are public ones only: a rule's target, or a link in a service's answer,
may have been a stranger's idea.
"""

import asyncio
import ssl
from dataclasses import dataclass

from dpp_project.outbound.connecting import Rules
from dpp_project.outbound.exchanging import OutboundAnswer, OutboundRequest, exchange_outbound
from dpp_project.outbound.network import Internet, Network
from tenants.webhooks import reach


@dataclass(frozen=True, kw_only=True)
class Outside:
    """The world as sources and messages reach it."""

    rules: Rules
    tls: ssl.SSLContext
    network: Network

    @classmethod
    def real(cls) -> "Outside":
        return cls(rules=reach.webhook_rules(), tls=reach.webhook_tls(), network=Internet())

    def ask(self, request: OutboundRequest, *, seconds: float, caller: str) -> OutboundAnswer:
        """The answer, whole and in time. Raises refusals.Refused. For a thread that runs no event loop."""
        asked = exchange_outbound(
            request, rules=self.rules, network=self.network, tls=self.tls, seconds=seconds, caller=caller
        )
        return asyncio.run(asked)
