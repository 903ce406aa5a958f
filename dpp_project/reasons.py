"""Every reason the platform gives for a refusal or a failure: one enum, one explanation each.

The explanations are the documentation: /docs/problems and the OpenAPI document are made from them.
"""

from dataclasses import dataclass
from enum import StrEnum


class ReasonCode(StrEnum):
    AUTH_INVALID = "AUTH_INVALID"
    SCOPE_MISSING = "SCOPE_MISSING"
    CAPS_PROTECTED = "CAPS_PROTECTED"
    EXECUTION_DISABLED = "EXECUTION_DISABLED"
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
    CONFIRMATION_REQUIRED = "CONFIRMATION_REQUIRED"
    MALFORMED_REQUEST = "MALFORMED_REQUEST"
    VALIDATION_FAILED = "VALIDATION_FAILED"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    NOT_ACCEPTABLE = "NOT_ACCEPTABLE"
    CONFLICT = "CONFLICT"
    PRECONDITION_FAILED = "PRECONDITION_FAILED"
    UPLOAD_SPACE_FULL = "UPLOAD_SPACE_FULL"
    WORKSPACE_WAKING = "WORKSPACE_WAKING"
    WORKSPACE_QUOTA_REACHED = "WORKSPACE_QUOTA_REACHED"
    GONE = "GONE"
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    RATE_LIMITED = "RATE_LIMITED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"
    BUDGET_DRAINED = "BUDGET_DRAINED"
    SPEND_CAP_REACHED = "SPEND_CAP_REACHED"
    BUDGET_UNAVAILABLE = "BUDGET_UNAVAILABLE"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    IDEMPOTENCY_IN_PROGRESS = "IDEMPOTENCY_IN_PROGRESS"
    QUEUE_ENQUEUE_FAILED = "QUEUE_ENQUEUE_FAILED"
    RUN_NOT_CANCELABLE = "RUN_NOT_CANCELABLE"
    RUN_NOT_ENDED = "RUN_NOT_ENDED"
    ENGINE_UNAVAILABLE = "ENGINE_UNAVAILABLE"
    WORKER_TIMEOUT = "WORKER_TIMEOUT"
    TIMEBOX_EXCEEDED = "TIMEBOX_EXCEEDED"
    PACK_FAILED = "PACK_FAILED"
    PACK_CRASHED = "PACK_CRASHED"
    PACK_MEMORY_EXCEEDED = "PACK_MEMORY_EXCEEDED"
    RESERVATION_EXPIRED = "RESERVATION_EXPIRED"
    SUBMIT_ABANDONED = "SUBMIT_ABANDONED"
    CANCELED_BY_OWNER = "CANCELED_BY_OWNER"
    CANCELED_BY_OPERATOR = "CANCELED_BY_OPERATOR"
    RESULT_LOST = "RESULT_LOST"
    DEAD_LETTERED = "DEAD_LETTERED"


@dataclass(frozen=True)
class Reason:
    """What a code means. `status` is its HTTP status, or None where it only ever ends a run."""

    status: int | None
    title: str
    cause: str
    cure: str


