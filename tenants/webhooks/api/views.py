"""Views of /v1/webhooks: they validate and translate; what happens stands in services."""

from typing import Final, NoReturn

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from dpp_project.http import idempotency_keys, problems
from dpp_project.http.bodies import read_body, read_query
from dpp_project.http.cursors import Cursor
from dpp_project.http.handlers import NOT_FOUND_DETAIL
from dpp_project.http.openapi import cost_headers, openapi_refusals
from dpp_project.http.parameters import query_parameters
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import Problem
from dpp_project.http.views import ApiView
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants.permissions import owner_of, principal_of
from tenants.rate_limits import Bucket
from tenants.scopes import Scope
from tenants.webhooks import selectors, services
from tenants.webhooks.api import examples
from tenants.webhooks.api.documents import (
    Deliveries,
    DeliveriesQuery,
    Delivery,
    NewWebhook,
    RecoveredWebhook,
    RecoverRequest,
    Webhook,
    WebhookChange,
    WebhookRequest,
    Webhooks,
)
from tenants.webhooks.models import EndpointStatus, WebhookEndpoint

TAGS: Final = ["Webhooks"]
_CONFLICT: Final = openapi_refusals(ReasonCode.CONFLICT)


class WebhooksView(ApiView):
    required_scopes: Final = Scope.WEBHOOKS_WRITE
    rate_bucket: Final = {"GET": Bucket.POLL, "POST": Bucket.SUBMIT}

    @extend_schema(
        operation_id="listWebhooks",
        summary="All webhooks",
        tags=TAGS,
        parameters=cost_headers(),
        responses={200: Webhooks},
        examples=examples.LIST,
    )
    def get(self, request: Request) -> Response:
        """Every webhook of the tenant, the oldest first."""
        found = selectors.endpoints_of(principal_of(request).tenant_id)
        return Response(Webhooks(webhooks=[Webhook.of(one) for one in found]).model_dump(mode="json"))

    @extend_schema(
        operation_id="createWebhook",
        summary="Register a webhook",
        tags=TAGS,
        request=WebhookRequest,
        parameters=[
            idempotency_keys.idempotency_key_parameter(
                "With it, asking again makes no second webhook.", required=False
            ),
            *cost_headers(),
        ],
        responses={
            200: NewWebhook,
            201: NewWebhook,
            **openapi_refusals(ReasonCode.CONFLICT, ReasonCode.IDEMPOTENCY_CONFLICT),
        },
        examples=examples.CREATE,
    )
    def post(self, request: Request) -> Response:
        """Ten at most. The answer holds the signing secret, this once; the URL's name is looked up before it is taken.

        Asked again with the same Idempotency-Key it is answered 200 without the secret: rotate, if nobody kept it.
        """
        key = request.headers.get(idempotency_keys.HEADER)
        key = None if key is None else idempotency_keys.read_idempotency_key(key)
        body = read_body(request, WebhookRequest)
        answer = services.create_endpoint(
            tenant_id=principal_of(request).tenant_id,
            url=body.url,
            events=body.events,
            actor=owner_of(request),
            idempotency_key=key,
        )
        if isinstance(answer, Refusal):
            _raise_webhook_problem(answer)
        headers = {} if answer.is_new else {"Idempotent-Replayed": "true"}
        document = NewWebhook.made(answer.endpoint, answer.secret).model_dump(mode="json")
        return Response(document, status=201 if answer.is_new else 200, headers=headers)


class WebhookView(ApiView):
    required_scopes: Final = Scope.WEBHOOKS_WRITE
    rate_bucket: Final = {"GET": Bucket.POLL, "PATCH": Bucket.SUBMIT, "DELETE": Bucket.SUBMIT}

    @extend_schema(
        operation_id="readWebhook",
        summary="One webhook",
        tags=TAGS,
        parameters=cost_headers(),
        responses={200: Webhook},
        examples=examples.READ,
    )
    def get(self, request: Request, webhook_id: str) -> Response:
        """The webhook, and how it has behaved."""
        return Response(Webhook.of(_requested_webhook(request, webhook_id)).model_dump(mode="json"))

    @extend_schema(
        operation_id="changeWebhook",
        summary="Change, pause or resume a webhook",
        tags=TAGS,
        request=WebhookChange,
        parameters=cost_headers(),
        responses={200: Webhook, **_CONFLICT},
        examples=examples.CHANGE,
    )
    def patch(self, request: Request, webhook_id: str) -> Response:
        """Paused, its events are held; resumed, they are sent. Another URL begins with a clean record.

        A DISABLED webhook takes another URL and other events, and is enabled by `recover`.
        """
        endpoint_id = id_in_path(webhook_id)
        body = read_body(request, WebhookChange)
        answer = services.change_endpoint(
            tenant_id=principal_of(request).tenant_id,
            endpoint_id=endpoint_id,
            actor=owner_of(request),
            url=body.url,
            events=body.events,
            status=None if body.status is None else EndpointStatus(body.status),
        )
        if isinstance(answer, Refusal):
            _raise_webhook_problem(answer)
        return Response(Webhook.of(answer).model_dump(mode="json"))

    @extend_schema(
        operation_id="deleteWebhook",
        summary="Delete a webhook",
        tags=TAGS,
        parameters=cost_headers(),
        responses={204: None},
    )
    def delete(self, request: Request, webhook_id: str) -> Response:
        """Nothing is sent to it from now on, and what was on its way ends. This cannot be taken back."""
        answer = services.delete_endpoint(
            tenant_id=principal_of(request).tenant_id, endpoint_id=id_in_path(webhook_id), actor=owner_of(request)
        )
        if isinstance(answer, Refusal):
            _raise_webhook_problem(answer)
        return Response(status=204)


