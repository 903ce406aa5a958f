"""/api/tickets, for operators alone. Views validate and translate; what happens stands in services and reaper."""

import json
from typing import Final

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from dpp_project import actors
from dpp_project.http import idempotency_keys, problems
from dpp_project.http.bodies import read_body, read_query
from dpp_project.http.cursors import Cursor
from dpp_project.http.handlers import NOT_FOUND_DETAIL
from dpp_project.http.openapi import openapi_refusals
from dpp_project.http.parameters import query_parameters
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import Problem
from dpp_project.http.views import ApiView
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.tickets import reaper, selectors, services
from ops.tickets.api.documents import (
    ENDED_EXAMPLES,
    EXAMPLES,
    OPENED_EXAMPLES,
    PAGE_EXAMPLES,
    REAPER_EXAMPLES,
    REPORT_EXAMPLES,
    ReaperRequest,
    TicketAnswer,
    TicketRequest,
    Tickets,
    TicketsQuery,
    open_ticket_request,
)
from ops.tickets.models import Ticket
from ops.tickets.reports import Report
from tenants.permissions import principal_of
from tenants.rate_limits import Bucket
from tenants.scopes import Scope

RETRY_AFTER_SECONDS: Final = 2


class TicketsView(ApiView):
    required_scopes: Final = {"GET": Scope.OPERATOR_READ, "POST": Scope.OPERATOR_WRITE}
    rate_bucket: Final = {"GET": Bucket.POLL, "POST": Bucket.SUBMIT}
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="listTickets",
        summary="Tickets, newest first",
        tags=["Tickets"],
        parameters=query_parameters(TicketsQuery),
        responses={200: Tickets},
        examples=PAGE_EXAMPLES,
    )
    def get(self, request: Request) -> Response:
        """A page of tickets with their results."""
        query = read_query(request, TicketsQuery)
        page = selectors.page_of_tickets(
            status=query.status, request_type=query.request_type, after=query.cursor, limit=query.limit
        )
        answer = Tickets(
            tickets=[TicketAnswer.of(ticket) for ticket in page.tickets],
            next_cursor=None if page.next is None else str(Cursor(*page.next)),
        )
        return Response(answer.model_dump(mode="json"))

    @extend_schema(
        operation_id="openTicket",
        summary="Open a ticket",
        tags=["Tickets"],
        request=open_ticket_request(),
        examples=[*EXAMPLES, *OPENED_EXAMPLES],
        parameters=[
            idempotency_keys.idempotency_key_parameter("With it, asking again opens no second ticket.", required=False),
        ],
        responses={200: TicketAnswer, 201: TicketAnswer, **openapi_refusals(ReasonCode.IDEMPOTENCY_CONFLICT)},
    )
    def post(self, request: Request) -> Response:
        """Ask for something to be done by the ops cycle, which comes every minute.

        A ticket that moves money without a limit, or closes it, waits for another operator's approval in the console.
        """
        key = _ticket_idempotency_key(request)
        body = read_body(request, TicketRequest)
        answer = services.open_ticket(
            request_type=body.request_type,
            payload=body.payload,
            reason=body.reason,
            requested_by=actors.key_actor(principal_of(request).prefix),
            idempotency_key=key,
        )
        if isinstance(answer, Refusal):
            raise problems.problem_of_refusal(answer, asked="ticket", stands_for="ticket")
        document = TicketAnswer.of(answer.ticket).model_dump(mode="json")
        headers = {} if answer.is_new else {"Idempotent-Replayed": "true"}
        return Response(document, status=201 if answer.is_new else 200, headers=headers)


class TicketView(ApiView):
    required_scopes: Final = Scope.OPERATOR_READ
    rate_bucket: Final = Bucket.POLL

    @extend_schema(
        operation_id="readTicket",
        summary="One ticket",
        tags=["Tickets"],
        responses={200: TicketAnswer},
        examples=ENDED_EXAMPLES,
    )
    def get(self, request: Request, request_id: str) -> Response:
        """The ticket, where it stands, and what became of it."""
        del request
        found = Ticket.objects.select_related("result").filter(pk=id_in_path(request_id)).first()
        if found is None:
            raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
        return Response(TicketAnswer.of(found).model_dump(mode="json"))


class LatestReportView(ApiView):
    required_scopes: Final = Scope.OPERATOR_READ
    rate_bucket: Final = Bucket.POLL

    @extend_schema(
        operation_id="readLatestReaperReport",
        summary="The ticket reaper's latest report",
        tags=["Tickets"],
        responses={200: Report, **openapi_refusals(ReasonCode.NOT_FOUND)},
        examples=REPORT_EXAMPLES,
    )
    def get(self, request: Request) -> Response:
        """The report as it stands in the storage; 404 before the first run."""
        del request
        try:
            content = reaper.latest_reaper_report()
        except reaper.STORAGE_AWAY as error:
            raise _ask_again("The storage does not answer.") from error
        if content is None:
            raise Problem(ReasonCode.NOT_FOUND, "The ticket reaper has not run yet.")
        return Response(json.loads(content))


class RunReaperView(ApiView):
    required_scopes: Final = {"POST": Scope.OPERATOR_WRITE}
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="runTicketReaper",
        summary="Run the ticket reaper",
        tags=["Tickets"],
        request=ReaperRequest,
        responses={200: Report},
        examples=REAPER_EXAMPLES,
    )
    def post(self, request: Request) -> Response:
        """End stale tickets now, and answer the report. Runs within one second of each other wait for their turn."""
        body = read_body(request, ReaperRequest)
        try:
            ran = reaper.reap_tickets(
                threshold_seconds=body.threshold_seconds,
                max_clean=body.max_clean,
                asked_by=actors.key_actor(principal_of(request).prefix),
            )
        except reaper.Crowded as error:
            raise _ask_again("Others run it every second at the moment. Nothing was cleaned.") from error
        if not ran.published:
            raise _ask_again("The tickets are ended; the report follows when the storage answers again.")
        return Response(ran.report.document())


def _ask_again(detail: str) -> Problem:
    return Problem(ReasonCode.SERVICE_UNAVAILABLE, detail, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})


def _ticket_idempotency_key(request: Request) -> str | None:
    key = request.headers.get(idempotency_keys.HEADER)
    return None if key is None else idempotency_keys.read_idempotency_key(key)
