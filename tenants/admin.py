"""The console's pages for tenants and keys (DPP-75). They read the tables, and write through the services."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db import models
from django.db.models import Exists, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminTextInputWidget

from dpp_project import actors, clock
from dpp_project.console import confirm
from dpp_project.console.row_admin import KeptAdmin, ReadOnlyInline, WrittenOnceAdmin
from dpp_project.refusals import Refusal
from tenants import key_page, services
from tenants.forms import NewKeyForm, RotateForm, TenantForm, WhyForm
from tenants.models import ApiKey, Tenant
from tenants.scopes import OPERATOR_TENANT_ID
from tenants.services import IssuedKey

SUBMIT_COLORS = {"TAKEN": "success", "STOPPED": "danger"}
STOPS = (
    "New runs are refused as EXECUTION_DISABLED within 5 seconds. Runs under way go on and are charged, everything can"
    " be read, and a retry of an accepted submit still gets its receipt."
)
STATE_COLORS = {
    "ACTIVE": "success",
    "SUSPENDED": "warning",
    "ENDING": "warning",
    "EXPIRED": "danger",
    "REVOKED": "danger",
}


class _ManagedAdmin(KeptAdmin):
    """Rows cannot be deleted; only people with the change permission see the actions."""

    formfield_overrides = {models.TextField: {"widget": UnfoldAdminTextInputWidget}}

    def has_manage_permission(self, request: HttpRequest, _object_id: Any = None) -> bool:
        return bool(request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}"))

    def found(self, request: HttpRequest, object_id: str) -> Any:
        subject = self.get_object(request, unquote(object_id))  # as the console writes it into addresses
        if subject is None:
            raise Http404
        return subject

    def report(self, request: HttpRequest, subject: Any, answer: object, done: str) -> HttpResponse:
        """Redirect to the object's page with a message that says what the action did."""
        if isinstance(answer, Refusal):
            self.message_user(request, answer.detail, messages.ERROR)
        else:
            self.log_change(request, subject, done)
            self.message_user(request, done, messages.SUCCESS)
        return HttpResponseRedirect(
            reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[subject.pk])
        )


class KeysOfTenant(ReadOnlyInline):
    model = ApiKey
    fields = readonly_fields = ("label", "scopes", "state", "expires_at", "last_used_at")
    verbose_name_plural = "Keys"
    show_change_link = True
    tab = False

    @display(description="state", label=STATE_COLORS)  # type: ignore[untyped-decorator]
    def state(self, key: ApiKey) -> str:
        return services.state_of(key, clock.now())


