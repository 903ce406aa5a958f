"""How the runs' addresses stand in the OpenAPI document: models, examples, headers, and the refusals of each."""

from functools import reduce
from operator import or_
from typing import Annotated, Any, Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from pydantic import BaseModel, Field, RootModel

from dpp_project.http import idempotency_keys
from dpp_project.http.asked_to_wait import WaitQuery, headers_of_waiting
from dpp_project.http.openapi import answer_example, cost_headers, openapi_refusals
from dpp_project.http.parameters import query_parameters
from dpp_project.reasons import ReasonCode
from runs.api.documents import ArtifactDocument, RunDocument, RunPage, RunWithReceipt
from runs.api.queries import RunsQuery
from runs.packs import registry
from runs.states import Status
from runs.submit import request_body
from runs.submit.run_receipt import RunReceipt

RUN_ID: Final = "01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e"
_TAGS: Final = ["Runs"]


def submit_request() -> type[BaseModel]:
    """One of the packs' requests, told apart by `pack_type`."""
    models: list[Any] = [request_body.model_for(name) for name in registry.packs_for_sale()]
    if len(models) < 2:
        return models[0] if models else request_body.RunCreateRequest
    union: Any = Annotated[reduce(or_, models), Field(discriminator="pack_type")]
    root: Any = RootModel
    return type("RunSubmission", (root[union],), {"__doc__": request_body.RunCreateRequest.__doc__})


def _example_request() -> list[OpenApiExample]:
    return [
        OpenApiExample(
            name,
            value={
                "pack_type": name,
                "inputs": dict(pack.example),
                "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 90, "min_reliability_score": 0.8},
                "options": {"inline": 1},
            },
            request_only=True,
        )
        for name, pack in registry.packs_for_sale().items()
    ]


