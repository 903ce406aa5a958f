"""From an event to a receiver's hands: attempts, what comes of them, and every way in which a receiver is hostile."""

import asyncio
import base64
import dataclasses
import json
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now

from dpp_project.outbound import addresses
from tenants.webhooks import signing, signing_secrets, transitions
from tenants.webhooks.dispatch import claims, delivery, marks, sending
from tenants.webhooks.dispatch.delivery import AttemptMade, SealedLetter
from tenants.webhooks.dispatch.fanout import fan_out
from tenants.webhooks.dispatch.marks import Marked
from tenants.webhooks.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint, WebhookMessage, WebhookSecret
from tests.gear.builders import runs as gear
from tests.gear.builders import webhook_sending as hooks
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.rivals import OnAnotherConnection, impatient
from tests.gear.servers.receivers import NAMES, Receivers, a_sender, a_world
from tests.gear.servers.web import PUBLIC, PUBLIC_2, PUBLIC_3, PUBLIC_4, PUBLIC_5, PUBLIC_V6, Loopback, unused_port
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]
ATTACKS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "url_attacks.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def _receivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receivers]:
    made = Receivers(tmp_path_factory.mktemp("receivers"))
    yield made
    made.close()


@pytest.fixture
def receivers(_receivers: Receivers) -> Iterator[Receivers]:
    _receivers.letters.clear()
    _receivers.answers.clear()
    _receivers.let_go.clear()
    _receivers.most_at_work = 0
    yield _receivers
    _receivers.let_go.set()


def url(path: str) -> str:
    return f"https://good.example/{path}"


def ended(endpoint: WebhookEndpoint, status: str, count: int = 1) -> bool:
    return hooks.statuses(endpoint)[status] == count


def came_to(endpoint: WebhookEndpoint, count: int = 1) -> list[tuple[int | None, str]]:
    return wait_until(lambda: found if len(found := hooks.attempts(endpoint)) >= count else None, what="attempts")


@pytest.mark.contract("HOOK-01")
def test_hook_01_the_end_of_a_run_reaches_its_receiver_signed(receivers: Receivers) -> None:
    endpoint = hooks.an_endpoint(url=url("mine"))
    secrets = signing_secrets.live_secrets(endpoint.pk, now=endpoint.created_at)
    run = gear.committed(tenant_id=endpoint.tenant_id)
    with a_sender(a_world(receivers)):
        wait_until(lambda: ended(endpoint, "DELIVERED"), what="its delivery")
    (letter,) = receivers.letters
    at = datetime.fromtimestamp(int(letter.headers["webhook-timestamp"]), tz=UTC)
    assert abs((at - db_now()).total_seconds()) < 30  # the attempt's
    signed = signing.signature_headers(webhook_id=letter.webhook_id, at=at, body=letter.body, secrets=secrets)
    assert {name: letter.headers[name] for name, _ in signed} == dict(signed)
    assert letter.told["data"]["run_id"] == str(run.run_id)
    message = WebhookMessage.objects.get()
    assert letter.webhook_id == f"msg_{message.message_id.hex}"
    assert (letter.told["type"], letter.headers["content-type"]) == ("run.completed", "application/json")
    assert hooks.attempts(endpoint) == [(200, "")]
    assert hooks.row(endpoint).last_success_at is not None
    (sent,) = WebhookDelivery.objects.all()
    assert (sent.attempts, sent.lease_token, sent.next_attempt_at) == (1, None, None)
    assert sent.ended_at is not None


HOSTILE = {
    "status/500": (500, ""),
    "status/301": (301, ""),
    "status/404": (404, ""),
    "reset": (None, "PROTOCOL_ERROR"),
    "lies": (None, "PROTOCOL_ERROR"),
    "headers-for-ever": (None, "PROTOCOL_ERROR"),
    "old": (None, "PROTOCOL_ERROR"),
}