class RotateView(ApiView):
    required_scopes: Final = Scope.WEBHOOKS_WRITE
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="rotateWebhook",
        summary="A new signing secret",
        tags=TAGS,
        request=None,
        parameters=cost_headers(),
        responses={200: NewWebhook, **_CONFLICT},
        examples=examples.ROTATE,
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        """The new secret, this once. For 24 hours both sign; until they are over there is no further rotation."""
        answer = services.rotate_endpoint_secret(
            tenant_id=principal_of(request).tenant_id, endpoint_id=id_in_path(webhook_id), actor=owner_of(request)
        )
        if isinstance(answer, Refusal):
            _raise_webhook_problem(answer)
        return Response(NewWebhook.made(answer.endpoint, answer.secret).model_dump(mode="json"))


class WebhookTestView(ApiView):
    required_scopes: Final = Scope.WEBHOOKS_WRITE
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="testWebhook",
        summary="Send a test event",
        tags=TAGS,
        request=None,
        parameters=cost_headers(),
        responses={202: Delivery, **_CONFLICT},
        examples=examples.TEST,
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        """An `endpoint.test` event goes to this webhook, as every event goes; its deliveries show what came of it."""
        answer = services.send_test(
            tenant_id=principal_of(request).tenant_id, endpoint_id=id_in_path(webhook_id), actor=owner_of(request)
        )
        if isinstance(answer, Refusal):
            _raise_webhook_problem(answer)
        return Response(Delivery.of(answer).model_dump(mode="json"), status=202)


class DeliveriesView(ApiView):
    required_scopes: Final = Scope.WEBHOOKS_WRITE
    rate_bucket: Final = Bucket.POLL
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="listDeliveries",
        summary="Deliveries of a webhook, newest first",
        tags=TAGS,
        parameters=[*query_parameters(DeliveriesQuery), *cost_headers()],
        responses={200: Deliveries},
        examples=examples.DELIVERIES,
    )
    def get(self, request: Request, webhook_id: str) -> Response:
        """What was sent and what came of each try: status code, milliseconds, class of error; 30 days back."""
        query = read_query(request, DeliveriesQuery)
        endpoint = _requested_webhook(request, webhook_id)
        page = selectors.deliveries_of(endpoint, status=query.status, after=query.cursor, limit=query.limit)
        answer = Deliveries(
            deliveries=[Delivery.of(one) for one in page.deliveries],
            next_cursor=None if page.next is None else str(Cursor(*page.next)),
        )
        return Response(answer.model_dump(mode="json"))


class RecoverView(ApiView):
    required_scopes: Final = Scope.WEBHOOKS_WRITE
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="recoverWebhook",
        summary="Send what was missed",
        tags=TAGS,
        request=RecoverRequest,
        parameters=cost_headers(),
        responses={200: RecoveredWebhook, **_CONFLICT},
        examples=examples.RECOVER,
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        """All events since then that were held or failed are sent, in no order. A DISABLED webhook is enabled."""
        endpoint_id = id_in_path(webhook_id)
        body = read_body(request, RecoverRequest)
        answer = services.recover_endpoint(
            tenant_id=principal_of(request).tenant_id,
            endpoint_id=endpoint_id,
            since=body.since,
            actor=owner_of(request),
        )
        if isinstance(answer, Refusal):
            _raise_webhook_problem(answer)
        document = RecoveredWebhook(webhook=Webhook.of(answer.endpoint), deliveries=answer.deliveries)
        return Response(document.model_dump(mode="json"))


class RedeliverView(ApiView):
    required_scopes: Final = Scope.WEBHOOKS_WRITE
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="redeliver",
        summary="Send a delivery again",
        tags=TAGS,
        request=None,
        parameters=cost_headers(),
        responses={202: Delivery, **_CONFLICT},
        examples=examples.REDELIVER,
    )
    def post(self, request: Request, delivery_id: str) -> Response:
        """One that is DELIVERED or FAILED goes out anew, with the same `webhook-id`."""
        answer = services.redeliver_webhook(
            tenant_id=principal_of(request).tenant_id, delivery_id=id_in_path(delivery_id), actor=owner_of(request)
        )
        if isinstance(answer, Refusal):
            _raise_webhook_problem(answer)
        return Response(Delivery.of(answer).model_dump(mode="json"), status=202)


def _requested_webhook(request: Request, webhook_id: str) -> WebhookEndpoint:
    found = selectors.endpoint_of(principal_of(request).tenant_id, id_in_path(webhook_id))
    if found is None:
        raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
    return found


def _raise_webhook_problem(refusal: Refusal) -> NoReturn:
    """Another tenant's webhook and one that never was have the same answer."""
    if refusal.reason is ReasonCode.NOT_FOUND:
        raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
    raise problems.problem_of_refusal(refusal, asked="webhook", stands_for="webhook")
