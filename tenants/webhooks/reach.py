"""Where webhooks may go: the rules, the authorities and the network that registration and each delivery share."""

import ssl
from functools import cache

from dpp_project.outbound import http_exchange, private_hosts
from dpp_project.outbound.connecting import Rules
from dpp_project.outbound.network import Internet, Network
from dpp_project.process_env import ENV


@cache
def webhook_rules() -> Rules:
    """https at port 443 of public addresses, and what DPP_WEBHOOK_PRIVATE_HOSTS names. ValueError where it is wrong."""
    return Rules(private_hosts=private_hosts.read_private_hosts(ENV.DPP_WEBHOOK_PRIVATE_HOSTS))


def webhook_tls() -> ssl.SSLContext:
    return http_exchange.tls_trusting(ENV.DPP_WEBHOOK_CA_FILE)


@cache
def webhook_network() -> Network:
    """One for the process: its lookups are counted together, so that one tenant's cannot take all."""
    return Internet()
