"""Hides secrets in texts that come from outside, in time linear in the text.

RE2 finds them, so no pattern backtracks. What counts as a secret: a credential by its own form (marks of issuers, JWTs,
keys of this platform, private keys), what follows a scheme (`Bearer`, `Basic`), what a header carries (`Authorization`,
`Cookie`), what a name announces (`password=…`, `"api_key": "…"`), and in addresses userinfo and each value of a query.
Where a form leaves doubt, it is masked: a trace without a word of its message is still grouped, a secret that is stored
cannot be taken back.

A mask may bring two pieces together into a new form, so the rules run until they change nothing: a masked text masked
again is unchanged.
"""

import base64
import binascii
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from ops.auth_errors.reports.patterns import any_of, linear_pattern
from runs.packs.shared.secret_marks import MARKED, PRIVATE_KEY

MASK: Final = "***"
"""Of characters that no form of a secret is made of, without brackets or quotes that would end a value."""
FOUND_MAX: Final = 1_000
"""Of one form in one text. What stands behind so many is masked whole: no trace looks so, and time stays bounded."""
ROUNDS_MAX: Final = 4

_KEPT_WORDS: Final = frozenset(
    (
        b"null",
        b"none",
        b"nil",
        b"undefined",
        b"true",
        b"false",
        b"yes",
        b"no",
        b"str",
        b"string",
        b"bool",
        MASK.encode(),
    )
)
"""Values that say whether there was one (`using password: YES`), and types of signatures."""
_BLANKS: Final = r"[ \t]{0,4}"
_NAMES: Final = (
    r"(?:pass(?:word|wd|phrase|code|key)|\bpwd|_pwd|\bpass|secret|token|credential|signature|verifier|saml(?:response|request)"
    r"|(?:api|access|private|secret|sign(?:ing)?|encryption|account|master)[_. -]?key|session[_.-]?(?:id|key)|sessid"
    r"|\bsid|\bsig|csrf|xsrf|\bt?otp|\bpin|client[_.-]?assertion|비밀번호|암호)"
)
_NAME_ENDS: Final = (
    r"(?:[_.-]?(?:hash|digest|value|key|id|string|text|plain|confirm|confirmation|new|old|header)|s|\d{1,3})?"
)
_NAMED: Final = _NAMES + _NAME_ENDS
_BEARER: Final = r"[A-Za-z0-9_~+/-]+(?:\.[A-Za-z0-9_~+/-]+)*={0,2}"
_HEADERS: Final = r"(?:authorization|(?:set[_-])?cookie2?s?|x[_-](?:api|auth|access|csrf|xsrf|amz)[_-][a-z-]{1,30})"
_SEPARATOR: Final = (
    r"(?:\[[\w.]{0,20}\])?(?:\\{0,4}[\"'`])?\]?[ \t]{0,4}(?:=>|:=|={1,3}|[:\x{ff1a}\x{ff1d}]|%3d)[ \t]{0,4}"
)
_QUOTED: Final = (
    r"[bru]{0,2}(?:\\+\"((?:[^\"\\\n]|\\+[^\"\\\n])+)|\\+'((?:[^'\\\n]|\\+[^'\\\n])+)"
    r"|\"((?:[^\"\\\n]|\\[^\n])+)|'((?:[^'\\\n]|\\[^\n])+)|`([^`\n]+))"
)
_BARE: Final = r"(?:(?:bearer|basic|digest|token)[ \t]{1,4})?((?:\{[\w-]{1,30}\})?[^\s\"'`,;&(){}\[\]][^\s\"'`,;&]*)"
"""`{bcrypt}$2a$10$…` too; a bracket at the end is the text's, not the value's."""
_CLOSING: Final = b")]}>"


def _always(value: bytes) -> bool:
    return value != MASK.encode()


def _is_told(value: bytes) -> bool:
    return value.lower() not in _KEPT_WORDS


def _is_token(value: bytes) -> bool:
    """`Bearer token expired` is prose; a token is long, or has more in it than a word."""
    return len(value) >= 20 or re.search(rb"[0-9._~+/-]|[a-z][A-Z]", value) is not None


def _is_user_and_password(value: bytes) -> bool:
    """`Basic authentication` is prose; credentials are base64 of `user:password`, or look like nothing but base64."""
    padded = value.rstrip(b"=") + b"=" * (-len(value.rstrip(b"=")) % 4)
    try:
        plain = base64.b64decode(padded.replace(b"-", b"+").replace(b"_", b"/"), validate=True)
    except binascii.Error:
        plain = b""
    return b":" in plain or re.search(rb"[0-9+/=]", value) is not None


@dataclass(frozen=True)
class _Form:
    """What a pattern finds is a secret in the group that took part, where `counts` agrees."""

    pattern: Any
    counts: Callable[[bytes], bool] = _always
    edge: bytes = b""
    """Characters that stand behind a value rather than in it."""

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        for number, match in enumerate(islice(self.pattern.finditer(data), FOUND_MAX + 1)):
            group = match.lastindex or 0
            start, end = match.span(group)
            if number == FOUND_MAX:
                yield start, len(data)
                return
            value = match.group(group)
            if self.edge:
                value = value.rstrip(self.edge)
                end = start + len(value)
            if value and self.counts(value):
                yield start, end


