"""HTTP requests to servers on loopback, without any proxy that the environment names."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
LOOPBACK = "127.0.0.1,localhost"


def url_answers(url: str, *, seconds: float = 2.0) -> bool:
    """Whether the address answers 2xx."""
    try:
        with _direct.open(url, timeout=seconds):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def fetch_json(url: str, *, seconds: float = 5.0) -> dict[str, Any]:
    """The JSON object at an address, whatever its status; empty where there is none."""
    try:
        with _direct.open(url, timeout=seconds) as answer:
            body = answer.read()
    except urllib.error.HTTPError as error:
        with error:
            body = error.read()
    except OSError:
        return {}
    try:
        loaded = json.loads(body)
    except ValueError:
        return {}
    return loaded if isinstance(loaded, dict) else {}


@dataclass(frozen=True)
class HttpAnswer:
    status: int
    headers: Mapping[str, str]
    body: dict[str, Any]


def call_api(
    method: str, url: str, *, key: str, send: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
) -> HttpAnswer:
    """One request to the API with a key. Raises OSError when the server does not answer."""
    request = urllib.request.Request(  # noqa: S310  loopback
        url,
        method=method,
        data=None if send is None else json.dumps(send).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json", **(headers or {})},
    )
    try:
        answer = _direct.open(request, timeout=10)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        body = answer.read()
        return HttpAnswer(answer.status, dict(answer.headers), json.loads(body) if body else {})


def without_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with loopback exempt from the proxy, which cannot reach it."""
    changed = dict(environ)
    for name in ("NO_PROXY", "no_proxy"):
        before = environ.get(name, "")
        changed[name] = f"{before},{LOOPBACK}" if before and LOOPBACK not in before else before or LOOPBACK
    return changed
