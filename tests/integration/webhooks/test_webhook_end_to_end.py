"""From a tenant's requests to its receiver's hands: the edge and the sender together, over TLS."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from dpp_project import clock
from dpp_project.observe import span_ids, spans
from dpp_project.observe.span_maker import SpanMaker
from tenants.webhooks.models import WebhookDelivery
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import bearer
from tests.gear.builders.webhooks import NamesOfTests
from tests.gear.servers.collector import a_collector
from tests.gear.servers.receivers import Receivers, Taken, a_sender, a_world
from tests.gear.servers.web import PUBLIC
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("HOOK-02", "HOOK-05", "HOOK-07")]
HOOKS = "/v1/webhooks"


@pytest.fixture
def receivers(tmp_path_factory: pytest.TempPathFactory, names: NamesOfTests) -> Iterator[Receivers]:
    names.names["good.example"] = [PUBLIC]
    made = Receivers(tmp_path_factory.mktemp("receivers"))
    yield made
    made.close()


def send(shop: Shop, method: str, path: str, body: Any = None) -> Any:
    data = "" if body is None else json.dumps(body)
    response = shop.client.generic(
        method, HOOKS + path, data=data, content_type="application/json", headers=bearer(shop.issued)
    )
    assert response.status_code < 300, response.content
    return response.json()


def letter(receivers: Receivers, number: int) -> Taken:
    wait_until(lambda: len(receivers.letters) >= number, what=f"letter {number}")
    return receivers.letters[number - 1]


def verifies(taken: Taken, secret: str) -> bool:
    webhooks = pytest.importorskip("standardwebhooks.webhooks")
    try:
        return bool(webhooks.Webhook(secret).verify(taken.body, dict(taken.headers)) == taken.told)
    except webhooks.WebhookVerificationError:
        return False


def test_hook_07_registered_tested_rotated_paused_disabled_and_recovered_nothing_is_lost(
    shop: Shop, receivers: Receivers
) -> None:
    began = clock.now() - timedelta(seconds=1)
    new = send(shop, "POST", "", {"url": "https://good.example/mine", "events": ["run.completed"]})
    here = f"/{new['webhook_id']}"

    def statuses() -> list[str]:
        shown = send(shop, "GET", f"{here}/deliveries")["deliveries"]
        return [one["status"] for one in reversed(shown)]

    with a_sender(a_world(receivers)):
        tested = send(shop, "POST", f"{here}/test")
        first = letter(receivers, 1)
        assert (first.told["type"], first.webhook_id) == ("endpoint.test", tested["message_id"])
        assert verifies(first, new["secret"])
        wait_until(lambda: statuses() == ["DELIVERED"], what="the test's mark")
        rotated = send(shop, "POST", f"{here}/rotate")
        send(shop, "POST", f"{here}/test")
        second = letter(receivers, 2)
        assert verifies(second, new["secret"])
        assert verifies(second, rotated["secret"])
        wait_until(lambda: statuses() == ["DELIVERED"] * 2, what="its mark")

        send(shop, "PATCH", here, {"status": "PAUSED"})
        held = gear.committed(tenant_id=shop.tenant.tenant_id)
        wait_until(lambda: statuses() == ["DELIVERED"] * 2 + ["HELD"], what="the end of the run to be held")
        assert len(receivers.letters) == 2
        send(shop, "PATCH", here, {"status": "ENABLED"})
        assert letter(receivers, 3).told["data"]["run_id"] == str(held.run_id)
        wait_until(lambda: statuses() == ["DELIVERED"] * 3, what="its mark")

        receivers.answers["/mine"] = b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n"
        missed = gear.committed(tenant_id=shop.tenant.tenant_id)
        wait_until(lambda: send(shop, "GET", here)["status"] == "DISABLED", what="the webhook to be disabled")
        del receivers.answers["/mine"]
        recovered = send(shop, "POST", f"{here}/recover", {"since": began.isoformat()})
        assert (recovered["webhook"]["status"], recovered["deliveries"]) == ("ENABLED", 1)
        last = letter(receivers, 5)
        assert last.webhook_id == receivers.letters[3].webhook_id
        assert last.told["data"]["run_id"] == str(missed.run_id)
        wait_until(lambda: statuses() == ["DELIVERED"] * 4, what="its mark")

        again = send(shop, "GET", f"{here}/deliveries?limit=1")["deliveries"][0]
        send(shop, "POST", f"/deliveries/{again['delivery_id']}/redeliver")
        assert letter(receivers, 6).webhook_id == again["message_id"] == last.webhook_id
        wait_until(lambda: statuses() == ["DELIVERED"] * 4, what="its mark")
    assert WebhookDelivery.objects.filter(lease_token__isnull=False).count() == 0
    tries = send(shop, "GET", f"{here}/deliveries?limit=1")["deliveries"][0]["tries"]
    assert [one["status_code"] for one in tries] == [200, 200, 410]


@pytest.mark.contract("DPP-85")
def test_dpp_85_the_webhook_of_a_run_is_part_of_the_runs_trace(
    shop: Shop, receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(shop, "POST", "", {"url": "https://good.example/mine", "events": ["run.completed"]})
    receivers.answers["/mine"] = b"HTTP/1.1 503 Not now\r\ncontent-length: 0\r\n\r\n"
    with a_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setattr(spans, "_maker", SpanMaker("dpp-test"))
        try:
            with a_sender(a_world(receivers)):
                run = gear.committed(tenant_id=shop.tenant.tenant_id)
                assert letter(receivers, 1).told["data"]["trace_id"] == run.trace_id
        finally:
            spans.stop_span_export()
    found = collector.of(f"{span_ids.trace_of(run.trace_id):032x}")["webhook attempt"]
    assert found.parent == f"{span_ids.sending_span_of(run.run_id):016x}"
    assert found.failed
    assert found.facts == {
        "dpp.tenant_id": shop.tenant.tenant_id,
        "dpp.run_id": str(run.run_id),
        "http.response.status_code": 503,
    }
