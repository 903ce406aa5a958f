"""/v1/webhooks as a tenant uses it: whole documents, each refusal by its field, nothing of another tenant."""

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest

from dpp_project.clock import FixedClock
from tenants.scopes import TENANT_SCOPES, Scope
from tenants.webhooks.models import DeliveryStatus, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from tests.gear.builders.shop import Shop, a_shop
from tests.gear.builders.tenants import a_key, bearer
from tests.gear.builders.webhooks import URL, a_delivery, an_endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.contract("HOOK-07")]
HOOKS = "/v1/webhooks"


def send(shop: Shop, method: str, path: str, body: Any = None, **headers: str) -> Any:
    return shop.client.generic(
        method,
        path,
        data="" if body is None else json.dumps(body),
        content_type="application/json",
        headers=bearer(shop.issued) | headers,
    )


def made(shop: Shop, **changes: Any) -> Any:
    response = send(shop, "POST", HOOKS, {"url": URL, "events": ["run.failed"]} | changes)
    assert response.status_code == 201, response.content
    return response.json()


def errors(response: Any) -> dict[str, str]:
    assert response.status_code == 422, response.content
    return {error["field"]: error["detail"] for error in response.json()["errors"]}


def test_hook_07_from_its_registration_to_its_end_over_http(shop: Shop, clock: FixedClock) -> None:
    new = made(shop, events=["run.failed", "run.completed"])
    secret = new.pop("secret")
    assert secret.startswith("whsec_")
    assert new == {
        "webhook_id": new["webhook_id"],
        "url": URL,
        "events": ["run.completed", "run.failed"],
        "status": "ENABLED",
        "reason": "",
        "created_at": new["created_at"],
        "consecutive_failures": 0,
        "failing_since": None,
        "paused_until": None,
        "last_success_at": None,
    }
    here = f"{HOOKS}/{new['webhook_id']}"
    assert shop.get(here).json() == new
    assert shop.get(HOOKS).json() == {"webhooks": [new]}
    assert send(shop, "PATCH", here, {"status": "PAUSED"}).json() == new | {"status": "PAUSED"}
    assert send(shop, "PATCH", here, {"status": "ENABLED", "events": ["run.upheld"]}).json() == new | {
        "events": ["run.upheld"]
    }
    rotated = send(shop, "POST", f"{here}/rotate")
    assert rotated.status_code == 200
    assert rotated.json()["secret"] not in {None, secret}
    again = send(shop, "POST", f"{here}/rotate")
    assert (again.status_code, again.json()["reason_code"]) == (409, "CONFLICT")
    tested = send(shop, "POST", f"{here}/test")
    assert (tested.status_code, tested.json()["event"]) == (202, "endpoint.test")
    assert shop.get(f"{here}/deliveries").json() == {"deliveries": [tested.json()], "next_cursor": None}
    since = {"since": clock.now().isoformat()}
    recovered = send(shop, "POST", f"{here}/recover", since)
    assert recovered.json() == {"webhook": new | {"events": ["run.upheld"]}, "deliveries": 0}
    gone = send(shop, "DELETE", here)
    assert (gone.status_code, gone.content) == (204, b"")
    assert shop.get(here).status_code == 404
    assert shop.get(HOOKS).json() == {"webhooks": []}


