"""Dead letters in the console: to read, and to send again."""

from abc import abstractmethod
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.contrib.admin.templatetags.admin_urls import admin_urlname
from django.contrib.auth import get_permission_codename
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.decorators import action

from dpp_project import actors
from dpp_project.console import confirm
from dpp_project.console.row_admin import ReadOnlyAdmin
from dpp_project.refusals import Refusal


class LetterAdmin(ReadOnlyAdmin):
    """A subclass says how one of its letters is sent again, and what that does."""

    actions_detail = ("send_again",)
    send_again_title: ClassVar[str]
    send_again_text: ClassVar[str]
    sent_again: ClassVar[str]

    @abstractmethod
    def redrive(self, letter: Any, *, actor: str) -> Refusal | None:
        """Send it again, or say why not."""

    @action(description="Send again", icon="redo", permissions=["send_again"])  # type: ignore[untyped-decorator]
    def send_again(self, request: HttpRequest, object_id: str) -> HttpResponse:
        letter: Any = self.get_object(request, object_id)
        if letter is None:
            raise Http404

        def act(_form: forms.Form) -> HttpResponse:
            refusal = self.redrive(letter, actor=actors.person_actor(request.user))
            if refusal is None:
                self.log_change(request, letter, "Sent again.")
                self.message_user(request, self.sent_again, messages.SUCCESS)
            else:
                self.message_user(request, f"Nothing was sent: {refusal.detail}.", messages.ERROR)
            return HttpResponseRedirect(reverse(admin_urlname(self.opts, "change"), args=[letter.pk]))  # type: ignore[arg-type]

        return confirm.confirm_page(
            self,
            request,
            letter,
            title=self.send_again_title,
            text=self.send_again_text,
            submit="Send again",
            form_class=forms.Form,
            act=act,
        )

    def has_send_again_permission(self, request: HttpRequest, _object_id: Any = None) -> bool:
        codename = get_permission_codename("change", self.opts)
        return bool(request.user.has_perm(f"{self.opts.app_label}.{codename}"))
