"""/metrics: what this process and those beside it count: for a holder of the token, or for this machine."""

import hmac
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from dpp_project.http import problems
from dpp_project.http.client_address import is_loopback
from dpp_project.http.problems import Problem
from dpp_project.observe import metrics
from dpp_project.process_env import ENV
from dpp_project.reasons import ReasonCode

FORWARDING_HEADERS: Final = ("X-Forwarded-For", "X-Forwarded-Proto", "X-Real-Ip", "Forwarded", "Via")


@require_safe
def metrics_page(request: HttpRequest) -> HttpResponse:
    if not _may_read_metrics(request):
        return problems.problem_response(
            request,
            Problem(
                ReasonCode.AUTH_INVALID,
                "Send the token of DPP_METRICS_TOKEN as a Bearer token; without one set, only this machine may ask.",
                headers={"WWW-Authenticate": 'Bearer realm="metrics"'},
            ),
        )
    return HttpResponse(metrics.latest_metrics(), content_type=CONTENT_TYPE_LATEST)


def _may_read_metrics(request: HttpRequest) -> bool:
    """With a token, or from this machine where none is set: by itself, and not through a proxy that runs here."""
    if ENV.DPP_METRICS_TOKEN is not None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
        return hmac.compare_digest(given, ENV.DPP_METRICS_TOKEN.encode())
    is_forwarded = any(name in request.headers for name in FORWARDING_HEADERS)
    return not is_forwarded and is_loopback(request.META.get("REMOTE_ADDR", ""))
