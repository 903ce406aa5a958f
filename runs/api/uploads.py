"""`POST /v1/uploads`: room for a file that a pack is to read."""

from datetime import datetime
from typing import Annotated, Final, Literal

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample, extend_schema
from pydantic import BaseModel, ConfigDict, Field
from rest_framework.request import Request

from dpp_project.http.bodies import read_body
from dpp_project.http.openapi import answer_example, cost_headers, openapi_refusals
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode
from runs.api.metering import MeteredView
from runs.bucket import uploads
from tenants.permissions import principal_of
from tenants.rate_limits import Bucket
from tenants.scopes import Scope

_KEY: Final = "uploads/t_demo/2026/03/01/6f1c1a52-6a0e-4f0e-8d0f-5a0e1a3c9b7d/receipt.png"


class UploadRequest(BaseModel):
    """One file, before it is sent."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    filename: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$",
            description="A plain name, 1 to 128 of `A-Za-z0-9._-`.",
            examples=["receipt.png"],
        ),
    ]
    content_type: Literal[uploads.CONTENT_TYPES]  # type: ignore[valid-type]  # the tuple's own values
    size_bytes: Annotated[int, Field(ge=1, le=uploads.MAX_UPLOAD_BYTES, examples=[48_213])]


class UploadReceipt(BaseModel):
    """Where to put the file, and by which key to name it in `inputs`."""

    model_config = ConfigDict(frozen=True)

    bucket: str
    key: str = Field(examples=[_KEY], description="Name the file by it in a run's `inputs`.")
    method: Literal["PUT"] = "PUT"
    url: str = Field(description="Takes one file of exactly this length and type, once, until `expires_at`.")
    headers: dict[str, str] = Field(description="Send these with the file; they are signed.")
    expires_at: datetime


def _upload_space_full_detail(full: uploads.NoRoom, size_bytes: int) -> str:
    held = f"Your {full.files} uploads hold {full.bytes_held} of {uploads.room_bytes()} bytes"
    if full.files >= uploads.FILES_MAX:
        held = f"You have {full.files} uploads, and may have no more"
    until = f" The oldest is deleted at {full.frees_at:%Y-%m-%dT%H:%M:%SZ}." if full.frees_at else ""
    return f"{held}; this file has {size_bytes}.{until}"


class UploadsView(MeteredView):
    required_scopes: Final = Scope.UPLOADS_WRITE
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="prepareUpload",
        summary="Prepare an upload",
        tags=["Uploads"],
        request={"application/json": UploadRequest},
        parameters=cost_headers(),
        responses={201: UploadReceipt, **openapi_refusals(ReasonCode.UPLOAD_SPACE_FULL)},
        examples=[
            OpenApiExample(
                "An image",
                value={"filename": "receipt.png", "content_type": "image/png", "size_bytes": 48_213},
                request_only=True,
            ),
            answer_example(
                "Room for it",
                {
                    "bucket": "dpp-results",
                    "key": _KEY,
                    "method": "PUT",
                    "url": f"https://dpp-results.s3.amazonaws.com/{_KEY}?X-Amz-Expires=600&...",
                    "headers": {"Content-Type": "image/png", "Content-Length": "48213", "If-None-Match": "*"},
                    "expires_at": "2026-03-01T12:10:00Z",
                },
                201,
            ),
        ],
    )
    def post(self, request: Request) -> HttpResponse:
        """An address to PUT one file to, in the tenant's own part of the bucket. Files are deleted after 30 days."""
        asked = read_body(request, UploadRequest)
        try:
            room = uploads.prepare_upload(
                tenant_id=principal_of(request).tenant_id,
                filename=asked.filename,
                content_type=asked.content_type,
                size_bytes=asked.size_bytes,
            )
        except uploads.NoRoom as full:
            raise Problem(ReasonCode.UPLOAD_SPACE_FULL, _upload_space_full_detail(full, asked.size_bytes)) from None
        receipt = UploadReceipt(
            bucket=room.bucket, key=room.key, url=room.url, headers=room.headers, expires_at=room.expires_at
        )
        return HttpResponse(receipt.model_dump_json(), status=201, content_type="application/json")
