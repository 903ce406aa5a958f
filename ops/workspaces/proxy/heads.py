"""Heads of requests and answers: read, refused, and as they are passed on. Pure.

What passes is written anew from what was understood; nothing goes through as it came.
"""

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import h11

from ops.workspaces.proxy.answers import WAITS_COOKIE, proxy_refusal
from ops.workspaces.proxy.links import COOKIE, SIGN_IN, Door

BODY_BYTES_MAX: Final = 104_857_600
"""Of a request."""
METHODS: Final = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
_TARGET: Final = re.compile(
    rb"/w/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/([1-9][0-9]{0,4})(/[!-~]*|\?[!-~]*)?", re.ASCII
)
_HOP_BY_HOP: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
_NOT_IN: Final = frozenset({b"authorization", b"cookie", b"host", b"expect", b"forwarded", b"via", b"x-real-ip"})
"""Of a request: what proves who calls, and what we say ourselves."""
_NOT_IN_PREFIXES: Final = (b"x-forwarded-", b"proxy-", b"dpp-")
_NOT_OUT: Final = frozenset(
    {b"set-cookie", b"set-cookie2", b"clear-site-data", b"strict-transport-security", b"alt-svc", b"proxy-status"}
)
"""Of an answer: what speaks for more than this workspace. A cookie would come back with the caller's, which end here;
Clear-Site-Data signs a person out of all hosts beside this one."""
_OWN_NAMES: Final = re.compile(rb"https?://(?:localhost|127\.0\.0\.1|\[::1\]):([0-9]{1,5})(?=[/?#]|$)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Head:
    """A request that may be passed on, once its caller is known."""

    door: Door
    method: bytes
    rest: bytes
    """Path and query as the workspace sees them. Without the `/` that ends a port's own path there is no path."""
    host: str
    authorization: str | None
    tokens: tuple[str, ...]
    """Of cookies of ours. More than one is met where another host of the same domain has set one."""
    waited: int
    wants_page: bool
    is_from_elsewhere: bool
    """A browser says that another site's page asks, or another workspace's."""

    @property
    def is_without_path(self) -> bool:
        return not self.rest.startswith(b"/")

    @property
    def sign_in_token(self) -> str | None:
        path, _, query = self.rest.decode("ascii").partition("?")
        return query.removeprefix("token=") if path == SIGN_IN else None


def read_request_head(request: h11.Request) -> Head:
    """Raises NotPassedOn for what is no request to a workspace, or might be taken for two."""
    _refuse_unfit(request)
    found = _TARGET.fullmatch(request.target)
    if found is None:
        raise proxy_refusal(404, "The address is /w/{workspace_id}/{port}/ and what the workspace serves below it.")
    cookies = list(_cookies(request.headers))
    counts = [int(value) for name, value in cookies if name == WAITS_COOKIE and re.fullmatch("[0-9]{1,3}", value)]
    accepts = b",".join(_all(request.headers, b"accept"))
    authorization = _all(request.headers, b"authorization")
    return Head(
        door=Door(uuid.UUID(found[1].decode()), int(found[2])),
        method=request.method,
        rest=found[3] or b"",
        host=_all(request.headers, b"host")[0].decode("latin-1") if _all(request.headers, b"host") else "",
        authorization=authorization[0].decode("latin-1") if authorization else None,
        tokens=tuple(value for name, value in cookies if name == COOKIE)[:4],
        waited=max(counts, default=0),
        wants_page=request.method == b"GET" and b"text/html" in accepts.lower(),
        is_from_elsewhere=_is_from_elsewhere(request),
    )


def _refuse_unfit(request: h11.Request) -> None:
    headers = request.headers
    if request.method == b"CONNECT" or _all(headers, b"upgrade") or _all(headers, b"sec-websocket-key"):
        raise proxy_refusal(501, "HTTP alone is passed on: no WebSocket, no other upgrade, no tunnel.")
    if request.method not in METHODS:
        raise proxy_refusal(501, "This method is not passed on.")
    if not request.target.startswith(b"/"):
        raise proxy_refusal(400, "The request names a whole address where a path belongs.")
    lengths, codings = _all(headers, b"content-length"), _all(headers, b"transfer-encoding")
    if codings and (lengths or request.http_version != b"1.1"):
        raise proxy_refusal(400, "The request says twice, and differently, how long it is.")
    if lengths and int(lengths[0]) > BODY_BYTES_MAX:
        raise proxy_refusal(413, f"A request's body has at most {BODY_BYTES_MAX} bytes.")
    if len(_all(headers, b"authorization")) > 1:
        raise proxy_refusal(400, "The Authorization header stands there twice.")


def to_workspace(request: h11.Request, head: Head, *, peer: str, scheme: str) -> h11.Request:
    """Without what proves the caller, and with where it came from. A `_` in a name is a `-` to many servers."""
    dropped = _HOP_BY_HOP | _NOT_IN | _named_by_connection(request.headers)
    kept = [
        (name, value)
        for name, value in request.headers
        if name not in dropped and not name.startswith(_NOT_IN_PREFIXES) and b"_" not in name
    ]
    if _all(request.headers, b"transfer-encoding"):
        kept.append((b"transfer-encoding", b"chunked"))
    said = [
        ("host", f"localhost:{head.door.port}"),
        ("connection", "close"),
        ("x-forwarded-for", peer),
        ("x-forwarded-host", head.host),
        ("x-forwarded-proto", scheme),
        ("x-forwarded-prefix", head.door.path),
    ]
    ours = [(name.encode(), value.encode("latin-1")) for name, value in said]
    return h11.Request(method=request.method, target=head.rest, headers=[*ours, *kept])


def to_caller(response: h11.Response, door: Door) -> h11.Response:
    dropped = _HOP_BY_HOP | _NOT_OUT | _named_by_connection(response.headers)
    kept = [
        (name, _location_behind_door(value, door) if name == b"location" else value)
        for name, value in response.headers
        if name not in dropped
    ]
    if not _all(response.headers, b"cache-control"):
        kept.append((b"cache-control", b"private"))
    kept.append((b"connection", b"close"))
    return h11.Response(status_code=response.status_code, headers=kept, reason=response.reason)


def _location_behind_door(location: bytes, door: Door) -> bytes:
    """A place of the workspace's own, where the caller finds it. Another port of it is another door."""
    found = _OWN_NAMES.match(location)
    if found is not None:
        return f"/w/{door.workspace_id}/{int(found[1])}/".encode() + location[found.end() :].removeprefix(b"/")
    if location.startswith(b"/") and not location.startswith((b"//", b"/\\")):
        return door.path.encode() + location
    return location


def _is_from_elsewhere(request: h11.Request) -> bool:
    """Sibling workspaces are of the same site, so SameSite alone does not keep their pages out.

    A link that a person follows is let in: it reads, and shows itself to her alone.
    """
    site, mode, dest = (
        b"".join(_all(request.headers, name)) for name in (b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest")
    )
    if site in (b"same-site", b"cross-site"):
        return not (request.method in (b"GET", b"HEAD") and mode == b"navigate" and dest == b"document")
    origins, hosts = _all(request.headers, b"origin"), _all(request.headers, b"host")
    return any(origin.lower().partition(b"://")[2] not in [host.lower() for host in hosts] for origin in origins)


def _named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    return frozenset(
        one.strip().lower() for value in _all(headers, b"connection") for one in value.split(b",") if one.strip()
    ) - {b"content-length", b"host"}


def _cookies(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[str, str]]:
    for value in _all(headers, b"cookie"):
        for pair in value.decode("latin-1").split(";"):
            name, _, said = pair.strip().partition("=")
            yield name, said


def _all(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for other, value in headers if other == name]
