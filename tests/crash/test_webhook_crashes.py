"""A sender that dies at any of its effects: the message arrives, under one id, and is marked once (HOOK-08).

Effects are statements: before and after each of them, from the fan-out to the mark. The attempt lies between
two of them, so it may have been made or not, and no mark says.
"""

import asyncio
from collections.abc import Iterator

import pytest
from django.db.models.functions import Now

from tenants.webhooks.dispatch import claims, delivery, marks, sending
from tenants.webhooks.dispatch.fanout import fan_out
from tenants.webhooks.models import WebhookAttempt, WebhookDelivery, WebhookMessage
from tests.gear.builders import webhook_sending as hooks
from tests.gear.faults.interruption import Interruption, interrupted
from tests.gear.servers.receivers import Receivers, a_world

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.contract("HOOK-08"),
    pytest.mark.usefixtures("valkey"),
]
EFFECTS_MIN = 6


@pytest.fixture(scope="module")
def receivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receivers]:
    made = Receivers(tmp_path_factory.mktemp("receivers"))
    yield made
    made.close()


def turn(world: sending.SenderReach) -> None:
    """What the sender does, without its threads, so that every effect is this thread's."""
    fan_out()
    for claimed in claims.claim_deliveries():
        letter = sending._letter(claimed)
        assert letter is not None
        came = asyncio.run(delivery.attempt_delivery(letter, rules=world.rules, network=world.proven, tls=world.tls))
        marks.mark_delivery(claimed, came)


@pytest.mark.parametrize("path", ["well", "status/410"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_hook_08_dead_at_any_effect_no_event_is_lost_and_its_id_stays(
    receivers: Receivers, path: str, when: str
) -> None:
    world = a_world(receivers)
    at, came_twice = 0, 0
    while True:
        receivers.letters.clear()
        endpoint = hooks.an_endpoint(url=f"https://good.example/{path}", proven=True)
        message = hooks.a_message(endpoint.tenant_id)
        with interrupted(Interruption(at=at, after=when == "after")) as interruption:
            turn(world)
        if not interruption.struck:
            break
        WebhookDelivery.objects.filter(lease_token__isnull=False).update(lease_until=Now())
        turn(world)
        (left,) = WebhookDelivery.objects.filter(endpoint=endpoint)
        assert (left.status, left.lease_token, left.attempts) == ("DELIVERED" if path == "well" else "HELD", None, 1)
        assert {letter.webhook_id for letter in receivers.letters} == {f"msg_{message.message_id.hex}"}
        assert len(receivers.letters) in {1, 2}
        assert WebhookAttempt.objects.filter(delivery=left).count() == 1
        assert hooks.row(endpoint).status == ("ENABLED" if path == "well" else "DISABLED")
        came_twice += len(receivers.letters) == 2
        at += 1
    assert at >= EFFECTS_MIN
    assert came_twice  # it died between the request and its mark
    assert not WebhookMessage.objects.filter(fanned_out_at__isnull=True).exists()
