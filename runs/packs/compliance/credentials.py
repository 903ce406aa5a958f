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
from runs.packs.shared.secret_marks import MARKED

KEY_ENTROPY_BITS: Final = 3.0

_JWT: Final = regexes.compiled_regex(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*")
_ADDRESS: Final = regexes.compiled_regex(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'<>]*:([^\s/@\"'<>]{3,})@")
_PASSWORD: Final = regexes.compiled_regex(
    r"(?:password|passwd|passphrase|pwd|비밀번호|암호)[\"']?\s{0,4}(?::|=|=>|:=|은|는)\s{0,4}"
    r"(?:\"([^\"\n]{4,})\"|'([^'\n]{4,})'|([^\s\"',;]{4,}))",
    ignore_case=True,
)
_KEY: Final = regexes.compiled_regex(
    r"(?:api[_-]?key|secret(?:[_-]?(?:access[_-]?)?key)?|access[_-]?token|auth[_-]?token|client[_-]?secret|bearer)[\"']?"
    r"\s{0,4}(?::|=|=>|:=|\s)\s{0,4}[\"']?([A-Za-z0-9_+/=.~-]{16,})",
    ignore_case=True,
)
_PLACEHOLDERS: Final = (b"xxxx", b"****", b"....", b"example", b"changeme", b"placeholder", b"your", b"redacted")


def _match(span: tuple[int, int]) -> Match:
    return Match(*span, certainty=FORM)


def _by_mark(pattern: str) -> Callable[[bytes], Iterator[Match]]:
    compiled = regexes.compiled_regex(pattern)

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
    return _credentials_by_pattern(_ADDRESS, data, least_bits=0.0)


def _passwords(data: bytes) -> Iterator[Match]:
    """After that word every value is a password, however plain."""
    return _credentials_by_pattern(_PASSWORD, data, least_bits=0.0)


def _key_credential_matches(data: bytes) -> Iterator[Match]:
    return _credentials_by_pattern(_KEY, data, least_bits=KEY_ENTROPY_BITS)


def _credentials_by_pattern(pattern: Any, data: bytes, *, least_bits: float) -> Iterator[Match]:
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
    **{kind: _by_mark(pattern) for kind, pattern in MARKED.items()},
    "jwt": _tokens,
    "password_in_url": _in_addresses,
    "password": _passwords,
    "key": _key_credential_matches,
}


def credential_spans(kind: str, data: bytes) -> list[Match]:
    return sorted(FINDERS[kind](data))