@admin.register(Tenant)
class TenantAdmin(_ManagedAdmin):
    form = TenantForm
    list_display = (
        "tenant_id",
        "display_name",
        "state",
        "submits",
        "poll_rate_per_minute",
        "submit_rate_per_minute",
        "created_at",
    )
    list_filter = ("status",)
    search_fields = ("tenant_id", "display_name")
    inlines = (KeysOfTenant,)
    actions_detail = ("suspend", "resume", "stop_submits", "resume_submits")
    actions_list = ("stop_all_submits", "resume_all_submits")

    @display(description="status", ordering="status", label=STATE_COLORS)  # type: ignore[untyped-decorator]
    def state(self, tenant: Tenant) -> str:
        return tenant.status

    @display(description="submits", ordering="submits_enabled", label=SUBMIT_COLORS)  # type: ignore[untyped-decorator]
    def submits(self, tenant: Any) -> str:
        return "TAKEN" if tenant.submits_enabled and not tenant.all_submits_stopped else "STOPPED"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Tenant]:
        stopped = Exists(Tenant.objects.filter(pk=OPERATOR_TENANT_ID, submits_enabled=False))
        found: QuerySet[Tenant] = super().get_queryset(request).annotate(all_submits_stopped=stopped)
        return found

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        del request
        return [*TenantForm.Meta.fields, *([] if obj is None else ["status", "submits_enabled", "created_at"])]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        del request
        return [] if obj is None else ["tenant_id", "status", "submits_enabled", "created_at"]

    def get_inlines(self, request: HttpRequest, obj: Any) -> list[type[KeysOfTenant]]:
        del request
        return [] if obj is None else list(self.inlines)

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """Show only the actions that would change something: suspend or resume, stop submits or take them again."""
        tenant = Tenant.objects.filter(pk=unquote(object_id)).first()
        idle = {"suspend" if tenant and tenant.status == Tenant.Status.SUSPENDED else "resume"}
        if tenant is None or tenant.pk == OPERATOR_TENANT_ID:
            idle |= {"stop_submits", "resume_submits"}
        else:
            idle.add("resume_submits" if tenant.submits_enabled else "stop_submits")
        return [item for item in super().get_actions_detail(request, object_id) if item.path not in idle]

    def get_actions_list(self, request: HttpRequest) -> list[Any]:
        idle = "stop_all_submits" if services.all_submits_are_stopped() else "resume_all_submits"
        return [item for item in super().get_actions_list(request) if item.path.strip("/") != idle]

    def save_model(self, request: HttpRequest, obj: Tenant, form: Any, change: bool) -> None:  # noqa: FBT001  Django's
        del form
        use_case = services.update_tenant if change else services.create_tenant
        answer = use_case(
            tenant_id=obj.tenant_id,
            display_name=obj.display_name,
            poll_rate_per_minute=obj.poll_rate_per_minute,
            submit_rate_per_minute=obj.submit_rate_per_minute,
            refund_own_failures=obj.refund_own_failures,
            low_balance_usd_micros=obj.low_balance_usd_micros,
            zone=obj.zone,
            share_weight=obj.share_weight,
            most_at_work=obj.most_at_work,
            actor=actors.person_actor(request.user),
        )
        _require_done(answer)
        if obj.pk != OPERATOR_TENANT_ID:
            enabled = obj.automations_enabled
            _require_done(
                services.enable_automations(
                    tenant_id=obj.tenant_id, enabled=enabled, actor=actors.person_actor(request.user)
                )
            )

    @action(description="Stop submits", icon="pause", variant=ActionVariant.DANGER, permissions=["manage"])  # type: ignore[untyped-decorator]
    def stop_submits(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._turn_submits(request, object_id, stop=True)

    @action(description="Take submits again", icon="play_arrow", permissions=["manage"])  # type: ignore[untyped-decorator]
    def resume_submits(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._turn_submits(request, object_id, stop=False)

    @action(  # type: ignore[untyped-decorator]
        description="Stop submits of all", icon="pause", variant=ActionVariant.DANGER, permissions=["manage"]
    )
    def stop_all_submits(self, request: HttpRequest) -> HttpResponse:
        return self._turn_all_submits(request, stop=True)

    @action(description="Take submits again", icon="play_arrow", permissions=["manage"])  # type: ignore[untyped-decorator]
    def resume_all_submits(self, request: HttpRequest) -> HttpResponse:
        return self._turn_all_submits(request, stop=False)

    def _turn_submits(self, request: HttpRequest, object_id: str, *, stop: bool) -> HttpResponse:
        tenant = self.found(request, object_id)

        def act(form: WhyForm) -> HttpResponse:
            answer = services.enable_submits(
                tenant_id=tenant.tenant_id,
                enabled=not stop,
                actor=actors.person_actor(request.user),
                reason=form.cleaned_data["reason"],
            )
            return self.report(request, tenant, answer, "Submits are stopped." if stop else "Submits are taken again.")

        return confirm.confirm_page(
            self,
            request,
            tenant,
            title="Stop submits" if stop else "Take submits again",
            text=STOPS if stop else "New runs are taken again, unless those of all tenants are stopped.",
            submit="Stop" if stop else "Take again",
            form_class=WhyForm,
            act=act,
        )

    def _turn_all_submits(self, request: HttpRequest, *, stop: bool) -> HttpResponse:
        operator, back = self.found(request, OPERATOR_TENANT_ID), reverse("admin:tenants_tenant_changelist")

        def act(form: WhyForm) -> HttpResponse:
            answer = services.stop_all_submits(
                stopped=stop, actor=actors.person_actor(request.user), reason=form.cleaned_data["reason"]
            )
            self.report(
                request, operator, answer, "Submits of all are stopped." if stop else "Submits are taken again."
            )
            return HttpResponseRedirect(back)

        return confirm.confirm_page(
            self,
            request,
            operator,
            title="Stop the submits of all tenants" if stop else "Take submits again",
            text=STOPS if stop else "New runs are taken again, except those of tenants that are stopped alone.",
            submit="Stop all" if stop else "Take again",
            form_class=WhyForm,
            act=act,
            back=back,
        )

    @action(description="Suspend", icon="block", variant=ActionVariant.DANGER, permissions=["manage"])  # type: ignore[untyped-decorator]
    def suspend(self, request: HttpRequest, object_id: str) -> HttpResponse:
        tenant = self.found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            tenant,
            title="Suspend tenant",
            text="All its keys stop working within 5 seconds. Runs it has already submitted are finished and charged.",
            submit="Suspend",
            form_class=forms.Form,
            act=lambda _form: self.report(
                request,
                tenant,
                services.suspend_tenant(tenant_id=tenant.tenant_id, actor=actors.person_actor(request.user)),
                "Suspended.",
            ),
        )

    @action(description="Resume", icon="play_arrow", permissions=["manage"])  # type: ignore[untyped-decorator]
    def resume(self, request: HttpRequest, object_id: str) -> HttpResponse:
        tenant = self.found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            tenant,
            title="Resume tenant",
            text="Its keys work again, except those that are revoked or have expired.",
            submit="Resume",
            form_class=forms.Form,
            act=lambda _form: self.report(
                request,
                tenant,
                services.resume_tenant(tenant_id=tenant.tenant_id, actor=actors.person_actor(request.user)),
                "Resumed.",
            ),
        )


