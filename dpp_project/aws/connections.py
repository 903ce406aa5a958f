"""Kept-alive connections to one address, with little CPU.

urllib3's pool does the same for three times the CPU, which a submit would feel: docs/dependencies.md has the figures.
Where a proxy stands between, urllib3 is used all the same. The proxy is the one that boto3 would take.
"""

import http.client
import select
from collections import deque
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import botocore.session
import urllib3
from botocore.httpsession import ProxyConfiguration, get_cert_path
from botocore.utils import get_environ_proxies

from dpp_project.outbound import client_tls

POOL: Final = 32


class Connections:
    """As many as threads that ask at once. A request that fails raises OSError or HTTPException; it is not retried."""

    def __init__(self, url: str, *, timeout_seconds: float) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), parts.port
        self._timeout_seconds = timeout_seconds
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._tls = client_tls.trusting_alone(_authorities()) if parts.scheme == "https" else None
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._proxy = _proxy_to(url)

    def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """The status and the content of the answer. A redirect is an answer."""
        if self._proxy is not None:
            return self._through(self._proxy, method, path, headers, body)
        connection = self._take()
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            self._idle.append(connection)
        return answer.status, content

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        if self._proxy is not None:
            self._proxy.clear()

    def _take(self) -> http.client.HTTPConnection:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not _was_closed(connection):
                return connection
            connection.close()
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_seconds)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout_seconds, context=self._tls)

    def _through(
        self, proxy: urllib3.ProxyManager, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, bytes]:
        try:
            answer = proxy.urlopen(
                method,
                self._origin + path,
                body=body,
                headers=headers,
                timeout=self._timeout_seconds,
                retries=False,
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(type(error).__name__) from error
        return answer.status, answer.data


def _proxy_to(url: str) -> urllib3.ProxyManager | None:
    """From HTTP_PROXY, HTTPS_PROXY and NO_PROXY, read as boto3 reads them."""
    found = ProxyConfiguration(get_environ_proxies(url))
    proxy_url = found.proxy_url_for(url)
    if not proxy_url:
        return None
    return urllib3.ProxyManager(
        proxy_url, proxy_headers=found.proxy_headers_for(proxy_url), ca_certs=_authorities(), maxsize=POOL
    )


def _authorities() -> str:
    """The bundle of certificates that boto3 would trust: AWS_CA_BUNDLE, the profile's, or its own."""
    return str(botocore.session.get_session().get_config_variable("ca_bundle") or get_cert_path(True))


def _was_closed(connection: http.client.HTTPConnection) -> bool:
    """An idle connection on which something can be read was closed by the other side."""
    sock = connection.sock
    if sock is None:
        return True
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return bool(poller.poll(0))
