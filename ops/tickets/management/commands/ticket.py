"""manage.py ticket create KEY_REVOKE --payload '{"key": "dpp_a1b2c3d4"}' --by ada"""

import uuid
from typing import Any

from django.core.management.base import CommandParser

from dpp_project import actors
from dpp_project.http import idempotency_keys
from dpp_project.http.parsers import parse_json
from dpp_project.http.problems import Problem
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand, unless_refused, within_limit
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from dpp_project.signin.proof import prove_operator
from ops.tickets import selectors, services
from ops.tickets.api.documents import TicketAnswer
from ops.tickets.models import Ticket
from ops.tickets.states import RequestType, TicketStatus
from tenants.services import text_fault

LISTED = 50
LISTED_MAX = 1_000


class Command(OpsCommand):
    help = (
        "Tickets: create one, list the newest, show one, approve one as a second operator, decline one that nobody has "
        "begun. The ops cycle does them. docs/tickets.md says what each type takes and does."
    )
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("do", choices=("create", "list", "show", "approve", "decline"))
        parser.add_argument(
            "subject", nargs="?", default="", help=f"create: one of {', '.join(RequestType)}; others: the id"
        )
        parser.add_argument("--payload", default="{}", help="create: what the type asks for, as JSON")
        parser.add_argument("--reason", default="", help="create and decline: why")
        parser.add_argument(
            "--by",
            default="",
            help="your name in the console. Approving, and asking for what two must agree on, takes its password and "
            "code: asked for, or two lines of standard input",
        )
        parser.add_argument("--key", help="create: an idempotency key; asking again opens no second ticket")
        parser.add_argument("--status", choices=[one.value for one in TicketStatus], help="list: only such tickets")
        parser.add_argument("--limit", type=int, default=LISTED, help=f"list: at most so many (default {LISTED})")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        match options["do"]:
            case "create":
                return _create(options, dry_run=dry_run)
            case "list":
                return _ticket_list_answer(options)
            case "approve":
                return _approve(options, dry_run=dry_run)
            case "decline":
                return _decline(options, dry_run=dry_run)
        return _shown_ticket_answer(_ticket_of_subject(options["subject"]))


def _create(options: dict[str, Any], *, dry_run: bool) -> CommandAnswer:
    if options["subject"] not in set(RequestType):
        raise CommandRefused(invalid("subject", f"a type is one of {', '.join(RequestType)}"))
    request_type = RequestType(options["subject"])
    try:
        payload = parse_json(options["payload"].encode())
    except Problem as problem:
        raise CommandRefused(invalid("--payload", problem.detail.removeprefix("The body "))) from None
    fault = services.ticket_fault(request_type=request_type, payload=payload, reason=options["reason"])
    if fault is not None:
        raise CommandRefused(fault)
    waits = services.needs_approval(request_type, services.checked_payload(request_type, payload))
    claimed, key = _actor_claimed_by_option(options), _ticket_key_by_option(options)
    actor = _proven(options, "tickets.add_ticket") if waits and not dry_run else claimed
    if dry_run:
        return CommandAnswer({"request_type": request_type.value}, [f"{request_type} would be opened"])
    answer = services.open_ticket(
        request_type=request_type,
        payload=payload,
        reason=options["reason"],
        requested_by=actor,
        idempotency_key=key,
    )
    return _shown_ticket_answer(unless_refused(answer).ticket)


def _ticket_list_answer(options: dict[str, Any]) -> CommandAnswer:
    status = None if options["status"] is None else TicketStatus(options["status"])
    tickets = selectors.page_of_tickets(status=status, limit=within_limit(options["limit"], LISTED_MAX)).tickets
    lines = [f"{one.pk}  {one.created_at:%Y-%m-%d %H:%M:%S}  {one.status:11}  {one.request_type}" for one in tickets]
    return CommandAnswer({"tickets": [_ticket_document(one) for one in tickets]}, lines or ["There are no tickets."])


def _approve(options: dict[str, Any], *, dry_run: bool) -> CommandAnswer:
    ticket, actor = _ticket_of_subject(options["subject"]), _actor_claimed_by_option(options)
    if dry_run:
        return CommandAnswer(_ticket_document(ticket), [f"{ticket} would be approved by {actor}"])
    approver = _proven(options, "tickets.change_ticket")
    return _shown_ticket_answer(unless_refused(services.approve_ticket(request_id=ticket.pk, by=approver)))


def _decline(options: dict[str, Any], *, dry_run: bool) -> CommandAnswer:
    ticket, actor = _ticket_of_subject(options["subject"]), _actor_claimed_by_option(options)
    if dry_run:
        return CommandAnswer(_ticket_document(ticket), [f"{ticket} would be declined by {actor}"])
    return _shown_ticket_answer(
        unless_refused(services.decline_ticket(request_id=ticket.pk, by=actor, reason=options["reason"]))
    )


def _actor_claimed_by_option(options: dict[str, Any]) -> str:
    """Who she says she is: enough where one person suffices."""
    fault = text_fault("--by", options["by"])
    if fault is not None:
        raise CommandRefused(invalid("--by", f"say who you are: {fault.detail}"))
    return actors.claimed_actor(options["by"])


def _proven(options: dict[str, Any], permission: str) -> str:
    _actor_claimed_by_option(options)
    return unless_refused(prove_operator(options["by"], permission=permission))


def _ticket_key_by_option(options: dict[str, Any]) -> str | None:
    try:
        return None if options["key"] is None else idempotency_keys.read_idempotency_key(options["key"])
    except Problem as problem:
        raise CommandRefused(invalid("--key", problem.errors[0].detail)) from None


def _ticket_of_subject(text: str) -> Ticket:
    try:
        ticket = Ticket.objects.filter(pk=uuid.UUID(text)).first()
    except ValueError:
        ticket = None
    if ticket is None:
        raise CommandRefused(
            Refusal(ReasonCode.NOT_FOUND, "there is no such ticket; `manage.py ticket list`", "subject")
        )
    return ticket


def _shown_ticket_answer(ticket: Ticket) -> CommandAnswer:
    document = _ticket_document(ticket)
    return CommandAnswer(document, [f"{name}: {value}" for name, value in document.items()])


def _ticket_document(ticket: Ticket) -> dict[str, Any]:
    return TicketAnswer.of(ticket).model_dump(mode="json")
