"""What auth errors count, and how many wait at a scrape."""

from prometheus_client import Counter

RECORDED = Counter("dpp_auth_errors_recorded_total", "Reports of auth errors, new or repeated.", ["outcome"])
ANALYZED = Counter("dpp_auth_errors_analyzed_total", "Auth errors that were analysed.")
SKIPPED = Counter(
    "dpp_auth_errors_skipped_total", "Events about errors that had ended or come further.", ["event_type"]
)
REGRESSED = Counter("dpp_auth_error_clusters_regressed_total", "Resolved clusters that an error came back to.")
DECISIONS = Counter(
    "dpp_auth_error_decisions_total", "Errors decided: by operator, rule or cluster.", ["decision", "by"]
)
