"""The console's forms for money. What is right is decided by the services; a form reads what was typed."""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from django import forms
from unfold.widgets import UnfoldAdminTextInputWidget

from budget.entries import REFERENCE_LENGTH_MAX, TEXT_LENGTH_MAX
from budget.money import AmountInvalid, parse_usd
from budget.redis.windows import PERIODS, CapPeriod

_EACH: Final[Mapping[CapPeriod, str]] = {
    "day": "Each day",
    "week": "Each week, from Monday",
    "month": "Each month",
    "total": "In total",
}


def _console_entry_reference() -> str:
    """Made with the page, so that the same page sent twice enters once."""
    return f"console-{uuid.uuid4().hex[:16]}"


class TopUpForm(forms.Form):
    amount_usd = forms.CharField(
        label="Amount in USD", help_text="Exactly four decimals, such as 25.0000.", widget=UnfoldAdminTextInputWidget
    )
    reference = forms.CharField(
        max_length=REFERENCE_LENGTH_MAX,
        initial=_console_entry_reference,
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


class CapsForm(forms.Form):
    """The limits as they are to be; one that is emptied is taken away.

    The page sends back what it showed, and only what differs from that is a change: a page that was open while another
    person set a cap does not take it away again.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for period in PERIODS:
            self.fields[f"{period}_usd"] = forms.CharField(
                label=f"{_EACH[period]}, in USD",
                required=False,
                show_hidden_initial=True,
                help_text="Exactly four decimals, such as 5.0000. Empty: no limit; 0.0000: no run at all.",
                widget=UnfoldAdminTextInputWidget,
            )
        self.fields["reason"] = forms.CharField(
            max_length=TEXT_LENGTH_MAX,
            required=False,
            help_text="Kept in the audit trail, which the tenant reads.",
            widget=UnfoldAdminTextInputWidget,
        )

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        for period in PERIODS:
            text = found.get(f"{period}_usd", "")
            try:
                found[f"{period}_usd"] = parse_usd(text, least=0) if text else None
            except AmountInvalid as error:
                self.add_error(f"{period}_usd", str(error))
        if (reason := found.get("reason")) and not reason.isprintable():
            self.add_error("reason", "must be printable characters")
        return found

    def changes(self) -> dict[CapPeriod, int | None]:
        return {period: self.cleaned_data[f"{period}_usd"] for period in PERIODS if self._is_changed(f"{period}_usd")}

    def _is_changed(self, name: str) -> bool:
        """Where nothing says what was shown, what was sent is meant."""
        shown = self.data.get(self.add_initial_prefix(name))
        return shown is None or shown != self.data.get(self.add_prefix(name), "")


def _micros(text: str) -> int:
    try:
        return parse_usd(text)
    except AmountInvalid as error:
        raise forms.ValidationError(str(error)) from None
