"""`GET /v1/whoami`: the tenant and scopes of the key in the request. The first thing to try with a new key."""

from datetime import datetime
from typing import Final

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict, Field
from rest_framework.request import Request
from rest_framework.response import Response

from dpp_project.http.openapi import answer_example, cost_headers
from dpp_project.http.views import ApiView
from tenants.permissions import ANY_KEY, principal_of
from tenants.rate_limits import Bucket
from tenants.scopes import Scope


class RateLimits(BaseModel):
    model_config = ConfigDict(frozen=True)

    poll_per_minute: int = Field(description="Reads: polling runs, balances, this address.", examples=[60])
    submit_per_minute: int = Field(description="Submissions of runs.", examples=[60])


class WhoAmI(BaseModel):
    """The tenant behind a key, and what the key allows."""

    model_config = ConfigDict(frozen=True)

    tenant_id: str = Field(examples=["t_demo"])
    key_prefix: str = Field(
        description="The key's public half; it names the key in lists and logs.", examples=["dpp_1a2B3c4D"]
    )
    scopes: list[Scope] = Field(description="Sorted by name.", examples=[["runs:read", "runs:write"]])
    expires_at: datetime | None = Field(description="When the key ends by itself; null means never.")
    rate_limits: RateLimits


class WhoAmIView(ApiView):
    required_scopes: Final = ANY_KEY
    rate_bucket: Final = Bucket.POLL

    @extend_schema(
        operation_id="whoami",
        summary="Who am I?",
        tags=["Keys"],
        parameters=cost_headers(),
        responses={200: WhoAmI},
        examples=[
            answer_example(
                "A tenant's key",
                {
                    "tenant_id": "t_demo",
                    "key_prefix": "dpp_1a2B3c4D",
                    "scopes": ["budget:read", "runs:read", "runs:write", "uploads:write"],
                    "expires_at": None,
                    "rate_limits": {"poll_per_minute": 60, "submit_per_minute": 60},
                },
            )
        ],
    )
    def get(self, request: Request) -> Response:
        """The tenant, scopes, expiry and rate limits of the key in the Authorization header."""
        principal = principal_of(request)
        answer = WhoAmI(
            tenant_id=principal.tenant_id,
            key_prefix=f"dpp_{principal.prefix}",
            scopes=sorted(principal.scopes),
            expires_at=principal.expires_at,
            rate_limits=RateLimits(
                poll_per_minute=principal.poll_rate_per_minute, submit_per_minute=principal.submit_rate_per_minute
            ),
        )
        return Response(answer.model_dump(mode="json"))
