"""Fan-out and claims: who gets room, how much of it, and that two senders never take more (HOOK-04, HOOK-05)."""

import random
import threading
import uuid
from collections import Counter

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from tenants.webhooks import transitions
from tenants.webhooks.dispatch import claims
from tenants.webhooks.dispatch.fanout import fan_out
from tenants.webhooks.models import WebhookDelivery, WebhookMessage
from tests.gear.builders import webhook_sending as hooks
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.rivals import OnAnotherConnection
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]


# Fan-out.


@pytest.mark.contract("HOOK-05")
def test_hook_05_each_endpoint_that_wants_it_gets_its_delivery_held_where_it_is_not_open() -> None:
    tenant = a_tenant()
    wants = {status: hooks.an_endpoint(tenant, status=status) for status in ("ENABLED", "PAUSED", "DISABLED")}
    others = [
        hooks.an_endpoint(tenant, events=["budget.low"]),
        hooks.an_endpoint(tenant, deleted_at=Now()),
        hooks.an_endpoint(),
    ]
    message = hooks.a_message(tenant.tenant_id)
    done = fan_out()
    assert (done.messages, done.deliveries) == (1, 3)
    assert {status: dict(hooks.statuses(one)) for status, one in wants.items()} == {
        "ENABLED": {"PENDING": 1},
        "PAUSED": {"HELD": 1},
        "DISABLED": {"HELD": 1},
    }
    assert [hooks.statuses(other) for other in others] == [Counter()] * 3
    assert WebhookMessage.objects.get(pk=message.pk).fanned_out_at is not None
    assert (fan_out().messages, WebhookDelivery.objects.count()) == (0, 3)


def test_a_disabled_endpoint_is_not_told_of_itself() -> None:
    one = hooks.an_endpoint()
    other = hooks.an_endpoint(one.tenant_id)
    hooks.a_message(one.tenant_id, event="endpoint.disabled", endpoint_id=str(one.pk))
    fan_out()
    assert (hooks.statuses(one), hooks.statuses(other)) == (Counter(), Counter(PENDING=1))


@pytest.mark.contract("HOOK-04")
def test_hook_04_thousands_of_one_tenants_messages_hold_up_no_other() -> None:
    greedy, modest = hooks.an_endpoint(), hooks.an_endpoint()
    hooks.messages(greedy.tenant_id, 120)
    hooks.a_message(modest.tenant_id)
    assert fan_out().messages == 51
    assert hooks.statuses(modest) == Counter(PENDING=1)
    assert [fan_out().messages for _ in range(3)] == [50, 20, 0]


def test_a_locked_endpoint_holds_up_its_own_tenant_alone() -> None:
    locked, free = hooks.an_endpoint(), hooks.an_endpoint()
    hooks.an_endpoint(locked.tenant_id)
    hooks.a_message(locked.tenant_id)
    hooks.a_message(free.tenant_id)
    with transaction.atomic():
        assert transitions.locked_endpoint(locked.pk) is not None
        assert OnAnotherConnection(fan_out).answer().messages == 1
    assert (hooks.statuses(locked), hooks.statuses(free)) == (Counter(), Counter(PENDING=1))
    assert fan_out().deliveries == 2


@pytest.mark.contract("HOOK-05")
def test_hook_05_what_is_held_while_its_endpoint_is_resumed_is_not_left_behind() -> None:
    """The fan-out has looked at PAUSED and not committed; a resume that looks for HELD deliveries waits for it."""
    endpoint = hooks.an_endpoint(status="PAUSED")
    hooks.a_message(endpoint.tenant_id)

    def resume() -> int | None:
        with transaction.atomic():
            found = transitions.locked_endpoint(endpoint.pk)
            assert found is not None
            return transitions.resume_endpoint(endpoint.pk, now=found.updated_at)

    with transaction.atomic():
        assert fan_out().deliveries == 1
        rival = OnAnotherConnection(resume)
        wait_until(lambda: rival.is_done() or rival.waits_for_a_lock(), what="the resume to meet the fan-out")
    assert rival.answer() == 1
    assert hooks.statuses(endpoint) == Counter(PENDING=1)