REASONS: dict[ReasonCode, Reason] = {
    ReasonCode.AUTH_INVALID: Reason(
        401,
        "Authentication failed",
        "The Authorization header is missing or malformed, or its key is unknown, expired, revoked, or its tenant is"
        " suspended.",
        "Send `Authorization: Bearer dpp_…` with a current key; ask your operator for a new one if it has ended.",
    ),
    ReasonCode.SCOPE_MISSING: Reason(
        403,
        "Key lacks the scope",
        "The key is valid, but its scopes do not cover this operation.",
        "Use a key that carries the scope named in `detail`.",
    ),
    ReasonCode.CAPS_PROTECTED: Reason(
        403,
        "Caps are protected from this key",
        "The key carries `keys:write`, but it would change caps of its own, or it has a spend cap itself. Nothing was"
        " changed.",
        "Use another key with `keys:write` that has no cap, or ask your operator.",
    ),
    ReasonCode.EXECUTION_DISABLED: Reason(
        403,
        "Submits are off",
        "An operator has turned off new runs for this tenant. Runs under way go on, and everything can be read.",
        "Ask your operator to turn them on; the same Idempotency-Key may then be used.",
    ),
    ReasonCode.APPROVAL_REQUIRED: Reason(
        403,
        "Approval required",
        "It moves more money than one person may move alone (DPP_SOLO_LIMIT_USD). Nothing was changed.",
        "Open the ticket that `detail` names, and have another operator approve it.",
    ),
    ReasonCode.CONFIRMATION_REQUIRED: Reason(
        403,
        "Confirmation required",
        "An agent wants to buy by MCP for more than it may without a person.",
        "Ask the person, and call again with `confirm: true`. Nothing was held.",
    ),
    ReasonCode.MALFORMED_REQUEST: Reason(
        400,
        "Malformed request",
        "The body is not strict JSON in UTF-8 (duplicate names, NaN, or too deep count as wrong), or a header or the"
        " query string cannot be read.",
        "Send one well-formed JSON document; `detail` says where reading stopped.",
    ),
    ReasonCode.VALIDATION_FAILED: Reason(
        422,
        "Validation failed",
        "The request was read, and a field, header or parameter in it is wrong.",
        "Mend what `errors` lists, each by its field; nothing was stored or held.",
    ),
    ReasonCode.NOT_FOUND: Reason(
        404,
        "Not found",
        "There is no such thing here, or it is not yours; the answer is the same on purpose.",
        "Check the address and the key's tenant.",
    ),
    ReasonCode.METHOD_NOT_ALLOWED: Reason(
        405,
        "Method not allowed",
        "The address exists, but not for this HTTP method.",
        "Use one of the methods in the Allow header.",
    ),
    ReasonCode.NOT_ACCEPTABLE: Reason(
        406,
        "Not acceptable",
        "The Accept header admits none of the forms this address can answer in.",
        "Accept `application/json`, or a form the documentation names for this address.",
    ),
    ReasonCode.CONFLICT: Reason(
        409,
        "Conflict",
        "The request does not fit the present state of what it names.",
        "Read the current state and decide again.",
    ),
    ReasonCode.UPLOAD_SPACE_FULL: Reason(
        409,
        "No room for the upload",
        "Your uploaded files hold as many bytes, or are as many, as they may. Room that an address was given for counts"
        " for an hour, and longer where its file came. No address was given.",
        "Wait for the moment that `detail` names, when the oldest file is deleted, send smaller files, or ask your"
        " operator for more room.",
    ),
    ReasonCode.PRECONDITION_FAILED: Reason(
        412,
        "It has changed since you read it",
        "The If-Match header names another generation than the present one. Nothing was changed.",
        "Read it again, look at what changed, and send its new ETag as If-Match.",
    ),
    ReasonCode.WORKSPACE_QUOTA_REACHED: Reason(
        409,
        "No room for the workspace",
        "Your workspaces are as many, run as many at once, or hold as many bytes, as they may. Nothing was changed.",
        "Delete, archive or put one to sleep as `detail` says, or ask your operator for more room.",
    ),
    ReasonCode.GONE: Reason(
        410,
        "Gone",
        "The run's retention has passed; its result and inputs are deleted.",
        "Submit a new run; results stay for 30 days.",
    ),
    ReasonCode.REQUEST_TIMEOUT: Reason(
        408,
        "Request timeout",
        "The body came too slowly: it has 10 s, and 1 s more for each 64 KiB.",
        "Send the request again, with the same Idempotency-Key, over a connection that carries the body in that time.",
    ),
    ReasonCode.PAYLOAD_TOO_LARGE: Reason(
        413,
        "Payload too large",
        "The body is larger than this address accepts.",
        "Send less, or upload the file first and name it in `inputs`.",
    ),
    ReasonCode.UNSUPPORTED_MEDIA_TYPE: Reason(
        415,
        "Unsupported media type",
        "The body's Content-Type is not one this address reads.",
        "Send `Content-Type: application/json`.",
    ),
    ReasonCode.RATE_LIMITED: Reason(
        429,
        "Rate limited",
        "The tenant has used up its requests for now, or an address those that it may make without a valid key.",
        "Wait as long as Retry-After says; poll every 1.5 s, not faster.",
    ),
    ReasonCode.INTERNAL_ERROR: Reason(
        500,
        "Internal error",
        "A fault of ours; it has been logged under the trace id.",
        "Repeat the request with the same Idempotency-Key; if it persists, report the trace id.",
    ),
    ReasonCode.SERVICE_UNAVAILABLE: Reason(
        503,
        "Service unavailable",
        "Something the platform depends on does not answer at the moment.",
        "Repeat the request after Retry-After, with the same Idempotency-Key.",
    ),
    ReasonCode.BUDGET_DRAINED: Reason(
        402,
        "Budget drained",
        "The balance is below the price ceiling of the run.",
        "Top up, or lower `reservation.max_cost_usd`; the same Idempotency-Key may be used again.",
    ),
    ReasonCode.SPEND_CAP_REACHED: Reason(
        402,
        "Spend cap reached",
        "A cap on the key, or on its tenant, leaves less in the day, the week, the month or the total than the price"
        " ceiling of the run; `cap` has the figures. What runs under way do not use is left again when they end.",
        "Wait until `cap.resets_at`, lower `reservation.max_cost_usd`, or raise the cap; the same Idempotency-Key may"
        " be used again.",
    ),
    ReasonCode.BUDGET_UNAVAILABLE: Reason(
        503,
        "Budget unavailable",
        "Balances are being rebuilt from the ledger; nothing is held or charged meanwhile.",
        "Repeat after Retry-After, with the same Idempotency-Key.",
    ),
    ReasonCode.IDEMPOTENCY_CONFLICT: Reason(
        409,
        "Idempotency conflict",
        "This Idempotency-Key was used before with another request.",
        "Use a new key for a new request.",
    ),
    ReasonCode.IDEMPOTENCY_IN_PROGRESS: Reason(
        409,
        "Idempotent request in progress",
        "A request with this Idempotency-Key is being handled right now.",
        "Repeat after Retry-After with the same key.",
    ),
    ReasonCode.QUEUE_ENQUEUE_FAILED: Reason(
        503,
        "Queue unavailable",
        "The run could not be queued; it ended FAILED and its hold was returned in full.",
        "Submit again; the same Idempotency-Key may be used.",
    ),
    ReasonCode.RUN_NOT_CANCELABLE: Reason(
        409,
        "Run cannot be canceled",
        "The run is finishing or has ended.",
        "Read the run; `detail` gives its state.",
    ),
    ReasonCode.RUN_NOT_ENDED: Reason(
        409,
        "Run has not ended",
        "Data of a run are deleted when it has ended; this one is open, and nothing was changed.",
        "Wait for its end, or cancel it; `detail` gives its state.",
    ),
    ReasonCode.WORKSPACE_WAKING: Reason(
        409,
        "Workspace waking",
        "The workspace slept when it was asked for. It is being woken; nothing was run and nothing was held.",
        "Send the same request again after `Retry-After`.",
    ),
    ReasonCode.ENGINE_UNAVAILABLE: Reason(
        503,
        "Engine unavailable",
        "The engine or a data file that the pack needs is not installed. Nothing was charged.",
        "Try later, or tell the operator: `/readyz` names what is missing.",
    ),
    ReasonCode.WORKER_TIMEOUT: Reason(
        None,
        "Worker lost",
        "The worker stopped renewing its lease; the reaper ended the run at the minimum fee.",
        "Submit again with a new Idempotency-Key.",
    ),
    ReasonCode.TIMEBOX_EXCEEDED: Reason(
        None,
        "Timebox exceeded",
        "The pack was still working when `timebox_sec` ran out.",
        "Allow more time (at most 90 s) or give it less to do.",
    ),
    ReasonCode.PACK_FAILED: Reason(
        None, "Pack failed", "The pack ended with an error of its own.", "Read `problem.detail`, mend the inputs."
    ),
    ReasonCode.PACK_CRASHED: Reason(
        None,
        "Pack crashed",
        "The pack's process died without an answer.",
        "Submit again; report the trace id if it repeats.",
    ),
    ReasonCode.PACK_MEMORY_EXCEEDED: Reason(
        None, "Pack out of memory", "The pack passed its memory limit.", "Give it smaller inputs."
    ),
    ReasonCode.RESERVATION_EXPIRED: Reason(
        None,
        "Reservation expired",
        "The run waited an hour without starting; its hold was returned in full.",
        "Submit again with a new Idempotency-Key.",
    ),
    ReasonCode.SUBMIT_ABANDONED: Reason(
        None,
        "Submit abandoned",
        "The submit died before its money was held; nothing was charged.",
        "Submit again; the same Idempotency-Key may be used.",
    ),
    ReasonCode.CANCELED_BY_OWNER: Reason(
        None, "Canceled", "The owner canceled the run.", "Nothing to mend; submit again if that was a mistake."
    ),
    ReasonCode.CANCELED_BY_OPERATOR: Reason(
        None,
        "Canceled by an operator",
        "An operator of the platform ended the run, at the price of a cancel.",
        "Ask your operator why before you submit it again.",
    ),
    ReasonCode.RESULT_LOST: Reason(
        None,
        "Result lost",
        "The stored result was gone when the run was to be finished; only the minimum fee was charged.",
        "Submit again with a new Idempotency-Key.",
    ),
    ReasonCode.DEAD_LETTERED: Reason(
        None,
        "Dead-lettered",
        "The run's message failed repeatedly and so did its one requeue; the hold was returned in full.",
        "Submit again; report the trace id if it repeats.",
    ),
}


def type_uri(code: ReasonCode) -> str:
    """The `type` of a problem: stable, whatever host answered."""
    return f"urn:dpp:problem:{code.value.lower().replace('_', '-')}"
