"""The few views that belong to no app: metrics, the OpenAPI document, and its browsable form."""

import hmac
import json
from functools import cache
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from prometheus_client import CONTENT_TYPE_LATEST

from dpp_project.http import problems
from dpp_project.http.client_address import is_loopback
from dpp_project.http.problems import Problem
from dpp_project.observe import metrics
from dpp_project.process_env import ENV
from dpp_project.reasons import REASONS, ReasonCode, type_uri

FORWARDING_HEADERS: Final = ("X-Forwarded-For", "X-Forwarded-Proto", "X-Real-Ip", "Forwarded", "Via")


@require_safe
def metrics_page(request: HttpRequest) -> HttpResponse:
    if not _may_read_metrics(request):
        return problems.response(
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


@cache
def openapi_document() -> bytes:
    """Made once a process: it depends on the code alone."""
    generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
    return json.dumps(generator.get_schema(request=None, public=True), ensure_ascii=False, indent=1).encode()


@require_safe
def openapi_page(request: HttpRequest) -> HttpResponse:
    del request
    return HttpResponse(
        openapi_document(), content_type="application/json", headers={"Cache-Control": "public, max-age=60"}
    )


@require_safe
def docs_page(request: HttpRequest) -> HttpResponse:
    return render(request, "docs/api.html")


@require_safe
def problems_page(request: HttpRequest) -> HttpResponse:
    rows = [
        {"code": code.value, "type": type_uri(code), "status": reason.status or "run result", "reason": reason}
        for code, reason in REASONS.items()
    ]
    return render(request, "docs/problems.html", {"rows": rows})
