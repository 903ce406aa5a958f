"""Whatever goes wrong under a request, from DRF, from Django or from us, is answered as a problem."""

import sys
from collections.abc import Callable
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse
from django.views import defaults
from redis import RedisError
from rest_framework import exceptions

from dpp_project.http.problems import Problem, problem_response
from dpp_project.reasons import ReasonCode
from dpp_project.stores.postgres import DATABASE_AWAY

log = structlog.get_logger("dpp.http")

UNAVAILABLE = (*DATABASE_AWAY, RedisError)
RETRY_AFTER_SECONDS = 2


def exception_handler(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """DRF's hook. It always answers, so that no exception of a view reaches Django's own pages."""
    return answer_error(context["request"]._request, error)  # noqa: SLF001  DRF offers no public way to the HttpRequest


def answer_error(request: HttpRequest, error: BaseException) -> HttpResponse:
    problem = to_problem(error)
    if problem.status >= 500:
        log.error("request failed", reason_code=problem.reason.value, exc_info=error)
    return problem_response(request, problem)


def holds_nul(error: BaseException) -> bool:
    """Postgres takes no NUL in a text, and the driver says so before it sends anything.

    Bodies and queries are checked where they are read: what comes so far stood in an address.
    """
    return isinstance(error, DataError) and "NUL" in str(error)


def to_problem(error: BaseException) -> Problem:
    if isinstance(error, Problem):
        return error
    if holds_nul(error):
        return Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
    for kinds, make in _PROBLEMS:
        if isinstance(error, kinds):
            return make(error)
    return Problem(ReasonCode.INTERNAL_ERROR, "The request could not be completed.")


def _unavailable_service_problem(_error: Any) -> Problem:
    return Problem(
        ReasonCode.SERVICE_UNAVAILABLE,
        "A service that this request needs does not answer.",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


def _simple(reason: ReasonCode, detail: str) -> Callable[[Any], Problem]:
    return lambda _error: Problem(reason, detail)


NOT_FOUND_DETAIL = "There is nothing here for this key."

_PROBLEMS: list[tuple[type[BaseException] | tuple[type[BaseException], ...], Callable[[Any], Problem]]] = [
    ((Http404, exceptions.NotFound), _simple(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)),
    (
        exceptions.MethodNotAllowed,
        _simple(ReasonCode.METHOD_NOT_ALLOWED, "This address does not answer that method."),
    ),
    (exceptions.NotAcceptable, _simple(ReasonCode.NOT_ACCEPTABLE, "No form of the answer fits the Accept header.")),
    (
        exceptions.UnsupportedMediaType,
        _simple(ReasonCode.UNSUPPORTED_MEDIA_TYPE, "Send the body with Content-Type: application/json."),
    ),
    (
        (exceptions.NotAuthenticated, exceptions.AuthenticationFailed),
        _simple(ReasonCode.AUTH_INVALID, "The Authorization header holds no valid API key."),
    ),
    (
        (exceptions.PermissionDenied, PermissionDenied),
        _simple(ReasonCode.SCOPE_MISSING, "This key may not do that."),
    ),
    (exceptions.Throttled, _simple(ReasonCode.RATE_LIMITED, "Too many requests.")),
    (RequestDataTooBig, _simple(ReasonCode.PAYLOAD_TOO_LARGE, "The body is too large.")),
    (
        (exceptions.ParseError, SuspiciousOperation),
        _simple(ReasonCode.MALFORMED_REQUEST, "The request could not be read."),
    ),
    (exceptions.ValidationError, _simple(ReasonCode.VALIDATION_FAILED, "The request has wrong fields.")),
    (UNAVAILABLE, _unavailable_service_problem),
]


def for_browsers(request: HttpRequest) -> bool:
    """Pages that people look at keep Django's own error pages; everything else answers problems."""
    return request.path.startswith(("/admin/", "/account/", "/docs/", "/static/"))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return defaults.bad_request(request, exception) if for_browsers(request) else answer_error(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return defaults.permission_denied(request, exception) if for_browsers(request) else answer_error(request, exception)


def answer_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return defaults.page_not_found(request, exception) if for_browsers(request) else answer_error(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django calls this while it handles the exception, which is how the cause is known here."""
    error = sys.exc_info()[1] or RuntimeError("no exception is being handled")
    problem_answer = answer_error(request, error)
    return defaults.server_error(request) if for_browsers(request) else problem_answer


REASON_BY_STATUS = {
    400: ReasonCode.MALFORMED_REQUEST,
    401: ReasonCode.AUTH_INVALID,
    403: ReasonCode.SCOPE_MISSING,
    404: ReasonCode.NOT_FOUND,
    405: ReasonCode.METHOD_NOT_ALLOWED,
    406: ReasonCode.NOT_ACCEPTABLE,
    413: ReasonCode.PAYLOAD_TOO_LARGE,
    415: ReasonCode.UNSUPPORTED_MEDIA_TYPE,
    503: ReasonCode.SERVICE_UNAVAILABLE,
}
