"""Pages around the console's own: signing in, one's own password, one's own second factor."""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache

from dpp_project import actors, clock
from dpp_project.audit import trail
from dpp_project.signin import devices, sign_in, totp
from dpp_project.signin.forms import THROTTLED, WRONG_CODE, WRONG_SET_UP, CodeForm, SetUpForm
from dpp_project.signin.models import SecondFactor

OFFERED = "second_factor_offered"
ISSUER = "DPP console"


def login(request: HttpRequest) -> HttpResponse:
    """Django's page. Who has signed in stays so for twelve hours from now, however busy she is."""
    response = admin.site.login(request)
    if request.method == "POST" and response.status_code == 302 and request.user.is_authenticated:
        request.session.set_expiry(clock.now() + settings.SESSION_LENGTH)
        devices.remember_device(request, response, request.user.get_username(), secure=settings.SESSION_COOKIE_SECURE)
    return response


def password_change(request: HttpRequest) -> HttpResponse:
    """Django's page for one's own password, written down."""
    with transaction.atomic():
        response = admin.site.password_change(request)
        if request.method == "POST" and response.status_code == 302 and isinstance(request.user, User):
            _record_own_sign_in_change("own password changed", request.user)
    return response


@never_cache
def second_factor(request: HttpRequest) -> HttpResponse:
    """Set up one's own second factor, which takes the password, or take it away, which takes a code: a stolen session
    does neither. What is wrong counts as a sign-in that failed.
    """
    user = request.user
    assert isinstance(user, User)  # noqa: S101  admin_view lets nobody else in
    factor = SecondFactor.objects.filter(user=user).first()
    form = (SetUpForm if factor is None else CodeForm)(request.POST if request.method == "POST" else None)
    secret = factor.secret if factor is not None else request.session.setdefault(OFFERED, totp.new_secret())
    if request.method == "POST" and form.is_valid():
        name, device = user.get_username(), devices.known_device(request, user.get_username())
        if sign_in.is_throttled(name, device=device):
            form.add_error("code", THROTTLED)
        elif (step := _proven_step(user, factor, secret, form.cleaned_data)) is None:
            sign_in.record_wrong(name, device=device)
            form.add_error("code", WRONG_SET_UP if factor is None else WRONG_CODE)
        else:
            _turn(request, user, factor, secret=secret, step=step)
            return HttpResponseRedirect(reverse("second-factor"))
    return TemplateResponse(request, "admin/second_factor.html", _context(request, user, factor, secret, form))


def _proven_step(user: User, factor: SecondFactor | None, secret: str, given: dict[str, Any]) -> int | None:
    after = 0 if factor is None else factor.last_step
    step = totp.matching_step(secret, given["code"], seconds=clock.now().timestamp(), after=after)
    return None if factor is None and not user.check_password(given["password"]) else step


def _turn(request: HttpRequest, user: User, factor: SecondFactor | None, *, secret: str, step: int) -> None:
    with transaction.atomic():
        if factor is None:
            SecondFactor.objects.create(user=user, secret=secret, last_step=step)
        else:
            factor.delete()
        _record_own_sign_in_change("second factor set up" if factor is None else "second factor taken away", user)
    request.session.pop(OFFERED, None)
    messages.success(request, "From now on signing in asks for a code." if factor is None else "No code is asked for.")


def _context(
    request: HttpRequest, user: User, factor: SecondFactor | None, secret: str, form: CodeForm
) -> dict[str, Any]:
    context: dict[str, Any] = admin.site.each_context(request) | {
        "title": "Second factor",
        "is_on": factor is not None,
        "form": form,
        "back": reverse("admin:index"),
    }
    if factor is None:
        grouped = " ".join(secret[at : at + 4] for at in range(0, len(secret), 4))
        context |= {
            "secret": grouped,
            "address": totp.provisioning_uri(secret, name=user.get_username(), issuer=ISSUER),
        }
    return context


def _record_own_sign_in_change(act: str, user: User) -> None:
    trail.record_in_trail(
        act, actor=actors.person_actor(user), subject=f"operator {actors.person_of(actors.person_actor(user))}"
    )
