"""The console's forms for signing in and for the second factor."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.forms import AuthenticationForm
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from dpp_project.signin import devices, sign_in
from dpp_project.signin.sign_in import SignInRefused

WRONG = "Name, password or code is wrong. Each is case-sensitive, and a code is good once."
WRONG_CODE = "It is not the code of this moment, or it was used already."
WRONG_SET_UP = "The password is wrong, or it is not the code of this moment."
THROTTLED = "Too many failed attempts. Nothing was checked; try again in 15 minutes, or from a browser you used before."


class LoginForm(AuthenticationForm):  # type: ignore[misc]  # unfold has no types
    """One step for all: whether a name has a second factor, and whether its password was right, stays untold."""

    code = forms.CharField(required=False, max_length=16, label="Code, if you have set one up")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        widget = self.fields["code"].widget
        widget.attrs |= {
            "class": self.fields["username"].widget.attrs["class"],
            "autocomplete": "one-time-code",
            "inputmode": "numeric",
        }

    def clean(self) -> dict[str, Any]:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is not None and password:
            found = sign_in.sign_in(
                name=name,
                password=password,
                code=self.cleaned_data.get("code", ""),
                device=devices.known_device(self.request, name),
            )
            if isinstance(found, SignInRefused):
                raise ValidationError(THROTTLED if found is SignInRefused.THROTTLED else WRONG)
            self.user_cache = found
        cleaned: dict[str, Any] = self.cleaned_data
        return cleaned


class CodeForm(forms.Form):
    code = forms.CharField(
        max_length=16,
        help_text="The six digits that the app shows now.",
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}),
    )


class SetUpForm(CodeForm):
    """The code is of a secret that the page shows: it is the password that a stolen session lacks."""

    password = forms.CharField(
        strip=False,
        help_text="The one that you sign in with.",
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password"}),
    )
