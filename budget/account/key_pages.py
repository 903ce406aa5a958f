"""Keys and caps: what each spent and may spend; made, rotated, revoked and capped as over the API."""

import uuid
from datetime import timedelta
from typing import Any, Final

from django import forms
from django.http import HttpRequest, HttpResponse

from budget.account.forms import GraceForm, OwnCapsForm, OwnKeyForm, SettingsForm
from budget.caps import key_spending, reading, rows, setting, tenant_keys
from budget.caps.figures import PERIOD_WORDS
from budget.caps.tenant_keys import KeyMade
from budget.caps.who import AskingKey
from budget.caps_page import CapBar
from budget.money import format_usd
from budget.outcomes import Unavailable
from budget.redis.windows import PERIODS
from dpp_project import clock
from dpp_project.http.cursors import Cursor
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants import services
from tenants.account import menu
from tenants.account.menu import MenuItem
from tenants.account.page import AccountPage, cursor_of
from tenants.models import ApiKey
from tenants.permissions import ANY_KEY
from tenants.scopes import Scope

KEYS_SHOWN: Final = 25
NOT_IN_FORCE: Final = "The caps are stored, and not in force yet: money is being rebuilt. The next run brings them."


class KeysOfAccountPage(AccountPage):
    """Every key of the tenant with `keys:write`; any other key sees itself alone, as over the API."""

    required_scopes: Final = {"GET": ANY_KEY, "POST": Scope.KEYS_WRITE}

    def get(self, request: HttpRequest) -> HttpResponse:
        return self._page(request, OwnKeyForm(held=self.principal.scopes))

    def post(self, request: HttpRequest) -> HttpResponse:
        form = OwnKeyForm(request.POST, held=self.principal.scopes)
        if not form.is_valid():
            return self._page(request, form, status=422)
        answer = tenant_keys.make_key(
            asking=AskingKey.of(self.principal),
            scopes=form.cleaned_data["scopes"],
            label=form.cleaned_data["label"] or None,
            expires_at=form.cleaned_data["expires_at"],
            limits=form.named_limits(),
            actor=self.actor,
        )
        if isinstance(answer, Refusal):
            form.add_error(None, self.unless_hidden(answer))
            return self._page(request, form, status=422)
        return shown_once(self, answer)

    def _page(self, request: HttpRequest, form: forms.Form, *, status: int = 200) -> HttpResponse:
        page = tenant_keys.page_of(_seen_by(self), after=cursor_of(request), limit=KEYS_SHOWN)
        spending = key_spending.spending_of(self.tenant_id, list(dict.fromkeys(key.lineage_id for key in page.keys)))
        now = clock.now()
        lines = [
            {
                "key": key,
                "state": services.state_of(key, now),
                "spent": None if isinstance(spending, Unavailable) else spending[key.lineage_id].spent,
                "capped": not isinstance(spending, Unavailable) and bool(spending[key.lineage_id].caps),
                "is_this": key.key_id == self.principal.key_id,
            }
            for key in page.keys
        ]
        context = {
            "lines": lines,
            "known": not isinstance(spending, Unavailable),
            "form": form,
            "may_make": self.may(Scope.KEYS_WRITE),
            "next": None if page.next is None else str(Cursor(*page.next)),
        }
        return self.show("account/budget/keys.html", context, status=status)


class KeyOfAccountPage(AccountPage):
    """One key; `act` of the form says what is done to it."""

    required_scopes: Final = {"GET": ANY_KEY, "POST": Scope.KEYS_WRITE}

    def get(self, _request: HttpRequest, key_id: str) -> HttpResponse:
        return self._page(_key_shown_on_key_page(self, key_id))

    def post(self, request: HttpRequest, key_id: str) -> HttpResponse:
        key = _key_shown_on_key_page(self, key_id)
        act = {"rotate": self._rotate, "revoke": self._revoke, "caps": self._caps}.get(request.POST.get("act", ""))
        if act is None:
            raise Problem(ReasonCode.VALIDATION_FAILED, "Choose rotate, revoke or caps.")
        return act(request, key)

    def _rotate(self, request: HttpRequest, key: ApiKey) -> HttpResponse:
        form = GraceForm(request.POST)
        if not form.is_valid():
            return self._page(key, error="Choose how long the old key still works.", status=422)
        grace = timedelta(seconds=int(form.cleaned_data["grace_sec"]))
        asking = AskingKey.of(self.principal)
        answer = tenant_keys.rotate_key(asking=asking, key_id=key.key_id, grace=grace, actor=self.actor)
        if isinstance(answer, Refusal):
            return self._page(key, error=self.unless_hidden(answer), status=409)
        return shown_once(self, answer)

    def _revoke(self, _request: HttpRequest, key: ApiKey) -> HttpResponse:
        answer = tenant_keys.revoke_key(asking=AskingKey.of(self.principal), key_id=key.key_id, actor=self.actor)
        if isinstance(answer, Refusal):
            return self._page(key, error=self.unless_hidden(answer), status=409)
        return self.done(f"{answer} is revoked: it stops working everywhere within 5 seconds.", "account-keys")

    def _caps(self, request: HttpRequest, key: ApiKey) -> HttpResponse:
        form = OwnCapsForm(request.POST)
        said = _caps_set(self, form, key.lineage_id)
        if said is None:
            return self._page(key, form=form, status=422)
        return self.done(said, "account-key", key.key_id)

    def _page(self, key: ApiKey, *, form: forms.Form | None = None, error: str = "", status: int = 200) -> HttpResponse:
        found = key_spending.spending_of(self.tenant_id, [key.lineage_id])
        spending = None if isinstance(found, Unavailable) else found[key.lineage_id]
        context = {
            "key": key,
            "state": services.state_of(key, clock.now()),
            "spent": None if spending is None else [(PERIOD_WORDS[one], spending.spent[one]) for one in PERIODS],
            "bars": [] if spending is None else [CapBar(one) for one in spending.caps],
            "form": form or _caps_form(self.tenant_id, key.lineage_id),
            "rotate_form": GraceForm(),
            "error": error,
            "may_change": self.may(Scope.KEYS_WRITE),
            "is_this": key.key_id == self.principal.key_id,
        }
        return self.show("account/budget/key.html", context, status=status)


