"""What every address of the API is made from."""

from typing import Any, Final

from rest_framework.request import Request
from rest_framework.views import APIView

from dpp_project.http.problems import FieldError, Problem, printable_field
from dpp_project.reasons import ReasonCode

METHODS: Final = ("get", "head", "post", "put", "patch", "delete")
ERRORS_MAX: Final = 20


class ApiView(APIView):
    """OPTIONS is no method of ours: DRF would list it under Allow and then answer it 405 all the same."""

    http_method_names = list(METHODS)
    reads_query: frozenset[str] = frozenset()
    """The methods that read their query themselves, by a model that refuses what it does not know. To all others any
    parameter is unknown: a misspelt filter must not answer everything, nor a forgotten one do something else.
    """

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """After key, scope and rate: a stranger learns nothing of an address, and a wrong request has its price."""
        super().initial(request, *args, **kwargs)
        self.meter(request)
        method = "GET" if request.method == "HEAD" else request.method
        if request.query_params and method not in self.reads_query:
            raise Problem(
                ReasonCode.VALIDATION_FAILED,
                "The request has wrong fields; see errors.",
                errors=[
                    FieldError(f"query.{printable_field(name)}", "unknown query parameter; remove it")
                    for name in list(request.query_params)[:ERRORS_MAX]
                ],
            )

    def meter(self, request: Request) -> None:
        """Of an address that takes its token otherwise than by DRF's throttles."""