def test_two_fan_outs_at_once_make_each_delivery_once() -> None:
    endpoints = [hooks.an_endpoint() for _ in range(4)]
    for endpoint in endpoints:
        hooks.messages(endpoint.tenant_id, 40)
    rivals = [OnAnotherConnection(lambda: [fan_out().messages for _ in range(6)]) for _ in range(2)]
    assert sum(sum(rival.answer()) for rival in rivals) == 160
    assert [hooks.statuses(endpoint) for endpoint in endpoints] == [Counter(PENDING=40)] * 4


# Room.


def taken() -> Counter[uuid.UUID]:
    return Counter(one.endpoint_id for one in claims.claim_deliveries())


@pytest.mark.contract("HOOK-04")
@pytest.mark.parametrize(
    ("columns", "room"),
    [
        ({"proven": True}, 4),
        ({}, 1),
        ({"proven": True, "consecutive_failures": 1, "failing_since": Now()}, 1),
        ({"proven": True, "slow_at": Now()}, 1),
    ],
    ids=["proven", "new", "failing", "slow"],
)
def test_hook_04_an_endpoint_has_four_in_flight_and_a_doubtful_one_has_one(
    columns: dict[str, object], room: int
) -> None:
    endpoint = hooks.an_endpoint(**columns)  # type: ignore[arg-type]
    hooks.deliveries_due(endpoint, 6)
    assert taken() == {endpoint.pk: room}
    assert taken() == {}
    WebhookDelivery.objects.filter(lease_token__isnull=False).update(lease_until=Now())
    assert taken() == {endpoint.pk: room}  # whose lease has run out is sent again


@pytest.mark.contract("HOOK-04")
def test_hook_04_a_tenant_has_eight_in_flight_four_of_them_doubtful() -> None:
    tenant = a_tenant()
    new = [hooks.an_endpoint(tenant) for _ in range(6)]
    proven = [hooks.an_endpoint(tenant, proven=True) for _ in range(3)]
    for endpoint in (*new, *proven):
        hooks.deliveries_due(endpoint, 5)
    found = taken()
    assert (sum(found[one.pk] for one in new), sum(found[one.pk] for one in proven)) == (4, 4)
    assert taken() == {}
    WebhookDelivery.objects.filter(endpoint__in=new).delete()
    assert sum(taken().values()) == 4
    assert hooks.live_leases() == 8


@pytest.mark.contract("HOOK-04")
def test_hook_04_doubtful_endpoints_have_half_the_room_and_the_oldest_of_each_tenant_goes_first() -> None:
    for _ in range(40):
        hooks.deliveries_due(hooks.an_endpoint(), 2)
    assert sum(taken().values()) == 32
    for _ in range(40):
        hooks.deliveries_due(hooks.an_endpoint(proven=True), 2)
    found = taken()
    assert (sum(found.values()), set(found.values())) == (32, {1})
    assert taken() == {}
    assert hooks.live_leases() == 64


@pytest.mark.contract("HOOK-04")
def test_hook_04_ten_thousand_of_one_endpoint_leave_room_for_anothers_one() -> None:
    flooded = [hooks.an_endpoint(proven=True) for _ in range(16)]
    for endpoint in flooded:
        hooks.deliveries_due(endpoint, 12)
    assert sum(taken().values()) == 64
    modest = hooks.an_endpoint(proven=True)
    hooks.deliveries_due(modest, 1)
    assert taken() == {}
    WebhookDelivery.objects.filter(pk=WebhookDelivery.objects.filter(lease_token__isnull=False)[0].pk).delete()
    assert taken() == {modest.pk: 1}  # before the older ones of those that have four


@pytest.mark.parametrize(
    "columns",
    [{"status": "PAUSED"}, {"status": "DISABLED"}, {"deleted_at": Now()}, {"paused": -60.0}],
    ids=["paused", "disabled", "deleted", "paused by the breaker"],
)
def test_hook_04_nothing_is_claimed_for_an_endpoint_that_is_not_open(columns: dict[str, object]) -> None:
    paused = columns.pop("paused", None)
    endpoint = hooks.an_endpoint(proven=True, **columns)  # type: ignore[arg-type]
    if paused:
        hooks.aged(endpoint, paused_until=-60)
    hooks.deliveries_due(endpoint)
    assert taken() == {}
    if paused:
        hooks.aged(endpoint, paused_until=1)
        assert taken() == {endpoint.pk: 1}


