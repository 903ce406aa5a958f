"""Webhooks by the real process `events`: killed while a receiver has the request, the next one sends it again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db.models.functions import Now

from tenants.webhooks.models import WebhookDelivery
from tests.gear.builders import runs as gear
from tests.gear.builders import webhook_sending as hooks
from tests.gear.servers.events_process import EventsProcess, an_events_process
from tests.gear.servers.receivers import Receivers
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey", "aws")]


@pytest.fixture
def receivers(tmp_path: Path) -> Iterator[Receivers]:
    made = Receivers(tmp_path)
    yield made
    made.let_go.set()
    made.close()


@contextmanager
def events(receivers: Receivers, folder: Path, name: str) -> Iterator[EventsProcess]:
    environ = {
        "DPP_WEBHOOK_PRIVATE_HOSTS": f"good.example=127.0.0.1:{receivers.good}",
        "DPP_WEBHOOK_CA_FILE": str(receivers.ca_file),
    }
    with an_events_process(folder, name=name, **environ) as process:
        yield process


@pytest.mark.contract("HOOK-08")
def test_hook_08_a_process_killed_while_it_posts_the_next_one_sends_the_same_id(
    receivers: Receivers, tmp_path: Path
) -> None:
    endpoint = hooks.an_endpoint(url="https://good.example/hang")
    run = gear.committed(tenant_id=endpoint.tenant_id)
    with events(receivers, tmp_path, "first") as process:
        wait_until(lambda: receivers.letters, seconds=30, what="the request")
        process.kill()
    WebhookDelivery.objects.update(lease_until=Now())
    receivers.let_go.set()
    with events(receivers, tmp_path, "second"):
        wait_until(lambda: hooks.statuses(endpoint)["DELIVERED"], seconds=30, what="the delivery")
    first, second = receivers.letters
    assert (first.webhook_id, first.body) == (second.webhook_id, second.body)
    assert first.told["data"]["run_id"] == str(run.run_id)
    assert hooks.attempts(endpoint) == [(200, "")]
