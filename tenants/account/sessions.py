"""A session of the account pages: which key was presented, and nothing else.

It lives in the table of sessions under a cookie of its own, sent under /account/ alone. A session of the console holds
no key, and one of these no operator, so neither opens the other's pages. Each request reads the key anew: with a key
that is revoked, ended, or whose tenant is suspended, the session is over.
"""

import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import rotate_token

from dpp_project import clock
from tenants import authentication
from tenants.principals import Principal
from tenants.scopes import OPERATOR_TENANT_ID

COOKIE: Final = "dpp_account"
PATH: Final = "/account/"
LENGTH: Final = timedelta(hours=1)
KEY: Final = "account_key"
SAID: Final = "account_said"


@dataclass(frozen=True, slots=True)
class AccountSession:
    """Who is signed in, by which key, and until when."""

    principal: Principal
    store: SessionStore

    def say(self, text: str) -> None:
        """On the next page, once."""
        self.store[SAID] = text
        self._save()

    def said(self) -> str:
        text: str = self.store.pop(SAID, "")
        if text:
            self._save()
        return text

    def _save(self) -> None:
        """Unless she has signed out meanwhile, in another tab: what she did is done all the same."""
        with suppress(UpdateError):
            self.store.save()


def start_account_session(request: HttpRequest, response: HttpResponse, principal: Principal) -> None:
    """A new one, whatever the browser had before: a planted cookie leads nowhere."""
    end_account_session(request, response)
    store = SessionStore()
    store[KEY] = str(principal.key_id)
    ends = clock.now() + LENGTH
    store.set_expiry(ends if principal.expires_at is None else min(ends, principal.expires_at))
    store.create()
    rotate_token(request)
    response.set_cookie(
        COOKIE,
        str(store.session_key),
        max_age=int(LENGTH.total_seconds()),
        path=PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def signed_in(request: HttpRequest) -> AccountSession | None:
    store = SessionStore(request.COOKIES.get(COOKIE))
    try:
        key_id = uuid.UUID(store.get(KEY, ""))
    except ValueError:
        return None
    found = authentication.principal_of_key(key_id)
    if not isinstance(found, Principal) or found.tenant_id == OPERATOR_TENANT_ID:
        return None
    return AccountSession(found, store)


def end_account_session(request: HttpRequest, response: HttpResponse) -> None:
    """The row goes, so that a copy of the cookie is worth nothing."""
    held = request.COOKIES.get(COOKIE)
    if held is not None:
        store = SessionStore(held)
        if KEY in store:
            store.delete()
    response.delete_cookie(COOKIE, path=PATH, samesite="Lax")
