"""Agents, as the SDK of the protocol's own makers lets them speak: over HTTP or over stdio, in each era."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import bearer
from tests.gear.servers.worker import ROOT

T = TypeVar("T")
NEWEST: Final = "2026-07-28"


@dataclass(frozen=True)
class Way:
    """How an agent comes to the tools."""

    transport: str
    mode: str

    def __str__(self) -> str:
        return f"{self.transport} {self.mode}"


WAYS: Final = tuple(Way(transport, mode) for transport in ("http", "stdio") for mode in ("legacy", NEWEST, "auto"))


def talk(way: Way, url: str, key: str, script: Callable[[Client], Awaitable[T]], *, agrees: bool | None = None) -> T:
    """What the script comes to. `agrees` is what a person answers to a question; None: there is no one to be asked."""

    async def answer(_context: Any, _params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(
            action="accept" if agrees else "decline", content={"confirm": True} if agrees else None
        )

    options: Any = {"mode": way.mode} | ({} if agrees is None else {"elicitation_callback": answer})

    async def go() -> T:
        if way.transport == "stdio":
            environ = {"DPP_API_URL": url, "DPP_API_KEY": key}
            server = StdioServerParameters(command=sys.executable, args=["manage.py", "mcp"], env=environ, cwd=ROOT)
            async with Client(server, **options) as client:
                return await script(client)
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60)
        async with http, Client(streamable_http_client(f"{url}/mcp", http_client=http), **options) as client:
            return await script(client)

    return asyncio.run(go())


def message(method: str, params: Any = None, *, number: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method} | ({} if params is None else {"params": params})


def call(name: str, arguments: Any = None, **beside: Any) -> dict[str, Any]:
    return message("tools/call", {"name": name, "arguments": {} if arguments is None else arguments, **beside})


def post(shop: Shop, body: Any, **headers: str) -> Any:
    """One message, by a client that is none of the SDK's."""
    return shop.client.post(
        "/mcp",
        data=body,
        content_type="application/json",
        headers=bearer(shop.issued) | {"Accept": "application/json"} | headers,
    )


def result_of(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()["result"]
    return found


def content_of(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = result_of(answer)["structuredContent"]
    return found
