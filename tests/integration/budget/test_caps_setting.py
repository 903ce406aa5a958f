"""What is done to caps: set, changed, taken away, by whom, and what is left where it stops halfway."""

import uuid
from collections.abc import Mapping
from typing import Any

import pytest
import redis
from django.db import transaction

from budget.caps import enforcing, rows, setting
from budget.caps.setting import CapsSet
from budget.caps.who import AskingKey
from budget.money import MAX_MICROS
from budget.rebuild import rebuild
from budget.redis import keys, scripts, view
from budget.redis.windows import PERIODS, CapPeriod
from dpp_project.audit.models import AuditEntry
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants import services
from tenants.models import ApiKey, SpendCap, Tenant
from tenants.scopes import OPERATOR_TENANT_ID
from tests.gear.builders.tenants import a_key, a_tenant
from tests.gear.faults.rivals import OnAnotherConnection
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("CAP-01", "CAP-07")]


@pytest.fixture
def tenant(valkey: redis.Redis, transactional_db: None) -> Tenant:
    tenant = a_tenant()
    rebuild.rebuild_all()
    return tenant


def set_caps(
    tenant: Tenant, changes: Mapping[CapPeriod, int | None], *, key: ApiKey | None = None, **more: Any
) -> CapsSet:
    answer = setting.set_caps(
        tenant_id=tenant.pk, lineage_id=None if key is None else key.lineage_id, changes=changes, actor="test", **more
    )
    assert isinstance(answer, CapsSet)
    return answer


def stand(tenant: Tenant, key: ApiKey | None = None) -> None:
    """The scope stands in Redis, as one does that ever had a cap."""
    scripts.shared_scripts().put_caps(
        tenant_id=tenant.pk,
        lineage_id=None if key is None else str(key.lineage_id),
        revision=1,
        limits=rows.NO_LIMITS,
        new=True,
    )


def in_redis(tenant: Tenant, key: ApiKey | None = None) -> Any:
    return view.look_at_caps(scripts.shared_scripts().client, tenant.pk, None if key is None else str(key.lineage_id))


def everything(tenant: Tenant) -> list[Any]:
    rows_now = list(SpendCap.objects.filter(tenant=tenant).order_by("cap_id").values())
    return [rows_now, AuditEntry.objects.count(), in_redis(tenant)]


def of_limits(**limits: int | None) -> dict[str, int | None]:
    return dict.fromkeys(PERIODS) | limits


def test_caps_are_set_changed_and_taken_away_period_by_period(tenant: Tenant) -> None:
    set_caps(tenant, {"day": 5, "total": MAX_MICROS})
    assert set_caps(tenant, {"day": 0, "week": 7}).limits == of_limits(day=0, week=7, total=MAX_MICROS)
    SpendCap.objects.update(told={"week": ["20261116", 80]})
    gone = set_caps(tenant, {"day": None, "week": None, "total": None})
    assert (gone.limits, gone.revision) == (rows.NO_LIMITS, 3)
    row = SpendCap.objects.get(tenant=tenant)
    assert (row.lineage_id, row.revision, row.actor, row.told) == (None, 3, "test", {})


def test_a_change_is_answered_when_it_is_in_force(tenant: Tenant) -> None:
    key = a_key(tenant).key
    set_caps(tenant, {"month": 4}, key=key)
    stand(tenant, key)
    assert set_caps(tenant, {"day": 5}, key=key).enforced
    seen = in_redis(tenant, key)
    assert (seen.revision, seen.limits) == (2, of_limits(day=5, month=4))
    assert in_redis(tenant) is None, "the tenant's own scope has no cap"


def test_the_trail_says_who_what_was_and_what_is(tenant: Tenant) -> None:
    issued = a_key(tenant)
    set_caps(tenant, {"day": 5, "week": 9}, key=issued.key)
    set_caps(tenant, {"day": 6, "week": 9}, key=issued.key, reason="more")
    entry = AuditEntry.objects.all()[0]
    assert (entry.act, entry.subject, entry.tenant_id) == ("spend caps set", f"caps of key {issued.key}", tenant.pk)
    assert (entry.before, entry.after) == ({"day_usd_micros": 5}, {"day_usd_micros": 6, "revision": 2})
    assert (entry.actor, entry.reason) == ("test", "more")


