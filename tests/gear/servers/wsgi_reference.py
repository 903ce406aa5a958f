"""The same Django under granian's own WSGI server: what our host's answers are compared with, byte by byte."""

import io
import os
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")

django = get_wsgi_application()

from dpp_project.http.parsers import MAX_BODY_BYTES  # noqa: E402  it needs the settings


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """A body in chunks says nowhere how long it is, and Django takes what has no length for empty."""
    if "HTTP_TRANSFER_ENCODING" in environ:
        body = environ["wsgi.input"].read(MAX_BODY_BYTES + 1)
        environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
    answer: Iterable[bytes] = django(environ, start_response)
    return answer
