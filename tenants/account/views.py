"""Signing in and out, the first page, and what was done to the tenant."""

from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters
from django.views.generic import View

from dpp_project.audit import reads
from dpp_project.http.handlers import UNAVAILABLE, to_problem
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode
from tenants.account import menu, sessions, signing_in
from tenants.account.menu import MenuItem
from tenants.account.page import AccountPage, private_page
from tenants.account.signing_in import KeyRefused
from tenants.account.trail_words import changed_facts
from tenants.audit_api import NUMBER_MAX, AuditLine
from tenants.permissions import ANY_KEY, PUBLIC

LINES: Final = 50
NUMBER_DIGITS: Final = len(str(NUMBER_MAX))


class SignInPage(View):
    """Open to strangers; it asks the database for a key that has the form of one, and for nothing else."""

    http_method_names = ["get", "head", "post"]
    required_scopes: Final = PUBLIC

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return private_page(super().dispatch(request, *args, **kwargs))
        except (Problem, *UNAVAILABLE) as error:
            problem = to_problem(error)
            return private_page(self._form(request, error=problem.detail, status=problem.status))

    def get(self, request: HttpRequest) -> HttpResponse:
        if sessions.signed_in(request) is not None:
            return HttpResponseRedirect(_next(request))
        return self._form(request, said="Your session has ended." if "ended" in request.GET else "")

    def post(self, request: HttpRequest) -> HttpResponse:
        answer = signing_in.sign_in_with_key(_key_in(request))
        if isinstance(answer, KeyRefused):
            status = 429 if answer in {KeyRefused.THROTTLED, KeyRefused.TOO_MANY} else 403
            return self._form(request, error=answer.value, status=status)
        response = HttpResponseRedirect(_next(request))
        sessions.start_account_session(request, response, answer)
        return response

    def _form(self, request: HttpRequest, *, error: str = "", said: str = "", status: int = 200) -> HttpResponse:
        context = {"error": error, "said": said, "next": _next(request)}
        return render(request, "account/sign_in.html", context, status=status)


class SignOutPage(View):
    http_method_names = ["post"]
    required_scopes: Final = PUBLIC

    def post(self, request: HttpRequest) -> HttpResponseBase:
        response = HttpResponseRedirect(reverse("account-sign-in"))
        sessions.end_account_session(request, response)
        return private_page(response)


class OverviewPage(AccountPage):
    required_scopes: Final = ANY_KEY

    def get(self, request: HttpRequest) -> HttpResponse:
        shown = [
            render_to_string(part.template, {**part.build(self.principal), "principal": self.principal}, request)
            for part in menu.menu_parts(self.principal)
        ]
        return self.show("account/overview.html", {"parts": shown, "scopes": sorted(self.principal.scopes)})


class ActivityPage(AccountPage):
    """What `GET /v1/audit` tells, as a page."""

    required_scopes: Final = ANY_KEY

    def get(self, request: HttpRequest) -> HttpResponse:
        page = reads.read_trail_of(self.tenant_id, below=_number(request.GET.get("before")), limit=LINES)
        lines = [(AuditLine.of(one), changed_facts(one.before, one.after)) for one in page.entries]
        return self.show("account/activity.html", {"lines": lines, "next": page.next})


@sensitive_post_parameters("key")
def _key_in(request: HttpRequest) -> str:
    return request.POST.get("key", "")[: signing_in.KEY_LENGTH_MAX].strip()


def _next(request: HttpRequest) -> str:
    """Where she wanted to go, if that lies in these pages."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    inside = wanted.startswith(sessions.PATH) and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None)
    return wanted if inside else reverse("account-overview")


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > NUMBER_DIGITS or not 1 <= int(text) <= NUMBER_MAX:
        raise Problem(ReasonCode.NOT_FOUND, "There is no such page.")
    return int(text)


menu.add_page(MenuItem(0, "Overview", "account-overview", ANY_KEY))
menu.add_page(MenuItem(90, "Activity", "account-activity", ANY_KEY))
