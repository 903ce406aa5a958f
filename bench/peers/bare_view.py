"""One indexed SELECT of a run as a plain Django view: the ORM, a JsonResponse, and no middleware at all."""

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

COLUMNS: Final = (
    *("run_id", "status", "money_state", "reservation_max_cost_usd_micros", "actual_cost_usd_micros"),
    *("minimum_fee_usd_micros", "created_at", "updated_at", "trace_id"),
)


def read(_request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    answer = JsonResponse(Run.objects.filter(tenant_id=TENANT_ID, run_id=run_id).values(*COLUMNS).get())
    answer.headers["Content-Length"] = str(len(answer.content))
    return answer


urlpatterns = [path("v1/runs/<uuid:run_id>", read)]
