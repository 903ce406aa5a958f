"""Finds secrets by their issuers' documented forms, with RE2.

No library serves: detect-secrets had its last release in May 2024, reads files rather than texts, keeps its settings in
globals of the process, and runs backtracking patterns over untrusted text. Each pattern here is a form that its issuer
documents. A value without such a form counts as a secret only after a name such as `password`.
"""

import base64
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from runs.packs.compliance.pii import FORM, Match
from runs.packs.shared import regexes

KEY_ENTROPY_BITS: Final = 3.0

_MARKED: Final = {
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
    "private_key": (
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=\s:,.\\-]*?"
        r"(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----|\z)"
    ),
}
_JWT: Final = regexes.compiled(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*")
_ADDRESS: Final = regexes.compiled(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'<>]*:([^\s/@\"'<>]{3,})@")
_PASSWORD: Final = regexes.compiled(
    r"(?:password|passwd|passphrase|pwd|비밀번호|암호)[\"']?\s{0,4}(?::|=|=>|:=|은|는)\s{0,4}"
    r"(?:\"([^\"\n]{4,})\"|'([^'\n]{4,})'|([^\s\"',;]{4,}))",
    ignore_case=True,
)
_KEY: Final = regexes.compiled(
    r"(?:api[_-]?key|secret(?:[_-]?(?:access[_-]?)?key)?|access[_-]?token|auth[_-]?token|client[_-]?secret|bearer)[\"']?"
    r"\s{0,4}(?::|=|=>|:=|\s)\s{0,4}[\"']?([A-Za-z0-9_+/=.~-]{16,})",
    ignore_case=True,
)
_PLACEHOLDERS: Final = (b"xxxx", b"****", b"....", b"example", b"changeme", b"placeholder", b"your", b"redacted")


def _match(span: tuple[int, int]) -> Match:
    return Match(*span, certainty=FORM)


def _by_mark(pattern: str) -> Callable[[bytes], Iterator[Match]]:
    compiled = regexes.compiled(pattern)

    def find(data: bytes) -> Iterator[Match]:
        for found in compiled.finditer(data):
            yield _match(found.span())

    return find


def _tokens(data: bytes) -> Iterator[Match]:
    """JSON Web Tokens: the head must be JSON that names an algorithm."""
    for found in _JWT.finditer(data):
        head = found.group().split(b".", 1)[0]
        try:
            document = json.loads(base64.urlsafe_b64decode(head + b"=" * (-len(head) % 4)))
        except ValueError:
            continue
        if isinstance(document, dict) and "alg" in document:
            yield _match(found.span())


def _in_addresses(data: bytes) -> Iterator[Match]:
    return _named(_ADDRESS, data, least_bits=0.0)


def _passwords(data: bytes) -> Iterator[Match]:
    """After that word every value is a password, however plain."""
    return _named(_PASSWORD, data, least_bits=0.0)


def _keys(data: bytes) -> Iterator[Match]:
    return _named(_KEY, data, least_bits=KEY_ENTROPY_BITS)


def _named(pattern: Any, data: bytes, *, least_bits: float) -> Iterator[Match]:
    """The group that holds the value, unless it is a placeholder or as regular as prose."""
    for found in pattern.finditer(data):
        group = found.lastindex
        if group is None:
            continue
        value = found.group(group)
        if not _is_placeholder(value) and _bits(value) >= least_bits:
            yield _match(found.span(group))


def _is_placeholder(value: bytes) -> bool:
    lower = value.lower()
    is_variable = lower.startswith((b"$", b"{{", b"<", b"%(", b"os.environ", b"env."))
    return is_variable or len(set(lower)) == 1 or any(word in lower for word in _PLACEHOLDERS)


def _bits(value: bytes) -> float:
    """Shannon entropy for each character, in bits."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values())


FINDERS: Final[dict[str, Callable[[bytes], Iterator[Match]]]] = {
    **{kind: _by_mark(pattern) for kind, pattern in _MARKED.items()},
    "jwt": _tokens,
    "password_in_url": _in_addresses,
    "password": _passwords,
    "key": _keys,
}


def credential_spans(kind: str, data: bytes) -> list[Match]:
    return sorted(FINDERS[kind](data))
