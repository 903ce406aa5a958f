"""The product's own host with other limits (GEAR_LIMITS, JSON), so that no test waits for ten seconds.

Its /metrics is computed anew for nearly everyone who asks: tests look there for the waits that have begun.
"""

import json
import os
from dataclasses import replace
from typing import Any

from dpp_project.api_server.host import ApiHost, HostLimits
from dpp_project.asgi import django
from dpp_project.observe import metrics
from dpp_project.settings import ENV

metrics.FRESH_SECONDS = 0.05


def limits(given: dict[str, Any]) -> HostLimits:
    """Numbers of the host itself, and of each of its parts by name."""
    plain = HostLimits()
    changed = {
        name: replace(getattr(plain, name), **value) if isinstance(value, dict) else value
        for name, value in given.items()
    }
    return replace(plain, **changed)


application = ApiHost(
    django,
    threads=ENV.DPP_API_THREADS,
    port=ENV.DPP_API_PORT,
    trusted_proxies=ENV.DPP_TRUSTED_PROXIES,
    limits=limits(json.loads(os.environ["GEAR_LIMITS"])),
)
