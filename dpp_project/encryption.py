"""Encryption of what must be read again: AES-256-GCM under DPP_ENCRYPTION_KEYS. The first key encrypts, all decrypt.

Each sealed value names its key, so a rotation finds what still lies under an older one. It is bound to what it belongs
to (`bound_to`, authenticated and not stored): moved to another row, it does not open. Not under DPP_SECRET_KEY: its
rotation ends sessions, and must not end this.
"""

import base64
import hashlib
import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpp_project.process_env import ENV

_FORM: Final = b"\x01"
_MARK_BYTES: Final = 4
_NONCE_BYTES: Final = 12
HEAD_BYTES: Final = len(_FORM) + _MARK_BYTES


class NoEncryptionKey(RuntimeError):  # noqa: N818  named for the finding
    """DPP_ENCRYPTION_KEYS is not set, so nothing can be encrypted."""

    def __init__(self) -> None:
        super().__init__("DPP_ENCRYPTION_KEYS is not set")


class Unreadable(RuntimeError):  # noqa: N818  named for the finding
    """No key opens it: its key is no longer in DPP_ENCRYPTION_KEYS, or it is not what was stored for its place."""

    def __init__(self) -> None:
        super().__init__("no key of DPP_ENCRYPTION_KEYS opens it")


def is_possible() -> bool:
    return bool(ENV.DPP_ENCRYPTION_KEYS)


def encrypt(plain: bytes, *, bound_to: bytes) -> bytes:
    """Raises NoEncryptionKey."""
    nonce = os.urandom(_NONCE_BYTES)
    return current_head() + nonce + AESGCM(_decoded_encryption_keys()[0]).encrypt(nonce, plain, bound_to)


def decrypt(sealed: bytes, *, bound_to: bytes) -> bytes:
    """Raises Unreadable. Two keys may share a mark: each that bears it is tried."""
    head, nonce = sealed[:HEAD_BYTES], sealed[HEAD_BYTES : HEAD_BYTES + _NONCE_BYTES]
    for key in _decoded_encryption_keys() if is_possible() else ():
        if head == _head(key) and len(nonce) == _NONCE_BYTES:
            try:
                return AESGCM(key).decrypt(nonce, sealed[HEAD_BYTES + _NONCE_BYTES :], bound_to)
            except InvalidTag:
                continue
    raise Unreadable


def current_head() -> bytes:
    """How all that the first key encrypted begins. Raises NoEncryptionKey."""
    return _head(_decoded_encryption_keys()[0])


def known_heads() -> list[bytes]:
    """How all begins that some key opens."""
    return [_head(key) for key in _decoded_encryption_keys()] if is_possible() else []


def _decoded_encryption_keys() -> list[bytes]:
    if not ENV.DPP_ENCRYPTION_KEYS:
        raise NoEncryptionKey
    return [base64.b64decode(one) for one in ENV.DPP_ENCRYPTION_KEYS]


def _head(key: bytes) -> bytes:
    return _FORM + hashlib.sha256(b"dpp encryption key" + key).digest()[:_MARK_BYTES]
