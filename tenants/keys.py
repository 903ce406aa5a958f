"""The format of an API key: `dpp_<prefix, 8>_<secret, 43>`, letters and digits only. Pure.

The prefix is public: it finds the row and names the key in logs and lists. The secret has 256 random bits, so a plain
SHA-256 of the whole key is safe to store: a dictionary attack cannot work. Neither half contains `_` or `-`, so a key
parses in one way only, and a double click selects it whole.
"""

import hashlib
import hmac
import re
import secrets
import string
from dataclasses import dataclass
from typing import Final

PREFIX_LENGTH: Final = 8
SECRET_LENGTH: Final = 43
KEY_LENGTH: Final = len("dpp_") + PREFIX_LENGTH + len("_") + SECRET_LENGTH
_ALPHABET: Final = string.digits + string.ascii_letters
_FORM: Final = re.compile(rf"dpp_([0-9A-Za-z]{{{PREFIX_LENGTH}}})_[0-9A-Za-z]{{{SECRET_LENGTH}}}")
_NO_ROW: Final = hashlib.sha256(b"no row has this prefix").hexdigest()


@dataclass(frozen=True)
class NewKey:
    """A key that was just made. `plaintext` is never stored; only this object and the key's owner have it."""

    plaintext: str
    prefix: str
    key_hash: str

    def __repr__(self) -> str:
        return f"NewKey(prefix={self.prefix!r})"


def make_api_key() -> NewKey:
    prefix, secret = _random(PREFIX_LENGTH), _random(SECRET_LENGTH)
    plaintext = f"dpp_{prefix}_{secret}"
    return NewKey(plaintext=plaintext, prefix=prefix, key_hash=hash_of(plaintext))


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def prefix_of(text: str) -> str | None:
    """Return the prefix of a well-formed key, None for anything else, in constant time whatever its length."""
    form = _FORM.fullmatch(text) if len(text) == KEY_LENGTH else None
    return None if form is None else form[1]


def presented_in(header: str) -> tuple[str, str] | None:
    """The prefix and the whole of the well-formed key in an Authorization header, None for anything else."""
    scheme, _, credentials = header.partition(" ")
    presented = credentials.strip(" ")
    prefix = prefix_of(presented) if scheme.lower() == "bearer" else None
    return None if prefix is None else (prefix, presented)


def is_prefix(text: str) -> bool:
    return len(text) == PREFIX_LENGTH and text.isascii() and text.isalnum()


def hash_of(plaintext: str) -> str:
    return hashlib.sha256(plaintext.encode("ascii")).hexdigest()


def api_key_matches(presented_hash: str, stored_hash: str | None) -> bool:
    """Compare the hashes in constant time, also when no row was found (None)."""
    same = hmac.compare_digest(presented_hash, _NO_ROW if stored_hash is None else stored_hash)
    return same and stored_hash is not None
