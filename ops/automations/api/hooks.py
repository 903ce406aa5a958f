"""POST /api/automations/hooks/{source}: no key, a signature. The server admits it as any stranger's request.

Not in the OpenAPI document: its callers are services whose bodies are their own. docs/automations.md says how to set
each of them up.
"""

from typing import Final

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from dpp_project.http import handlers, problems
from dpp_project.http.parsers import MAX_BODY_BYTES
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode
from ops.automations.sources import hooks
from ops.automations.sources.hooks import HookOutcome

UNPROVEN_DETAIL: Final = "The signature is not one that this address takes."
UNDER_WAY_DETAIL: Final = "It may answer a question that is still being sent; send it again."
UNDER_WAY_SECONDS: Final = 30
_STATUS: Final = {
    HookOutcome.NEW: 202,
    HookOutcome.SEEN: 202,
    HookOutcome.ANSWERED: 202,
    HookOutcome.NOT_AWAITED: 200,
    HookOutcome.IGNORED: 200,
    HookOutcome.CHALLENGED: 200,
}


@csrf_exempt
def hook(request: HttpRequest, source: str) -> HttpResponse:
    try:
        return _hook_response(request, source)
    except Exception as error:  # noqa: BLE001  each has its problem document
        return handlers.answer_error(request, error)


def _hook_response(request: HttpRequest, source: str) -> HttpResponse:
    if request.method != "POST":
        return _hook_problem_response(
            request, Problem(ReasonCode.METHOD_NOT_ALLOWED, "POST alone.", headers={"Allow": "POST"})
        )
    headers = {name.lower(): value for name, value in request.headers.items()}
    taken = hooks.receive_hook(name=source, headers=headers, body=_body(request))
    problem = _problem_of_hook(taken.outcome)
    if problem is not None:
        return _hook_problem_response(request, problem)
    if taken.outcome is HookOutcome.CHALLENGED:
        return JsonResponse({"challenge": taken.challenge})
    # A repetition is answered as the first was: what it is one of is no sender's business.
    status = _STATUS[taken.outcome]
    return JsonResponse({"outcome": "taken" if status == 202 else "ignored"}, status=status)


def _problem_of_hook(outcome: HookOutcome) -> Problem | None:
    match outcome:
        case HookOutcome.UNPROVEN:
            return Problem(ReasonCode.AUTH_INVALID, UNPROVEN_DETAIL)
        case HookOutcome.PAUSED:
            return Problem(ReasonCode.CONFLICT, "This source is paused.")
        case HookOutcome.TOO_LARGE:
            return Problem(ReasonCode.PAYLOAD_TOO_LARGE, "The event is too large to be kept.")
        case HookOutcome.UNDER_WAY:
            later = {"Retry-After": str(UNDER_WAY_SECONDS)}
            return Problem(ReasonCode.SERVICE_UNAVAILABLE, UNDER_WAY_DETAIL, headers=later)
    return None


def _body(request: HttpRequest) -> bytes:
    try:
        return request.body
    except RequestDataTooBig:
        raise Problem(ReasonCode.PAYLOAD_TOO_LARGE, f"The body is larger than {MAX_BODY_BYTES} bytes.") from None


def _hook_problem_response(request: HttpRequest, problem: Problem) -> HttpResponse:
    return problems.problem_response(request, problem)