@pytest.mark.contract("HOOK-03")
@pytest.mark.parametrize("path", HOSTILE)
def test_hook_03_what_is_no_success_is_tried_again_by_the_schedule(receivers: Receivers, path: str) -> None:
    endpoint = hooks.an_endpoint(url=url(path))
    hooks.deliveries_due(endpoint)
    assert one_attempt(a_world(receivers)) is Marked.DONE
    assert hooks.attempts(endpoint) == [HOSTILE[path]]
    (left,) = WebhookDelivery.objects.all()
    assert (left.status, left.attempts, left.lease_token) == ("PENDING", 1, None)
    assert 4.4 < seconds_after_its_attempt(left) < 5.6
    assert hooks.row(endpoint).consecutive_failures == 1


@pytest.mark.contract("HOOK-03")
def test_hook_03_a_redirect_is_never_followed(receivers: Receivers) -> None:
    receivers.answers["/moved"] = (
        b"HTTP/1.1 302 Found\r\nlocation: https://good.example/ok\r\ncontent-length: 0\r\n\r\n"
    )
    endpoint = hooks.an_endpoint(url=url("moved"))
    hooks.deliveries_due(endpoint)
    one_attempt(a_world(receivers))
    assert [letter.path for letter in receivers.letters] == ["/moved"]
    assert hooks.attempts(endpoint) == [(302, "")]


@pytest.mark.parametrize("path", ["floods", "bomb"])
def test_an_answer_is_read_to_4_kib_and_dropped(receivers: Receivers, path: str) -> None:
    endpoint = hooks.an_endpoint(url=url(path))
    hooks.deliveries_due(endpoint)
    one_attempt(a_world(receivers))
    assert hooks.attempts(endpoint) == [(200, "")]
    assert hooks.statuses(endpoint) == {"DELIVERED": 1}