class CapsPage(AccountPage):
    """The tenant's own caps, its zone and the line of a low balance."""

    required_scopes: Final = {"GET": Scope.BUDGET_READ, "POST": Scope.KEYS_WRITE}

    def get(self, _request: HttpRequest) -> HttpResponse:
        return self._page()

    def post(self, request: HttpRequest) -> HttpResponse:
        if request.POST.get("act") == "settings":
            return self._settings(request)
        form = OwnCapsForm(request.POST)
        said = _caps_set(self, form, None)
        return self._page(form=form, status=422) if said is None else self.done(said, "account-caps")

    def _settings(self, request: HttpRequest) -> HttpResponse:
        form = SettingsForm(request.POST)
        if not form.is_valid():
            return self._page(settings_form=form, status=422)
        changes: dict[services.BudgetSetting, Any] = {
            "zone": form.cleaned_data["zone"],
            "low_balance_usd_micros": form.cleaned_data["low_usd"],
        }
        asking = AskingKey.of(self.principal)
        answer = setting.change_settings(asking=asking, changes=changes, actor=self.actor)
        if isinstance(answer, Refusal):
            form.add_error(None, self.unless_hidden(answer))
            return self._page(settings_form=form, status=422)
        return self.done("The settings are stored.", "account-caps")

    def _page(
        self, *, form: forms.Form | None = None, settings_form: forms.Form | None = None, status: int = 200
    ) -> HttpResponse:
        stand = reading.caps_standing(self.tenant_id, [None])
        seen = reading.counted_caps(stand)
        known = not isinstance(seen, Unavailable)
        low = stand.low_micros
        shown = {"zone": stand.zone, "low_usd": "" if low is None else format_usd(low)}
        context = {
            "known": known,
            "bars": []
            if isinstance(seen, Unavailable)
            else [CapBar(one) for one in reading.cap_figures(stand, None, seen.get(None))],
            "zone": stand.zone,
            "form": form or _caps_form(self.tenant_id, None),
            "settings_form": settings_form or SettingsForm(initial=shown),
            "may_change": self.may(Scope.KEYS_WRITE),
        }
        return self.show("account/budget/caps.html", context, status=status)


def shown_once(page: AccountPage, made: KeyMade) -> HttpResponse:
    """Never stored, so the page is the answer to the form itself."""
    context = {"issued": made.issued, "remark": "" if made.enforced else NOT_IN_FORCE}
    return page.show("account/budget/key_shown.html", context, status=201)


def _seen_by(page: AccountPage) -> Any:
    keys = ApiKey.objects.filter(tenant_id=page.tenant_id)
    return keys if page.may(Scope.KEYS_WRITE) else keys.filter(key_id=page.principal.key_id)


def _key_shown_on_key_page(page: AccountPage, text: str) -> ApiKey:
    key: ApiKey | None = _seen_by(page).select_related("replaced_by").filter(key_id=id_in_path(text)).first()
    if key is None:
        raise Problem(ReasonCode.NOT_FOUND, "There is no such key.")
    return key


def _caps_form(tenant_id: str, lineage_id: uuid.UUID | None) -> OwnCapsForm:
    limits = rows.limits_of(rows.row_of(tenant_id, lineage_id))
    return OwnCapsForm(
        initial={f"{period}_usd": format_usd(limit) for period, limit in limits.items() if limit is not None}
    )


def _caps_set(page: AccountPage, form: OwnCapsForm, lineage_id: uuid.UUID | None) -> str | None:
    """What to say of the change, or None with the fault in the form."""
    if not form.is_valid():
        return None
    answer = setting.set_caps(
        tenant_id=page.tenant_id,
        lineage_id=lineage_id,
        changes=form.changes(),
        actor=page.actor,
        asking=AskingKey.of(page.principal),
    )
    if isinstance(answer, Refusal):
        form.add_error(None, page.unless_hidden(answer))
        return None
    return "The caps are in force." if answer.enforced else NOT_IN_FORCE


menu.add_page(MenuItem(40, "Keys", "account-keys", ANY_KEY))
menu.add_page(MenuItem(50, "Caps", "account-caps", Scope.BUDGET_READ))
