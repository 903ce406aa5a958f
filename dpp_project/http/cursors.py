"""A place in a list that is ordered by time and id, as callers hand it back: opaque, checked, never trusted."""

import base64
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, NamedTuple, Self
from uuid import UUID

from pydantic import Field, PlainValidator, WithJsonSchema

MAX_LENGTH: Final = 100

_FORM: Final = re.compile(r"([0-9]{1,17})\.([0-9a-f]{32})", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class CursorInvalid(ValueError):  # noqa: N818  a refusal
    """Not a cursor that a page handed out."""

    def __init__(self) -> None:
        super().__init__("hand back a next_cursor as it was given, or leave it out")


class Cursor(NamedTuple):
    """The last row of a page; the next page begins behind it."""

    at: datetime
    id: UUID

    def __str__(self) -> str:
        text = f"{(self.at - _EPOCH) // _MICROSECOND}.{self.id.hex}"
        return base64.urlsafe_b64encode(text.encode()).decode("ascii").rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Self:
        if len(text) > MAX_LENGTH:
            raise CursorInvalid
        try:
            decoded = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
            found = _FORM.fullmatch(decoded)
            if found is None:
                raise CursorInvalid
            return cls(_EPOCH + int(found[1]) * _MICROSECOND, UUID(hex=found[2]))
        except (ValueError, OverflowError) as error:  # not base64, not ASCII, or a time out of range
            raise CursorInvalid from error


CursorParameter = Annotated[
    Annotated[Cursor, PlainValidator(Cursor.parse), WithJsonSchema({"type": "string", "maxLength": MAX_LENGTH})] | None,
    Field(description="The `next_cursor` of the page before."),
]
"""`cursor` of a query string's model."""
