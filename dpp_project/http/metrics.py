"""What is counted of every request (DPP-74)."""

from typing import Final

from prometheus_client import Histogram

KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

REQUEST_SECONDS = Histogram(
    "dpp_http_request_seconds",
    "Time to answer one HTTP request.",
    ["method", "route", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)


def method_label(method: str | None) -> str:
    """A caller may invent methods; each label it could choose would be a series that stays."""
    return method if method in KNOWN_METHODS else "other"
