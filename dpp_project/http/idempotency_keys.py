"""`Idempotency-Key`: a caller's own name for a request, of one form at every address that takes one."""

import re
from typing import Final

from drf_spectacular.utils import OpenApiExample, OpenApiParameter

from dpp_project.http.problems import FieldError, Problem
from dpp_project.reasons import ReasonCode

HEADER: Final = "Idempotency-Key"
_FORM: Final = re.compile(r"[\x21-\x7e]{8,64}")


def read(value: str | None) -> str:
    """What the header holds, or a Problem: 8 to 64 characters of visible ASCII."""
    if value is None or _FORM.fullmatch(value) is None:
        said = "send it; " if value is None else ""
        raise Problem(
            ReasonCode.VALIDATION_FAILED,
            f"The {HEADER} header is missing or has the wrong form.",
            errors=[FieldError(f"header.{HEADER}", f"{said}8 to 64 characters of visible ASCII, no spaces")],
        )
    return value


def parameter(description: str, *, required: bool = True) -> OpenApiParameter:
    """The header in the OpenAPI document."""
    return OpenApiParameter(
        HEADER,
        {"type": "string", "minLength": 8, "maxLength": 64, "pattern": r"^[!-~]{8,64}$"},
        OpenApiParameter.HEADER,
        required=required,
        description=description,
        examples=[OpenApiExample("A key", value="order-2026-0001")],
    )
