"""HMAC seals between our own processes, each for one purpose, under keys derived from DPP_SECRET_KEY.

Every process has that key: no further secret is to be kept. Seals of DPP_SECRET_KEY_FALLBACKS hold too, so that it can
be changed while something sealed is under way.
"""

import hashlib
import hmac
from functools import cache

from dpp_project.process_env import ENV


def seal_content(purpose: bytes, content: bytes) -> str:
    return _seal(ENV.DPP_SECRET_KEY, purpose, content)


def seal_holds(found: str, purpose: bytes, content: bytes) -> bool:
    said = found.encode("utf-8", "surrogatepass")
    secrets = (ENV.DPP_SECRET_KEY, *ENV.DPP_SECRET_KEY_FALLBACKS)
    return any(hmac.compare_digest(said, _seal(secret, purpose, content).encode()) for secret in secrets)


def _seal(secret: str, purpose: bytes, content: bytes) -> str:
    return hmac.new(_seal_key_of_purpose(secret, purpose), content, hashlib.sha256).hexdigest()


@cache
def _seal_key_of_purpose(secret: str, purpose: bytes) -> bytes:
    return hmac.new(secret.encode(), purpose, hashlib.sha256).digest()