def test_hook_07_the_same_key_makes_one_webhook_and_shows_its_secret_once(shop: Shop) -> None:
    body = {"url": URL, "events": ["run.failed"]}
    first, second = (send(shop, "POST", HOOKS, body, **{"Idempotency-Key": "same-key"}) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.headers["Idempotent-Replayed"] == "true"
    assert first.json()["secret"] is not None
    assert second.json() == first.json() | {"secret": None}
    other = send(shop, "POST", HOOKS, body | {"events": ["run.upheld"]}, **{"Idempotency-Key": "same-key"})
    assert (other.status_code, other.json()["reason_code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert "header.Idempotency-Key" in errors(send(shop, "POST", HOOKS, body, **{"Idempotency-Key": "short"}))
    assert WebhookEndpoint.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({}, "url", "required"),
        ({"events": ["run.failed"]}, "url", "required"),
        ({"url": URL}, "events", "required"),
        ({"url": URL, "events": []}, "events", "at least 1"),
        ({"url": URL, "events": ["run.begun"]}, "events[0]", "run.completed"),
        ({"url": URL, "events": ["endpoint.test"]}, "events[0]", "run.completed"),
        ({"url": URL, "events": "run.failed"}, "events", "list"),
        ({"url": 5, "events": ["run.failed"]}, "url", "string"),
        ({"url": "", "events": ["run.failed"]}, "url", "at least 1"),
        ({"url": "http://a.example/", "events": ["run.failed"]}, "url", "must be https"),
        ({"url": "https://" + "a" * 2_048, "events": ["run.failed"]}, "url", "at most 2048"),
        ({"url": URL, "events": ["run.failed"], "secret": "mine"}, "secret", "remove it"),
        ({"url": URL, "events": ["run.failed"], "status": "PAUSED"}, "status", "remove it"),
    ],
)
def test_hook_07_a_wrong_registration_names_its_field(shop: Shop, body: Any, field: str, said: str) -> None:
    assert said in errors(send(shop, "POST", HOOKS, body))[field]
    assert not WebhookEndpoint.objects.exists()


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({}, "body", "at least one of"),
        ({"url": None}, "body", "none as null"),
        ({"status": "DISABLED"}, "status", "'ENABLED' or 'PAUSED'"),
        ({"status": "paused"}, "status", "'ENABLED' or 'PAUSED'"),
        ({"events": []}, "events", "at least 1"),
        ({"url": "https://10.0.0.8/"}, "url", "not a public one"),
        ({"reason": "x"}, "reason", "remove it"),
    ],
)
def test_hook_07_a_wrong_change_names_its_field_and_changes_nothing(
    shop: Shop, body: Any, field: str, said: str
) -> None:
    new = made(shop)
    del new["secret"]
    assert said in errors(send(shop, "PATCH", f"{HOOKS}/{new['webhook_id']}", body))[field]
    assert shop.get(f"{HOOKS}/{new['webhook_id']}").json() == new


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "required"),
        ({"since": "2026-02-28T00:00:00"}, "timezone"),
        ({"since": "yesterday"}, "datetime"),
        ({"since": "2026-01-29T11:59:59Z"}, "30 days"),
        ({"since": "2026-03-01T12:00:01Z"}, "30 days"),
    ],
)
def test_hook_05_a_wrong_moment_to_recover_from_is_refused(shop: Shop, clock: FixedClock, body: Any, said: str) -> None:
    new = made(shop)
    assert said in errors(send(shop, "POST", f"{HOOKS}/{new['webhook_id']}/recover", body))["since"]


def test_hook_06_deliveries_show_what_came_of_each_try_and_never_an_answer(shop: Shop, clock: FixedClock) -> None:
    endpoint = an_endpoint(shop.tenant)
    delivery = a_delivery(endpoint, DeliveryStatus.FAILED, attempts=10, reason="exhausted")
    for number in range(25):
        WebhookAttempt.objects.create(
            delivery=delivery, at=clock.now() + timedelta(seconds=number), status_code=None, ms=number, error="TIMEOUT"
        )
    WebhookAttempt.objects.create(delivery=delivery, at=clock.now() + timedelta(hours=1), status_code=500, ms=80)
    (shown,) = shop.get(f"{HOOKS}/{endpoint.pk}/deliveries").json()["deliveries"]
    tries = shown.pop("tries")
    assert tries[0] == {"at": "2026-03-01T13:00:00Z", "status_code": 500, "ms": 80, "error": ""}
    assert [one["ms"] for one in tries] == [80, *range(24, 5, -1)]
    assert shown == {
        "delivery_id": str(delivery.pk),
        "webhook_id": str(endpoint.pk),
        "message_id": f"msg_{delivery.message_id.hex}",
        "event": "run.completed",
        "happened_at": "2026-03-01T12:00:00Z",
        "status": "FAILED",
        "reason": "exhausted",
        "attempts": 10,
        "next_attempt_at": None,
        "created_at": shown["created_at"],
        "ended_at": "2026-03-01T12:00:00Z",
    }
    again = send(shop, "POST", f"{HOOKS}/deliveries/{delivery.pk}/redeliver")
    assert (again.status_code, again.json()["status"], again.json()["tries"]) == (202, "PENDING", tries)
    twice = send(shop, "POST", f"{HOOKS}/deliveries/{delivery.pk}/redeliver")
    assert (twice.status_code, twice.json()["reason_code"]) == (409, "CONFLICT")


