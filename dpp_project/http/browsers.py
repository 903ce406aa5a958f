"""Django's middlewares that only pages for people need, out of the API's way. A request of the API has no session."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth import middleware as auth
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.http import HttpRequest

from dpp_project.http.handlers import for_browsers


class _ForBrowsers:
    get_response: Callable[[HttpRequest], Any]

    def __call__(self, request: HttpRequest) -> Any:
        through: Any = super()
        return through.__call__(request) if for_browsers(request) else self.get_response(request)


class SessionMiddleware(_ForBrowsers, sessions.SessionMiddleware):
    pass


class AuthenticationMiddleware(_ForBrowsers, auth.AuthenticationMiddleware):
    pass


class MessageMiddleware(_ForBrowsers, messages.MessageMiddleware):
    pass
