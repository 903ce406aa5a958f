"""`GET /v1/audit`: what the platform's people, and the tenant's own, did that concerns the tenant.

A tenant learns what was done, when, on what and why. Of the platform's people it learns that it was an operator, not
which one nor from where; that the console shows to operators.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Self

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict, Field
from rest_framework.request import Request
from rest_framework.response import Response

from dpp_project.audit import reads
from dpp_project.audit.models import AuditEntry
from dpp_project.http.bodies import read_query
from dpp_project.http.openapi import answer_example, cost_headers
from dpp_project.http.parameters import query_parameters
from dpp_project.http.views import ApiView
from tenants.permissions import ANY_KEY, principal_of
from tenants.rate_limits import Bucket

OPERATOR: Final = "operator"
OWNER: Final = "owner:"
NUMBER_MAX: Final = 2**63 - 1


class AuditQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=200, description="Entries on a page.")] = 50
    cursor: Annotated[int | None, Field(ge=1, le=NUMBER_MAX, description="The `next_cursor` of the page before.")] = (
        None
    )


class AuditLine(BaseModel):
    model_config = ConfigDict(frozen=True)

    entry: int = Field(description="Its number; later entries have higher ones.", examples=[42])
    at: datetime
    actor: str = Field(
        description="`operator` for the platform's people, or the tenant's own key.", examples=["operator"]
    )
    act: str = Field(examples=["submits disabled"])
    subject: str = Field(examples=["tenant t_demo"])
    before: dict[str, Any] | None = Field(description="What differs, as it was.")
    after: dict[str, Any] | None = Field(description="What differs, as it became.")
    reason: str

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        return cls(
            entry=entry.pk,
            at=entry.at,
            actor=entry.actor if entry.actor.startswith(OWNER) else OPERATOR,
            act=entry.act,
            subject=entry.subject,
            before=entry.before,
            after=entry.after,
            reason=entry.reason,
        )


class AuditTrail(BaseModel):
    model_config = ConfigDict(frozen=True)

    entries: list[AuditLine]
    next_cursor: int | None = Field(description="Hand it back as `cursor` for older entries; null at the end.")


EXAMPLE: Final = answer_example(
    "Submits turned off",
    {
        "entries": [
            {
                "entry": 42,
                "at": "2026-03-01T12:00:00Z",
                "actor": "operator",
                "act": "submits disabled",
                "subject": "tenant t_demo",
                "before": {"submits_enabled": True},
                "after": {"submits_enabled": False},
                "reason": "",
            }
        ],
        "next_cursor": None,
    },
)


class AuditView(ApiView):
    required_scopes: Final = ANY_KEY
    rate_bucket: Final = Bucket.POLL
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="readAudit",
        summary="What was done to this tenant",
        tags=["Keys"],
        parameters=[*query_parameters(AuditQuery), *cost_headers()],
        responses={200: AuditTrail},
        examples=[EXAMPLE],
    )
    def get(self, request: Request) -> Response:
        """Acts of people that concern the tenant, newest first: its keys, money, limits, disputes."""
        query = read_query(request, AuditQuery)
        page = reads.read_trail_of(principal_of(request).tenant_id, below=query.cursor, limit=query.limit)
        answer = AuditTrail(entries=[AuditLine.of(one) for one in page.entries], next_cursor=page.next)
        return Response(answer.model_dump(mode="json"))