def test_hook_06_a_try_tells_no_one_where_a_name_leads_inside(shop: Shop, clock: FixedClock) -> None:
    """As at registration: a name that leads nowhere and one that leads inside, by now, are answered alike."""
    endpoint = an_endpoint(shop.tenant)
    delivery = a_delivery(endpoint)
    kept = ["DNS_ERROR", "PRIVATE_IP", "LOOPBACK", "LINK_LOCAL", "RESERVED_IP", "CONNECT_ERROR"]
    for number, error in enumerate(kept):
        WebhookAttempt.objects.create(delivery=delivery, at=clock.now(), status_code=None, ms=number, error=error)
    (shown,) = shop.get(f"{HOOKS}/{endpoint.pk}/deliveries").json()["deliveries"]
    assert [one["error"] for one in reversed(shown["tries"])] == ["DNS_ERROR"] * 5 + ["CONNECT_ERROR"]
    assert list(WebhookAttempt.objects.order_by("pk").values_list("error", flat=True)) == kept  # for operators


def test_hook_07_deliveries_are_read_page_by_page_and_by_status(shop: Shop, clock: FixedClock) -> None:
    endpoint, beside = an_endpoint(shop.tenant), an_endpoint(shop.tenant)
    a_delivery(beside)
    statuses = [DeliveryStatus.FAILED, DeliveryStatus.DELIVERED, DeliveryStatus.HELD]
    made_here = [a_delivery(endpoint, statuses[number % 3]) for number in range(7)]
    for number, delivery in enumerate(made_here):  # two at each moment: the id decides
        at = clock.now() + timedelta(seconds=number // 2)
        WebhookDelivery.objects.filter(pk=delivery.pk).update(created_at=at)
    wanted = [
        str(pk)
        for pk in WebhookDelivery.objects.filter(endpoint=endpoint)
        .order_by("-created_at", "-delivery_id")
        .values_list("pk", flat=True)
    ]
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = shop.get(f"{HOOKS}/{endpoint.pk}/deliveries?limit=3" + (f"&cursor={cursor}" if cursor else "")).json()
        seen += [one["delivery_id"] for one in page["deliveries"]]
        cursor = page["next_cursor"]
    assert seen == wanted
    failed = shop.get(f"{HOOKS}/{endpoint.pk}/deliveries?status=FAILED").json()["deliveries"]
    assert [one["status"] for one in failed] == ["FAILED"] * 3
    for query, field in (("status=SENT", "query.status"), ("limit=0", "query.limit"), ("cursor=x", "query.cursor")):
        assert field in errors(shop.get(f"{HOOKS}/{endpoint.pk}/deliveries?{query}"))


def test_hook_07_another_tenants_ids_are_answered_as_ids_of_nothing(shop: Shop) -> None:
    endpoint = an_endpoint(shop.tenant)
    delivery = a_delivery(endpoint, DeliveryStatus.FAILED)
    stranger = a_shop()
    calls = [
        ("GET", "{}", None),
        ("PATCH", "{}", {"status": "PAUSED"}),
        ("DELETE", "{}", None),
        ("POST", "{}/rotate", None),
        ("POST", "{}/test", None),
        ("GET", "{}/deliveries", None),
        ("POST", "{}/recover", {"since": delivery.created_at.isoformat()}),
    ]
    cases = [(method, path.format(name), body) for method, path, body in calls for name in (endpoint.pk, uuid.uuid4())]
    cases += [("POST", f"deliveries/{name}/redeliver", None) for name in (delivery.pk, uuid.uuid4())]
    cases += [(method, path.format(str(endpoint.pk).upper()), body) for method, path, body in calls]
    before = list(WebhookEndpoint.objects.values()), list(WebhookDelivery.objects.values())
    seen = set()
    for method, path, body in cases:
        response = send(stranger, method, f"{HOOKS}/{path}", body)
        assert response.status_code == 404, path
        seen.add((response.json()["reason_code"], response.json()["detail"]))
    assert len(seen) == 1
    assert (list(WebhookEndpoint.objects.values()), list(WebhookDelivery.objects.values())) == before
    assert stranger.get(HOOKS).json() == {"webhooks": []}


def test_hook_07_reading_takes_the_same_scope_as_changing(shop: Shop) -> None:
    """A URL may hold a token; a key that polls runs need not see it."""
    endpoint = an_endpoint(shop.tenant)
    lesser = a_key(shop.tenant, scopes=TENANT_SCOPES - {Scope.WEBHOOKS_WRITE})
    for path in (HOOKS, f"{HOOKS}/{endpoint.pk}", f"{HOOKS}/{endpoint.pk}/deliveries"):
        response = shop.client.get(path, headers=bearer(lesser))
        assert (response.status_code, response.json()["reason_code"]) == (403, "SCOPE_MISSING")
    only = a_key(shop.tenant, scopes={Scope.WEBHOOKS_WRITE})
    assert shop.client.get(HOOKS, headers=bearer(only)).status_code == 200
