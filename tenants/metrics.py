"""Metrics of authentication and rate limits."""

from prometheus_client import Counter

AUTH_FAILURES = Counter("dpp_auth_failures_total", "Requests refused with AUTH_INVALID, by what was wrong.", ["kind"])
AUTH_EXCEPTIONS = Counter(
    "dpp_auth_exceptions_total",
    "Failures of ours while a request was authenticated: noted as an auth error, sampled away, or dropped.",
    ["outcome"],
)
AUTH_LOOKUPS = Counter("dpp_auth_lookups_total", "Keys that had to be looked up in the database.")
RATE_LIMITED = Counter("dpp_rate_limited_total", "Requests answered 429.", ["bucket"])
RATE_LIMIT_FAILURES = Counter(
    "dpp_rate_limit_failures_total", "Requests that could not be metered, by what was done: open or closed.", ["mode"]
)
