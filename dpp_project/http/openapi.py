"""The OpenAPI document: pydantic models by direction, and the refusals that every operation may answer."""

from typing import Any

from drf_spectacular.contrib.pydantic import PydanticExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from pydantic.json_schema import model_json_schema

from dpp_project.http import answers, problems
from dpp_project.reasons import REASONS, ReasonCode, type_uri

COMMON = (
    ReasonCode.MALFORMED_REQUEST,
    ReasonCode.AUTH_INVALID,
    ReasonCode.SCOPE_MISSING,
    ReasonCode.NOT_ACCEPTABLE,
    ReasonCode.VALIDATION_FAILED,
    ReasonCode.RATE_LIMITED,
    ReasonCode.INTERNAL_ERROR,
    ReasonCode.SERVICE_UNAVAILABLE,
)
WITH_BODY = (ReasonCode.PAYLOAD_TOO_LARGE, ReasonCode.UNSUPPORTED_MEDIA_TYPE)
WITH_PATH_PARAMETER = (ReasonCode.NOT_FOUND,)


class DirectedPydanticExtension(PydanticExtension):  # type: ignore[no-untyped-call]
    """A request is described by what is read, an answer by what is written; the stock extension writes both alike."""

    priority = 1

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> Any:
        model = self.target
        schema = model_json_schema(
            model,
            ref_template="#/components/schemas/{model}",
            mode="validation" if direction == "request" else "serialization",
        )
        for name, definition in schema.pop("$defs", {}).items():
            component = ResolvedComponent(  # type: ignore[no-untyped-call]
                name=name, type=ResolvedComponent.SCHEMA, object=name, schema=definition
            )
            if component in auto_schema.registry:
                known = auto_schema.registry[component].schema
                if known.get("enum") != definition.get("enum"):
                    raise ValueError(f"two enumerations are called {name}; the document can hold one of them")
            auto_schema.registry.register_on_missing(component)
        return schema


def problem_schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "description": "An RFC 9457 problem document.",
        "required": ["type", "title", "status", "detail", "instance", "reason_code", "trace_id"],
        "properties": {
            "type": {"type": "string", "format": "uri", "examples": [type_uri(ReasonCode.VALIDATION_FAILED)]},
            "title": text,
            "status": {"type": "integer"},
            "detail": text,
            "instance": {"type": "string", "description": "The path asked for."},
            "reason_code": {"$ref": "#/components/schemas/ReasonCode"},
            "trace_id": text,
            "run_id": {"type": "string", "format": "uuid"},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["field", "detail"],
                    "properties": {"field": text, "detail": text},
                },
            },
        },
    }


def reason_schema() -> dict[str, Any]:
    lines = [f"* `{code}`: {reason.cause} Cure: {reason.cure}" for code, reason in REASONS.items()]
    return {"type": "string", "enum": [code.value for code in REASONS], "description": "\n".join(lines)}


def add_problems(result: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
    """Postprocessing hook: one Problem component, referred to by each operation's refusals."""
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = problem_schema()
    schemas["ReasonCode"] = reason_schema()
    for operations in result.get("paths", {}).values():
        for operation in operations.values():
            if isinstance(operation, dict):
                _add_refusals(operation)
    return result


def title_schemas(result: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
    """Postprocessing hook: a schema's title is the name it is found by.

    Client generators name their types by the title. A model that is read and written stands twice, under one title:
    then a generator leaves out one of the two, and with it the operations that take it.
    """
    for name, schema in result.get("components", {}).get("schemas", {}).items():
        if "title" in schema:
            schema["title"] = name
    return result


def require_bodies(result: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
    """Postprocessing hook: a body that is one of several models is never left out; its schema names no member itself,
    and so the generator takes it for optional.
    """
    schemas = result.get("components", {}).get("schemas", {})
    for operations in result.get("paths", {}).values():
        for operation in operations.values():
            body = operation.get("requestBody", {}) if isinstance(operation, dict) else {}
            for content in body.get("content", {}).values():
                if "oneOf" in schemas.get(content["schema"].get("$ref", "").rpartition("/")[2], {}):
                    body["required"] = True
    return result


def _add_refusals(operation: dict[str, Any]) -> None:
    reasons = list(COMMON)
    if "requestBody" in operation:
        reasons += WITH_BODY
    if any(parameter.get("in") == "path" for parameter in operation.get("parameters", [])):
        reasons += WITH_PATH_PARAMETER
    responses = operation.setdefault("responses", {})
    for reason in reasons:
        status = str(REASONS[reason].status)
        responses.setdefault(status, _refusal(REASONS[reason].title))
    responses.update(dict(sorted(responses.items())))


def openapi_refusals(*reasons: ReasonCode) -> dict[tuple[int, str], OpenApiResponse]:
    """What one operation refuses beyond the common, for its `responses`; two reasons may share a status."""
    by_status: dict[int, list[ReasonCode]] = {}
    for reason in reasons:
        by_status.setdefault(REASONS[reason].status or 500, []).append(reason)
    return {
        (status, problems.CONTENT_TYPE): OpenApiResponse(
            response={"$ref": "#/components/schemas/Problem"},
            description=", ".join(f"{REASONS[reason].title} (`{reason.value}`)" for reason in some),
        )
        for status, some in by_status.items()
    }


def _refusal(title: str) -> dict[str, Any]:
    return {
        "description": title,
        "content": {problems.CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def cost_headers() -> list[OpenApiParameter]:
    texts = {
        answers.COST_RESERVED: "What the run may cost at most, in USD; 0.0000 where unknown.",
        answers.COST_USED: "What was charged, in USD.",
        answers.BUDGET_REMAINING: "The tenant's balance, in USD; 0.0000 where unknown.",
        answers.BUDGET_KNOWN: "0 where the balance is unknown and stands as zero, else 1.",
        answers.COST_RESERVED_MICROS: "What the run may cost at most, in micros of a dollar, exact.",
        answers.COST_USED_MICROS: "What was charged, in micros, exact.",
        answers.BUDGET_REMAINING_MICROS: "The tenant's balance, in micros, exact.",
        answers.TOKENS_CONSUMED: "Tokens the pack consumed.",
    }
    return [
        OpenApiParameter(name, OpenApiTypes.STR, OpenApiParameter.HEADER, description=text, response=True)
        for name, text in texts.items()
    ]


def answer_example(name: str, value: object, status: int = 200) -> OpenApiExample:
    return OpenApiExample(name, value=value, response_only=True, status_codes=[str(status)])