_COST: Final = {
    "reserved": "0.2500",
    "used": "0.0500",
    "minimum_fee": "0.0050",
    "budget_remaining": "99.9500",
    "reserved_usd_micros": 250_000,
    "used_usd_micros": 50_000,
    "minimum_fee_usd_micros": 5_000,
    "budget_remaining_usd_micros": 99_950_000,
}
_UNCHARGED: Final = {"used": "0.0000", "used_usd_micros": 0}
_META: Final = {
    "created_at": "2026-03-01T12:00:00.000000Z",
    "updated_at": "2026-03-01T12:00:02.418000Z",
    "retention_until": "2026-03-31T12:00:00.000000Z",
    "trace_id": "t_4bf92f3577b34da6a3ce929d0e0e4736",
    "profile_version": "PROFILE_DPP_0_4_2_2",
}
_RECEIPT: Final = {
    "run_id": RUN_ID,
    "status": "QUEUED",
    "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 90, "min_reliability_score": 0.8},
    "poll": {
        "href": f"/v1/runs/{RUN_ID}",
        "wait_href": f"/v1/runs/{RUN_ID}?wait=55",
        "recommended_interval_ms": 1500,
    },
    "meta": {"trace_id": _META["trace_id"], "profile_version": _META["profile_version"]},
}
_SUMMARY: Final = {
    "run_id": RUN_ID,
    "pack_type": "decision",
    "status": "COMPLETED",
    "money_state": "SETTLED",
    "cost": _COST,
    "metadata": {"project": "apollo"},
    "meta": _META,
}
_COMPLETED: Final = _SUMMARY | {
    "result": {
        "presigned_url": "https://dpp-results.s3.amazonaws.com/dpp/t_demo/2026/03/01/...?X-Amz-Expires=600&...",
        "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "expires_at": "2026-03-01T12:10:03Z",
        "data": None,
        "data_omitted": None,
    },
    "artifacts": [
        {
            "name": "text.md",
            "href": f"/v1/runs/{RUN_ID}/artifacts/text.md",
            "content_type": "text/markdown; charset=utf-8",
            "size": 4452,
            "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        }
    ],
}
_FAILED: Final = _SUMMARY | {
    "artifacts": [],
    "status": "FAILED",
    "cost": _COST | {"used": "0.0050"},
    "result": {
        "reason_code": "TIMEBOX_EXCEEDED",
        "problem": {
            "type": "urn:dpp:problem:timebox-exceeded",
            "title": "Timebox exceeded",
            "detail": "The pack was still working when `timebox_sec` ran out.",
            "instance": f"/v1/runs/{RUN_ID}",
            "reason_code": "TIMEBOX_EXCEEDED",
            "trace_id": _META["trace_id"],
            "run_id": RUN_ID,
        },
    },
}
_CANCELED: Final = _SUMMARY | {
    "artifacts": [],
    "status": "FAILED",
    "money_state": "REFUNDED",
    "cost": _COST | _UNCHARGED | {"budget_remaining": "100.0000", "budget_remaining_usd_micros": 100_000_000},
    "result": {
        "reason_code": "CANCELED_BY_OWNER",
        "problem": {
            "type": "urn:dpp:problem:canceled-by-owner",
            "title": "Canceled",
            "detail": "The owner canceled the run.",
            "instance": f"/v1/runs/{RUN_ID}",
            "reason_code": "CANCELED_BY_OWNER",
            "trace_id": _META["trace_id"],
            "run_id": RUN_ID,
        },
    },
}

_CLAIMED: Final[dict[str, Any]] = _SUMMARY | {
    "artifacts": [],
    "status": "QUEUED",
    "money_state": "RESERVED",
    "cost": _COST | _UNCHARGED | {"budget_remaining": "99.7500", "budget_remaining_usd_micros": 99_750_000},
    "result": None,
}

RUN_ID_PARAMETER: Final = OpenApiParameter(
    "run_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description="As the receipt gave it.",
    examples=[OpenApiExample("A run", value=RUN_ID)],
)  # fmt: skip

SUBMIT: Final[dict[str, Any]] = {
    "operation_id": "submitRun",
    "summary": "Submit a run",
    "tags": _TAGS,
    "request": {"application/json": submit_request()},
    "parameters": [
        idempotency_keys.idempotency_key_parameter(
            "Your own name for this request; it makes a retry safe. Free again after 30 days. "
            f"Send it, or `{idempotency_keys.DERIVE}: 1`.",
            required=False,
        ),
        idempotency_keys.derive_parameter(),
        OpenApiParameter(
            idempotency_keys.DERIVED,
            OpenApiTypes.STR,
            OpenApiParameter.HEADER,
            description="The key that was derived, where one was asked for.",
            response=[202],
        ),
        OpenApiParameter(
            idempotency_keys.DERIVED_HINT,
            OpenApiTypes.STR,
            OpenApiParameter.HEADER,
            description="Present when a derived key was replayed: how to buy the same once more.",
            response=[202],
        ),
        OpenApiParameter(
            "Location", OpenApiTypes.STR, OpenApiParameter.HEADER, description="Where the run is.", response=[200, 202]
        ),
        OpenApiParameter(
            "Idempotent-Replayed",
            {"type": "string", "enum": ["true"]},
            OpenApiParameter.HEADER,
            description="Present when the run stood before this request.",
            response=[200, 202],
        ),
        *query_parameters(WaitQuery),
        *headers_of_waiting(202),
        *cost_headers(),
    ],
    "responses": {
        200: OpenApiResponse(RunWithReceipt, description="With `wait`: the run has ended in time."),
        202: RunReceipt,
        **openapi_refusals(
            ReasonCode.BUDGET_DRAINED,
            ReasonCode.SPEND_CAP_REACHED,
            ReasonCode.IDEMPOTENCY_CONFLICT,
            ReasonCode.IDEMPOTENCY_IN_PROGRESS,
            ReasonCode.GONE,
            ReasonCode.BUDGET_UNAVAILABLE,
            ReasonCode.QUEUE_ENQUEUE_FAILED,
            ReasonCode.SERVICE_UNAVAILABLE,
        ),
    },
    "examples": [
        *_example_request(),
        answer_example("Ended in time", _RECEIPT | {"run": _COMPLETED}, 200),
        answer_example("Accepted", _RECEIPT, 202),
    ],
}
LIST: Final[dict[str, Any]] = {
    "operation_id": "listRuns",
    "summary": "List runs",
    "tags": _TAGS,
    "parameters": [*query_parameters(RunsQuery), *cost_headers()],
    "responses": {200: RunPage},
    "examples": [answer_example("The last page", {"runs": [_SUMMARY], "next_cursor": None})],
}
READ: Final[dict[str, Any]] = {
    "operation_id": "readRun",
    "summary": "Read a run",
    "tags": _TAGS,
    "parameters": [RUN_ID_PARAMETER, *query_parameters(WaitQuery), *headers_of_waiting(), *cost_headers()],
    "responses": {200: RunDocument, **openapi_refusals(ReasonCode.GONE)},
    "examples": [answer_example("Completed", _COMPLETED), answer_example("Failed", _FAILED)],
}
ARTIFACT: Final[dict[str, Any]] = {
    "operation_id": "readArtifact",
    "summary": "Read where a file of a run lies",
    "tags": _TAGS,
    "parameters": [
        RUN_ID_PARAMETER,
        OpenApiParameter(
            "name",
            OpenApiTypes.STR,
            OpenApiParameter.PATH,
            description="As the envelope's `artifacts` has it.",
            examples=[OpenApiExample("Word", value="text.docx")],
        ),
        *cost_headers(),
    ],
    "responses": {200: ArtifactDocument, **openapi_refusals(ReasonCode.GONE, ReasonCode.SERVICE_UNAVAILABLE)},
    "examples": [
        answer_example(
            "A file",
            {
                "name": "text.md",
                "presigned_url": "https://dpp-results.s3.amazonaws.com/dpp/t_demo/2026/03/01/...?X-Amz-Expires=600&...",
                "content_type": "text/markdown; charset=utf-8",
                "size": 4452,
                "expires_at": "2026-03-01T12:10:03Z",
            },
        )
    ],
}
DELETE_DATA: Final[dict[str, Any]] = {
    "operation_id": "deleteRunData",
    "summary": "Delete a run's data",
    "tags": _TAGS,
    "request": None,
    "parameters": [RUN_ID_PARAMETER, *cost_headers()],
    "responses": {
        204: OpenApiResponse(description="The run answers 410 from now on."),
        **openapi_refusals(ReasonCode.RUN_NOT_ENDED),
    },
}
CANCEL: Final[dict[str, Any]] = {
    "operation_id": "cancelRun",
    "summary": "Cancel a run",
    "tags": _TAGS,
    "request": None,
    "parameters": [RUN_ID_PARAMETER, *cost_headers()],
    "responses": {
        200: RunDocument,
        202: OpenApiResponse(RunDocument, description="Canceled; its money moves as soon as it can."),
        **openapi_refusals(ReasonCode.RUN_NOT_CANCELABLE, ReasonCode.GONE),
    },
    "examples": [
        answer_example("Canceled while queued", _CANCELED),
        answer_example(
            "Canceled, its money on the way",
            _CLAIMED,
            202,
        ),
    ],
}


def event_stream_schema(data: type[BaseModel]) -> dict[str, Any]:
    """OpenAPI 3.1 has no form for a stream of events: the schema is that of each, as tools read it."""
    media_type = "text/event-stream"
    one_event = {
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "id": {"type": "string", "description": "The run's version; `progress` has none."},
            "event": {"type": "string", "enum": [*(status.value for status in Status), "progress"]},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": data.model_json_schema(),
                "description": "Of a step; that of `progress` is as in the run's document.",
            },
        },
    }
    return {
        "operation_id": "followRun",
        "summary": "Follow a run",
        "tags": _TAGS,
        "parameters": [
            RUN_ID_PARAMETER,
            OpenApiParameter(
                "Last-Event-ID",
                {"type": "string", "pattern": "^[0-9]{1,18}$"},
                OpenApiParameter.HEADER,
                description="The id of the last event that came; those after it follow.",
            ),
            OpenApiParameter(
                "Retry-After",
                OpenApiTypes.STR,
                OpenApiParameter.HEADER,
                description="Present where too many wait already: what there is comes, and the connection ends.",
                response=[200],
            ),
            *cost_headers(),
        ],
        "responses": {
            (200, media_type): OpenApiResponse(
                one_event,
                description="Server-sent events, one for each step of the run; and `progress` between them.",
                examples=[OpenApiExample("The end of a run", value=_EVENTS)],
            ),
            204: OpenApiResponse(description="All events of this run came before: do not reconnect."),
            **openapi_refusals(ReasonCode.GONE),
        },
    }


_EVENTS: Final = (
    "retry: 2000\n\n"
    'id: 4\nevent: COMPLETED\ndata: {"status":"COMPLETED","money_state":"SETTLED","at":"2026-03-01T12:00:02.418000Z",'
    '"used":"0.0500","used_usd_micros":50000,"reason_code":null}\n\n'
)