@admin.register(ApiKey)
class ApiKeyAdmin(_ManagedAdmin, WrittenOnceAdmin):
    list_display = ("name", "tenant", "label", "allows", "state", "expires_at", "last_used_at", "created_at")
    list_filter = ("status", "tenant__status")
    list_select_related = ("tenant",)
    search_fields = ("prefix", "label", "tenant__tenant_id", "tenant__display_name")
    actions_detail = ("rotate", "revoke")
    change_form_after_template = "admin/tenants/key_panels.html"
    readonly_fields = (
        *("name", "key_id", "tenant", "label", "allows", "state", "created_at"),
        *("expires_at", "revoked_at", "last_used_at", "replaced_by"),
    )

    @display(description="key", ordering="prefix")  # type: ignore[untyped-decorator]
    def name(self, key: ApiKey) -> str:
        return str(key)

    @display(description="scopes")  # type: ignore[untyped-decorator]
    def allows(self, key: ApiKey) -> str:
        return ", ".join(key.scopes)

    @display(description="state", ordering="status", label=STATE_COLORS)  # type: ignore[untyped-decorator]
    def state(self, key: ApiKey) -> str:
        return services.state_of(key, clock.now())

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        key = self.get_object(request, unquote(object_id))
        shown = [] if key is None else [it for it in key_page.key_panels() if request.user.has_perm(it.permission)]
        context = {"key_panels": [(it.template, it.build(key)) for it in shown]} | (extra_context or {})
        answer: HttpResponse = super().change_view(request, object_id, form_url, context)
        return answer

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002  Django's
        return super().get_form(request, obj, change, **(kwargs if obj else kwargs | {"form": NewKeyForm}))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        del request
        return list(NewKeyForm.Meta.fields) if obj is None else list(self.readonly_fields)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        del request
        return [] if obj is None else list(self.readonly_fields)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ApiKey], search_term: str
    ) -> tuple[QuerySet[ApiKey], bool]:
        """Search by `dpp_` and the prefix too; the column holds the prefix alone."""
        found: tuple[QuerySet[ApiKey], bool] = super().get_search_results(
            request, queryset, search_term.strip().removeprefix("dpp_")
        )
        return found

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:  # noqa: FBT001  Django's
        del form, change
        issued = _require_done(
            services.issue_key(
                tenant_id=obj.tenant_id,
                scopes=obj.scopes,
                label=obj.label,
                expires_at=obj.expires_at,
                actor=actors.person_actor(request.user),
            )
        )
        obj.__dict__ |= issued.key.__dict__
        request.issued_key = issued  # type: ignore[attr-defined]  # for response_add, and nowhere else

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        del obj, post_url_continue
        return self._show_once(request, request.issued_key)  # type: ignore[attr-defined]

    def _show_once(self, request: HttpRequest, issued: IssuedKey, *, remark: str = "") -> HttpResponse:
        """Answer the POST that made the key with the key itself: without a redirect no cookie or session holds it."""
        context = self.admin_site.each_context(request) | {
            "title": "New API key",
            "original": issued.key,
            "opts": self.opts,
            "plaintext": issued.plaintext,
            "remark": remark,
            "next": reverse("admin:tenants_apikey_change", args=[issued.key.pk]),
        }
        response = TemplateResponse(request, "admin/tenants/key_shown_once.html", context)
        response.headers["Cache-Control"] = "no-store"
        return response

    @action(description="Rotate", icon="autorenew", permissions=["manage"])  # type: ignore[untyped-decorator]
    def rotate(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key = self.found(request, object_id)

        def act(form: RotateForm) -> HttpResponse:
            answer = services.rotate_key(key_id=key.key_id, grace=form.grace(), actor=actors.person_actor(request.user))
            if isinstance(answer, Refusal):
                return self.report(request, key, answer, "")
            self.log_change(request, key, f"Rotated; {answer.key} follows.")
            ends_at = ApiKey.objects.values_list("expires_at", flat=True).get(pk=key.pk)
            return self._show_once(request, answer, remark=f"{key} ends at {ends_at:%Y-%m-%d %H:%M:%S} UTC.")

        return confirm.confirm_page(
            self,
            request,
            key,
            title="Rotate key",
            text="A new key with the same scopes, label and lifetime is made and shown once.",
            submit="Rotate",
            form_class=RotateForm,
            act=act,
        )

    @action(description="Revoke", icon="block", variant=ActionVariant.DANGER, permissions=["manage"])  # type: ignore[untyped-decorator]
    def revoke(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key = self.found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            key,
            title="Revoke key",
            text="The key stops working everywhere within 5 seconds, for good.",
            submit="Revoke",
            form_class=forms.Form,
            act=lambda _form: self.report(
                request,
                key,
                services.revoke_key(key_id=key.key_id, actor=actors.person_actor(request.user)),
                "Revoked.",
            ),
        )


def _require_done(answer: Any) -> Any:
    """The form's validation asked the services already; a refusal here means that the row changed in between."""
    if isinstance(answer, Refusal):
        raise RuntimeError(f"{answer.field}: {answer.detail}")  # noqa: TRY004  not a matter of types
    return answer
