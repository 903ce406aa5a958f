"""TLS as the platform asks for it, wherever it is the client and makes the context itself."""

import ssl


def trusting_alone(ca_file: str) -> ssl.SSLContext:
    """Trusts the authorities in this file. The floor is said here: Debian's Python 3.11 leaves it to OpenSSL."""
    tls = ssl.create_default_context(cafile=ca_file)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    return tls
