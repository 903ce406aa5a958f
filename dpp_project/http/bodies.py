"""From a request to a pydantic model, and from pydantic's complaints to a Problem that names each field."""

from typing import Any, TypeVar

from django.http import QueryDict
from pydantic import BaseModel, ValidationError
from rest_framework.request import Request

from dpp_project.http.problems import FieldError, Problem, printable
from dpp_project.reasons import ReasonCode

Model = TypeVar("Model", bound=BaseModel)
MAX_ERRORS = 20
_PLAINLY = {
    "extra_forbidden": "unknown field; remove it",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "input should be an object"),
}


def read_body(request: Request, model: type[Model]) -> Model:
    """The JSON body as `model`."""
    return validated(model, document(request))


def document(request: Request) -> Any:
    """The JSON body. An absent one counts as an empty object, so that the missing fields are named."""
    data = request.data
    return {} if isinstance(data, QueryDict) else data


def read_query(request: Request, model: type[Model]) -> Model:
    """The query string as `model`; a name given twice is refused, not guessed at."""
    twice = [name for name, values in request.query_params.lists() if len(values) > 1]
    if twice:
        raise Problem(
            ReasonCode.VALIDATION_FAILED,
            "A query parameter is given more than once.",
            errors=[FieldError(f"query.{printable(name)}", "give it once") for name in twice[:MAX_ERRORS]],
        )
    return validated(model, request.query_params.dict(), prefix="query.")


def validated(model: type[Model], data: Any, *, prefix: str = "") -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise Problem(
            ReasonCode.VALIDATION_FAILED,
            "The request has wrong fields; see errors.",
            errors=[
                FieldError(prefix + _path(item["loc"]), _said(item))
                for item in error.errors(include_input=False, include_url=False)[:MAX_ERRORS]
            ],
        ) from None


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return printable(path) or "body"


def _said(item: Any) -> str:
    """Pydantic's words, where they are those of JSON and not of Python."""
    if item["type"] in _PLAINLY:
        return _PLAINLY[item["type"]]
    message = str(item["msg"]).removeprefix("Value error, ").replace(" after validation", "")
    return message[:1].lower() + message[1:]
