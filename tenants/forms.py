"""The console's forms for tenants and keys. The services validate; a form calls their checks before it is saved."""

from datetime import timedelta
from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from dpp_project.refusals import Refusal
from tenants import services
from tenants.models import ApiKey, Tenant
from tenants.scopes import OPERATOR_SCOPES, TENANT_SCOPES

GRACE_HOURS = (0, 1, 24, 72, 168, 720)


def _complain(form: forms.BaseForm, fault: Refusal | None) -> None:
    if fault is not None:
        form.add_error(fault.field if fault.field in form.fields else None, fault.detail)


class TenantForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when it runs
    class Meta:
        model = Tenant
        fields = [
            *("tenant_id", "display_name", "poll_rate_per_minute", "submit_rate_per_minute"),
            *("refund_own_failures", "automations_enabled", "low_balance_usd_micros", "zone", "share_weight"),
            "most_at_work",
        ]
        help_texts = {"tenant_id": "t_ and 1 to 60 of a-z, 0-9 and _. It never changes."}

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        if (tenant_id := found.get("tenant_id")) is not None:
            _complain(self, services.tenant_id_fault(tenant_id))
        if (name := found.get("display_name")) is not None:
            _complain(self, services.text_fault("display_name", name))
        for field in ("poll_rate_per_minute", "submit_rate_per_minute"):
            if (rate := found.get(field)) is not None:
                _complain(self, services.rate_fault(field, rate))
        _complain(self, services.low_balance_fault(found.get("low_balance_usd_micros")))
        found["share_weight"] = found.get("share_weight") or self.instance.share_weight
        _complain(self, services.share_weight_fault(found["share_weight"]))
        _complain(self, services.most_at_work_fault(found.get("most_at_work")))
        found["zone"] = found.get("zone") or self.instance.zone
        _complain(self, services.zone_fault(found["zone"]))
        return found


class NewKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    scopes = forms.MultipleChoiceField(
        choices=[
            ("Tenants", [(scope.value, scope.value) for scope in sorted(TENANT_SCOPES)]),
            ("The operator (t_operator)", [(scope.value, scope.value) for scope in sorted(OPERATOR_SCOPES)]),
        ],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
    )

    class Meta:
        model = ApiKey
        fields = ["tenant", "scopes", "label", "expires_at"]
        help_texts = {
            "label": "What the key is for, for people.",
            "expires_at": "In UTC. Without it the key does not expire.",
        }

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        found["label"] = found.get("label") or None
        if {"tenant", "scopes"} <= found.keys():
            _complain(
                self,
                services.key_fault(
                    tenant_id=found["tenant"].tenant_id,
                    scopes=found["scopes"],
                    label=found["label"],
                    expires_at=found.get("expires_at"),
                ),
            )
        return found


class WhyForm(forms.Form):
    reason = forms.CharField(
        max_length=services.TEXT_LENGTH_MAX,
        help_text="Kept in the audit trail, which the tenant reads.",
        widget=UnfoldAdminTextInputWidget,
    )

    def clean_reason(self) -> str:
        reason = str(self.cleaned_data["reason"])
        if (fault := services.text_fault("reason", reason)) is not None:
            raise forms.ValidationError(fault.detail)
        return reason


class RotateForm(forms.Form):
    grace_hours = forms.TypedChoiceField(
        label="The old key ends",
        coerce=int,
        choices=[(hours, "at once" if hours == 0 else f"in {hours} h") for hours in GRACE_HOURS],
        initial=int(services.GRACE_DEFAULT.total_seconds() // 3_600),
        widget=UnfoldAdminSelectWidget,
    )

    def grace(self) -> timedelta:
        return timedelta(hours=self.cleaned_data["grace_hours"])
