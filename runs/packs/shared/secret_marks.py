"""Secrets that are known by their mark alone: the forms that their issuers document, for RE2."""

from typing import Final

PRIVATE_KEY: Final = "private_key"
MARKED: Final = {
    "aws_access_key_id": r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b",
    "github_token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{50,255})\b",
    "gitlab_token": r"\bgl(?:pat|dt|rt|ptt)-[A-Za-z0-9_-]{20,}",
    "slack_token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "slack_webhook": r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}",
    "stripe_key": r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}\b",
    "google_api_key": r"\bAIza[A-Za-z0-9_-]{35}",
    "llm_api_key": r"\bsk-(?:proj-|ant-|or-|svcacct-)?[A-Za-z0-9_-]{20,}",
    "npm_token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "pypi_token": r"\bpypi-AgE[A-Za-z0-9_-]{50,}",
    "sendgrid_key": r"\bSG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}",
    "telegram_token": r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}",
    "dpp_key": r"\bdpp_[A-Za-z0-9]{8}_[A-Za-z0-9_~-]{43}",
    PRIVATE_KEY: (
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=\s:,.\\-]*?"
        r"(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----|\z)"
    ),
}
