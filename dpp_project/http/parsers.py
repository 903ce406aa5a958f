"""Strict JSON in: one reading of every body, or none."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.parsers import BaseParser

from dpp_project.http.problems import FieldError, Problem, printable_field
from dpp_project.reasons import ReasonCode

MAX_BODY_BYTES = 1_048_576
MAX_REPORT_BYTES: Final = 262_144
"""Of a report of an auth error: its texts are read whole before they are cut."""
MAX_DEPTH = 32
MAX_MEMORY_PER_BYTE: Final = 24
"""Of what a body becomes, estimated; with its text and the reader's own tables it stays below 30."""
WIDE_TEXT_PER_BYTE: Final = 4
"""Of the body as text: one character of an astral plane makes each of the others as wide."""
SMALL_MEMORY_BYTES: Final = 65_536
_MEMORY_BY_MARK: Final = ((b"[", 104), (b"{", 120), (b":", 96), (b",", 8))
"""What one array, object, name and value take, without its text."""
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRINGS: Final = re.compile(_STRING, re.DOTALL)
_SOME_STRINGS: Final = re.compile(rb'(?:[^"]++|' + _STRING + rb"){1,1000}+", re.DOTALL)
# Both can come as escapes alone: neither a raw control character nor a raw surrogate passes the readers before.
_PERHAPS_UNSTORABLE: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


class StrictJSONParser(BaseParser):
    """`application/json` in UTF-8, bounded in size and depth, without duplicate names, NaN or infinities."""

    media_type = "application/json"
    max_body_bytes = MAX_BODY_BYTES
    refuses_unstorable = True
    """False where the reader itself removes what Postgres cannot hold from each text, before it stores any."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        if (media_type or "").partition(";")[0].strip().lower() != self.media_type:
            raise UnsupportedMediaType(media_type or "")  # DRF lets `*/*` pass; a body is of one type
        coding = _coding(parser_context)
        if coding not in ("", "identity"):
            raise Problem(ReasonCode.UNSUPPORTED_MEDIA_TYPE, "Send the body as it is, without a Content-Encoding.")
        charset = _charset(media_type)
        if charset not in ("", "utf-8", "utf8", "us-ascii"):
            raise Problem(ReasonCode.UNSUPPORTED_MEDIA_TYPE, f"JSON is read as UTF-8, not as {charset}.")
        # The announced length first: the server does not read a body that announces too much.
        is_too_large = _announced_bytes(parser_context) > self.max_body_bytes
        body = b"" if is_too_large else stream.read(self.max_body_bytes + 1)
        if is_too_large or len(body) > self.max_body_bytes:
            raise Problem(ReasonCode.PAYLOAD_TOO_LARGE, f"The body is larger than {self.max_body_bytes} bytes.")
        return parse_json(body, refuses_unstorable=self.refuses_unstorable)


def parse_json(body: bytes, *, refuses_unstorable: bool = True) -> Any:
    """The document in `body`, or a Problem that says where reading stopped. Never repeats what was sent."""
    _check_size_in_memory(body)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _malformed(f"byte {error.start} is not UTF-8") from None
    try:
        document = json.loads(
            text, object_pairs_hook=_unique_names, parse_constant=_refuse_constant, parse_float=_finite_float
        )
    except json.JSONDecodeError as error:
        raise _malformed(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise _nested_too_deep() from None
    except ValueError:  # an integer of more digits than Python converts
        raise _malformed("a number has too many digits") from None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_depth(document)
    if refuses_unstorable and _PERHAPS_UNSTORABLE.search(body) is not None:
        _check_storable(document)
    return document


def _malformed(what: str) -> Problem:
    return Problem(ReasonCode.MALFORMED_REQUEST, f"The body is not strict JSON: {what}.")


def _charset(media_type: str | None) -> str:
    for part in (media_type or "").split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name.lower() == "charset":
            return value.strip('"').lower()
    return ""


def _announced_bytes(parser_context: Mapping[str, Any] | None) -> int:
    request = (parser_context or {}).get("request")
    return 0 if request is None else int(request.META.get("CONTENT_LENGTH") or 0)


def _coding(parser_context: Mapping[str, Any] | None) -> str:
    request = (parser_context or {}).get("request")
    return "" if request is None else str(request.META.get("HTTP_CONTENT_ENCODING", "")).strip().lower()


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _malformed("a name stands twice in one object")
    return found


def _refuse_constant(constant: str) -> Any:
    raise _malformed(f"{constant} is not a JSON number")


def _finite_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _malformed("a number is too large")
    return number


def _nested_too_deep() -> Problem:
    return _malformed(f"nested deeper than {MAX_DEPTH} levels")


def _check_size_in_memory(body: bytes) -> None:
    """Refuse, before anything is made of it, a body that is little but structure: `[[]],` takes 34 times its bytes.

    Strings are left out of the count only where their punctuation would decide.
    """
    most = _most_memory(body)
    if _estimated_json_memory(body) > most and sum(map(_estimated_json_memory, _without_strings(body))) > most:
        raise _malformed("it holds too many arrays, objects and names for its length")


def _without_strings(body: bytes) -> Iterator[bytes]:
    """A part at a time: what lies between a million strings is a million objects."""
    place = 0
    while (part := _SOME_STRINGS.match(body, place)) is not None:
        yield _STRINGS.sub(b"", part[0])
        place = part.end()


def _most_memory(body: bytes) -> int:
    per_byte = MAX_MEMORY_PER_BYTE - (0 if body.isascii() else WIDE_TEXT_PER_BYTE)
    return len(body) * per_byte + SMALL_MEMORY_BYTES


def _estimated_json_memory(text: bytes) -> int:
    return sum(text.count(mark) * size for mark, size in _MEMORY_BY_MARK)


def _check_depth(document: Any) -> None:
    """Iterators, not lists, of what is still to come: one for each level."""
    levels: list[Iterator[Any]] = [iter((document,))]
    while levels:
        for node in levels[-1]:
            if isinstance(node, dict | list):
                if len(levels) > MAX_DEPTH:
                    raise _nested_too_deep()
                levels.append(iter(node.values() if isinstance(node, dict) else node))
                break
        else:
            levels.pop()


def _check_storable(document: Any) -> None:
    """Refuse what Postgres' jsonb cannot hold, by the path of the first such text."""
    steps = _steps_to_unstorable(document)
    if steps is None:
        return
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(steps))
    raise Problem(
        ReasonCode.VALIDATION_FAILED,
        "A text holds a character that cannot be stored.",
        errors=[FieldError(printable_field(path.removeprefix(".")) or "body", "remove U+0000 and lone surrogates")],
    )


def _steps_to_unstorable(node: Any) -> list[str | int] | None:
    """The way there, its last step first; nothing is written down on the way. No deeper than MAX_DEPTH."""
    if isinstance(node, str):
        return None if _UNSTORABLE.search(node) is None else []
    if isinstance(node, dict):
        for name, value in node.items():
            if _UNSTORABLE.search(name) is not None:
                return []
            if (steps := _steps_to_unstorable(value)) is not None:
                return [*steps, name]
    elif isinstance(node, list):
        for index, value in enumerate(node):
            if (steps := _steps_to_unstorable(value)) is not None:
                return [*steps, index]
    return None
