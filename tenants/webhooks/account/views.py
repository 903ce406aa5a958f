"""Endpoints and their deliveries, through the services that /v1/webhooks calls."""

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Final, get_args

from django import forms
from django.http import HttpRequest, HttpResponse

from dpp_project.http.cursors import Cursor
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import Problem
from dpp_project.outbound.locations import URL_CHARACTERS_MAX
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants.account import menu
from tenants.account.menu import MenuItem
from tenants.account.page import AccountPage, cursor_of
from tenants.scopes import Scope
from tenants.webhooks import selectors, services
from tenants.webhooks.api.documents import Delivery, Subscribable
from tenants.webhooks.models import DeliveryStatus, EndpointStatus, WebhookEndpoint
from tenants.webhooks.services import Registered

LINES: Final = 25
_Act = Callable[[WebhookEndpoint], HttpResponse | Refusal]
EVENTS: Final = [(str(name), str(name)) for name in get_args(Subscribable)]


class WebhookForm(forms.Form):
    url = forms.CharField(
        max_length=URL_CHARACTERS_MAX,
        label="Address",
        help_text="https, and a name that leads to public addresses.",
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/webhooks/dpp"}),
    )
    events = forms.MultipleChoiceField(choices=EVENTS, label="Events", widget=forms.CheckboxSelectMultiple)


