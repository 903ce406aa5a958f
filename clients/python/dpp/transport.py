"""What both clients say to HTTP, and what they know of their platform."""

import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx2

from dpp.errors import ConfigurationError
from dpp.exchange import Answer, Ask, Lost
from dpp.operations import ANSWER_SECONDS

VERSION: Final = "0.2.0"
CONNECT_SECONDS: Final = 10.0


class Platform:
    """Its address, and the key, which stands in no text that this makes."""

    def __init__(self, api_url: str | None, api_key: str | None) -> None:
        url = (os.environ.get("DPP_API_URL", "") if api_url is None else api_url).rstrip("/")
        self._key = os.environ.get("DPP_API_KEY", "") if api_key is None else api_key
        try:
            parts = urlsplit(url)
            httpx2.URL(url)
        except (ValueError, httpx2.InvalidURL):
            raise ConfigurationError("DPP_API_URL must be a URL such as https://dpp.example") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigurationError("DPP_API_URL must be a URL such as https://dpp.example")
        if parts.username is not None or parts.password is not None:
            raise ConfigurationError("DPP_API_URL holds no user and no password: it is shown, and the key is not")
        if not self._key:
            raise ConfigurationError("DPP_API_KEY is not set")
        if not (self._key.isascii() and self._key.isprintable()) or " " in self._key:
            raise ConfigurationError("DPP_API_KEY is no key")
        self.url = url

    def __repr__(self) -> str:
        return f"<{self.url}>"

    def request(self, client: httpx2.Client | httpx2.AsyncClient, ask: Ask) -> httpx2.Request:
        """The key goes to the API alone: a URL of the bucket is a key by itself."""
        headers = {"User-Agent": f"dpp-python/{VERSION}", **ask.headers}
        whole = ask.path
        if whole.startswith("/"):
            whole = self.url + whole
            headers["Authorization"] = f"Bearer {self._key}"
        timeout = httpx2.Timeout(ANSWER_SECONDS if ask.seconds is None else ask.seconds, connect=CONNECT_SECONDS)
        params = httpx2.QueryParams(ask.params) if ask.params else None
        return client.build_request(
            ask.method, whole, params=params, headers=headers, content=ask.body, timeout=timeout
        )


def answer_of_response(response: httpx2.Response) -> Answer:
    return Answer(response.status_code, lower_headers(response.headers), response.content)


def lower_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def lost_in_transport(error: httpx2.HTTPError) -> Lost:
    """By its class alone: some messages hold the URL, and a URL of the bucket is a key."""
    return Lost(type(error).__name__)
