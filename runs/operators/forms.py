"""The console's forms for runs. What is right is decided by the services; a form only collects."""

from django import forms
from unfold.widgets import UnfoldAdminTextInputWidget

from runs.operators.disputes import REASON_LENGTH_MAX


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=REASON_LENGTH_MAX,
        help_text="Kept with the run, and with the ledger entry where there is one.",
        widget=UnfoldAdminTextInputWidget,
    )