class _PrivateKeys:
    """From head to foot; without a foot, as far as it looks like one. By hand: RE2 is slow where a head may repeat."""

    head: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
    foot: Final = re.compile(rb"-----END [A-Z0-9 ]{0,50}-----")
    body: Final = re.compile(rb"[A-Za-z0-9+/=\s:,\\]*+")
    length_max: Final = 16_384

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        feet = deque((foot.start(), foot.end()) for foot in self.foot.finditer(data))
        done = number = 0
        while head := self.head.search(data, done):
            if number == FOUND_MAX:
                yield head.start(), len(data)
                return
            number += 1
            body = self.body.match(data, head.end())
            done = head.end() if body is None else body.end()
            while feet and feet[0][0] < head.end():
                feet.popleft()
            if feet and feet[0][1] <= head.end() + self.length_max:
                done = max(done, feet[0][1])
            yield head.start(), done


_JWT: Final = (
    r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){0,3}"
)
_PLATFORM_KEY: Final = r"dpp_[0-9A-Za-z]{8}_[0-9A-Za-z]{16,}"
_WHSEC: Final = r"\bwhsec_[A-Za-z0-9+/_-]{16,}={0,2}"
"""Of our webhooks, and of all that sign as they do."""
_MARKS: Final = "|".join((_JWT, _PLATFORM_KEY, _WHSEC, *(form for kind, form in MARKED.items() if kind != PRIVATE_KEY)))

FORMS: Final = (
    _Form(linear_pattern(_MARKS)),
    _PrivateKeys(),
    _Form(linear_pattern(rf"(?i)\b(?:bearer|negotiate|ntlm)[ \t:=]{{1,8}}[\"']?({_BEARER})"), _is_token),
    _Form(linear_pattern(r"(?i)\bbasic[ \t:]{1,8}([A-Za-z0-9+/_-]{4,}={0,2})"), _is_user_and_password),
    # The whole line of a header, or what its quotes hold.
    _Form(linear_pattern(rf"(?i){_HEADERS}{_SEPARATOR}(?:{_QUOTED}|([^\s\"'`\\][^\n]*|\\[^\n]*))"), _is_told),
    _Form(linear_pattern(rf"(?i){_NAMED}{_SEPARATOR}(?:{_QUOTED}|[\[(]([^\])\n]+)|{_BARE})"), _is_told, _CLOSING),
    # ('password', 'x'): pairs, as servers keep headers.
    _Form(
        linear_pattern(
            rf"(?i)[(\[]{_BLANKS}[bru]{{0,2}}[\"'][\w .-]*(?:{_HEADERS}|{_NAMED})[\"']{_BLANKS},{_BLANKS}{_QUOTED}"
        ),
        _is_told,
    ),
    _Form(linear_pattern(rf"(?i)<(?:[\w.-]+:)?[\w.-]*{_NAMED}(?:\s[^<>\n]{{0,200}})?>[ \t]*([^<\s][^<\n]*)"), _is_told),
    _Form(linear_pattern(rf"(?i)--?[\w-]*{_NAMED} (?:{_QUOTED}|{_BARE})"), _is_told, _CLOSING),
    _Form(linear_pattern(rf"(?i)\b(?:password|identified by) {_QUOTED}"), _is_told),
    _Form(linear_pattern(r"(?:^|\s)(?:-u|--user)[ =][\"']?[^\s:\"']+:([^\s\"']+)")),
    _Form(linear_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://([^\s/?#\"'<>`]+)@")),
    _Form(linear_pattern(r"(?i)\bjdbc:oracle:[a-z]+:([^\s@\"']+)@|[^\s\"':@/]+:([^\s\"'@]+)@(?:tcp|udp|unix)\(")),
    _Form(linear_pattern(r"(?:[?&]|\\u0026|&amp;)[\w.\[\]%~-]{1,100}=([^\s&\"'<>#`\\]+)"), edge=_CLOSING + b",.;:"),
)


_PERHAPS: Final = any_of(
    [
        *(form.pattern.pattern for form in FORMS if isinstance(form, _Form)),
        _PrivateKeys.head.pattern,
    ]
)
"""Each form in one: a text that it finds nothing in has no secret, and costs a tenth."""


def masked_text(text: str) -> str:
    """The text without its secrets; itself where there are none."""
    data = text.encode()
    if _PERHAPS.search(data) is None:
        return text
    for _ in range(ROUNDS_MAX):
        after = _once(data)
        if after == data:
            return data.decode()
        data = after
    return MASK


def _once(data: bytes) -> bytes:
    spans = sorted(span for form in FORMS for span in form.spans(data))
    if not spans:
        return data
    pieces: list[bytes] = []
    done = 0
    for start, end in spans:
        if start >= done:
            pieces += (data[done:start], MASK.encode())
        done = max(done, end)
    return b"".join((*pieces, data[done:]))