class SinceForm(forms.Form):
    since = forms.DateTimeField(
        label="Since (UTC)",
        input_formats=["%Y-%m-%dT%H:%M"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )


class WebhooksPage(AccountPage):
    required_scopes: Final = Scope.WEBHOOKS_WRITE

    def get(self, _request: HttpRequest) -> HttpResponse:
        return self._page(WebhookForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        form = WebhookForm(request.POST)
        if not form.is_valid():
            return self._page(form, status=422)
        answer = services.create_endpoint(
            tenant_id=self.tenant_id, url=form.cleaned_data["url"], events=form.cleaned_data["events"], actor=self.actor
        )
        if isinstance(answer, Refusal):
            form.add_error(None, self.unless_hidden(answer))
            return self._page(form, status=422)
        return _shown_once(self, answer)

    def _page(self, form: forms.Form, *, status: int = 200) -> HttpResponse:
        context = {"endpoints": selectors.endpoints_of(self.tenant_id), "form": form}
        return self.show("account/webhooks/webhooks.html", context, status=status)


class WebhookPage(AccountPage):
    """`act` of the form says what is done."""

    required_scopes: Final = Scope.WEBHOOKS_WRITE

    def get(self, request: HttpRequest, webhook_id: str) -> HttpResponse:
        return self._page(request, _endpoint_of(self, webhook_id))

    def post(self, request: HttpRequest, webhook_id: str) -> HttpResponse:
        endpoint = _endpoint_of(self, webhook_id)
        acts: Mapping[str, _Act] = {
            "pause": lambda one: self._turned(one, EndpointStatus.PAUSED, "Paused: its events are held."),
            "resume": lambda one: self._turned(one, EndpointStatus.ENABLED, "Resumed: what was held is sent."),
            "test": self._test,
            "rotate": self._rotate,
            "redeliver": self._redeliver,
            "recover": self._recover,
            "delete": self._delete,
        }
        act = acts.get(request.POST.get("act", ""))
        if act is None:
            raise Problem(ReasonCode.VALIDATION_FAILED, f"Choose one of {', '.join(acts)}.")
        answer = act(endpoint)
        if isinstance(answer, Refusal):
            return self._page(request, endpoint, error=self.unless_hidden(answer), status=409)
        return answer

    def _turned(self, endpoint: WebhookEndpoint, status: EndpointStatus, said: str) -> HttpResponse | Refusal:
        answer = services.change_endpoint(
            tenant_id=self.tenant_id, endpoint_id=endpoint.endpoint_id, actor=self.actor, status=status
        )
        return answer if isinstance(answer, Refusal) else self._back(endpoint, said)

    def _test(self, endpoint: WebhookEndpoint) -> HttpResponse | Refusal:
        answer = services.send_test(tenant_id=self.tenant_id, endpoint_id=endpoint.endpoint_id, actor=self.actor)
        return answer if isinstance(answer, Refusal) else self._back(endpoint, "A test event is on its way.")

    def _rotate(self, endpoint: WebhookEndpoint) -> HttpResponse | Refusal:
        answer = services.rotate_endpoint_secret(
            tenant_id=self.tenant_id, endpoint_id=endpoint.endpoint_id, actor=self.actor
        )
        return answer if isinstance(answer, Refusal) else _shown_once(self, answer)

    def _redeliver(self, endpoint: WebhookEndpoint) -> HttpResponse | Refusal:
        delivery_id = id_in_path(self.request.POST.get("delivery", ""))
        answer = services.redeliver_webhook(tenant_id=self.tenant_id, delivery_id=delivery_id, actor=self.actor)
        return answer if isinstance(answer, Refusal) else self._back(endpoint, "It is sent again.")

    def _recover(self, endpoint: WebhookEndpoint) -> HttpResponse | Refusal:
        form = SinceForm(self.request.POST)
        if not form.is_valid():
            return Refusal(ReasonCode.VALIDATION_FAILED, "give a time such as 2026-11-19T08:00", "since")
        since = form.cleaned_data["since"].astimezone(UTC)
        answer = services.recover_endpoint(
            tenant_id=self.tenant_id, endpoint_id=endpoint.endpoint_id, since=since, actor=self.actor
        )
        if isinstance(answer, Refusal):
            return answer
        return self._back(endpoint, f"{answer.deliveries} deliveries are sent now; of over 5,000 the rest follows.")

    def _delete(self, endpoint: WebhookEndpoint) -> HttpResponse | Refusal:
        answer = services.delete_endpoint(tenant_id=self.tenant_id, endpoint_id=endpoint.endpoint_id, actor=self.actor)
        return answer if isinstance(answer, Refusal) else self.done("The webhook is deleted.", "account-webhooks")

    def _back(self, endpoint: WebhookEndpoint, said: str) -> HttpResponse:
        return self.done(said, "account-webhook", endpoint.endpoint_id)

    def _page(
        self, request: HttpRequest, endpoint: WebhookEndpoint, *, error: str = "", status: int = 200
    ) -> HttpResponse:
        page = selectors.deliveries_of(
            endpoint, status=_account_delivery_status(request), after=cursor_of(request), limit=LINES
        )
        context = {
            "endpoint": endpoint,
            "deliveries": [Delivery.of(one) for one in page.deliveries],
            "statuses": DeliveryStatus.values,
            "asked_status": request.GET.get("status", ""),
            "next": None if page.next is None else str(Cursor(*page.next)),
            "recover_form": SinceForm(),
            "error": error,
        }
        return self.show("account/webhooks/webhook.html", context, status=status)


def _endpoint_of(page: AccountPage, text: str) -> WebhookEndpoint:
    found = selectors.endpoint_of(page.tenant_id, id_in_path(text))
    if found is None:
        raise Problem(ReasonCode.NOT_FOUND, "There is no such webhook.")
    return found


def _shown_once(page: AccountPage, made: Registered) -> HttpResponse:
    return page.show("account/webhooks/secret_shown.html", {"made": made}, status=201)


def _account_delivery_status(request: HttpRequest) -> DeliveryStatus | None:
    text = request.GET.get("status", "")
    if text and text not in DeliveryStatus.values:
        raise Problem(ReasonCode.VALIDATION_FAILED, f"status: choose one of {', '.join(DeliveryStatus.values)}.")
    return DeliveryStatus(text) if text else None


menu.add_page(MenuItem(60, "Webhooks", "account-webhooks", Scope.WEBHOOKS_WRITE))