def test_the_same_again_changes_nothing_and_puts_in_force_what_was_not(tenant: Tenant) -> None:
    """Dying between commit and Redis leaves this: a row whose revision Redis has not."""
    stand(tenant)
    set_caps(tenant, {"day": 5})
    SpendCap.objects.filter(tenant=tenant).update(revision=2, day_usd_micros=4)
    before = everything(tenant)
    again = set_caps(tenant, {"day": 4})
    assert (again.changed, again.revision, again.enforced) == (False, 2, True)
    assert everything(tenant)[:2] == before[:2]
    assert in_redis(tenant).limits["day"] == 4


@pytest.mark.parametrize("lost", ["the change", "the row"])
def test_a_change_that_postgres_lost_is_not_taken_for_the_next_one(tenant: Tenant, lost: str) -> None:
    """After a failover that lost it, its revision is given once more, to other limits."""
    set_caps(tenant, {"day": 5})
    before = SpendCap.objects.get(tenant=tenant)
    set_caps(tenant, {"day": 100})
    if lost == "the row":
        before.delete()
    else:
        before.save()
    assert set_caps(tenant, {"day": 7}).enforced
    assert in_redis(tenant).limits == of_limits(day=7)
    set_caps(tenant, {"day": 8})
    assert in_redis(tenant).limits == of_limits(day=8)


def test_a_lost_change_is_not_called_enforced_though_a_later_one_was_committed(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis has the limits of a change that Postgres lost, under the revision that the next one was given; a third has
    been committed, and its process is on its way to Redis."""
    set_caps(tenant, {"day": 5})
    before = SpendCap.objects.get(tenant=tenant)
    set_caps(tenant, {"day": 100})
    before.save()
    put = enforcing.put_in_force

    def after_a_rivals_commit(row: SpendCap) -> bool:
        SpendCap.objects.filter(pk=row.pk).update(revision=3, week_usd_micros=9)
        return put(row)

    monkeypatch.setattr(enforcing, "put_in_force", after_a_rivals_commit)
    assert set_caps(tenant, {"day": 7}).enforced
    assert (in_redis(tenant).revision, in_redis(tenant).limits) == (3, of_limits(day=7, week=9))


def test_without_redis_it_stands_and_is_not_called_enforced(tenant: Tenant, valkey: redis.Redis) -> None:
    stand(tenant)
    valkey.delete(keys.EPOCH)
    answer = set_caps(tenant, {"day": 5})
    assert (answer.revision, answer.enforced) == (1, False)
    rebuild.rebuild_all()
    stand(tenant)
    SpendCap.objects.filter(tenant=tenant).update(revision=2)
    assert set_caps(tenant, {"day": 5}).enforced


def test_nothing_is_made_where_there_was_no_cap_and_none_is_set(tenant: Tenant) -> None:
    answer = set_caps(tenant, {"day": None})
    assert (answer.revision, answer.enforced, answer.changed) == (0, True, False)
    assert everything(tenant) == [[], AuditEntry.objects.count(), None]
    assert not SpendCap.objects.exists()


def test_a_dry_run_leaves_nothing(tenant: Tenant) -> None:
    stand(tenant)
    before = everything(tenant)
    answer = set_caps(tenant, {"day": 5}, dry_run=True)
    assert (answer.limits["day"], answer.enforced) == (5, False)
    assert everything(tenant) == before


def test_two_changes_at_once_take_turns_and_the_later_stands(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has committed and has not come to Redis when the second comes and goes."""
    stand(tenant)
    set_caps(tenant, {"day": 1})
    put = enforcing.put_in_force

    def after_the_rival(row: SpendCap) -> bool:
        monkeypatch.setattr(enforcing, "put_in_force", put)
        assert set_caps(tenant, {"day": 3}).enforced
        return put(row)

    monkeypatch.setattr(enforcing, "put_in_force", after_the_rival)
    late = set_caps(tenant, {"day": 2})
    assert (late.revision, late.enforced) == (2, True), "a later change is in force, and this one is not let past it"
    assert (in_redis(tenant).revision, in_redis(tenant).limits["day"]) == (3, 3)


def test_a_change_waits_for_the_one_before_it(tenant: Tenant) -> None:
    set_caps(tenant, {"day": 1})
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        late = OnAnotherConnection(lambda: set_caps(tenant, {"week": 2}))
        wait_until(late.waits_for_a_lock)
        SpendCap.objects.update(revision=2, day_usd_micros=5)
    answer = late.answer()
    assert (answer.revision, answer.limits) == (3, of_limits(day=5, week=2))


@pytest.mark.parametrize("micros", [-1, MAX_MICROS + 1])
def test_a_wrong_amount_is_named(tenant: Tenant, micros: int) -> None:
    before = everything(tenant)
    answer = setting.set_caps(tenant_id=tenant.pk, lineage_id=None, changes={"week": micros}, actor="test")
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.field) == (ReasonCode.VALIDATION_FAILED, "week_usd")
    assert "9007199254.7409" in answer.detail
    assert everything(tenant) == before


