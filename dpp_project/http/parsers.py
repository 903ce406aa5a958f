"""Strict JSON in: one reading of every body, or none."""

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.parsers import BaseParser

from dpp_project.http.problems import FieldError, Problem, printable
from dpp_project.reasons import ReasonCode

MAX_BODY_BYTES = 1_048_576
MAX_DEPTH = 32


class StrictJSONParser(BaseParser):
    """`application/json` in UTF-8, bounded in size and depth, without duplicate names, NaN or infinities."""

    media_type = "application/json"

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
        is_too_large = _announced_bytes(parser_context) > MAX_BODY_BYTES
        body = b"" if is_too_large else stream.read(MAX_BODY_BYTES + 1)
        if is_too_large or len(body) > MAX_BODY_BYTES:
            raise Problem(ReasonCode.PAYLOAD_TOO_LARGE, f"The body is larger than {MAX_BODY_BYTES} bytes.")
        return parse_json(body)


def parse_json(body: bytes) -> Any:
    """The document in `body`, or a Problem that says where reading stopped. Never repeats what was sent."""
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
        raise _malformed(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError:  # an integer of more digits than Python converts
        raise _malformed("a number has too many digits") from None
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


def _check_storable(document: Any) -> None:
    """Refuse what Postgres' jsonb cannot hold, and nesting too deep for later readers."""
    level, nodes = 0, [("", document)]
    while nodes:
        level += 1
        if level > MAX_DEPTH:
            raise _malformed(f"nested deeper than {MAX_DEPTH} levels")
        deeper: list[tuple[str, Any]] = []
        for path, node in nodes:
            if isinstance(node, str):
                _check_text(path, node)
            elif isinstance(node, dict):
                for name, value in node.items():
                    _check_text(path, name)
                    deeper.append((f"{path}.{name}" if path else name, value))
            elif isinstance(node, list):
                deeper.extend((f"{path}[{index}]", value) for index, value in enumerate(node))
        nodes = deeper


def _check_text(path: str, text: str) -> None:
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text if character > "\ud7ff"):
        raise Problem(
            ReasonCode.VALIDATION_FAILED,
            "A text holds a character that cannot be stored.",
            errors=[FieldError(printable(path) or "body", "remove U+0000 and lone surrogates")],
        )
