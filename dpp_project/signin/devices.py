"""A browser that an operator has signed in from before, by a signed cookie.

Failed attempts by name are counted apart from those of her own browsers, and those of a browser by its cookie alone: an
attacker who fails under her name, from anywhere, locks himself out and not her.
"""

import secrets
from typing import Final

from django.core import signing
from django.http import HttpRequest, HttpResponse

from dpp_project.actors import person_of

COOKIE: Final = "dpp_device"
SALT: Final = "dpp.signin.device"
MAX_AGE_SECONDS: Final = 90 * 86_400


def known_device(request: HttpRequest, name: str) -> str | None:
    """The id of this browser, where its cookie is ours and of this operator."""
    try:
        held = signing.loads(request.COOKIES.get(COOKIE, ""), salt=SALT, max_age=MAX_AGE_SECONDS)
    except signing.BadSignature:
        return None
    return str(held["device"]) if held["name"] == person_of(name) else None


def remember_device(request: HttpRequest, response: HttpResponse, name: str, *, secure: bool) -> None:
    device = known_device(request, name) or secrets.token_urlsafe(12)
    response.set_cookie(
        COOKIE,
        signing.dumps({"name": person_of(name), "device": device}, salt=SALT),
        max_age=MAX_AGE_SECONDS,
        path="/admin/",
        secure=secure,
        httponly=True,
        samesite="Strict",
    )
