"""Webhooks in the console: how they behave, what was sent to them and what came of it; acts go through the services.

URLs are shown without what follows the host: a token of their owner's may stand there. Secrets are on no page.
"""

from datetime import timedelta
from typing import Final
from uuid import UUID

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminSelectWidget

from dpp_project import actors, clock
from dpp_project.console import confirm
from dpp_project.console.row_admin import ActedUponAdmin, ReadOnlyInline
from dpp_project.refusals import Refusal
from tenants.webhooks import registration, services
from tenants.webhooks.models import EndpointStatus, WebhookAttempt, WebhookDelivery, WebhookEndpoint

STATUS_COLORS: Final = {
    "ENABLED": "success",
    "PAUSED": "warning",
    "DISABLED": "danger",
    "DELETED": "danger",
    "PENDING": "info",
    "HELD": "warning",
    "DELIVERED": "success",
    "FAILED": "danger",
}
SINCE_HOURS: Final = (1, 6, 24, 72, 168, 719)


class RecoverForm(forms.Form):
    hours = forms.TypedChoiceField(
        label="What happened in the last",
        choices=[(hours, f"{hours} hours" if hours < 48 else f"{round(hours / 24)} days") for hours in SINCE_HOURS],
        coerce=int,
        widget=UnfoldAdminSelectWidget,
    )


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(ActedUponAdmin):
    empty_said = "Tenants register webhooks themselves: at /account/webhooks/, or by POST /v1/webhooks."
    list_display = ("endpoint_id", "tenant", "host", "label", "consecutive_failures", "last_success_at", "created_at")
    list_filter = ("status", ("failing_since", admin.EmptyFieldListFilter))
    search_fields = ("endpoint_id", "tenant__tenant_id", "url")
    list_select_related = ("tenant",)
    fields = readonly_fields = (
        *("endpoint_id", "tenant", "host", "events", "label", "reason", "created_at", "updated_at", "deleted_at"),
        *("consecutive_failures", "failing_since", "failed_again_at", "paused_until", "last_success_at", "slow_at"),
    )
    actions_detail = ("pause", "resume", "recover")

    @display(description="host", ordering="url")  # type: ignore[untyped-decorator]
    def host(self, endpoint: WebhookEndpoint) -> str:
        return registration.endpoint_origin(endpoint.url)

    @display(description="status", ordering="status", label=STATUS_COLORS)  # type: ignore[untyped-decorator]
    def label(self, endpoint: WebhookEndpoint) -> str:
        return endpoint.status if endpoint.deleted_at is None else "DELETED"

    @action(description="Pause", icon="pause", variant=ActionVariant.DANGER, permissions=["manage"])  # type: ignore[untyped-decorator]
    def pause(self, request: HttpRequest, object_id: str) -> HttpResponse:
        text = "Its events are held until it is resumed, for at most 30 days."
        return self._turn(request, object_id, EndpointStatus.PAUSED, title="Pause it", text=text, said="Paused.")

    @action(description="Resume", icon="play_arrow", permissions=["manage"])  # type: ignore[untyped-decorator]
    def resume(self, request: HttpRequest, object_id: str) -> HttpResponse:
        text = "What was held while it was paused is sent. A disabled webhook is recovered instead."
        return self._turn(request, object_id, EndpointStatus.ENABLED, title="Resume it", text=text, said="Resumed.")

    @action(description="Recover", icon="restart_alt", permissions=["manage"])  # type: ignore[untyped-decorator]
    def recover(self, request: HttpRequest, object_id: str) -> HttpResponse:
        endpoint = self.found(request, object_id)

        def act(form: RecoverForm) -> HttpResponse:
            answer = services.recover_endpoint(
                tenant_id=endpoint.tenant_id,
                endpoint_id=endpoint.endpoint_id,
                since=clock.now() - timedelta(hours=form.cleaned_data["hours"]),
                actor=actors.person_actor(request.user),
            )
            said = "" if isinstance(answer, Refusal) else f"Recovered: {answer.deliveries} deliveries are sent."
            return self.done(request, endpoint, answer, said)

        text = "All that was held or failed of that time is sent, in no order. A disabled webhook is enabled."
        return confirm.confirm_page(
            self,
            request,
            endpoint,
            title="Recover webhook",
            text=text,
            submit="Recover",
            form_class=RecoverForm,
            act=act,
        )

    def _turn(
        self, request: HttpRequest, object_id: str, status: EndpointStatus, *, title: str, text: str, said: str
    ) -> HttpResponse:
        endpoint = self.found(request, object_id)

        def act(_form: forms.Form) -> HttpResponse:
            answer = services.change_endpoint(
                tenant_id=endpoint.tenant_id,
                endpoint_id=endpoint.endpoint_id,
                actor=actors.person_actor(request.user),
                status=status,
            )
            return self.done(request, endpoint, answer, said)

        return confirm.plain_page(self, request, endpoint, title=title, text=text, act=act)


