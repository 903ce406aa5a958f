"""The OpenAPI document, as one address."""

import json
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator


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
