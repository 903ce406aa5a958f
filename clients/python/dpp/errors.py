"""What a caller may have to handle: each has what is known of the request, and none ever has the API key."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WrongField:
    """A field of the request that was refused, and why."""

    field: str
    detail: str


class DppError(Exception):
    """Everything that this package raises by itself."""


class ConfigurationError(DppError):
    """The client was set up, or asked, in a way that cannot work. Nothing was sent."""


class ConnectionLostError(DppError):
    """No answer came, after all repetitions. Whether the request was heard is open.

    A submit may be repeated with `idempotency_key`: it is then the same purchase.
    """

    def __init__(self, what: str, *, idempotency_key: str | None = None) -> None:
        super().__init__(what)
        self.idempotency_key = idempotency_key


class UnexpectedAnswerError(DppError):
    """The answer is not what this API gives: is DPP_API_URL that of DPP?"""


class WaitTimeoutError(DppError):
    """The time to wait is over, and the run goes on. Wait for it again by its id."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} has not ended yet; it goes on")
        self.run_id = run_id


class RunFailedError(DppError):
    """The run has ended without a result."""

    def __init__(self, run_id: str, reason_code: str, detail: str, *, trace_id: str | None = None) -> None:
        super().__init__(f"run {run_id} failed, {reason_code}: {detail}")
        self.run_id = run_id
        self.reason_code = reason_code
        self.detail = detail
        self.trace_id = trace_id


class CorruptDownloadError(DppError):
    """What came has another SHA-256 than the run says."""


class InvalidWebhookError(DppError):
    """Not from DPP, changed on its way, or too old. Answer 400 and do nothing."""


class ApiError(DppError):
    """The API said no. `reason_code` is one of a fixed list; `/docs/problems/` has cause and cure of each."""

    def __init__(
        self,
        status: int,
        reason_code: str,
        detail: str,
        *,
        errors: Sequence[WrongField] = (),
        trace_id: str | None = None,
        run_id: str | None = None,
        retry_after: float | None = None,
        idempotency_key: str | None = None,
        document: Mapping[str, Any] | None = None,
    ) -> None:
        fields = "; ".join(f"{wrong.field}: {wrong.detail}" for wrong in errors)
        super().__init__(f"{status} {reason_code}: {fields or detail}")
        self.status = status
        self.reason_code = reason_code
        self.detail = detail
        self.errors = tuple(errors)
        self.trace_id = trace_id
        self.run_id = run_id
        self.retry_after = retry_after
        self.idempotency_key = idempotency_key
        self.document = dict(document or {})
        self.repeated = False
        """An earlier try of the same request may have been heard."""

    @property
    def field(self) -> str | None:
        """The first field that was wrong."""
        return self.errors[0].field if self.errors else None


class InvalidRequestError(ApiError):
    """400, 413, 422 and the like: mend the request; `field` names what is wrong."""


class AuthenticationError(ApiError):
    """401: the key is not valid."""


class PaymentRequiredError(ApiError):
    """402: the balance, or a spend cap, does not hold the price. Nothing stands, and the same key works later."""


class ForbiddenError(ApiError):
    """403: the key lacks the scope."""


class NotFoundError(ApiError):
    """404: there is none, or it is another tenant's."""


class ConflictError(ApiError):
    """409: the state of things, or another request under the same key, forbids it."""


class GoneError(ApiError):
    """410: the run's data are deleted."""


class RateLimitedError(ApiError):
    """429, after all repetitions: `retry_after` says when there is room."""


class UnavailableError(ApiError):
    """5xx, after all repetitions. A submit may be repeated with `idempotency_key`."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: AuthenticationError,
    402: PaymentRequiredError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    429: RateLimitedError,
}


def api_error(status: int, headers: Mapping[str, str], body: bytes, *, idempotency_key: str | None = None) -> ApiError:
    """From a problem document, or from whatever stands where one should."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    document: dict[str, Any] = found if isinstance(found, dict) else {}
    listed = document.get("errors")
    errors = [
        WrongField(str(one.get("field", "")), str(one.get("detail", "")))
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, dict)
    ]
    kind = _BY_STATUS.get(status, UnavailableError if status >= 500 else InvalidRequestError)
    return kind(
        status,
        str(document.get("reason_code", f"HTTP_{status}")),
        str(document.get("detail", "This is not how DPP answers: is DPP_API_URL its address?")),
        errors=errors,
        trace_id=document.get("trace_id") or headers.get("x-trace-id"),
        run_id=document.get("run_id"),
        retry_after=seconds_of(headers.get("retry-after")),
        idempotency_key=idempotency_key,
        document=document,
    )


def seconds_of(retry_after: str | None) -> float | None:
    """DPP sends seconds; a proxy that sends a date is not believed."""
    if retry_after is None or not (retry_after.isascii() and retry_after.isdigit()):
        return None
    return float(retry_after[:9])
