"""A report as it may be stored.

The order matters, and each step sees the whole of what the step before left: line ends and characters that cannot be
stored, then secrets, then frames, then the cut. A cut before the mask would leave the first half of a secret that no
form recognises; a cut before the frames would move the hash with the length of a message.
"""

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ops.auth_errors.normaliser.traces import Trace
from ops.auth_errors.reports import frames
from ops.auth_errors.reports.masking import MASK, masked_text

MESSAGE_LENGTH_MAX: Final = 1_000
STACKTRACE_LENGTH_MAX: Final = 8_000
KNOWN_SESSION_LENGTH_MIN: Final = 8
"""A shorter session id is not looked for in the other texts: it would stand in ordinary words."""
CUTS_MAX: Final = 4
HASHED: Final = "hmac:"

_LINE_ENDS: Final = re.compile("\r\n|[\r\x85\u2028\u2029]")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_JOINS: Final = frozenset("\u200d\ufe0e\ufe0f")
_GRAPHEME_MAX: Final = 32


class BlankField(ValueError):  # noqa: N818  named for what was found
    """A required field is empty once it is cleaned; `field` names it as the body does."""

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} is empty; send what happened")
        self.field = field


@dataclass(frozen=True)
class CleanReport:
    """Texts that may be stored, logged and shown. `session_id` is a keyed hash, and so is a request or user id that
    itself had the form of a secret: two of them stay two.
    """

    request_id: str
    exception_class: str
    stacktrace: str
    exception_message: str | None
    root_cause_class: str | None
    root_cause_message: str | None
    request_uri: str | None
    http_method: str | None
    client_ip: str | None
    user_agent: str | None
    session_id: str | None
    user_id: str | None
    frames: Trace
    truncated: bool


def clean_report(fields: Mapping[str, str | None], *, key: bytes) -> CleanReport:
    """`fields` by the names of the body (requestId, exceptionClass, …), others are ignored. `key` makes the hashes."""
    plain = {name: plain_text(value) for name, value in fields.items()}
    session = plain.get("sessionId")

    def text(name: str) -> str | None:
        value = plain.get(name)
        if value is None:
            return None
        if session is not None and len(session) >= KNOWN_SESSION_LENGTH_MIN:
            value = value.replace(session, MASK)
        return masked_text(value).strip() or None

    def required(name: str) -> str:
        value = text(name)
        if value is None:
            raise BlankField(name)
        return value

    def identity(name: str) -> str | None:
        value = plain.get(name)
        return value if value is None or text(name) == value else keyed_hash(value, key)

    request_id, exception_class, stacktrace = (required(name) for name in ("requestId", "exceptionClass", "stacktrace"))
    root_cause_class = text("rootCauseClass")
    trace = frames.read_trace(stacktrace, exception_class, root_cause_class)
    messages = {name: text(name) for name in ("exceptionMessage", "rootCauseMessage")}
    kept = {name: None if value is None else cut_masked(value, MESSAGE_LENGTH_MAX) for name, value in messages.items()}
    kept_stacktrace = cut_masked(stacktrace, STACKTRACE_LENGTH_MAX)
    return CleanReport(
        request_id=identity("requestId") or request_id,
        exception_class=exception_class,
        stacktrace=kept_stacktrace,
        exception_message=kept["exceptionMessage"],
        root_cause_class=root_cause_class,
        root_cause_message=kept["rootCauseMessage"],
        request_uri=text("requestUri"),
        http_method=text("httpMethod"),
        client_ip=text("clientIp"),
        user_agent=text("userAgent"),
        session_id=None if session is None else keyed_hash(session, key),
        user_id=identity("userId"),
        frames=trace,
        truncated=kept != messages or kept_stacktrace != stacktrace,
    )


def plain_text(value: str | None) -> str | None:
    """One kind of line end, nothing that PostgreSQL cannot hold, no colours of a terminal, trimmed; None for nothing.

    The line ends of Unicode count too: a header that ends at one would otherwise be masked with all that follows, and
    what JavaScript prints on two lines would be one.
    """
    if value is None:
        return None
    value = _LINE_ENDS.sub("\n", value).replace("\0", "")
    if "\x1b" in value:
        value = _COLOURS.sub("", value).replace("\x1b", "")
    try:
        value.encode()
    except UnicodeEncodeError:  # halves of surrogate pairs: joined where both are there, else replaced
        value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value.strip() or None


def keyed_hash(value: str, key: bytes) -> str:
    """The same for the same value under one key, so that events of one session are found together; 128 bits of it."""
    return HASHED + hmac.new(key, value.encode(), hashlib.sha256).hexdigest()[:32]


def cut_masked(text: str, length: int) -> str:
    """A masked text may, once cut, end in the form of a secret; then that is masked too, and the text stays within."""
    room = length
    for _ in range(CUTS_MAX):
        kept = text if len(text) <= room else masked_text(cut_text(text, room))
        if len(kept) <= length:
            return kept
        room -= len(kept) - length
    return MASK


def cut_text(text: str, length: int) -> str:
    """At most `length` characters, ending neither within a mask nor between a character and what is drawn upon it."""
    if len(text) <= length:
        return text
    end = length
    while end > length - _GRAPHEME_MAX and _belongs_together(text[end - 1], text[end]):
        end -= 1
    kept = text[:end]
    return (kept.rstrip(MASK[0]) if text[end - 1] == text[end] == MASK[0] else kept).rstrip()


def _belongs_together(before: str, after: str) -> bool:
    return before in _JOINS or after in _JOINS or unicodedata.combining(after) != 0
