"""One indexed SELECT of a run as a plain Django view, with a key and without: the ORM, JSON, and no middleware."""

import os
import uuid
from typing import Final

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")

from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from bench.peers.statements import TENANT_ID
from dpp_project import settings

settings.MIDDLEWARE = []
settings.ROOT_URLCONF = __name__
application = get_wsgi_application()

from runs.models import Run  # noqa: E402  once Django stands
from tenants.authentication import authenticate_header  # noqa: E402

COLUMNS: Final = (
    *("run_id", "status", "money_state", "reservation_max_cost_usd_micros", "actual_cost_usd_micros"),
    *("minimum_fee_usd_micros", "created_at", "updated_at", "trace_id"),
)


def read(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    return _found(authenticate_header(request.headers["Authorization"]).tenant_id, run_id)


def read_without_a_key(_request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    return _found(TENANT_ID, run_id)


def _found(tenant_id: str, run_id: uuid.UUID) -> HttpResponse:
    answer = JsonResponse(Run.objects.filter(tenant_id=tenant_id, run_id=run_id).values(*COLUMNS).get())
    answer.headers["Content-Length"] = str(len(answer.content))
    return answer


urlpatterns = [path("v1/runs/<uuid:run_id>", read), path("bare/<uuid:run_id>", read_without_a_key)]
