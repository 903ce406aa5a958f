"""Our API with one change: a report of an auth error is one INSERT of what came, neither masked, read nor told on."""

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")

from django.db import connection
from rest_framework.request import Request
from rest_framework.response import Response

from dpp_project.asgi import application

__all__ = ["application"]

from dpp_project import uuid7
from dpp_project.http.bodies import read_body
from ops.auth_errors.api.documents import AuthErrorReport
from ops.auth_errors.api.views import AuthErrorsView
from tenants.permissions import principal_of

INSERT = (
    "INSERT INTO auth_error (auth_error_id, tenant_id, dedup_key, occurred_at, http_status, exception_class,"
    " stacktrace, frames, truncated) VALUES (%s, %s, %s, %s, %s, %s, %s, '{}', false) RETURNING auth_error_id"
)


def post(_view: AuthErrorsView, request: Request) -> Response:
    body = read_body(request, AuthErrorReport)
    values: list[Any] = [
        uuid7.new_uuid7(),
        principal_of(request).tenant_id,
        body.requestId,
        body.occurredAt,
        body.httpStatus,
    ]
    with connection.cursor() as cursor:
        cursor.execute(INSERT, [*values, body.exceptionClass, body.stacktrace[:8_000]])
        made = cursor.fetchone()
    return Response({"auth_error_id": str(made[0]), "status": "NEW"}, status=201)


AuthErrorsView.post = post  # type: ignore[method-assign, assignment]
