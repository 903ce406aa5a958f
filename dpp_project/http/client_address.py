"""The address that a request comes from.

With TLS in front (DPP_HTTPS) it is the last one in X-Forwarded-For: the proxy appends it, and what stands before it the
client may have invented. Without a proxy it is the connection's own.
"""

import ipaddress

from django.conf import settings
from django.http import HttpRequest


def of(request: HttpRequest) -> str:
    own = str(request.META.get("REMOTE_ADDR", ""))
    if settings.SECURE_PROXY_SSL_HEADER is None:
        return own
    forwarded = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    try:
        return str(ipaddress.ip_address(forwarded))
    except ValueError:
        return own
