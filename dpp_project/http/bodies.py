"""From a request to a pydantic model, and from pydantic's complaints to a Problem that names each field."""

from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeVar

from django.http import QueryDict
from pydantic import BaseModel, ValidationError
from rest_framework.request import Request

from dpp_project.http.problems import FieldError, Problem, printable_field
from dpp_project.reasons import ReasonCode

Model = TypeVar("Model", bound=BaseModel)
MAX_ERRORS = 20
NUL = "\x00"
NAME_LENGTH_MAX = 64
LIKENESS = 0.75
_PLAINLY = {
    "extra_forbidden": "unknown field; remove it",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "input should be an object"),
}


def read_body(request: Request, model: type[Model]) -> Model:
    """The JSON body as `model`."""
    return validated_body(model, read_json_document(request))


def read_json_document(request: Request) -> Any:
    """The JSON body. An absent one counts as an empty object, so that the missing fields are named."""
    data = request.data
    return {} if isinstance(data, QueryDict) else data


def read_query(request: Request, model: type[Model]) -> Model:
    """The query string as `model`; a name given twice is refused, not guessed at, and so is what no column holds."""
    twice = [name for name, values in request.query_params.lists() if len(values) > 1]
    if twice:
        raise Problem(
            ReasonCode.VALIDATION_FAILED,
            "A query parameter is given more than once.",
            errors=[FieldError(f"query.{printable_field(name)}", "give it once") for name in twice[:MAX_ERRORS]],
        )
    with_nul = [name for name, value in request.query_params.items() if NUL in value]
    if with_nul:
        raise Problem(
            ReasonCode.VALIDATION_FAILED,
            "A query parameter holds a character that cannot be looked for.",
            errors=[
                FieldError(f"query.{printable_field(name)}", "leave out the NUL") for name in with_nul[:MAX_ERRORS]
            ],
        )
    return validated_body(model, request.query_params.dict(), prefix="query.")


def validated_body(model: type[Model], data: Any, *, prefix: str = "") -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise Problem(
            ReasonCode.VALIDATION_FAILED,
            "The request has wrong fields; see errors.",
            errors=[
                FieldError(prefix + _path(item["loc"]), _body_field_complaint(item, model))
                for item in error.errors(include_input=False, include_url=False)[:MAX_ERRORS]
            ],
        ) from None


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return printable_field(path) or "body"


def _body_field_complaint(item: Any, model: type[BaseModel]) -> str:
    """Pydantic's words, where they are those of JSON and not of Python."""
    place = item["loc"]
    if item["type"] == "extra_forbidden" and (near := _near(model, place)):
        return f"unknown field; did you mean `{near}`?"
    if item["type"] == "string_type" and str(place[-1]).endswith("_usd"):
        return 'send it as a string: "0.2500"'
    if item["type"] in _PLAINLY:
        return _PLAINLY[item["type"]]
    message = str(item["msg"]).removeprefix("Value error, ").replace(" after validation", "")
    return message[:1].lower() + message[1:]


def _near(model: type[BaseModel], place: tuple[int | str, ...]) -> str | None:
    """The known field beside it that a caller may have meant."""
    known = sorted(_body_field_names_at(_schema(model), place[:-1]))
    found = get_close_matches(str(place[-1])[:NAME_LENGTH_MAX], known, n=1, cutoff=LIKENESS)
    return found[0] if found else None


@lru_cache(maxsize=64)
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _body_field_names_at(schema: dict[str, Any], path: tuple[int | str, ...]) -> set[str]:
    """Names of the fields at a path, of every alternative there."""
    definitions = schema.get("$defs", {})

    def parts(node: dict[str, Any]) -> list[dict[str, Any]]:
        if "$ref" in node:
            return parts(definitions.get(node["$ref"].rpartition("/")[2], {}))
        inside = [part for kind in ("anyOf", "oneOf", "allOf") for part in node.get(kind, ())]
        return [node, *(found for part in inside for found in parts(part))]

    here = parts(schema)
    for step in path:
        wanted = [node["items"] for node in here if isinstance(step, int) and isinstance(node.get("items"), dict)]
        wanted += [node["properties"][step] for node in here if step in node.get("properties", ())]
        # What is neither is the name of an alternative, which pydantic puts into the path.
        here = [found for node in wanted for found in parts(node)] if wanted else here
    return {name for node in here for name in node.get("properties", ())}
