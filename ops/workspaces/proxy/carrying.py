"""One request to a workspace and its answer, both as they come: neither is held whole, the slower side sets the pace.

The answer may begin before the request has ended. A caller that leaves ends both; a workspace that no longer reads may
still answer.
"""

from collections.abc import Callable
from typing import Final

import h11

from ops.workspaces.proxy import heads
from ops.workspaces.proxy.answers import NotPassedOn, proxy_refusal
from ops.workspaces.proxy.heads import BODY_BYTES_MAX
from ops.workspaces.proxy.links import Door
from ops.workspaces.proxy.racing import finish_unless
from ops.workspaces.proxy.side import IDLE, BrokenOff, Side

ANSWER_BYTES_MAX: Final = 1_073_741_824
INTERIM_ANSWERS_MAX: Final = 8


async def carry_exchange(
    caller: Side, workspace: Side, request: h11.Request, door: Door, *, moved: Callable[[], None]
) -> None:
    """`moved` is called for all that passes. Raises NotPassedOn before anything is answered, BrokenOff once it is."""
    try:
        await workspace.send(request)
    except BrokenOff:
        raise proxy_refusal(502, "The server in the workspace closed the connection.") from None
    await finish_unless(_down(caller, workspace, door, moved), broken_by=_up(caller, workspace, moved))


async def _up(caller: Side, workspace: Side, moved: Callable[[], None]) -> None:
    """Ends where the workspace reads no more. Otherwise it waits for the caller to leave. Raises for one that left, or
    is refused.
    """
    if caller.http.they_are_waiting_for_100_continue:
        await caller.send(h11.InformationalResponse(status_code=100, headers=[]))
    size = 0
    async for piece in caller.pieces():
        size += len(piece)
        if size > BODY_BYTES_MAX:
            raise proxy_refusal(413, f"A request's body has at most {BODY_BYTES_MAX} bytes.")
        if not await _sent_to_workspace(workspace, h11.Data(data=piece)):
            return
        moved()
    if await _sent_to_workspace(workspace, h11.EndOfMessage()):
        await caller.leaves()


async def _sent_to_workspace(workspace: Side, event: h11.Event) -> bool:
    try:
        await workspace.send(event)
    except BrokenOff:
        return False
    return True


async def _down(caller: Side, workspace: Side, door: Door, moved: Callable[[], None]) -> None:
    response = await _response_of_workspace(workspace)
    await caller.send(heads.to_caller(response, door))
    moved()
    size = 0
    async for piece in workspace.pieces():
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise BrokenOff("its answer is too long")
        await caller.send(h11.Data(data=piece))
        moved()
    await caller.send(h11.EndOfMessage())


async def _response_of_workspace(workspace: Side) -> h11.Response:
    try:
        for _ in range(INTERIM_ANSWERS_MAX):
            event = await workspace.event()
            if isinstance(event, h11.Response):
                _refuse_two_lengths(event)
                return event
            if not isinstance(event, h11.InformationalResponse) or event.status_code == 101:
                break
    except BrokenOff as broken:
        raise _broken_workspace_refusal(broken) from None
    raise proxy_refusal(502, "The server in the workspace gave no answer to this request.")


def _refuse_two_lengths(response: h11.Response) -> None:
    names = {name for name, _value in response.headers}
    if {b"content-length", b"transfer-encoding"} <= names:
        raise proxy_refusal(502, "The server in the workspace says twice how long its answer is.")


def _broken_workspace_refusal(broken: BrokenOff) -> NotPassedOn:
    if broken.status == IDLE:
        return proxy_refusal(504, "The server in the workspace did not answer in time.")
    return proxy_refusal(502, f"The server in the workspace gave no answer that can be read: {broken}.")