class TriesOfDelivery(ReadOnlyInline):
    model = WebhookAttempt
    fields = readonly_fields = ("at", "status_code", "ms", "error")
    verbose_name_plural = "Tries"
    tab = False
    per_page = 50  # one that its owner sent again and again has thousands


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ActedUponAdmin):
    empty_said = "What happens to a tenant's runs and money is delivered to its webhooks, and kept for 30 days."
    list_display = ("delivery_id", "event", "tenant", "label", "attempts", "next_attempt_at", "created_at")
    list_filter = ("status",)
    search_fields = ("delivery_id", "endpoint__tenant_id")
    search_help_text = "A delivery's, message's or webhook's id, or a tenant's."
    list_select_related = ("message", "endpoint")
    fields = readonly_fields = (
        *("delivery_id", "message_id", "event", "key", "tenant", "endpoint", "label", "reason", "attempts"),
        *("next_attempt_at", "lease_until", "created_at", "ended_at"),
    )
    inlines = (TriesOfDelivery,)
    actions_detail = ("send_again",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[WebhookDelivery], search_term: str
    ) -> tuple[QuerySet[WebhookDelivery], bool]:
        """By whole ids, each of which has an index; a webhook-id header has `msg_` before the message's."""
        text = search_term.strip()
        if not text:
            return queryset, False
        try:
            name = UUID(text.removeprefix("msg_"))
        except ValueError:
            return queryset.filter(endpoint__tenant_id=text), False
        return queryset.filter(Q(delivery_id=name) | Q(endpoint_id=name) | Q(message_id=name)), False

    @display(description="event")  # type: ignore[untyped-decorator]
    def event(self, delivery: WebhookDelivery) -> str:
        return delivery.message.event

    @display(description="key")  # type: ignore[untyped-decorator]
    def key(self, delivery: WebhookDelivery) -> str:
        return delivery.message.key

    @display(description="tenant")  # type: ignore[untyped-decorator]
    def tenant(self, delivery: WebhookDelivery) -> str:
        return delivery.endpoint.tenant_id

    @display(description="status", ordering="status", label=STATUS_COLORS)  # type: ignore[untyped-decorator]
    def label(self, delivery: WebhookDelivery) -> str:
        return delivery.status

    @action(description="Send again", icon="redo", permissions=["manage"])  # type: ignore[untyped-decorator]
    def send_again(self, request: HttpRequest, object_id: str) -> HttpResponse:
        delivery = self.found(request, object_id)

        def act(_form: forms.Form) -> HttpResponse:
            answer = services.redeliver_webhook(
                tenant_id=delivery.endpoint.tenant_id,
                delivery_id=delivery.delivery_id,
                actor=actors.person_actor(request.user),
            )
            return self.done(request, delivery, answer, "Sent again.")

        text = "It goes out anew with the same webhook-id, by which its receiver knows it again."
        return confirm.plain_page(self, request, delivery, title="Send delivery again", text=text, act=act)
