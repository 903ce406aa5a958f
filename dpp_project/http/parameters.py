"""The query string of an address, described in OpenAPI as it is validated."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from pydantic import BaseModel


def query_parameters(model: type[BaseModel]) -> list[OpenApiParameter]:
    """Each field of the query's model; one whose default is None may simply be left out."""
    found = []
    described = model.model_json_schema(ref_template="#/components/schemas/{model}")["properties"]
    for name, field in described.items():
        alternatives = [one for one in field.pop("anyOf", [field]) if one != {"type": "null"}]
        schema = {key: value for key, value in (field | alternatives[0]).items() if key not in {"title", "description"}}
        if schema.get("default", ...) is None:
            del schema["default"]
        # An object's members are parameters of their own: name[member]=value.
        form: Any = {"style": "deepObject", "explode": True} if schema.get("type") == "object" else {}
        said = field.get("description", "")
        found.append(OpenApiParameter(name, schema, OpenApiParameter.QUERY, description=said, **form))
    return found
