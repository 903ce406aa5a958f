"""/v1/budget for tenants, /v1/tenants/{id}/topups for operators. What happens stands in services and statements."""

from typing import Any, Final

from django.http import HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from budget import entries, statements
from budget.api import caps_examples, csv_answer, examples
from budget.api.caps_documents import BudgetSettings
from budget.api.documents import Budget, Entries, TopUp
from budget.api.queries import BudgetChange, EntriesQuery, TopUpRequest
from budget.api.unavailable import budget_unavailable
from budget.caps import reading, setting
from budget.caps.who import AskingKey
from budget.money import format_usd
from budget.outcomes import Unavailable
from dpp_project import actors
from dpp_project.http import answers, idempotency_keys, problems
from dpp_project.http.bodies import read_body, read_query
from dpp_project.http.cursors import Cursor
from dpp_project.http.handlers import NOT_FOUND_DETAIL
from dpp_project.http.openapi import cost_headers, openapi_refusals
from dpp_project.http.parameters import query_parameters
from dpp_project.http.problems import Problem
from dpp_project.http.streams import Stream
from dpp_project.http.views import ApiView
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants import authentication
from tenants.models import Tenant
from tenants.permissions import owner_of, principal_of
from tenants.principals import RefusedKey
from tenants.rate_limits import Bucket
from tenants.scopes import Scope


class BudgetView(ApiView):
    required_scopes: Final = {"GET": Scope.BUDGET_READ, "PATCH": Scope.KEYS_WRITE}
    rate_bucket: Final = {"GET": Bucket.POLL, "PATCH": Bucket.SUBMIT}

    @extend_schema(
        operation_id="readBudget",
        summary="Balance, held and charged",
        tags=["Budget"],
        parameters=cost_headers(),
        responses={200: Budget},
        examples=examples.BUDGET,
    )
    def get(self, request: Request) -> Response:
        """The tenant's money as of one moment; it adds up to the micro. With it the caps that a run would meet."""
        principal = principal_of(request)
        stand = reading.caps_standing(principal.tenant_id, [principal.lineage_id])
        seen = statements.money_overview(principal.tenant_id, capped=stand)
        if isinstance(seen, Unavailable):
            raise budget_unavailable()
        answers.promise_headers(
            _budget_django_request(request),
            answers.balance_headers(format_usd(seen.balance_micros), seen.balance_micros),
        )
        return Response(Budget.of(stand, seen).model_dump(mode="json"))

    @extend_schema(
        operation_id="changeBudgetSettings",
        summary="Change the time zone, or the line of a low balance",
        tags=["Budget"],
        request=BudgetChange,
        parameters=cost_headers(),
        responses={200: BudgetSettings, **openapi_refusals(ReasonCode.CAPS_PROTECTED)},
        examples=caps_examples.SETTINGS,
    )
    def patch(self, request: Request) -> Response:
        """Runs that were accepted keep their date, and no window opens twice. A key with a cap may not."""
        principal = principal_of(request)
        body = read_body(request, BudgetChange)
        answer = setting.change_settings(
            asking=AskingKey.of(principal), changes=body.changes(), actor=owner_of(request)
        )
        if isinstance(answer, Refusal):
            if answer.reason is ReasonCode.AUTH_INVALID:  # it ended since it was looked up
                authentication.refuse_key(RefusedKey.REVOKED)
            raise problems.problem_of_refusal(answer, asked="change", stands_for="change")
        return Response(BudgetSettings.of(answer).model_dump(mode="json"))


class CsvRenderer(BaseRenderer):
    """Only named in the negotiation: the view streams."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> Any:
        raise NotImplementedError


class EntriesView(ApiView):
    required_scopes: Final = Scope.BUDGET_READ
    rate_bucket: Final = Bucket.POLL
    renderer_classes = [JSONRenderer, CsvRenderer]
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="listBudgetEntries",
        summary="The statement",
        tags=["Budget"],
        parameters=[*query_parameters(EntriesQuery), *cost_headers()],
        responses={(200, "application/json"): Entries, (200, "text/csv"): OpenApiTypes.STR},
        examples=examples.ENTRIES,
    )
    def get(self, request: Request) -> HttpResponseBase:
        """The ledger's entries, newest first, a page at a time.

        With `Accept: text/csv` the whole period, oldest first, between an opening and a closing line; `cursor`, `limit`
        and `kind` do not apply to it.
        """
        tenant_id = principal_of(request).tenant_id
        query = read_query(request, EntriesQuery)
        renderer: Any = request.accepted_renderer
        if renderer.format == CsvRenderer.format:
            return _csv(tenant_id, query)
        page = statements.statement_page(
            tenant_id, query.period(), kind=query.kind, after=query.cursor, limit=query.limit
        )
        next_cursor = None if page.next is None else str(Cursor(*page.next))
        return Response(Entries.of(page, next_cursor=next_cursor).model_dump(mode="json"))


PLACES: Final = {
    "reference": f"header.{idempotency_keys.HEADER}",
    "amount": "amount_usd",
    "tenant_id": "path.tenant_id",
}
"""Where a top-up's arguments stand in the request."""


class TopUpsView(ApiView):
    required_scopes: Final = {"POST": Scope.OPERATOR_WRITE}
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="topUpTenant",
        summary="Top up a tenant",
        tags=["Operators"],
        request=TopUpRequest,
        parameters=[
            idempotency_keys.idempotency_key_parameter("Your own name for this entry; it is entered once."),
            *cost_headers(),
        ],
        responses={200: TopUp, 201: TopUp, **openapi_refusals(ReasonCode.IDEMPOTENCY_CONFLICT)},
        examples=examples.TOP_UP,
    )
    def post(self, request: Request, tenant_id: str) -> Response:
        """Enter money for a tenant; it is spendable at once.

        Safe to repeat with the same Idempotency-Key: it is entered once, and answered 200 from then on.
        """
        key = idempotency_keys.read_idempotency_key(request.headers.get(idempotency_keys.HEADER))
        body = read_body(request, TopUpRequest)
        if not Tenant.objects.filter(tenant_id=tenant_id).exists():
            raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
        entered = entries.top_up(
            tenant_id=tenant_id,
            amount_micros=body.amount_micros(),
            reference=key,
            reason=body.reason,
            actor=actors.key_actor(principal_of(request).prefix),
        )
        if isinstance(entered, Refusal):
            raise problems.problem_of_refusal(entered, asked="top-up", stands_for="entry", places=PLACES)
        headers = {} if entered.is_new else {"Idempotent-Replayed": "true"}
        document = TopUp.of(entered).model_dump(mode="json")
        return Response(document, status=201 if entered.is_new else 200, headers=headers)


def _csv(tenant_id: str, query: EntriesQuery) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        Stream(tenant_id, csv_answer.statement_csv_rows(tenant_id, query.period())),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{tenant_id}-entries.csv"'},
    )


def _budget_django_request(request: Request) -> Any:
    return request._request  # noqa: SLF001  DRF offers no public way to it
