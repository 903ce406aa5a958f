"""GET /v1/usage. What is counted stands in budget.usage."""

from datetime import date
from typing import Annotated, Any, Final, TypeVar

from django.http import HttpResponseBase, StreamingHttpResponse
from django.http.request import MediaType
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from rest_framework.exceptions import NotAcceptable
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from budget.api import examples
from budget.usage import csv_rows, documents, focus_rows, ranges, reading
from budget.usage.documents import Usage
from budget.usage.grouping import key_fits
from budget.usage.ranges import DAYS_MAX, UsagePeriod, UsageRange
from budget.usage.reading import UsageGroup
from dpp_project.http import problems
from dpp_project.http.bodies import read_query
from dpp_project.http.openapi import cost_headers
from dpp_project.http.parameters import query_parameters
from dpp_project.http.streams import Stream
from dpp_project.http.views import ApiView
from dpp_project.refusals import Refusal, invalid
from tenants.permissions import principal_of
from tenants.rate_limits import Bucket
from tenants.scopes import Scope

PLACES: Final = {
    "from": "query.from",
    "to": "query.to",
    "group_by": "query.group_by",
    "metadata_key": "query.metadata_key",
}
"""Where a question's arguments stand in the request."""

Made = TypeVar("Made")

_Date = Annotated[date, BeforeValidator(lambda text: ranges.read_date(text) if isinstance(text, str) else text)]


class UsageQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    from_: Annotated[
        _Date | None,
        Field(alias="from", description=f"The first date; by default that of the month, at most {DAYS_MAX} days back."),
    ] = None
    to: Annotated[
        _Date | None, Field(description="The date behind the last one; by default the end of the running month.")
    ] = None
    by: Annotated[UsagePeriod, Field(description="A row for each day, or for each month.")] = UsagePeriod.DAY
    group_by: Annotated[UsageGroup | None, Field(description="And for each of these.")] = None
    metadata_key: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9_.:-]{1,40}$",
            description="With `group_by=metadata`: for each value that runs have under this key of their metadata. In "
            "FOCUS alone: the value stands in `Tags`.",
        ),
    ] = None


class _Streamed(BaseRenderer):
    """Only named in the negotiation: the view streams."""

    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> Any:
        raise NotImplementedError


class UsageCsvRenderer(_Streamed):
    media_type = "text/csv"
    format = "csv"


class FocusCsvRenderer(_Streamed):
    media_type = "text/csv; profile=focus"
    format = "focus"


class UsageView(ApiView):
    required_scopes: Final = Scope.BUDGET_READ
    rate_bucket: Final = Bucket.POLL
    renderer_classes = [JSONRenderer, FocusCsvRenderer, UsageCsvRenderer]
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="readUsage",
        summary="Usage by day or month",
        tags=["Budget"],
        parameters=[*query_parameters(UsageQuery), *cost_headers()],
        responses={(200, "application/json"): Usage, (200, "text/csv"): OpenApiTypes.STR},
        examples=examples.USAGE,
    )
    def get(self, request: Request) -> HttpResponseBase:
        """What the tenant's runs came to, on the dates they count on, in the tenant's zone.

        The totals are those of the ledger's entries of the same dates, to the micro. With `Accept: text/csv` the rows
        and their total as CSV; with `Accept: text/csv; profile=focus` in the columns of FOCUS 1.2, told apart by pack,
        key, reason and `metadata_key`, to which `group_by` does not apply. A key without `keys:write` sees itself and
        its rotations alone told apart by key; what others spent is with what no key did.
        """
        query = read_query(request, UsageQuery)
        own = reading.alone_seen(principal_of(request))
        asked = _given(ranges.usage_range(principal_of(request).tenant_id, start=query.from_, end=query.to))
        key = query.metadata_key
        match _form(request):
            case FocusCsvRenderer.format:
                if query.group_by is not None:
                    _given(invalid("group_by", "leave it out: FOCUS rows are told apart by pack, key and reason"))
                return _csv(asked, "focus", focus_rows.usage_focus_rows(asked, query.by, own=own, metadata_key=key))
            case UsageCsvRenderer.format:
                _given(key_fits(query.group_by, key))
                return _csv(
                    asked, "usage", csv_rows.usage_csv_rows(asked, query.by, query.group_by, own=own, metadata_key=key)
                )
        _given(key_fits(query.group_by, key))
        found = documents.usage_document(
            asked, query.by, query.group_by, own=own, metadata_key=key, most=documents.ROWS_MAX
        )
        return Response(_given(found).model_dump(mode="json", by_alias=True))


def _given(answer: Made | Refusal) -> Made:
    if isinstance(answer, Refusal):
        raise problems.problem_of_refusal(answer, asked="question", stands_for="question", places=PLACES)
    return answer


def _form(request: Request) -> str:
    """A profile that nobody knows is not answered as if it had not been asked for."""
    renderer: Any = request.accepted_renderer
    profile = MediaType(str(request.accepted_media_type)).params.get("profile")
    if renderer.format == UsageCsvRenderer.format and profile is not None:
        raise NotAcceptable
    return str(renderer.format)


def _csv(asked: UsageRange, name: str, lines: Any) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        Stream(asked.tenant_id, lines),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{asked.tenant_id}-{name}.csv"'},
    )