@pytest.mark.parametrize(
    ("tenant_id", "reason"),
    [("t_nobody", ReasonCode.NOT_FOUND), (OPERATOR_TENANT_ID, ReasonCode.VALIDATION_FAILED)],
)
def test_a_tenant_that_spends_nothing_has_no_caps(tenant: Tenant, tenant_id: str, reason: ReasonCode) -> None:
    answer = setting.set_caps(tenant_id=tenant_id, lineage_id=None, changes={"day": 1}, actor="test")
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.field) == (reason, "tenant_id")
    assert not SpendCap.objects.exists()


@pytest.mark.contract("CAP-12")
def test_a_key_of_another_tenant_is_no_key(tenant: Tenant) -> None:
    for lineage_id in (a_key().key.lineage_id, uuid.uuid4()):
        answer = setting.set_caps(tenant_id=tenant.pk, lineage_id=lineage_id, changes={"day": 1}, actor="test")
        assert isinstance(answer, Refusal)
        assert (answer.reason, answer.field) == (ReasonCode.NOT_FOUND, "key")
    assert not SpendCap.objects.exists()


@pytest.mark.contract("CAP-06")
def test_caps_of_a_rotated_key_are_those_of_its_successor(tenant: Tenant) -> None:
    old = a_key(tenant).key
    set_caps(tenant, {"day": 5}, key=old)
    rotated = services.rotate_key(key_id=old.key_id, actor="test")
    assert not isinstance(rotated, Refusal)
    answer = set_caps(tenant, {"week": 6}, key=rotated.key)
    assert (answer.limits, answer.revision) == (of_limits(day=5, week=6), 2)
    assert AuditEntry.objects.all()[0].subject == f"caps of key {rotated.key}", "named by the newest of them"
    assert SpendCap.objects.filter(tenant=tenant).count() == 1


def asked_by(tenant: Tenant, asking: ApiKey, changes: Mapping[CapPeriod, int | None], *, of: ApiKey | None) -> Any:
    return setting.set_caps(
        tenant_id=tenant.pk,
        lineage_id=None if of is None else of.lineage_id,
        changes=changes,
        actor="test",
        asking=AskingKey(tenant.pk, asking.key_id, asking.lineage_id),
    )


@pytest.mark.contract("CAP-12")
def test_no_key_changes_its_own_caps_and_a_capped_one_changes_none(tenant: Tenant) -> None:
    free, capped, other = (a_key(tenant).key for _ in range(3))
    set_caps(tenant, {"day": 5}, key=capped)
    rotated = services.rotate_key(key_id=free.key_id, actor="test")
    assert not isinstance(rotated, Refusal)
    before = everything(tenant)
    for asking, of in ((free, free), (free, rotated.key), (capped, capped), (capped, other), (capped, None)):
        answer = asked_by(tenant, asking, {"day": None, "week": 7}, of=of)
        assert isinstance(answer, Refusal)
        assert answer.reason is ReasonCode.CAPS_PROTECTED
    assert everything(tenant) == before
    assert isinstance(asked_by(tenant, free, {"day": None}, of=capped), CapsSet)
    assert isinstance(asked_by(tenant, capped, {"day": 1}, of=other), CapsSet), "its own limits are gone"
