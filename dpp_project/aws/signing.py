"""AWS Signature Version 4: of a request whose body is at hand and whose address has no query, and of an address to GET.

botocore signs the same, and a test compares the two byte for byte. It stands here because botocore takes ten times as
long, which a submit and a poll would feel: docs/dependencies.md has the figures.
"""

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-._~"


class Signer:
    """For one service at one address. Threads may share it."""

    def __init__(self, url: str, *, service: str, region: str) -> None:
        parts = urlsplit(url)
        self._host = parts.netloc.rpartition("@")[2].lower().removesuffix(_DEFAULT_PORTS[parts.scheme])
        self._service, self._region = service, region
        self._derived: tuple[str, str, bytes] = ("", "", b"")

    def signed(
        self, credentials: Any, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> dict[str, str]:
        """`headers` and those that sign them; `path` is quoted already, as it will be sent."""
        stamp, digest = _utc_now(), hashlib.sha256(body).hexdigest()
        made = {**headers, "X-Amz-Date": stamp}
        if credentials.token:
            made["X-Amz-Security-Token"] = credentials.token
        if self._service == "s3":
            made["X-Amz-Content-SHA256"] = digest
        lines = {name.lower(): " ".join(value.split()) for name, value in made.items()} | {"host": self._host}
        names = ";".join(sorted(lines))
        listed = "".join(f"{name}:{lines[name]}\n" for name in sorted(lines))
        scope = self._scope(stamp)
        signature = self._signature(credentials, stamp, scope, f"{method}\n{path}\n\n{listed}\n{names}\n{digest}")
        made["Authorization"] = (
            f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return made

    def presigned(self, credentials: Any, path: str, *, seconds: int) -> str:
        """The query with which the path is fetched without a key for so long; `path` is quoted already."""
        stamp = _utc_now()
        scope = self._scope(stamp)
        asked = {
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{credentials.access_key}/{scope}",
            "X-Amz-Date": stamp,
            "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": "host",
        }
        if credentials.token:
            asked["X-Amz-Security-Token"] = credentials.token
        parts = [f"{name}={quote(value, safe=_UNRESERVED)}" for name, value in asked.items()]
        canonical = f"GET\n{path}\n{'&'.join(sorted(parts))}\nhost:{self._host}\n\nhost\nUNSIGNED-PAYLOAD"
        return f"{'&'.join(parts)}&X-Amz-Signature={self._signature(credentials, stamp, scope, canonical)}"

    def _scope(self, stamp: str) -> str:
        return f"{stamp[:8]}/{self._region}/{self._service}/aws4_request"

    def _signature(self, credentials: Any, stamp: str, scope: str, canonical: str) -> str:
        text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        return _hmac(self._key(credentials.secret_key, stamp[:8]), text).hex()

    def _key(self, secret: str, day: str) -> bytes:
        """Derived anew each day, and with each new secret."""
        known_secret, known_day, key = self._derived
        if (known_secret, known_day) != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = _hmac(key, part)
            self._derived = (secret, day, key)
        return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def _utc_now() -> str:
    """The machine's own time, whatever the platform's clock was moved to: AWS compares it with its own."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
