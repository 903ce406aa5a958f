"""A body sent in chunks says nowhere how long it is, and Django takes what has no length for empty."""

import io
from collections.abc import Callable, Iterable
from typing import Any

from dpp_project.http.parsers import MAX_BODY_BYTES

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


def told(application: Application) -> Application:
    """Reads such a body up to the size limit, and sets its length."""

    def with_length(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if "HTTP_TRANSFER_ENCODING" in environ:
            body = environ["wsgi.input"].read(MAX_BODY_BYTES + 1)
            environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        return application(environ, start_response)

    return with_length
