"""A console action that changes something: first a page that says what will happen, then a POST that does it.

Unfold's own actions are plain links, and a link must not change anything: another site could hold it. So the action's
method shows this page on GET, and acts on the POST of its form, which carries Django's CSRF token.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from django import forms
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

AnyForm = TypeVar("AnyForm", bound=forms.Form)


def page(
    model_admin: "ModelAdmin[Any]",
    request: HttpRequest,
    subject: Model,
    *,
    title: str,
    text: str,
    submit: str,
    form_class: type[AnyForm],
    act: Callable[[AnyForm], HttpResponse],
) -> HttpResponse:
    """The confirming page, or what `act` answers once a valid form was sent."""
    form = form_class(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        return act(form)
    context = model_admin.admin_site.each_context(request) | {
        "title": title,
        "text": text,
        "submit_text": submit,
        "form": form,
        "original": subject,
        "opts": model_admin.opts,
    }
    return TemplateResponse(request, "admin/confirm.html", context)
