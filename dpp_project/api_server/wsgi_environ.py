"""An ASGI scope as the environ that Django's WSGI handler reads, the same as granian's own WSGI server makes it."""

import sys
from collections.abc import MutableMapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote_to_bytes

AsgiScope = MutableMapping[str, Any]
Environ = dict[str, Any]

_OWN_NAMES: Final = frozenset({b"content-type", b"content-length"})
_FIXED: Final[Environ] = {
    "SCRIPT_NAME": "",
    "wsgi.errors": sys.stderr,
    "wsgi.version": (1, 0),
    "wsgi.multithread": True,
    "wsgi.multiprocess": True,
    "wsgi.run_once": False,
}


def environ_of(scope: AsgiScope) -> Environ:
    """All but the body, and headers with a `_` in their names: `X_Forwarded_For` would be X-Forwarded-For, which only a
    trusted proxy is to write, and many pass what they do not know.
    """
    version = scope["http_version"]
    environ = _FIXED | {
        "SERVER_PROTOCOL": f"HTTP/{version}",
        "SERVER_NAME": scope["server"][0],
        "SERVER_PORT": scope["server"][1],
        "REMOTE_ADDR": scope["client"][0],
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "wsgi.url_scheme": scope["scheme"],
    }
    for raw_name, raw_value in scope["headers"]:
        if b"_" in raw_name:
            continue
        name = _environ_name_of_header(raw_name)
        value = raw_value.decode("ascii") if raw_value.isascii() else ""
        if name not in environ:
            environ[name] = value
        elif raw_name not in _OWN_NAMES:
            environ[name] += (";" if name == "HTTP_COOKIE" else ",") + value
    return environ


@lru_cache(maxsize=512)
def _environ_name_of_header(raw: bytes) -> str:
    name = raw.decode("ascii").replace("-", "_").upper()
    return name if raw in _OWN_NAMES else f"HTTP_{name}"
