"""Links that sign a browser in to one port of one workspace, and the cookie that such a link sets.

Both are the same words under two seals: until when, and by whose key. They end at that time, or with that key. Each
workspace has an origin of its own: pages of one origin read each other whatever their cookies' paths, so a path alone
would open a person's workspace to any other that she looks into.
"""

import json
import re
import uuid
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from dpp_project import clock, seals
from dpp_project.process_env import ENV

SECONDS_MAX: Final = 3_600
COOKIE: Final = "dpp_workspace"
SIGN_IN: Final = "/.dpp/sign-in"
"""Below a port's own path. What a workspace serves there is not reached."""
_LINK: Final = b"dpp workspace link 1"
_COOKIE: Final = b"dpp workspace cookie 1"
_TOKEN: Final = re.compile(r"([0-9]{1,12})\.([A-Za-z0-9]{1,32})\.([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Door:
    """One port of one workspace."""

    workspace_id: uuid.UUID
    port: int

    @property
    def path(self) -> str:
        return f"/w/{self.workspace_id}/{self.port}"


@dataclass(frozen=True, slots=True)
class LinkPass:
    """By whose key, and until when in seconds since 1970."""

    key_prefix: str
    expires: int


def proxy_link(door: Door, granted: LinkPass) -> str | None:
    """None where browsers have no address to go to."""
    origin = origin_of(door.workspace_id)
    return None if origin is None else f"{origin}{door.path}{SIGN_IN}?token={_token(_LINK, door, granted)}"


def proxy_cookie(door: Door, granted: LinkPass) -> str:
    """As a Set-Cookie header says it."""
    seconds = max(0, granted.expires - _now())
    secure = "; Secure" if (ENV.DPP_WORKSPACES_URL or "").startswith("https:") else ""
    token = _token(_COOKIE, door, granted)
    return f"{COOKIE}={token}; Path={door.path}/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"


def of_link(door: Door, token: str) -> LinkPass | None:
    return _link_pass_of_token(_LINK, door, token)


def of_cookie(door: Door, token: str) -> LinkPass | None:
    return _link_pass_of_token(_COOKIE, door, token)


def origin_of(workspace_id: uuid.UUID) -> str | None:
    if ENV.DPP_WORKSPACES_URL is None:
        return None
    parts = urlsplit(ENV.DPP_WORKSPACES_URL)
    return f"{parts.scheme}://{workspace_id}.{parts.netloc}".lower()


def is_at_home(workspace_id: uuid.UUID, host: str) -> bool:
    """Whether a request was sent to the workspace's own origin."""
    origin = origin_of(workspace_id)
    if origin is None:
        return False
    scheme, _, wanted = origin.partition("://")
    usual = {"http": ":80", "https": ":443"}[scheme]
    return host.lower().removesuffix(usual) == wanted.removesuffix(usual)


def _token(purpose: bytes, door: Door, granted: LinkPass) -> str:
    return f"{granted.expires}.{granted.key_prefix}.{seals.seal_content(purpose, _sealed(door, granted))}"


def _link_pass_of_token(purpose: bytes, door: Door, token: str) -> LinkPass | None:
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    granted = LinkPass(key_prefix=found[2], expires=int(found[1]))
    if not seals.seal_holds(found[3], purpose, _sealed(door, granted)):
        return None
    return granted if _now() < granted.expires else None


def _sealed(door: Door, granted: LinkPass) -> bytes:
    return json.dumps([str(door.workspace_id), door.port, granted.key_prefix, granted.expires]).encode()


def _now() -> int:
    return int(clock.now().timestamp())
