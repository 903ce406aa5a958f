"""What is counted of sign-ins. docs/metrics.md says what to alert on."""

from prometheus_client import Counter

SIGN_INS = Counter("dpp_console_sign_ins_total", "Attempts to sign in as an operator, by outcome.", ["outcome"])
