"""cap.reached: half, four fifths and all of a cap are told, each once for a window and a revision (CAP-11)."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pytest
import redis as redis_library
from django.db import connection, transaction

from budget import entries
from budget.caps import alerts
from budget.caps.alerts import ToldLately
from budget.outcomes import CapReached, CapsInForce, Held, Settled
from budget.rebuild import rebuild
from budget.redis import keys, scripts
from budget.redis.windows import CapPeriod, Counted, monday_of
from dpp_project import clock
from dpp_project.clock import FixedClock
from dpp_project.jobs import runner
from dpp_project.jobs.registry import PassReport, job_named
from dpp_project.processes.per_process import PerProcess
from tenants import services as tenants
from tenants.models import ApiKey, SpendCap, Tenant
from tenants.services import IssuedKey
from tenants.webhooks import cap_reached, retention
from tenants.webhooks.models import WebhookMessage
from tests.gear.builders import webhook_sending as hooks
from tests.gear.builders.tenants import a_key, a_tenant
from tests.gear.faults.interruption import Interruption, interrupted
from tests.gear.faults.rivals import OnAnotherConnection, one_after_the_other
from tests.gear.round_trips import counted as trips_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("CAP-11")]


@dataclass
class Spender:
    """A tenant with a key, whose runs are held and settled by the scripts, without their rows."""

    tenant: Tenant
    key: IssuedKey

    @property
    def id(self) -> str:
        return self.tenant.tenant_id

    @property
    def lineage_id(self) -> str:
        return str(self.key.key.lineage_id)

    def today(self) -> date:
        with connection.cursor() as cursor:
            cursor.execute("SELECT (now() AT TIME ZONE zone)::date FROM tenants WHERE tenant_id = %s", [self.id])
            found: date = cursor.fetchone()[0]
        return found

    def cap(self, *, key: bool = False, **limits: int) -> int:
        """As a change of the caps does it: the row, one revision on, then Redis. It knows nothing of `told`."""
        lineage_id = self.lineage_id if key else None
        columns = {f"{period}_usd_micros": limits.get(period) for period in ("day", "week", "month", "total")}
        row = SpendCap.objects.filter(tenant_id=self.id, lineage_id=lineage_id).first()
        revision = 1 if row is None else row.revision + 1
        if row is None:
            SpendCap.objects.create(tenant_id=self.id, lineage_id=lineage_id, actor="t", revision=1, **columns)
        else:
            SpendCap.objects.filter(pk=row.pk).update(revision=revision, **columns)
        periods: tuple[CapPeriod, ...] = ("day", "week", "month", "total")
        in_force = scripts.shared_scripts().put_caps(
            tenant_id=self.id,
            lineage_id=lineage_id,
            revision=revision,
            limits={period: limits.get(period) for period in periods},
            new=row is None,
        )
        assert in_force == CapsInForce(revision)
        return revision

    def hold(self, micros: int, *, days: int = 0) -> tuple[str, Any]:
        run_id, where = str(uuid.uuid4()), Counted(self.lineage_id, self.today() + timedelta(days=days))
        answer = scripts.shared_scripts().reserve(
            tenant_id=self.id, run_id=run_id, reserved_micros=micros, created_at_ms=1, counted=where
        )
        return run_id, answer

    def spend(self, micros: int, *, days: int = 0) -> None:
        run_id, answer = self.hold(micros, days=days)
        assert isinstance(answer, Held)
        where = Counted(self.lineage_id, self.today() + timedelta(days=days))
        settled = scripts.shared_scripts().settle(tenant_id=self.id, run_id=run_id, charge_micros=micros, counted=where)
        assert isinstance(settled, Settled)
        scripts.shared_scripts().client.delete(keys.EVIDENCE)  # of the end of a run that has no row

    def refused(self, micros: int, *, days: int = 0) -> CapReached:
        _, answer = self.hold(micros, days=days)
        assert isinstance(answer, CapReached)
        return answer

    def tell(self, reached: CapReached) -> None:
        alerts.tell_full(tenant_id=self.id, lineage_id=self.lineage_id, reached=reached)


@pytest.fixture
def spender(valkey: redis_library.Redis) -> Iterator[Spender]:
    alerts.told_lately.forget()
    made = a_tenant()
    rebuild.rebuild_all()
    entries.top_up(tenant_id=made.pk, amount_micros=10_000_000, reference="first", reason="", actor="test")
    hooks.an_endpoint(made)
    yield Spender(made, a_key(made))
    alerts.told_lately.forget()


def look() -> PassReport:
    return alerts.raise_cap_alerts(now=clock.now(), limit=1_000)


def told() -> list[str]:
    """What was told, in order, without the words that all of them share."""
    return [key.removeprefix("cap:") for key in WebhookMessage.objects.order_by("at").values_list("key", flat=True)]


def test_cap_11_half_and_four_fifths_of_what_was_charged_are_told_once_with_exact_figures(spender: Spender) -> None:
    spender.cap(day=1_000_000)
    spender.spend(499_999)
    spender.hold(400_000)  # what is held is not used
    assert look() == PassReport(seen=1, changed=0, detail={"unknown": 0, "after": None})
    spender.spend(1)
    assert [look().changed, look().changed] == [1, 0]
    today = spender.today()
    (message,) = WebhookMessage.objects.all()
    assert (message.tenant_id, message.event) == (spender.id, "cap.reached")
    assert message.key == f"cap:{spender.id}:day:{today}:50:1"
    assert message.payload == {
        "scope": "tenant",
        "key": None,
        "period": "day",
        "window": f"{today}",
        "percent": 50,
        "refusing": False,
        "limit_usd_micros": 1_000_000,
        "limit_usd": "1.0000",
        "used_usd_micros": 500_000,
        "used_usd": "0.5000",
        "held_usd_micros": 400_000,
        "held_usd": "0.4000",
        "left_usd_micros": 100_000,
        "left_usd": "0.1000",
        "zone": "UTC",
        "resets_at": f"{today + timedelta(days=1)}T00:00:00Z",
        "href": "/v1/budget",
    }


def test_cap_11_a_cap_that_cannot_be_told_keeps_no_other_from_being_told(
    spender: Spender, monkeypatch: pytest.MonkeyPatch
) -> None:
    spender.cap(day=1_000)
    spender.cap(day=1_000, key=True)
    spender.spend(500)
    tell_used, poison = alerts._tell_used, str(SpendCap.objects.get(lineage_id=None).pk)

    def fails(scope: cap_reached.CappedScope, caps: Any) -> int:
        if scope.lineage_id is None:
            raise ValueError(scope.cap_id)
        return tell_used(scope, caps)

    with monkeypatch.context() as patched:
        patched.setattr(alerts, "_tell_used", fails)
        report = look()
    assert (report.seen, report.changed, report.errors) == (2, 1, 1)
    assert report.detail["skipped"] == {poison: "ValueError"}
    assert look().changed == 1


def test_cap_11_the_first_refusal_of_a_key_says_refusing_and_names_its_newest_key(spender: Spender) -> None:
    spender.cap(week=1_000, total=5_000, key=True)
    rotated = tenants.rotate_key(key_id=spender.key.key.key_id, actor="test")
    assert isinstance(rotated, IssuedKey)
    ApiKey.objects.filter(pk=rotated.key.pk).update(label="the agent")
    reached = spender.refused(1_001)
    for _ in range(2):
        with transaction.atomic():
            spender.tell(reached)
    monday = monday_of(spender.today())
    (message,) = WebhookMessage.objects.all()
    assert message.key == f"cap:{spender.id}:{spender.lineage_id}:week:{monday}:100:1"
    payload = message.payload
    assert payload["key"] == {"key_id": str(rotated.key.pk), "prefix": rotated.key.prefix, "label": "the agent"}
    assert (payload["scope"], payload["percent"], payload["refusing"]) == ("key", 100, True)
    assert (payload["used_usd_micros"], payload["held_usd_micros"], payload["left_usd_micros"]) == (0, 0, 1_000)
    assert payload["resets_at"] == f"{monday + timedelta(days=7)}T00:00:00Z"
    assert payload["href"] == "/v1/keys"


def test_cap_11_a_refusal_by_what_is_held_comes_first_and_half_and_four_fifths_are_told_after_it(
    spender: Spender,
) -> None:
    spender.cap(total=1_000)
    run_id, _ = spender.hold(900)
    spender.tell(spender.refused(101))
    assert look().changed == 0
    spender_day = Counted(spender.lineage_id, spender.today())
    scripts.shared_scripts().settle(tenant_id=spender.id, run_id=run_id, charge_micros=900, counted=spender_day)
    scripts.shared_scripts().client.delete(keys.EVIDENCE)
    assert [look().changed, look().changed] == [2, 0]
    assert told() == [f"{spender.id}:total:ever:{percent}:1" for percent in (100, 50, 80)]
    first = WebhookMessage.objects.get(key__endswith=":100:1").payload
    assert (first["used_usd_micros"], first["held_usd_micros"], first["resets_at"]) == (0, 900, None)


def test_cap_11_a_new_window_tells_anew_and_one_that_has_ended_not_at_all(spender: Spender) -> None:
    spender.cap(day=1_000)
    spender.spend(900, days=-1)
    assert look().changed == 0  # yesterday's
    spender.spend(500)
    spender.tell(spender.refused(501))
    assert [look().changed, look().changed] == [1, 0]
    spender.spend(500, days=1)  # its clock is ahead: the scope's date never goes back
    spender.tell(spender.refused(501, days=1))
    assert [look().changed, look().changed] == [1, 0]
    today, tomorrow = spender.today(), spender.today() + timedelta(days=1)
    assert told() == [f"{spender.id}:day:{day}:{percent}:1" for day in (today, tomorrow) for percent in (100, 50)]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_cap_11_a_window_ends_at_the_tenants_own_midnight(spender: Spender, zone: str) -> None:
    """In one of the two zones, whatever time it is, Greenwich has another date."""
    Tenant.objects.filter(pk=spender.id).update(zone=zone)
    spender.cap(day=1_000)
    spender.spend(500, days=-1)
    assert look().changed == 0, "it has ended there"
    spender.spend(500)
    assert look().changed == 1
    assert told() == [f"{spender.id}:day:{spender.today()}:50:1"]


def test_cap_11_a_change_of_the_caps_tells_anew_and_a_refusal_by_the_old_ones_tells_nothing(spender: Spender) -> None:
    spender.cap(total=1_000)
    spender.spend(500)
    by_the_old = spender.refused(501)
    assert look().changed == 1
    spender.cap(total=900)
    with transaction.atomic():
        spender.tell(by_the_old)
    assert told() == [f"{spender.id}:total:ever:50:1"]
    assert [look().changed, look().changed] == [1, 0]
    with transaction.atomic():
        spender.tell(spender.refused(501))
    assert told()[1:] == [f"{spender.id}:total:ever:50:2", f"{spender.id}:total:ever:100:2"]
    spender.cap()
    assert look().seen == 0


def test_cap_11_caps_changed_between_the_look_and_the_telling_tell_nothing_of_the_old_ones(spender: Spender) -> None:
    spender.cap(total=1_000)
    spender.spend(500)
    with interrupted(Interruption(at=3, rival=lambda: spender.cap(total=2_000))) as interruption:
        assert look().changed == 0
    assert interruption.struck
    assert told() == []


def test_cap_11_a_limit_of_nothing_has_no_half_but_refuses(spender: Spender) -> None:
    spender.cap(total=100)
    spender.spend(49)
    spender.cap(day=0, total=100)
    assert look().changed == 0
    spender.tell(spender.refused(1))
    assert told() == [f"{spender.id}:day:{spender.today()}:100:2"]


def test_cap_11_two_at_once_tell_once_and_one_that_is_told_takes_no_lock(spender: Spender) -> None:
    spender.cap(total=1_000)
    spender.spend(900)
    reached = spender.refused(101)

    def one() -> int:
        with transaction.atomic():
            spender.tell(reached)
        return look().changed

    first, second = one_after_the_other(one, one)
    assert (first, second) == (2, 0)
    assert sorted(told()) == sorted(f"{spender.id}:total:ever:{percent}:1" for percent in (50, 80, 100))
    with transaction.atomic():
        SpendCap.objects.select_for_update().get()
        assert OnAnotherConnection(one).answer() == 0
    (scope,) = cap_reached.scopes_with_caps(after=None, limit=10)
    rivals = [
        OnAnotherConnection(lambda: scope.tell(period="day", window="2026-11-19", percent=50, payload={}))
        for _ in range(4)
    ]
    assert sorted(rival.answer() for rival in rivals) == [False, False, False, True]


def test_cap_11_what_a_transaction_took_back_is_told_at_a_glance(spender: Spender) -> None:
    spender.cap(total=1_000)
    reached = spender.refused(1_001)
    with transaction.atomic():
        spender.tell(reached)
        transaction.set_rollback(True)
    assert told() == []
    spender.tell(reached)
    assert len(told()) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_cap_11_dead_at_any_effect_both_are_told_once(spender: Spender, when: str) -> None:
    spender.cap(total=1_000)
    spender.spend(900)
    at = 0
    while True:
        WebhookMessage.objects.all().delete()
        revision = spender.cap(total=1_000)
        with interrupted(Interruption(at=at, after=when == "after")) as interruption:
            look()
        if not interruption.struck:
            break
        look()
        assert told() == [f"{spender.id}:total:ever:{percent}:{revision}" for percent in (50, 80)]
        at += 1
    assert at == 6  # where the last pass ended, the page, Redis, the two messages, and that no page follows


def test_cap_11_what_cannot_be_told_fails_no_refusal_and_the_next_one_tells_it(spender: Spender) -> None:
    spender.cap(total=1_000)
    reached = spender.refused(1_001)

    def refuse() -> str:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '20ms'")
            spender.tell(reached)
            Tenant.objects.filter(pk=spender.id).update(display_name="the rest of the transaction")
        return Tenant.objects.get(pk=spender.id).display_name

    with transaction.atomic():
        SpendCap.objects.select_for_update().get()
        assert OnAnotherConnection(refuse).answer() == "the rest of the transaction"
    assert told() == []
    spender.tell(reached)
    assert len(told()) == 1


def test_cap_11_refusals_at_a_glance_ask_postgres_once_and_again_half_a_minute_later(
    spender: Spender, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = [1]
    monkeypatch.setattr(alerts, "told_lately", PerProcess(lambda: ToldLately(now=lambda: at[0])))
    spender.cap(total=1_000)
    reached = spender.refused(1_001)
    with trips_of() as first:
        spender.tell(reached)
    assert len(first.sql) > 0
    spender.cap(total=2_000)
    spender.cap(total=1_000)
    with trips_of() as again:
        spender.tell(reached)
    assert again.sql == []
    at[0] += alerts.REMEMBERED_NANOSECONDS
    spender.tell(reached)
    assert told() == [f"{spender.id}:total:ever:100:{revision}" for revision in (1, 3)]


def test_cap_11_the_memory_of_a_process_is_bounded() -> None:
    memory = ToldLately()
    for number in range(alerts.REMEMBERED + 1):
        memory.remember(number)
    assert len(memory) == alerts.REMEMBERED
    assert not memory.knows(0)
    assert memory.knows(alerts.REMEMBERED)


def test_cap_11_unknown_money_tells_nothing_wrong_and_all_of_it_when_it_is_known(
    spender: Spender, valkey: redis_library.Redis
) -> None:
    spender.cap(total=1_000)
    spender.spend(500)
    valkey.set(keys.gate_key(spender.id), "closed")
    assert look().detail["unknown"] == 1
    valkey.delete(keys.gate_key(spender.id))
    for name in (keys.caps_key(spender.id), keys.EPOCH):
        valkey.rename(name, "kept")
        assert look().detail["unknown"] == 1
        valkey.rename("kept", name)
    assert told() == []
    assert look().changed == 1


def test_cap_11_an_endpoint_that_does_not_want_it_and_another_tenant_hear_nothing(spender: Spender) -> None:
    without = a_tenant()
    deaf = Spender(without, a_key(without))
    hooks.an_endpoint(deaf.tenant, events=["budget.low"])
    rebuild.rebuild_all()
    entries.top_up(tenant_id=deaf.id, amount_micros=10_000, reference="first", reason="", actor="test")
    deaf.cap(total=1_000)
    deaf.spend(500)
    deaf.tell(deaf.refused(501))
    assert look().changed == 1
    assert told() == []
    hooks.an_endpoint(deaf.tenant)
    assert look().changed == 0  # it was reached before anyone wanted to hear of it
    spender.cap(total=1_000)
    spender.spend(500)
    assert look().changed == 1
    assert [message.tenant_id for message in WebhookMessage.objects.all()] == [spender.id]


def test_cap_11_messages_that_are_deleted_by_retention_are_not_told_again(spender: Spender) -> None:
    spender.cap(total=1_000)
    spender.spend(500)
    spender.tell(spender.refused(501))
    assert look().changed == 1
    WebhookMessage.objects.update(at=clock.now() - timedelta(days=31))
    retention.forget_old_webhooks(now=clock.now(), limit=100)
    assert told() == []
    alerts.told_lately.forget()
    spender.tell(spender.refused(501))
    assert look().changed == 0
    assert told() == []


def test_cap_11_a_pass_that_could_not_reach_all_is_followed_by_one_that_goes_on_behind(
    spender: Spender, clock: FixedClock
) -> None:
    for key in (False, True):
        spender.cap(total=1_000, key=key)
    spender.spend(500)
    for _ in range(3):
        runner.run_job_pass(job_named(alerts.JOB), limit=1)
        clock.advance(seconds=30)
    assert len(told()) == 2