@pytest.mark.contract("HOOK-04")
@pytest.mark.parametrize("path", ["hang", "drips"])
def test_hook_04_a_receiver_that_hangs_or_drips_is_left_when_its_time_is_over(
    receivers: Receivers, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(delivery, "WHOLE_SECONDS", 0.5)
    endpoint = hooks.an_endpoint(url=url(path), proven=True)
    hooks.deliveries_due(endpoint)
    began = time.monotonic()
    one_attempt(a_world(receivers))
    assert time.monotonic() - began < 3
    assert hooks.attempts(endpoint) == [(None, "TIMEOUT")]


@pytest.mark.contract("HOOK-06")
@pytest.mark.parametrize(
    ("host", "error"),
    [
        ("badca.example", "TLS_ERROR"),
        ("wrongname.example", "TLS_ERROR"),
        ("plain.example", "TIMEOUT"),  # it waits for the end of what it takes for a request
        ("refused.example", "CONNECT_ERROR"),
        ("unknown.example", "DNS_ERROR"),
    ],
)
def test_hook_06_what_cannot_be_trusted_is_sent_nothing(
    receivers: Receivers, monkeypatch: pytest.MonkeyPatch, host: str, error: str
) -> None:
    monkeypatch.setattr(delivery, "WHOLE_SECONDS", 0.5)
    names = {"badca.example": [PUBLIC_3], "wrongname.example": [PUBLIC], "plain.example": [PUBLIC_4]}
    endpoint = hooks.an_endpoint(url=f"https://{host}/ok")
    hooks.deliveries_due(endpoint)
    with unused_port() as nobody:
        ports = {PUBLIC_3: receivers.stranger, PUBLIC_4: receivers.plain, PUBLIC_5: nobody}
        one_attempt(a_world(receivers, {**names, "refused.example": [PUBLIC_5]}, ports))
    assert hooks.attempts(endpoint) == [(None, error)]
    assert receivers.letters == []


@pytest.mark.contract("HOOK-06")
def test_hook_06_a_name_that_leads_elsewhere_since_registration_is_checked_at_each_delivery(
    receivers: Receivers,
) -> None:
    """The name server answers a public address first, and one of the inside from then on."""
    endpoint = hooks.an_endpoint(url="https://turns.example/ok")
    names = {"turns.example": [PUBLIC]}
    world = a_world(receivers, names)
    hooks.deliveries_due(endpoint)
    one_attempt(world)
    for inside in ("127.0.0.1", "169.254.169.254", "10.0.0.5", "::1", "fd00::1", "64:ff9b::7f00:1", "0.0.0.0"):  # noqa: S104
        names["turns.example"] = [PUBLIC, inside]
        hooks.deliveries_due(endpoint)
        hooks.aged(endpoint, paused_until=1)
        one_attempt(world)
    network = world.proven
    assert isinstance(network, Loopback)
    assert len(network.dialled) == 1
    assert [status for status, _ in hooks.attempts(endpoint)] == [None] * 8  # the certificate names another host
    assert {error for _, error in hooks.attempts(endpoint)[1:]} <= {
        "LOOPBACK",
        "LINK_LOCAL",
        "PRIVATE_IP",
        "RESERVED_IP",
    }
    assert receivers.letters == []


DIALLED = {
    "good.example": [PUBLIC],
    "evil.example": [PUBLIC_2],
    "six.example": [PUBLIC_V6],
    "loop.example": ["127.0.0.1"],
    "meta.example": ["169.254.169.254"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "mixed.example": [PUBLIC, "127.0.0.1"],
    "mixed6.example": [PUBLIC, "::1"],
    "zero.example": ["0.0.0.0"],  # noqa: S104
}


@pytest.mark.contract("HOOK-06")
def test_hook_06_no_attack_of_the_table_reaches_an_address_of_the_inside(receivers: Receivers) -> None:
    """Every URL of it as an endpoint, whatever registration would have said: what is dialled is public, at port 443."""
    network = Loopback(receivers, DIALLED)
    world = sending.SenderReach(rules=a_world(receivers).rules, tls=network.tls, proven=network, doubtful=network)

    async def all_of_them() -> list[AttemptMade]:
        letters = [
            SealedLetter(
                url=one["url"], webhook_id="msg_1", body=b"{}", secrets=("whsec_" + "A" * 44,), tenant_id=f"t_{n}"
            )
            for n, one in enumerate(ATTACKS)
        ]
        return [
            await delivery.attempt_delivery(letter, rules=world.rules, network=network, tls=network.tls)
            for letter in letters
            if "slow" not in letter.url and "100" not in letter.url and "endless" not in letter.url
        ]

    came = asyncio.run(all_of_them())
    assert len(came) > 150
    assert all(addresses.address_refusal(address) is None and port == 443 for address, port in network.dialled)
    assert {one.error for one in came} > {"LOOPBACK", "PRIVATE_IP", "LINK_LOCAL", "RESERVED_IP", "IP_OBFUSCATED"}


@pytest.mark.contract("HOOK-03")
@pytest.mark.parametrize(("status", "seconds"), [(429, 30), (503, 77)])
def test_hook_03_who_asks_for_less_is_left_alone_for_a_while(receivers: Receivers, status: int, seconds: int) -> None:
    asked = b"retry-after: 77\r\n" if status == 503 else b""
    receivers.answers["/busy"] = b"HTTP/1.1 %d Busy\r\n%scontent-length: 0\r\n\r\n" % (status, asked)
    endpoint = hooks.an_endpoint(url=url("busy"), proven=True)
    hooks.deliveries_due(endpoint, 3)
    (first, *_) = claims.claim_deliveries()
    mark_of(first, sent(a_world(receivers), first))
    paused = hooks.row(endpoint).paused_until
    assert paused is not None
    assert abs((paused - WebhookAttempt.objects.get().at).total_seconds() - seconds) < 1
    again = WebhookDelivery.objects.get(pk=first.delivery_id)
    assert seconds_after_its_attempt(again) >= (77 if status == 503 else 4.4)


@pytest.mark.contract("HOOK-03")
def test_hook_03_gone_disables_at_once_holds_all_and_tells_the_others(receivers: Receivers) -> None:
    endpoint = hooks.an_endpoint(url=url("status/410"), proven=True)
    other = hooks.an_endpoint(endpoint.tenant_id, url=url("other"), events=["endpoint.disabled"], proven=True)
    deaf = hooks.an_endpoint(endpoint.tenant_id, events=["run.failed"])
    hooks.deliveries_due(endpoint, 3)
    with a_sender(a_world(receivers)):
        wait_until(lambda: ended(other, "DELIVERED"), what="the other to hear of it")
    found = hooks.row(endpoint)
    assert (found.status, found.reason) == ("DISABLED", "it answered 410 Gone")
    assert hooks.statuses(endpoint) == {"HELD": 3}
    assert hooks.statuses(deaf) == {}
    (told,) = [letter.told for letter in receivers.letters if letter.path == "/other"]
    assert told["type"] == "endpoint.disabled"
    assert (told["data"]["endpoint_id"], told["data"]["reason"]) == (str(endpoint.pk), "it answered 410 Gone")


@pytest.mark.contract("HOOK-05")
def test_hook_05_five_days_of_failing_disable_and_an_endpoint_alone_tells_no_one(receivers: Receivers) -> None:
    endpoint = hooks.an_endpoint(url=url("status/500"), failing_since=Now(), consecutive_failures=9)
    hooks.aged(endpoint, failing_since=5 * 86_400 + 1)
    hooks.deliveries_due(endpoint, 2)
    one_attempt(a_world(receivers))
    assert hooks.row(endpoint).status == "ENABLED"  # one outage: it failed again only now
    hooks.aged(endpoint, failed_again_at=60, paused_until=1)
    one_attempt(a_world(receivers))
    found = hooks.row(endpoint)
    assert (found.status, found.reason) == ("DISABLED", "it has failed for five days")
    assert hooks.statuses(endpoint) == {"HELD": 2}
    assert not WebhookMessage.objects.filter(event="endpoint.disabled").exists()


@pytest.mark.contract("HOOK-05")
def test_hook_05_all_of_a_paused_day_arrives_after_the_resume(receivers: Receivers) -> None:
    endpoint = hooks.an_endpoint(url=url("mine"), status="PAUSED", proven=True)
    runs = [gear.committed(tenant_id=endpoint.tenant_id) for _ in range(5)]
    with a_sender(a_world(receivers)):
        wait_until(lambda: ended(endpoint, "HELD", 5), what="deliveries to be held")
        WebhookMessage.objects.update(at=Now() - timedelta(days=1))
        WebhookDelivery.objects.update(created_at=Now() - timedelta(days=1))
        assert receivers.letters == []
        transitions.resume_endpoint(endpoint.pk, now=db_now())
        wait_until(lambda: ended(endpoint, "DELIVERED", 5), what="all of them")
    assert {letter.told["data"]["run_id"] for letter in receivers.letters} == {str(run.run_id) for run in runs}
    assert len(receivers.letters) == 5


@pytest.mark.contract("HOOK-03")
def test_hook_03_the_tenth_failure_ends_a_delivery(receivers: Receivers) -> None:
    endpoint = hooks.an_endpoint(url=url("status/500"))
    hooks.deliveries_due(endpoint, attempts=9)
    one_attempt(a_world(receivers))
    (left,) = WebhookDelivery.objects.all()
    assert (left.status, left.attempts, left.reason) == ("FAILED", 10, "no attempt was answered with success")
    assert left.ended_at is not None


@pytest.mark.contract("HOOK-05")
def test_hook_05_a_failure_at_an_endpoint_that_was_paused_meanwhile_is_held(receivers: Receivers) -> None:
    endpoint = hooks.an_endpoint(url=url("status/500"))
    hooks.deliveries_due(endpoint)
    (claimed,) = claims.claim_deliveries()
    came = sent(a_world(receivers), claimed)
    assert transitions.pause_endpoint(endpoint.pk, now=db_now())
    assert mark_of(claimed, came) is Marked.DONE
    assert hooks.statuses(endpoint) == {"HELD": 1}


# Deaths and races.


@pytest.mark.contract("HOOK-08")
def test_hook_08_killed_between_the_post_and_its_mark_the_same_id_comes_again(receivers: Receivers) -> None:
    endpoint = hooks.an_endpoint(url=url("mine"))
    hooks.deliveries_due(endpoint)
    (claimed,) = claims.claim_deliveries()
    dead = sent(a_world(receivers), claimed)  # and no mark
    assert dead.is_success
    WebhookDelivery.objects.update(lease_until=Now())
    with a_sender(a_world(receivers)):
        wait_until(lambda: ended(endpoint, "DELIVERED"), what="the delivery")
    first, second = receivers.letters
    assert (first.webhook_id, first.body) == (second.webhook_id, second.body)
    assert mark_of(claimed, dead) is Marked.LOST
    assert WebhookAttempt.objects.count() == 1


@pytest.mark.contract("HOOK-08")
@pytest.mark.parametrize("what", ["taken over", "deleted", "sent anew"])
def test_hook_08_who_lost_the_lease_marks_nothing(receivers: Receivers, what: str) -> None:
    endpoint = hooks.an_endpoint(url=url("mine"))
    hooks.deliveries_due(endpoint)
    (claimed,) = claims.claim_deliveries()
    came = sent(a_world(receivers), claimed)
    if what == "deleted":
        transitions.mark_endpoint_deleted(endpoint.pk, now=db_now())
    elif what == "sent anew":
        WebhookDelivery.objects.update(lease_token=None, lease_until=None)
    else:
        WebhookDelivery.objects.update(lease_token=uuid.uuid4())
    before = everything()
    assert mark_of(claimed, came) is Marked.LOST
    assert everything() == before


@pytest.mark.contract("HOOK-04")
def test_hook_04_a_mark_that_postgres_refuses_holds_up_no_other(receivers: Receivers) -> None:
    gone, well = hooks.an_endpoint(url=url("status/410"), proven=True), hooks.an_endpoint(url=url("mine"))
    hooks.deliveries_due(gone)
    hooks.deliveries_due(well)
    sender = sending.WebhookSender(a_world(receivers))
    claimed = sorted(claims.claim_deliveries(), key=lambda one: one.endpoint_id != gone.pk)
    for one in claimed:
        sender._came.put(sending._Came(one, sent(a_world(receivers), one)))
    (waits,) = hooks.deliveries_due(gone)

    def mark_all() -> bool:
        with impatient(100):
            return sender._mark()

    with transaction.atomic():  # its disabling wants to hold this one, which another has in its hands
        WebhookDelivery.objects.select_for_update().get(pk=waits.pk)
        assert OnAnotherConnection(mark_all).answer() is False
    sender._loop.close()
    assert hooks.statuses(well) == {"DELIVERED": 1}
    assert (hooks.row(gone).status, hooks.statuses(gone)) == ("ENABLED", {"PENDING": 2})
    WebhookDelivery.objects.filter(lease_until__isnull=False).update(lease_until=Now())
    one_attempt(a_world(receivers))
    assert hooks.row(gone).status == "DISABLED"


@pytest.mark.contract("HOOK-08")
def test_hook_08_a_mark_of_an_endpoint_that_a_restored_database_lacks_is_lost(receivers: Receivers) -> None:
    endpoint = hooks.an_endpoint(url=url("mine"))
    hooks.deliveries_due(endpoint)
    (claimed,) = claims.claim_deliveries()
    came = sent(a_world(receivers), claimed)
    for table in (WebhookDelivery, WebhookSecret, WebhookEndpoint):
        table.objects.all().delete()
    assert mark_of(claimed, came) is Marked.LOST


def test_a_mark_does_not_wait_for_a_locked_endpoint(receivers: Receivers) -> None:
    endpoint = hooks.an_endpoint(url=url("mine"))
    hooks.deliveries_due(endpoint)
    (claimed,) = claims.claim_deliveries()
    came = sent(a_world(receivers), claimed)
    with transaction.atomic():
        transitions.locked_endpoint(endpoint.pk)
        assert OnAnotherConnection(lambda: mark_of(claimed, came)).answer() is Marked.BUSY
    assert mark_of(claimed, came) is Marked.DONE


@pytest.mark.contract("HOOK-08")
def test_hook_08_a_sender_that_froze_after_its_claim_sends_nothing(receivers: Receivers) -> None:
    """Its lease would end before the attempt does, and another sender's attempt would run beside it."""
    endpoint = hooks.an_endpoint(url=url("mine"))
    hooks.deliveries_due(endpoint)
    (claimed,) = claims.claim_deliveries()
    sender = sending.WebhookSender(a_world(receivers))
    ((_, letter, until),) = sender._signed([claimed])
    assert 14 < until - time.monotonic() <= 15
    sender._loop.run_until_complete(sender._attempt(claimed, letter, time.monotonic() - 0.001))
    came = sender._came.get(timeout=1)
    assert came.attempt is None
    assert sender._written(came) is Marked.DONE
    sender._loop.close()
    (left,) = WebhookDelivery.objects.all()
    assert (left.status, left.attempts, left.lease_token) == ("PENDING", 0, None)
    assert receivers.letters == []


def test_told_to_end_it_gives_the_leases_back_of_what_it_cuts(
    receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "END_SECONDS", 0.3)
    endpoint = hooks.an_endpoint(url=url("hang"))
    hooks.deliveries_due(endpoint)
    with a_sender(a_world(receivers)):
        wait_until(lambda: receivers.letters, what="the attempt")
    (left,) = WebhookDelivery.objects.all()
    assert (left.status, left.attempts, left.lease_token) == ("PENDING", 0, None)
    assert hooks.attempts(endpoint) == []


def test_what_is_in_flight_at_the_end_is_waited_for_and_marked(receivers: Receivers) -> None:
    endpoint = hooks.an_endpoint(url=url("hang"))
    hooks.deliveries_due(endpoint)
    with a_sender(a_world(receivers)) as stop:
        wait_until(lambda: receivers.letters, what="the attempt")
        stop.set()
        receivers.let_go.set()
    assert hooks.statuses(endpoint) == {"DELIVERED": 1}


def test_a_database_that_goes_away_counts_no_attempt_and_loses_no_mark(
    receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = hooks.an_endpoint(url=url("mine"))
    hooks.deliveries_due(endpoint)
    away: list[str] = []
    mark = marks.mark_delivery

    def marked(*arguments: Any) -> Marked:
        if len(away) < 3:
            away.append("mark")
            raise OperationalError("server closed the connection unexpectedly")
        return mark(*arguments)

    monkeypatch.setattr(marks, "mark_delivery", marked)
    monkeypatch.setattr(sending, "LOOK_SECONDS", 0.01)
    with a_sender(a_world(receivers)):
        wait_until(lambda: ended(endpoint, "DELIVERED"), what="the mark")
    assert (away, len(receivers.letters)) == (["mark"] * 3, 1)
    assert hooks.attempts(endpoint) == [(200, "")]


@pytest.mark.parametrize("fault", ["its secret is unreadable", "a fault of ours"])
def test_what_cannot_be_signed_is_put_off_and_counts_no_attempt(
    fault: str, receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, well = hooks.an_endpoint(url=url("mine")), hooks.an_endpoint(url=url("well"))
    if fault == "a fault of ours":
        one, live = endpoint.pk, signing_secrets.live_secrets
        monkeypatch.setattr(signing_secrets, "live_secrets", lambda pk, *, now: 1 // (pk != one) and live(pk, now=now))
    else:
        WebhookSecret.objects.filter(endpoint=endpoint).update(ciphertext=b"\x01" + base64.b64decode("A" * 80))
    hooks.deliveries_due(endpoint)
    hooks.deliveries_due(well)
    with a_sender(a_world(receivers)):
        wait_until(lambda: ended(well, "DELIVERED"), what="the other's delivery")
    (left,) = WebhookDelivery.objects.filter(endpoint=endpoint)
    assert (left.status, left.attempts, left.lease_token) == ("PENDING", 0, None)
    assert 290 < seconds_until(left) < 301
    assert [letter.path for letter in receivers.letters] == ["/well"]


@pytest.mark.contract("HOOK-04")
def test_hook_04_a_dead_name_server_of_a_new_endpoint_takes_no_lookup_from_a_proven_one(receivers: Receivers) -> None:
    """A lookup keeps its thread long after its attempt has ended, and is counted until then: so theirs are apart."""
    new = hooks.an_endpoint(url="https://slowdns.example/new")
    proven = hooks.an_endpoint(url=url("proven"), proven=True)
    hooks.deliveries_due(new)
    hooks.deliveries_due(proven)
    world = a_world(receivers)
    doubtful = Loopback(receivers, NAMES)
    with a_sender(dataclasses.replace(world, doubtful=doubtful)):
        wait_until(lambda: ended(proven, "DELIVERED") and doubtful.asked, what="both to be asked for")
    assert isinstance(world.proven, Loopback)
    assert (doubtful.asked, world.proven.asked) == (["slowdns.example"], ["good.example"])


def test_a_fault_of_ours_in_one_attempt_or_mark_holds_up_no_other(
    receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ill, worse, well = (hooks.an_endpoint(url=url(path)) for path in ("ill", "worse", "well"))
    for endpoint in (ill, worse, well):
        hooks.deliveries_due(endpoint)
    attempt, mark = delivery.attempt_delivery, marks.mark_delivery

    async def attempted(letter: SealedLetter, **world: Any) -> AttemptMade:
        if letter.url == ill.url:
            raise ValueError("a fault of ours")
        return await attempt(letter, **world)

    def marked(claimed: claims.ClaimedDelivery, came: AttemptMade) -> Marked:
        if claimed.endpoint_id == worse.pk:
            raise ValueError("a fault of ours")
        return mark(claimed, came)

    monkeypatch.setattr(delivery, "attempt_delivery", attempted)
    monkeypatch.setattr(marks, "mark_delivery", marked)
    with a_sender(a_world(receivers)):
        wait_until(lambda: ended(well, "DELIVERED"), what="the other's delivery")
        wait_until(lambda: WebhookDelivery.objects.filter(endpoint=ill, lease_token=None).exists(), what="it put off")
    (left,) = WebhookDelivery.objects.filter(endpoint=ill)
    assert (left.status, left.attempts) == ("PENDING", 0)
    assert seconds_until(left) > 290


@pytest.mark.contract("HOOK-04")
def test_hook_04_what_hangs_delays_no_other(receivers: Receivers) -> None:
    for _ in range(20):
        hanging = hooks.an_endpoint(url=url("hang"))
        hooks.messages(hanging.tenant_id, 3)
    well = hooks.an_endpoint(url=url("well"), proven=True)
    with a_sender(a_world(receivers)):
        wait_until(lambda: receivers.at_work == 20, what="all of them to hang")
        began = time.monotonic()
        hooks.messages(well.tenant_id, 10)
        wait_until(lambda: ended(well, "DELIVERED", 10), what="the other's deliveries")
        assert time.monotonic() - began < 10
        assert receivers.at_work == 20
        receivers.let_go.set()


def test_two_senders_at_once_send_each_message_once(receivers: Receivers) -> None:
    endpoints = [hooks.an_endpoint(a_tenant(), url=url(f"e{n}"), proven=True) for n in range(6)]
    for endpoint in endpoints:
        hooks.messages(endpoint.tenant_id, 20)
    with a_sender(a_world(receivers)), a_sender(a_world(receivers)):
        for endpoint in endpoints:
            wait_until(lambda endpoint=endpoint: ended(endpoint, "DELIVERED", 20), seconds=30, what="all")  # type: ignore[misc]
    assert len(receivers.letters) == len({letter.webhook_id for letter in receivers.letters}) == 120


# What they are made of.


def one_attempt(world: sending.SenderReach) -> Marked:
    """Of the one delivery that is due: claimed, sent and marked here."""
    fan_out()
    claimed = claims.claim_deliveries()[0]
    return mark_of(claimed, sent(world, claimed))


def sent(world: sending.SenderReach, claimed: claims.ClaimedDelivery) -> AttemptMade:
    letter = sending._letter(claimed)
    assert letter is not None
    return asyncio.run(delivery.attempt_delivery(letter, rules=world.rules, network=world.proven, tls=world.tls))


mark_of = marks.mark_delivery


def db_now() -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


def seconds_until(one: WebhookDelivery) -> float:
    assert one.next_attempt_at is not None
    return float((one.next_attempt_at - db_now()).total_seconds())


def seconds_after_its_attempt(one: WebhookDelivery) -> float:
    assert one.next_attempt_at is not None
    return float((one.next_attempt_at - one.tries.get().at).total_seconds())


def everything() -> list[list[Any]]:
    models: list[Any] = [WebhookDelivery, WebhookEndpoint, WebhookAttempt]
    return [list(model.objects.order_by("pk").values()) for model in models]
