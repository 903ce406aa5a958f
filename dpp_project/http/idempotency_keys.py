"""`Idempotency-Key`: a caller's own name for a request, of one form at every address that takes one."""

import re
from collections.abc import Mapping
from typing import Final

from drf_spectacular.utils import OpenApiExample, OpenApiParameter

from dpp_project.http.problems import FieldError, Problem
from dpp_project.reasons import ReasonCode

HEADER: Final = "Idempotency-Key"
DERIVE: Final = "DPP-Derive-Key"
DERIVED: Final = "DPP-Derived-Key"
DERIVED_HINT: Final = "DPP-Derived-Key-Hint"
_FORM: Final = re.compile(r"[\x21-\x7e]{8,64}")


def read_idempotency_key(value: str | None) -> str:
    """What the header holds, or a Problem: 8 to 64 characters of visible ASCII."""
    if value is None or _FORM.fullmatch(value) is None:
        said = "send it; " if value is None else ""
        raise Problem(
            ReasonCode.VALIDATION_FAILED,
            f"The {HEADER} header is missing or has the wrong form.",
            errors=[FieldError(f"header.{HEADER}", f"{said}8 to 64 characters of visible ASCII, no spaces")],
        )
    return value


def read_or_derive(headers: Mapping[str, str]) -> str | None:
    """The caller's key; None where it asks for one that is derived of what it sends."""
    asked, given = headers.get(DERIVE), headers.get(HEADER)
    if asked is None:
        return read_idempotency_key(given)
    if asked != "1" or given is not None:
        said = "send 1, or leave it out" if asked != "1" else f"send it or {HEADER}, not both"
        raise Problem(
            ReasonCode.VALIDATION_FAILED,
            f"The {DERIVE} header is not understood.",
            errors=[FieldError(f"header.{DERIVE}", said)],
        )
    return None


def idempotency_key_parameter(description: str, *, required: bool = True) -> OpenApiParameter:
    """The header in the OpenAPI document."""
    return OpenApiParameter(
        HEADER,
        {"type": "string", "minLength": 8, "maxLength": 64, "pattern": r"^[!-~]{8,64}$"},
        OpenApiParameter.HEADER,
        required=required,
        description=description,
        examples=[OpenApiExample("A key", value="order-2026-0001")],
    )


def derive_parameter() -> OpenApiParameter:
    return OpenApiParameter(
        DERIVE,
        {"type": "string", "enum": ["1"]},
        OpenApiParameter.HEADER,
        description=f"Instead of {HEADER}: the same request within 10 minutes is the same purchase.",
    )
