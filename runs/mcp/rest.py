"""One request to a view of the REST API, made in this thread: the view itself, whole, without the server."""

import io
import json
from typing import Any, Final

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from budget.api.views import BudgetView
from dpp_project.http import answers
from runs.api.estimate import EstimateView
from runs.api.uploads import UploadsView
from runs.api.views import CancelView, RunsView, RunView
from runs.mcp.tools import RestRequest

_VIEWS: Final[dict[str, Any]] = {
    "runs": RunsView.as_view(),
    "run": RunView.as_view(),
    "run-cancel": CancelView.as_view(),
    "estimate": EstimateView.as_view(),
    "uploads": UploadsView.as_view(),
    "budget": BudgetView.as_view(),
}
_OF_THE_CALLER: Final = (
    *("HTTP_AUTHORIZATION", "HTTP_HOST", "HTTP_X_TRACE_ID", "REMOTE_ADDR"),
    *("SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL", "wsgi.url_scheme", "wsgi.errors"),
)
"""All that a view may know of the caller's request. Nothing else of its headers reaches one."""


def ask_rest(request: HttpRequest, asked: RestRequest) -> HttpResponseBase:
    """What the view promised for the answer, and noted for the log, counts for the caller's request, too."""
    body = b"" if asked.body is None else json.dumps(asked.body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    environ = {name: request.META[name] for name in _OF_THE_CALLER if name in request.META} | {
        "REQUEST_METHOD": asked.method,
        "PATH_INFO": asked.path,
        "QUERY_STRING": asked.query,
        "SCRIPT_NAME": "",
        "CONTENT_TYPE": "application/json" if body else "",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_ACCEPT": "application/json",
        "wsgi.input": io.BytesIO(body),
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in asked.headers.items()},
    }
    inner: Any = WSGIRequest(environ)
    response: Any = _VIEWS[asked.route](inner, **asked.kwargs)
    if hasattr(response, "render"):
        response.render()
    answers.promise_headers(request, getattr(inner, "dpp_response_headers", {}))
    answers.note_for_log(request, **getattr(inner, "dpp_log_facts", {}))
    answer: HttpResponseBase = response
    return answer
