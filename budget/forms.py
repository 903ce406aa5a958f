"""The console's forms for money. What is right is decided by the services; a form reads what was typed."""

import uuid
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminTextInputWidget

from budget.entries import REFERENCE_LENGTH_MAX, TEXT_LENGTH_MAX
from budget.money import AmountInvalid, parse_usd


def _reference() -> str:
    """Made with the page, so that the same page sent twice enters once."""
    return f"console-{uuid.uuid4().hex[:16]}"


class TopUpForm(forms.Form):
    amount_usd = forms.CharField(
        label="Amount in USD", help_text="Exactly four decimals, such as 25.0000.", widget=UnfoldAdminTextInputWidget
    )
    reference = forms.CharField(
        max_length=REFERENCE_LENGTH_MAX,
        initial=_reference,
        help_text="An invoice or transfer. Each reference is entered once.",
        widget=UnfoldAdminTextInputWidget,
    )
    reason = forms.CharField(
        max_length=TEXT_LENGTH_MAX,
        required=False,
        help_text="Shown to the tenant.",
        widget=UnfoldAdminTextInputWidget,
    )

    def clean_amount_usd(self) -> int:
        return _micros(self.cleaned_data["amount_usd"])


class AdjustForm(TopUpForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["amount_usd"].help_text = "Exactly four decimals; -5.0000 takes away."
        self.fields["reason"].required = True

    def clean_amount_usd(self) -> int:
        text = self.cleaned_data["amount_usd"]
        size = _micros(text.removeprefix("-"))
        return -size if text.startswith("-") else size


def _micros(text: str) -> int:
    try:
        return parse_usd(text)
    except AmountInvalid as error:
        raise forms.ValidationError(str(error)) from None
