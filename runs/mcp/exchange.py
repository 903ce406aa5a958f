"""The protocol: the SDK's own server answers one POST, and stands still while a tool is at work.

The SDK is asynchronous, and tools are Django's, which refuses to work inside a running loop. So each request has a loop
of its own that runs in the request's thread until the SDK calls a tool, stands still while the tool is carried out, and
then runs on to the answer:

    exchange = McpExchange(headers=..., body=...)
    call = exchange.run()                       # None: it is answered without a tool
    reply = exchange.reply(outcome)             # of the call

`outcome` may be known from the beginning (`known`): a call that had to wait is asked anew when its answer is there,
and no loop is kept meanwhile. Importing this costs some 56 MB: only a process that is asked for /mcp does it.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from runs.mcp import tools
from runs.mcp.tools import Asked, ToolAnswer

MAX_BODY_BYTES: Final = 1_048_576
_OURS: Final = "dpp.exchange"
_CONFIRM: Final = "confirm"
_CAPABILITIES: Final = types.CLIENT_CAPABILITIES_META_KEY
INSTRUCTIONS: Final = (
    "Work is sold by the run: a submit holds max_cost_usd and answers a receipt; dpp_run_get has the result; "
    "what was not used goes back. Money is US dollars."
)

logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it logs what strangers send; our line of a request says enough


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    arguments: dict[str, Any]
    asked: Asked


@dataclass(frozen=True, slots=True)
class AskAPerson:
    """The call is to be made again with a person's answer."""

    message: str


@dataclass(frozen=True, slots=True)
class NoSuchTool:
    name: str


Outcome = ToolAnswer | AskAPerson | NoSuchTool


@dataclass(frozen=True, slots=True)
class McpReply:
    status: int
    headers: dict[str, str]
    body: bytes


class McpExchange:
    def __init__(self, *, headers: Mapping[str, str], body: bytes, known: Outcome | None = None) -> None:
        self._sent: list[Mapping[str, Any]] = []
        self._call: ToolCall | None = None
        self._loop = asyncio.new_event_loop()
        self._called: asyncio.Future[None] = self._loop.create_future()
        self._outcome: asyncio.Future[Outcome] = self._loop.create_future()
        if known is not None:
            self._outcome.set_result(known)
        self._served = self._loop.create_task(self._serve(headers, body))

    def run(self) -> ToolCall | None:
        """Until the SDK calls a tool, or has answered without one."""
        ends = {self._served} if self._outcome.done() else {self._served, self._called}
        self._loop.run_until_complete(asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED))
        return None if self._served.done() else self._call

    def reply(self, outcome: Outcome | None = None) -> McpReply:
        if outcome is not None:
            self._outcome.set_result(outcome)
        self._loop.run_until_complete(self._served)
        head, body = self._sent[0], b"".join(part.get("body", b"") for part in self._sent[1:])
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.get("headers", ())}
        return McpReply(int(head["status"]), headers, body)

    def close(self) -> None:
        """Also of one that was not carried to its end."""
        if not self._served.done():
            self._served.cancel()
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._served)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def outcome_of(self, call: ToolCall) -> Outcome:
        self._call = call
        if not self._called.done():
            self._called.set_result(None)
        return await self._outcome

    async def _serve(self, headers: Mapping[str, str], body: bytes) -> None:
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if waiting:
                return waiting.pop()
            await asyncio.Event().wait()  # the client stays; who leaves is the host's to notice
            raise AssertionError

        async def send(message: Mapping[str, Any]) -> None:
            self._sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "root_path": "",
            "query_string": b"",
            "headers": [(k.lower().encode("latin-1"), v.encode("latin-1", "replace")) for k, v in headers.items()],
            _OURS: self,
        }
        manager: Any = StreamableHTTPSessionManager(
            mcp_server(), json_response=True, stateless=True, max_request_body_size=MAX_BODY_BYTES
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)


async def _list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=_listed())


async def _call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult | Any:
    exchange: McpExchange = context.request.scope[_OURS]
    outcome = await exchange.outcome_of(
        ToolCall(params.name, params.arguments or {}, _said_beside_mcp_arguments(context, params))
    )
    match outcome:
        case NoSuchTool(name):
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {name[:64]}")
        case AskAPerson(message):
            return types.InputRequiredResult(input_requests={_CONFIRM: _question(message)})
        case _:
            return types.CallToolResult(
                content=[types.TextContent(type="text", text=outcome.text)],
                structured_content=outcome.content,
                is_error=outcome.is_error,
            )


def _said_beside_mcp_arguments(context: Any, params: types.CallToolRequestParams) -> Asked:
    meta = (context.params or {}).get("_meta")
    meta = meta if isinstance(meta, Mapping) else {}
    tool_use_id, capabilities = meta.get(tools.TOOL_USE_ID), meta.get(_CAPABILITIES)
    given = (params.input_responses or {}).get(_CONFIRM)
    answer: Any = given if isinstance(given, types.ElicitResult) else None
    return Asked(
        tool_use_id=tool_use_id if isinstance(tool_use_id, str) else None,
        confirmed=answer is not None and answer.action == "accept" and (answer.content or {}).get(_CONFIRM) is True,
        can_be_asked=(
            context.protocol_version in MODERN_PROTOCOL_VERSIONS
            and isinstance(capabilities, Mapping)
            and isinstance(capabilities.get("elicitation"), Mapping)
            and answer is None
        ),
    )


def _question(message: str) -> types.ElicitRequest:
    schema = {
        "type": "object",
        "properties": {_CONFIRM: {"type": "boolean", "title": "Buy it"}},
        "required": [_CONFIRM],
    }
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


@cache
def _listed() -> list[types.Tool]:
    return [
        types.Tool(
            name=tool.name,
            description=tool.description,
            input_schema=tools.input_schema(tool),
            annotations=types.ToolAnnotations(
                read_only_hint=not tool.changes,
                destructive_hint=tool.ends if tool.changes else None,
                idempotent_hint=tool.repeatable if tool.changes else None,
                open_world_hint=tool.goes_out,
            ),
        )
        for tool in tools.TOOLS.values()
    ]


@cache
def mcp_server() -> Server[Any]:
    made: Server[Any] = Server(
        "dpp",
        title="Decision Pack Platform",
        instructions=INSTRUCTIONS,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        get_tool_input_schema=lambda _name: None,  # no argument of ours stands in a header
    )
    made.middleware.clear()  # it would make spans; tracing is the platform's
    return made
