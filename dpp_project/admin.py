"""Operators' accounts, in the console's own dress. What is done to them stands in the audit trail."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.admin import ModelAdmin
from unfold.decorators import action
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from dpp_project import actors
from dpp_project.audit import trail
from dpp_project.console import confirm
from dpp_project.signin.models import SecondFactor

LOG = "log entries"
"""Django's name for them on the page that asks before it deletes."""
DEPARTED = "departed-operators"
"""Whose the log entries of deleted operators are; the audit trail names each."""

admin.site.index_title = "Dashboard"
admin.site.unregister(User)
admin.site.unregister(Group)


class AuditedAdmin(ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """Django saves these rows itself; the trail gets what differs, in Django's own transaction of the page."""

    audited: ClassVar[tuple[str, ...]]
    audited_lists: ClassVar[tuple[str, ...]]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        found = super().get_object(request, object_id, from_field)
        if found is not None:
            request.audit_before = self._facts(found)  # type: ignore[attr-defined]
        return found

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self._record("created", request, obj, before=None)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self._record("changed", request, obj, before=getattr(request, "audit_before", {}))
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for obj in queryset:
            kind, facts = self.opts.verbose_name, self._facts(obj)
            trail.record_in_trail(
                f"{kind} deleted", actor=actors.person_actor(_user(request)), subject=f"{kind} {obj}", before=facts
            )
        return super().log_deletions(request, queryset)

    def get_actions(self, request: HttpRequest) -> Any:
        """One account at a time: deleting many at once has no transaction of its own."""
        return {name: one for name, one in super().get_actions(request).items() if name != "delete_selected"}

    def _record(self, did: str, request: HttpRequest, obj: Model, *, before: dict[str, Any] | None) -> None:
        was, became = trail.differing_values(before or {}, self._facts(self.get_queryset(request).get(pk=obj.pk)))
        if was or did == "created":
            kind = self.opts.verbose_name
            trail.record_in_trail(
                f"{kind} {did}",
                actor=actors.person_actor(_user(request)),
                subject=f"{kind} {obj}",
                before=None if before is None else was,
                after=became,
            )

    def _facts(self, obj: Any) -> dict[str, Any]:
        lists = {name: sorted(str(one) for one in getattr(obj, name).all()) for name in self.audited_lists}
        return {name: getattr(obj, name) for name in self.audited} | lists


@admin.register(User)
class UserAdmin(DjangoUserAdmin, AuditedAdmin):  # type: ignore[type-arg]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    audited = ("username", "email", "first_name", "last_name", "is_active", "is_staff", "is_superuser")
    audited_lists = ("groups", "user_permissions")
    actions_detail = ("remove_second_factor",)

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        has_one = object_id.isdecimal() and SecondFactor.objects.filter(user_id=int(object_id)).exists()
        return list(super().get_actions_detail(request, object_id)) if has_one else []

    def has_manage_permission(self, request: HttpRequest, _object_id: Any = None) -> bool:
        return bool(request.user.has_perm("auth.change_user"))

    @action(description="Remove second factor", icon="phonelink_erase", permissions=["manage"])  # type: ignore[untyped-decorator]
    def remove_second_factor(self, request: HttpRequest, object_id: str) -> HttpResponse:
        user: User | None = self.get_object(request, unquote(object_id))
        if user is None:
            raise Http404
        return confirm.confirm_page(
            self,
            request,
            user,
            title="Remove second factor",
            text="The operator then signs in by name and password alone. Make sure that it is she who asks.",
            submit="Remove",
            form_class=forms.Form,
            act=lambda _form: self._remove_second_factor(request, user),
        )

    def _remove_second_factor(self, request: HttpRequest, user: User) -> HttpResponse:
        with transaction.atomic():
            removed, _ = SecondFactor.objects.filter(user=user).delete()
            if removed:
                trail.record_in_trail(
                    "second factor removed", actor=actors.person_actor(_user(request)), subject=f"user {user}"
                )
        said = ("The second factor is removed.", messages.SUCCESS) if removed else ("There is none.", messages.ERROR)
        self.message_user(request, *said)
        return HttpResponseRedirect(reverse("admin:auth_user_change", args=[user.pk]))

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        """What the account did stays in the objects' histories, under an account that nobody can use."""
        departed, _ = User.objects.get_or_create(
            username=DEPARTED, defaults={"is_active": False, "password": make_password(None)}
        )
        LogEntry.objects.filter(user=obj).update(user=departed)
        super().delete_model(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Without its log, which Django would delete with it and which stays."""
        _, counts, *rest = super().get_deleted_objects(objs, request)
        gone = {name: count for name, count in counts.items() if name != LOG}
        return [str(one) for one in objs], gone, *rest

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and getattr(obj, "username", "") != DEPARTED

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:  # noqa: A002  Django's
        with transaction.atomic():
            return super().user_change_password(request, id, form_url)

    def _facts(self, obj: Any) -> dict[str, Any]:
        """That a password changed is seen by a mark of its hash, which is not entered."""
        return super()._facts(obj) | {"password": _Secret(obj.password)}


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, AuditedAdmin):
    audited = ("name",)
    audited_lists = ("permissions",)


class _Secret:
    """Compared by what it holds, and shown as nothing."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return "(not shown)"


def _user(request: HttpRequest) -> Any:
    return request.user
