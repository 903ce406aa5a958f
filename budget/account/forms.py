"""Forms of the account pages. What is right is decided by the services; a form reads what was typed."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from django import forms

from budget.forms import CapsForm
from budget.money import AmountInvalid, parse_usd
from budget.redis.windows import PERIODS, CapPeriod
from tenants.scopes import Scope
from tenants.services import TEXT_LENGTH_MAX

GRACES: Final = (("86400", "24 hours"), ("3600", "1 hour"), ("604800", "7 days"), ("0", "not at all"))


class OwnCapsForm(CapsForm):
    """The console's fields, without its dress and without a reason: the API asks for none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["reason"]
        for period in PERIODS:
            field = self.fields[f"{period}_usd"]
            field.widget = forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"})
            field.help_text = ""


class OwnKeyForm(OwnCapsForm):
    label = forms.CharField(
        max_length=TEXT_LENGTH_MAX, required=False, label="What it is for", help_text="Shown in lists: nightly CI."
    )
    expires_at = forms.DateTimeField(
        required=False,
        label="Ends at (UTC)",
        help_text="Empty: when this key ends, which may be never.",
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%d"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    scopes = forms.MultipleChoiceField(label="What it may do", widget=forms.CheckboxSelectMultiple)

    field_order = ("label", "scopes", "expires_at")

    def __init__(self, *args: Any, held: Iterable[Scope], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offered = sorted(scope for scope in held if scope is not Scope.KEYS_WRITE)
        self.fields["scopes"].choices = [(scope.value, scope.value) for scope in offered]  # type: ignore[attr-defined]
        self.order_fields([*self.field_order, *(f"{period}_usd" for period in PERIODS)])

    def clean_expires_at(self) -> datetime | None:
        """What was typed is UTC, as the page says."""
        found: datetime | None = self.cleaned_data["expires_at"]
        return None if found is None else found.astimezone(UTC)

    def named_limits(self) -> dict[CapPeriod, int | None]:
        return {period: micros for period, micros in self.changes().items() if micros is not None}


class GraceForm(forms.Form):
    grace_sec = forms.ChoiceField(choices=GRACES, label="The old key still works for")


class SettingsForm(forms.Form):
    zone = forms.CharField(max_length=64, label="Time zone", help_text="Whose midnight ends a day: Europe/Berlin.")
    low_usd = forms.CharField(
        required=False,
        label="Low balance, in USD",
        help_text="Below it webhooks hear budget.low. Exactly four decimals; empty: never.",
        widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
    )

    def clean_low_usd(self) -> int | None:
        text = self.cleaned_data["low_usd"]
        try:
            return parse_usd(text) if text else None
        except AmountInvalid as error:
            raise forms.ValidationError(str(error)) from None
