"""`POST /mcp`: stateless, one JSON answer for each message (DPP-70, DPP-82); keys, rates and sizes are REST's own.

A tool's call costs what its request to the REST API costs; everything else costs a poll. A wrong key is a 401 of HTTP,
and a rate that is used up, outside of a tool's call, a 429; what the protocol refuses is answered in its own form.
"""

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpResponse
from django.http.request import validate_host
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from dpp_project.http import answers, handlers, problems
from dpp_project.http.bodies import validated_body
from dpp_project.http.later import AnsweredLater
from dpp_project.http.middleware import IN_ITS_OWN_FORM
from dpp_project.http.parsers import MAX_BODY_BYTES, parse_json
from dpp_project.http.problems import FieldError, Problem
from dpp_project.process_env import ENV
from dpp_project.reasons import ReasonCode
from dpp_project.waiting.places import BODY_BYTES_MAX
from runs.api.metering import MeteredView, Token, django_request
from runs.mcp import rest, tools
from runs.mcp.tools import AgentTool, Purchase, RunGet, ToolAnswer
from tenants.rate_limits import Bucket
from tenants.scopes import Scope

if TYPE_CHECKING:
    from runs.mcp.exchange import McpExchange, Outcome, ToolCall

_PARSE_ERROR: Final = -32_700
_INVALID_REQUEST: Final = -32_600
_PASSED_ON: Final = ("Accept", "Content-Type", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name")


class NoMessage(Problem):
    """JSON that is no message of the protocol. The SDK would answer it with two thousand characters about itself."""

    def __init__(self, detail: str) -> None:
        super().__init__(ReasonCode.MALFORMED_REQUEST, detail)


class McpView(MeteredView):
    required_scopes: Final = frozenset({Scope.RUNS_READ, Scope.RUNS_WRITE, Scope.BUDGET_READ, Scope.UPLOADS_WRITE})
    rate_bucket: Final = Bucket.POLL

    def meter(self, request: Request) -> None:
        if request.method != "POST":  # a tool's call takes the token of what it asks for
            super().meter(request)

    @extend_schema(exclude=True)
    def post(self, request: Request) -> HttpResponse:
        """One message of the Model Context Protocol."""
        try:
            _check_origin(request)
        except Exception:
            self._take(request)
            raise
        body = django_request(request).body
        try:
            message = _mcp_message_of_body(body)
        except Problem as problem:
            self._take(request)
            return _unread(problem)
        may_ask = message.get("method") == "tools/call" and "id" in message
        if not may_ask:
            self._take(request)
        exchange = _exchange(request, body)
        try:
            call = exchange.run()
            if call is None:
                if may_ask:  # the protocol refused it before a tool was asked
                    self._take(request)
                return _mcp_exchange_response(exchange)
            outcome = self._called(request, call)
            if not isinstance(outcome, AnsweredLater):
                return _mcp_exchange_response(exchange, outcome)
        finally:
            exchange.close()
        return AnsweredLater(
            outcome.wait,
            lambda came: _mcp_response_after_wait(request, body, call, outcome, came),
            asked_for=outcome.asked_for,
        )

    def _take(self, request: Request) -> None:
        self.money = Token(request, Bucket.POLL).take()

    def _called(self, request: Request, call: "ToolCall") -> "Outcome | AnsweredLater":
        from runs.mcp.exchange import NoSuchTool

        tool = tools.TOOLS.get(call.name)
        if tool is None:
            self._take(request)
            return NoSuchTool(call.name)
        answers.note_for_log(django_request(request), tool=tool.name)
        try:
            arguments = validated_body(tool.arguments, call.arguments)
            if isinstance(arguments, Purchase) and (question := _unconfirmed(arguments, call)) is not None:
                self._take(request)
                return question
        except Problem as problem:
            return self._refused(request, problem)
        if isinstance(arguments, RunGet) and len(django_request(request).body) > BODY_BYTES_MAX:
            arguments = arguments.model_copy(update={"wait_seconds": 0})
        asked = arguments.rest()
        if isinstance(arguments, Purchase):
            headers = tools.idempotency_headers(arguments, call.asked)
            asked = tools.with_headers(asked, headers)
        response = rest.ask_rest(django_request(request), asked)
        return response if isinstance(response, AnsweredLater) else _outcome(tool, asked, response)

    def _refused(self, request: Request, problem: Problem) -> ToolAnswer:
        """Of the arguments, before any view was asked. It was a request all the same."""
        try:
            self._take(request)
        except Problem as beyond_the_rate:
            problem = beyond_the_rate
        return tools.tool_refused(
            problems.problem_document(problem, instance=request.path),
            names=(),
            retry_after=problem.headers.get("Retry-After"),
        )


def _check_origin(request: Request) -> None:
    """A page of another site must not speak here through the browser of a person, whatever its name resolves to."""
    asking = django_request(request)
    asking.get_host()  # raises for a host that is not ours
    origin = request.headers.get("Origin")
    if origin is None:
        return
    try:
        name = urlsplit(origin).hostname or ""
    except ValueError:
        name = ""
    if not validate_host(name, settings.ALLOWED_HOSTS):
        raise Problem(ReasonCode.SCOPE_MISSING, "This origin may not ask here.")


def _mcp_message_of_body(body: bytes) -> dict[str, Any]:
    """As strictly as every other body: what passes has one meaning to every reader."""
    if len(body) > MAX_BODY_BYTES:
        raise Problem(ReasonCode.PAYLOAD_TOO_LARGE, f"The body is larger than {MAX_BODY_BYTES} bytes.")
    message = parse_json(body)
    if not isinstance(message, dict):
        raise NoMessage("A body is one JSON-RPC message; batches are not taken.")
    if isinstance(message.get("id", 0), bool) or not isinstance(message.get("id", 0), str | int):
        raise NoMessage("The id of a message is a string or an integer.")
    if message.get("jsonrpc") != "2.0":
        raise NoMessage('A message says "jsonrpc": "2.0".')
    is_an_answer = "method" not in message and not {"result", "error"}.isdisjoint(message)
    if not is_an_answer and not isinstance(message.get("method"), str):
        raise NoMessage("A message names its method, such as tools/list, in a string.")
    if not isinstance(message.get("params", {}), dict | None):
        raise NoMessage("The params of a message are an object.")
    return message


def _unread(problem: Problem) -> HttpResponse:
    said = "; ".join(f"{one.field}: {one.detail}" for one in problem.errors) or problem.detail
    code = _INVALID_REQUEST if isinstance(problem, NoMessage) else _PARSE_ERROR
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": said}}
    return _own(json.dumps(error).encode(), status=problem.status)


def _exchange(request: Request, body: bytes, known: "Outcome | None" = None) -> "McpExchange":
    from runs.mcp.exchange import McpExchange  # costs 56 MB, for who is asked alone

    # Who says nothing of what she accepts accepts anything; the SDK would refuse her.
    headers = {"Accept": "*/*"} | {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
    return McpExchange(headers=headers, body=body, known=known)


def _mcp_exchange_response(exchange: "McpExchange", outcome: "Outcome | None" = None) -> HttpResponse:
    reply = exchange.reply(outcome)
    content_type = {name.lower(): value for name, value in reply.headers.items()}.get("content-type")
    return _own(reply.body, status=reply.status, content_type=content_type)


def _own(body: bytes, *, status: int, content_type: str | None = "application/json") -> HttpResponse:
    response: Any = HttpResponse(body, status=status, content_type=content_type)
    setattr(response, IN_ITS_OWN_FORM, True)
    answer: HttpResponse = response
    return answer


def _mcp_response_after_wait(
    request: Request, body: bytes, call: "ToolCall", inner: AnsweredLater, came: Any
) -> HttpResponse:
    """In a thread, when the wait is over: the message is answered anew, with what came of its tool."""
    tool, asked = tools.TOOLS[call.name], tools.TOOLS[call.name].arguments(**call.arguments).rest()
    try:
        outcome: Outcome = _outcome(tool, asked, inner.finish(came))
    except Exception as error:  # noqa: BLE001  no exception handler of a view stands around this
        outcome = _outcome(tool, asked, handlers.answer_error(django_request(request), error))
    exchange = _exchange(request, body, outcome)
    try:
        return _mcp_exchange_response(exchange)
    finally:
        exchange.close()


def _outcome(tool: AgentTool, asked: tools.RestRequest, response: Any) -> ToolAnswer:
    document = json.loads(response.content)
    if response.status_code < 400:
        return tools.tool_answered(tool, document, response.headers)
    return tools.tool_refused(document, names=asked.names, retry_after=response.headers.get("Retry-After"))


def _unconfirmed(arguments: Purchase, call: "ToolCall") -> "Outcome | None":
    from runs.mcp.exchange import AskAPerson

    limit = Decimal(ENV.DPP_MCP_CONFIRM_USD)
    price = Decimal(repr(arguments.max_cost_usd))
    if price <= limit or arguments.confirm or call.asked.confirmed:
        return None
    said = f"This may cost up to {price:.4f} USD, more than {limit:.4f} USD, from which on a person must agree."
    if call.asked.can_be_asked:
        return AskAPerson(said)
    raise Problem(
        ReasonCode.CONFIRMATION_REQUIRED,
        f"{said} Nothing was held.",
        errors=[FieldError("confirm", f"{said} Ask, and call again with confirm: true")],
    )
