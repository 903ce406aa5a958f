"""What the proxy says by itself: a problem document, a redirect, or a page that waits for a workspace. Pure."""

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

HeaderLines = list[tuple[bytes, bytes]]

WAITS_COOKIE: Final = "dpp_waits"
WAITS_MAX: Final = 300
"""A page that waits asks again so often, five minutes long: one that is left open wakes nothing for ever."""
_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8">{refresh}<title>{title}</title><body><h1>{title}</h1><p>{detail}</p></body></html>
"""
_PAGE_HEADERS: Final = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]


@dataclass(frozen=True, slots=True)
class ProxyAnswer:
    """Of the proxy, and not of a workspace."""

    status: int
    detail: str = ""
    retry_seconds: int | None = None
    headers: HeaderLines = field(default_factory=list)
    waits: bool = False
    """What is asked for comes up by itself."""


class NotPassedOn(Exception):  # noqa: N818  an answer is what comes of it
    def __init__(self, answer: ProxyAnswer) -> None:
        super().__init__(answer.detail)
        self.answer = answer


def proxy_refusal(status: int, detail: str, *, retry_seconds: int | None = None) -> NotPassedOn:
    return NotPassedOn(ProxyAnswer(status, detail, retry_seconds))


def proxy_redirect(status: int, location: str, headers: HeaderLines | None = None) -> ProxyAnswer:
    """Of a sign-in: nothing of its address is kept or told on."""
    own = [(b"location", location.encode("ascii")), (b"referrer-policy", b"no-referrer")]
    return ProxyAnswer(status, headers=[*own, *(headers or [])])


def rendered_proxy_answer(
    answer: ProxyAnswer, *, page_path: str | None = None, waited: int = 0
) -> tuple[HeaderLines, bytes]:
    """`page_path`: a person looks, at this path; `waited`: how often her page has asked already."""
    if answer.waits and page_path is not None:
        headers, content = _proxy_answer_page(answer, page_path, waited)
    elif answer.status >= 400:
        said = {"title": HTTPStatus(answer.status).phrase, "status": answer.status, "detail": answer.detail}
        headers, content = [(b"content-type", b"application/problem+json")], json.dumps(said).encode()
    else:
        headers, content = [], b""
    if answer.retry_seconds is not None:
        headers = [*headers, (b"retry-after", str(answer.retry_seconds).encode())]
    length = (b"content-length", str(len(content)).encode())
    ours = [(b"cache-control", b"no-store"), (b"proxy-status", b"dpp"), length, (b"connection", b"close")]
    return [*answer.headers, *headers, *ours], content


def _proxy_answer_page(answer: ProxyAnswer, path: str, waited: int) -> tuple[HeaderLines, bytes]:
    asks_again = waited < WAITS_MAX
    seconds = answer.retry_seconds or 1
    said = answer.detail if asks_again else f"{answer.detail} It takes long; reload this page to ask again."
    refresh = f'<meta http-equiv="refresh" content="{seconds}">' if asks_again else ""
    kept = f"{WAITS_COOKIE}={waited + 1}; Max-Age=60" if asks_again else f"{WAITS_COOKIE}=; Max-Age=0"
    cookie = f"{kept}; Path={path}/; HttpOnly; SameSite=Lax"
    page = _PAGE.format(refresh=refresh, title="Workspace", detail=said)
    return [*_PAGE_HEADERS, (b"set-cookie", cookie.encode())], page.encode()
