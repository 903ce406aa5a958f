"""A console action that changes something: first a page that says what will happen, then a POST that does it.

Unfold's own actions are plain links, and a link must not change anything: another site could hold it. So the action's
method shows this page on GET, and acts on the POST of its form, which carries Django's CSRF token. An action on rows
selected in a list comes by POST already; it acts when the page's own form sends it the second time.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django import forms
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.templatetags.admin_urls import admin_urlname
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

AnyForm = TypeVar("AnyForm", bound=forms.Form)
CONFIRMED: Final = "confirmed"


def confirm_page(
    model_admin: "ModelAdmin[Any]",
    request: HttpRequest,
    subject: Model,
    *,
    title: str,
    text: str,
    submit: str,
    form_class: type[AnyForm],
    act: Callable[[AnyForm], HttpResponse],
    back: str | None = None,
    initial: dict[str, Any] | None = None,
) -> HttpResponse:
    """The confirming page, or what `act` answers once a valid form was sent."""
    form = form_class(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and form.is_valid():
        return act(form)
    back = back or reverse(admin_urlname(model_admin.opts, "change"), args=[quote(subject.pk)])  # type: ignore[arg-type]
    return _console_confirm_page(
        model_admin,
        request,
        {"title": title, "text": text, "submit_text": submit, "form": form, "original": subject, "back": back},
    )


def plain_page(
    model_admin: "ModelAdmin[Any]",
    request: HttpRequest,
    subject: Model,
    *,
    title: str,
    text: str,
    act: Callable[[forms.Form], HttpResponse],
) -> HttpResponse:
    """For an act that asks nothing more; its button says the first word of the title."""
    submit = title.split(maxsplit=1)[0]
    return confirm_page(
        model_admin, request, subject, title=title, text=text, submit=submit, form_class=forms.Form, act=act
    )


def page_for_selected(
    model_admin: "ModelAdmin[Any]",
    request: HttpRequest,
    subjects: Sequence[Model],
    *,
    title: str,
    text: str,
    submit: str,
    act: Callable[[], None],
) -> HttpResponse | None:
    """The confirming page for rows of a list, or None once it was confirmed and `act` has acted: back to the list."""
    if CONFIRMED in request.POST:
        act()
        return None
    context = {
        "title": title,
        "text": text,
        "submit_text": submit,
        "form": forms.Form(),
        "subjects": subjects,
        "back": request.get_full_path(),
        "repeated": [
            ("action", request.POST.get("action", "")),
            *((ACTION_CHECKBOX_NAME, str(subject.pk)) for subject in subjects),
            (CONFIRMED, "1"),
        ],
    }
    return _console_confirm_page(model_admin, request, context)


def _console_confirm_page(
    model_admin: "ModelAdmin[Any]", request: HttpRequest, context: dict[str, Any]
) -> HttpResponse:
    whole = model_admin.admin_site.each_context(request) | context | {"opts": model_admin.opts}
    return TemplateResponse(request, "admin/confirm.html", whole)