def test_a_locked_endpoint_is_left_for_the_next_turn_and_the_others_are_claimed() -> None:
    locked, free = hooks.an_endpoint(), hooks.an_endpoint()
    hooks.deliveries_due(locked)
    hooks.deliveries_due(free)
    with transaction.atomic():
        transitions.locked_endpoint(locked.pk)
        assert OnAnotherConnection(taken).answer() == {free.pk: 1}
    assert taken() == {locked.pk: 1}


def test_what_is_given_back_is_due_as_before_and_only_by_its_owner() -> None:
    endpoint = hooks.an_endpoint()
    hooks.deliveries_due(endpoint)
    (first,) = claims.claim_deliveries()
    assert claims.give_back([first]) == 1
    (second,) = claims.claim_deliveries()
    assert (second.delivery_id, second.attempts) == (first.delivery_id, 0)
    assert second.lease_token != first.lease_token
    assert claims.give_back([first]) == 0
    assert claims.claim_deliveries() == []


@pytest.mark.contract("HOOK-04")
def test_hook_04_two_senders_at_once_never_have_more_than_there_is_room_for() -> None:
    """Four claim and give back as fast as they can; each claim is judged by the leases that stood at its end."""
    chance = random.Random(4)  # noqa: S311
    tenants = [a_tenant() for _ in range(12)]
    for tenant in tenants:
        for _ in range(6):
            endpoint = hooks.an_endpoint(tenant, proven=chance.random() < 0.4)
            hooks.deliveries_due(endpoint, 8)
    worst: Counter[str] = Counter()
    lock = threading.Lock()

    def claims_and_gives_back(seed: int) -> int:
        own = random.Random(seed)  # noqa: S311
        held: list[claims.ClaimedDelivery] = []
        claimed = 0
        for _ in range(25):
            found = claims.claim_deliveries()
            claimed += len(found)
            held += found
            with lock:
                for name, most in in_flight().items():
                    worst[name] = max(worst[name], most)
            own.shuffle(held)
            back, held = held[: len(held) // 2 + 1], held[len(held) // 2 + 1 :]
            claims.give_back(back)
        return claimed

    rivals = [OnAnotherConnection(lambda seed=seed: claims_and_gives_back(seed)) for seed in range(4)]  # type: ignore[misc]
    assert sum(rival.answer() for rival in rivals) > 300
    assert worst["all"] <= 64
    assert worst["all"] > 50  # it was full
    assert (worst["doubtful"], worst["at doubtful"], worst["at proven"]) <= (32, 1, 4)
    assert (worst["of tenant"], worst["of tenant, doubtful"]) <= (8, 4)
    assert worst["doubtful"] == 32


def in_flight() -> dict[str, int]:
    """The most that any has in flight now, by kind of room."""
    sql = """
    WITH one AS (
        SELECT tenant_id, endpoint_id, last_success_at IS NULL AS doubtful, count(*) AS live
          FROM webhook_delivery JOIN webhook_endpoint USING (endpoint_id) WHERE lease_until > now() GROUP BY 1, 2, 3)
    SELECT (SELECT sum(live) FROM one), (SELECT sum(live) FROM one WHERE doubtful),
           (SELECT max(live) FROM one WHERE doubtful), (SELECT max(live) FROM one WHERE NOT doubtful),
           (SELECT max(sum) FROM (SELECT sum(live) FROM one GROUP BY tenant_id) a),
           (SELECT max(sum) FROM (SELECT sum(live) FROM one WHERE doubtful GROUP BY tenant_id) b)"""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        found = [int(value or 0) for value in cursor.fetchone()]
    names = ("all", "doubtful", "at doubtful", "at proven", "of tenant", "of tenant, doubtful")
    return dict(zip(names, found, strict=True))
