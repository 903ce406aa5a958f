"""The asking side, for a loop: API and workers. Where a workspace's process listens is given to it.

HostSilent           the process does not answer, or not in its form: nothing is known of what was asked
DriverUnavailable    the same, or it answered that its driver, or this workspace, does not
DriverRefused        it answered, and the reason is its own ("NotRunning", "ExecRepeated", "TooManyExecs", …)
"""

import asyncio
import json
import socket
from collections.abc import Mapping
from typing import Any, Final

from dpp_project.outbound import http_exchange
from dpp_project.outbound.http_exchange import ProtocolBroken
from ops.workspaces.drivers.base import DriverUnavailable, ExecRequest, ExecResult, LogPage
from ops.workspaces.remote import messages

CONNECT_SECONDS: Final = 2.0
BEYOND_SECONDS: Final = 5.0
"""How much longer than its command an exec may take to be told."""
SHORT_SECONDS: Final = 5.0


class HostSilent(DriverUnavailable):
    """Of whatever workspace it was asked."""


async def run_remote_exec(address: str, workspace_id: str, request: ExecRequest, *, tenant_id: str) -> ExecResult:
    """To its end; `tenant_id` is whose share of the host it takes.

    Given up (cancelled), the connection closes, and the process kills what it had started.
    """
    document = messages.exec_document(workspace_id, request, tenant_id=tenant_id)
    said = await _remote_host_answer(address, "/exec", document, seconds=request.deadline_seconds + BEYOND_SECONDS)
    return messages.exec_result(said)


async def stop_remote_exec(address: str, exec_id: str) -> None:
    """The caller of `run_remote_exec` then has its result: KILLED, with what it had written."""
    await _remote_host_answer(address, "/stop", {"exec_id": exec_id}, seconds=SHORT_SECONDS)


async def read_logs(address: str, workspace_id: str, *, offset: int, bytes_max: int) -> LogPage:
    document = {"workspace_id": workspace_id, "offset": offset, "bytes_max": bytes_max}
    return messages.log_page(await _remote_host_answer(address, "/logs", document, seconds=SHORT_SECONDS))


async def put_file(address: str, workspace_id: str, path: str, content: bytes) -> None:
    """Whole, or not at all; under its home, whatever stood there. Safe to repeat."""
    document = messages.file_document(workspace_id, path, content)
    await _remote_host_answer(address, "/files", document, seconds=SHORT_SECONDS)


async def _remote_host_answer(
    address: str, path: str, document: Mapping[str, Any], *, seconds: float
) -> Mapping[str, Any]:
    body = json.dumps(document).encode()
    try:
        async with asyncio.timeout(seconds):
            said = await _unchecked_host_answer(address, path, body)
    except TimeoutError:
        raise HostSilent("The host of this workspace did not answer in time.") from None
    except (OSError, ProtocolBroken, ValueError) as error:
        raise HostSilent("The host of this workspace does not answer.") from error
    if "error" in said:
        raise messages.error_of(said)
    return said


async def _unchecked_host_answer(address: str, path: str, body: bytes) -> Mapping[str, Any]:
    talk = await http_exchange.exchange_plainly(await _connected(address))
    try:
        headers = [
            ("host", address),
            ("connection", "close"),
            ("content-length", str(len(body))),
            *messages.sealed_headers(path, body),
        ]
        head = await talk.send("POST", path, headers, body)
        content = bytearray()
        async for piece in talk.pieces():
            content += piece
            if len(content) > messages.ANSWER_BYTES_MAX:
                raise ProtocolBroken("too long")
        if head.status != 200:
            raise ProtocolBroken(str(head.status))
        said: Mapping[str, Any] = json.loads(bytes(content))
        return said
    finally:
        talk.close()


async def _connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(CONNECT_SECONDS):
        found = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, kind, protocol, _name, place = found[0]
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            await loop.sock_connect(connection, place)
        except BaseException:
            connection.close()
            raise
        return connection
