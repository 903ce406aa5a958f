"""What every account page does before and after its own work: session, scope, rate, and refusals as pages."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.views.generic import View

from dpp_project import actors
from dpp_project.constants import RATE_LIMIT_RETRY_AFTER_SECONDS
from dpp_project.http.cursors import Cursor, CursorInvalid
from dpp_project.http.handlers import NOT_FOUND_DETAIL, UNAVAILABLE, to_problem
from dpp_project.http.problems import Problem
from dpp_project.reasons import REASONS, ReasonCode
from dpp_project.refusals import Refusal
from tenants.account import menu, sessions, signing_in
from tenants.account.sessions import AccountSession
from tenants.account.signing_in import KeyRefused
from tenants.permissions import requirement_of
from tenants.principals import Principal

RETRY: Final = {"Retry-After": str(RATE_LIMIT_RETRY_AFTER_SECONDS)}


class AccountPage(View):
    """A page declares `required_scopes` as a view of the API does, and answers `get` and `post`."""

    http_method_names = ["get", "head", "post"]
    signed: AccountSession

    @property
    def principal(self) -> Principal:
        return self.signed.principal

    @property
    def tenant_id(self) -> str:
        return self.principal.tenant_id

    @property
    def actor(self) -> str:
        """The key, as the audit trail names it when it asks over the API."""
        return actors.owner_actor(self.principal.prefix)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            signed = sessions.signed_in(request)
            if signed is None:
                return private_page(_sign_in_first(request))
            self.signed = signed
            request.dpp_principal = signed.principal  # type: ignore[attr-defined]  # for the request's log line
            self._admit(request)
            return private_page(super().dispatch(request, *args, **kwargs))
        except Problem as problem:
            return private_page(self._refused(request, problem))
        except UNAVAILABLE as error:
            return private_page(self._refused(request, to_problem(error)))

    def _admit(self, request: HttpRequest) -> None:
        method = "GET" if request.method == "HEAD" else request.method or ""
        needs = requirement_of(type(self), method)  # type: ignore[arg-type]  # it reads the attribute alone
        if not menu.menu_allows(self.principal, needs):
            raise Problem(ReasonCode.SCOPE_MISSING, f"Key dpp_{self.principal.prefix} lacks the scope for this.")
        if not signing_in.has_room(self.principal):
            raise Problem(ReasonCode.RATE_LIMITED, KeyRefused.TOO_MANY.value, headers=RETRY)

    def may(self, needs: Any) -> bool:
        return menu.menu_allows(self.principal, needs)

    def show(self, template: str, context: Mapping[str, Any], *, status: int = 200) -> HttpResponse:
        items = [(item.title, reverse(item.url_name)) for item in menu.menu_items(self.principal)]
        shell = {
            "menu": items,
            "here": max((path for _, path in items if self.request.path.startswith(path)), key=len, default=""),
            "principal": self.principal,
            "said": self.signed.said(),
        }
        return render(self.request, template, shell | dict(context), status=status)

    def done(self, text: str, url_name: str, *args: Any) -> HttpResponse:
        """Back to a page that says what was done; sent again it would do nothing more."""
        self.signed.say(text)
        return HttpResponseRedirect(reverse(url_name, args=args))

    def unless_hidden(self, refusal: Refusal) -> str:
        """What a form shows of a refusal. Another tenant's thing and none look the same; an ended key has no page."""
        if refusal.reason in {ReasonCode.NOT_FOUND, ReasonCode.AUTH_INVALID}:
            raise Problem(refusal.reason, refusal.detail)
        return f"{refusal.field}: {refusal.detail}" if refusal.field else refusal.detail

    def _refused(self, request: HttpRequest, problem: Problem) -> HttpResponse:
        if problem.reason is ReasonCode.AUTH_INVALID:
            return _sign_in_first(request)
        if problem.reason is ReasonCode.NOT_FOUND:  # the same, whether it is another's, malformed, or never was
            problem = Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
        context = {"title": REASONS[problem.reason].title, "problem": problem}
        if hasattr(self, "signed"):
            answer = self.show("account/problem.html", context, status=problem.status)
        else:
            answer = render(request, "account/problem.html", context, status=problem.status)
        for name, value in problem.headers.items():
            answer.headers[name] = value
        return answer


def cursor_of(request: HttpRequest) -> Cursor | None:
    """Where the page before ended."""
    text = request.GET.get("cursor")
    try:
        return None if text is None else Cursor.parse(text)
    except CursorInvalid as error:
        raise Problem(ReasonCode.VALIDATION_FAILED, f"cursor: {error}.") from error


def private_page(response: HttpResponseBase) -> HttpResponseBase:
    """Nothing of an account stays in a cache, the browser's own included."""
    patch_cache_control(response, private=True, no_store=True)
    return response


def _sign_in_first(request: HttpRequest) -> HttpResponse:
    asked = {"next": request.get_full_path()} if request.method == "GET" else {}
    if sessions.COOKIE in request.COOKIES:
        asked["ended"] = "1"
    answer = HttpResponseRedirect(f"{reverse('account-sign-in')}{'?' if asked else ''}{urlencode(asked)}")
    sessions.end_account_session(request, answer)
    return answer
