"""What is counted of every request (DPP-74)."""

from prometheus_client import Histogram

REQUEST_SECONDS = Histogram(
    "dpp_http_request_seconds",
    "Time to answer one HTTP request.",
    ["method", "route", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
