"""Caps, keys and settings over HTTP: what is answered, who may, and that a refusal changes nothing at all."""

import json
import uuid
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import redis
from django.test import Client

from budget.caps import rows, tenant_keys
from budget.models import LedgerEntry
from budget.outcomes import Held, Settled
from budget.rebuild import rebuild
from budget.redis import keys, scripts, view
from budget.redis.windows import Counted
from dpp_project import clock
from dpp_project.audit.models import AuditEntry
from tenants import authentication, services
from tenants.models import ApiKey, SpendCap, Tenant
from tenants.scopes import TENANT_SCOPES, Scope
from tenants.services import IssuedKey
from tests.gear.builders.shop import top_up
from tests.gear.builders.tenants import a_key, a_tenant, an_operator_key, bearer
from tests.gear.faults import rebuilders

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("CAP-01", "CAP-12")]

WRONG_AMOUNTS: list[Any] = ["5", 5, 0.5, "-1.0000", "1e4", "\N{FULLWIDTH DIGIT NINE}.0000", "", True, []]
NARROW = {Scope.RUNS_READ, Scope.RUNS_WRITE, Scope.BUDGET_READ}


class Caller:
    def __init__(self, issued: IssuedKey) -> None:
        self.issued, self.client = issued, Client()

    def ask(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        sent = "" if body is None else json.dumps(body)
        response: Any = self.client.generic(
            method, f"/v1/{path}", sent, content_type="application/json", headers=bearer(self.issued)
        )
        assert response.status_code == status, response.content
        return response.json()


@pytest.fixture
def tenant(valkey: redis.Redis) -> Tenant:
    tenant = a_tenant(poll_rate_per_minute=10_000, submit_rate_per_minute=10_000)
    rebuild.rebuild_all()
    top_up(tenant, 10_000_000)
    return tenant


@pytest.fixture
def owner(tenant: Tenant) -> Caller:
    """All scopes, no cap."""
    return Caller(a_key(tenant))


def everything() -> list[Any]:
    return [
        list(ApiKey.objects.order_by("pk").values()),
        list(SpendCap.objects.order_by("pk").values()),
        list(Tenant.objects.order_by("pk").values()),
        AuditEntry.objects.count(),
    ]


def scope_of(tenant: Tenant, lineage_id: Any) -> Any:
    return view.look_at_caps(scripts.shared_scripts().client, tenant.pk, lineage_id and str(lineage_id))


def limited(tenant: Tenant, key: ApiKey | None, **limits: int) -> None:
    """A cap that is in force, and whose scope has counted nothing yet."""
    lineage_id = None if key is None else key.lineage_id
    full: Any = dict(rows.NO_LIMITS) | limits
    SpendCap.objects.create(tenant=tenant, lineage_id=lineage_id, revision=1, actor="test", **rows.cap_columns(full))
    scripts.shared_scripts().put_caps(
        tenant_id=tenant.pk,
        lineage_id=None if lineage_id is None else str(lineage_id),
        revision=1,
        limits=full,
        new=True,
    )


def a_run(tenant: Tenant, key: ApiKey, held: int, *, charge: int | None, day: date) -> None:
    run: Any = {"tenant_id": tenant.pk, "run_id": str(uuid.uuid4()), "counted": Counted(str(key.lineage_id), day)}
    assert isinstance(scripts.shared_scripts().reserve(**run, reserved_micros=held, created_at_ms=1), Held)
    if charge is not None:
        assert isinstance(scripts.shared_scripts().settle(**run, charge_micros=charge), Settled)


def today() -> date:
    return clock.now().astimezone(UTC).date()


@pytest.mark.contract("CAP-07")
def test_caps_are_put_period_by_period(owner: Caller, tenant: Tenant) -> None:
    scripts.shared_scripts().put_caps(tenant_id=tenant.pk, lineage_id=None, revision=1, limits=rows.NO_LIMITS, new=True)
    first = owner.ask("PUT", "budget/caps", {"day_usd": "5.0000", "total_usd": "0.0000"})
    assert (first["revision"], first["caps"]["day_usd"], first["caps"]["week_usd"]) == (1, "5.0000", None)
    second = owner.ask("PUT", "budget/caps", {"day_usd": None, "month_usd": "9007199254.7409"})
    assert second == {
        "caps": {
            "day_usd_micros": None,
            "day_usd": None,
            "week_usd_micros": None,
            "week_usd": None,
            "month_usd_micros": 9_007_199_254_740_900,
            "month_usd": "9007199254.7409",
            "total_usd_micros": 0,
            "total_usd": "0.0000",
        },
        "revision": 2,
        "enforced": True,
    }
    again = owner.ask("PUT", "budget/caps", {"total_usd": "0.0000"})
    assert (again["revision"], again["enforced"]) == (2, True)
    assert AuditEntry.objects.all()[0].actor == f"owner:{owner.issued.key}"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"day": "1.0000"}, "day"),
        *[({"day_usd": wrong}, "day_usd") for wrong in WRONG_AMOUNTS],
        ({"week_usd": "9007199254.7410"}, "week_usd"),
        ({"month_usd": "10000000000.0000"}, "month_usd"),
    ],
)
def test_wrong_amounts_are_named_and_change_nothing(owner: Caller, body: Any, field: str) -> None:
    target = a_key(Tenant.objects.get(pk=owner.issued.key.tenant_id)).key
    before = everything()
    for path in ("budget/caps", f"keys/{target.pk}/caps"):
        problem = owner.ask("PUT", path, body, status=422)
        assert [error["field"] for error in problem["errors"]] == [field]
    assert everything() == before


def writes(key: ApiKey) -> list[tuple[str, str, Any]]:
    return [
        ("PUT", f"keys/{key.pk}/caps", {"day_usd": None}),
        ("PUT", "budget/caps", {"day_usd": None}),
        ("PATCH", "budget", {"zone": "Asia/Tokyo"}),
        ("POST", "keys", {"scopes": ["runs:read"]}),
        ("POST", f"keys/{key.pk}/rotate", {}),
        ("POST", f"keys/{key.pk}/revoke", None),
    ]


def test_a_capped_key_changes_nothing(tenant: Tenant) -> None:
    capped, other = Caller(a_key(tenant)), a_key(tenant).key
    limited(tenant, capped.issued.key, week=5)
    before = everything()
    for key in (capped.issued.key, other):
        for method, path, body in writes(key):
            assert capped.ask(method, path, body, status=403)["reason_code"] == "CAPS_PROTECTED"
    assert everything() == before
    SpendCap.objects.update(week_usd_micros=None)
    capped.ask("PATCH", "budget", {"zone": "Asia/Tokyo"})


def test_no_key_changes_the_caps_of_its_own_lineage(owner: Caller, tenant: Tenant) -> None:
    successor = services.rotate_key(key_id=owner.issued.key.key_id, actor="test")
    assert isinstance(successor, IssuedKey)
    before = everything()
    for caller, key in ((owner, owner.issued.key), (owner, successor.key), (Caller(successor), owner.issued.key)):
        problem = caller.ask("PUT", f"keys/{key.pk}/caps", {"day_usd": "1.0000"}, status=403)
        assert problem["reason_code"] == "CAPS_PROTECTED"
    assert everything() == before


def test_another_tenants_key_is_none(owner: Caller) -> None:
    theirs = a_key().key
    before = everything()
    for method, path, body in writes(theirs):
        if "keys/" in path:
            assert owner.ask(method, path, body, status=404)["reason_code"] == "NOT_FOUND"
    assert everything() == before


@pytest.mark.contract("CAP-06")
def test_a_new_key_begins_at_nothing_under_caps_that_are_in_force_before_it_is_shown(
    owner: Caller, tenant: Tenant
) -> None:
    limited(tenant, None, month=9_000_000)
    asked = {"scopes": sorted(NARROW), "label": "agent", "caps": {"day_usd": "0.3000", "week_usd": None}}
    made = owner.ask("POST", "keys", asked, status=201)
    assert (made["enforced"], made["caps_revision"], made["caps"]["day_usd"]) == (True, 1, "0.3000")
    seen = scope_of(tenant, made["lineage_id"])
    assert (seen.limits["day"], set(seen.counted.values()), seen.day) == (300_000, {0}, None)
    agent = Caller(IssuedKey(ApiKey.objects.get(pk=made["key_id"]), made["key"]))
    shown = agent.ask("GET", "budget")["caps"]
    assert [(cap["scope"], cap["period"], cap["left_usd"]) for cap in shown] == [
        ("tenant", "month", "9.0000"),
        ("key", "day", "0.3000"),
    ]
    acts = list(AuditEntry.objects.order_by("-pk").values_list("act", "actor", "tenant_id")[:2])
    by = (f"owner:{owner.issued.key}", tenant.pk)
    assert acts == [("spend caps set", *by), ("key issued", *by)]


@pytest.mark.contract("CAP-07")
def test_a_key_made_without_redis_is_shown_and_its_caps_are_not_called_enforced(
    owner: Caller, tenant: Tenant, valkey: redis.Redis
) -> None:
    valkey.delete(keys.EPOCH)
    made = owner.ask("POST", "keys", {"scopes": ["runs:read"], "caps": {"day_usd": "0.0000"}}, status=201)
    assert made["enforced"] is False
    row = SpendCap.objects.get(lineage_id=made["lineage_id"])
    assert (row.day_usd_micros, row.revision) == (0, 1)
    assert scope_of(tenant, made["lineage_id"]) is None


@pytest.mark.contract("CAP-07")
def test_a_rotation_without_redis_does_not_call_its_caps_enforced(
    owner: Caller, tenant: Tenant, valkey: redis.Redis
) -> None:
    old = a_key(tenant, scopes=NARROW).key
    limited(tenant, old, day=500_000)
    valkey.delete(keys.EPOCH)
    made = owner.ask("POST", f"keys/{old.pk}/rotate", {}, status=201)
    assert (made["enforced"], made["caps_revision"], made["caps"]["day_usd"]) == (False, 1, "0.5000")
    rebuild.rebuild_all()
    again = owner.ask("POST", f"keys/{made['key_id']}/rotate", {}, status=201)
    assert (again["enforced"], again["lineage_id"]) == (True, str(old.lineage_id))


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"scopes": ["runs:read", "keys:write"]}, "scopes", "never carries keys:write"),
        ({"scopes": ["uploads:write"]}, "scopes", "lacks uploads:write"),
        ({"scopes": ["operator:read"]}, "scopes", "lacks operator:read"),
        ({"scopes": ["runs"]}, "scopes", "no scope"),
        ({"scopes": []}, "scopes", ""),
        ({"scopes": ["runs:read"], "expires_at": "2026-03-03T00:00:01Z"}, "expires_at", "2026-03-03T00:00:00"),
        ({"scopes": ["runs:read"], "expires_at": "2026-03-01T11:59:59Z"}, "expires_at", "future"),
        ({"scopes": ["runs:read"], "expires_at": "2026-03-02T00:00:00"}, "expires_at", "timezone"),
        ({"scopes": ["runs:read"], "label": "a\nb"}, "label", "printable"),
        ({"scopes": ["runs:read"], "caps": {"day_usd": "1"}}, "caps.day_usd", "four decimals"),
        ({"scopes": ["runs:read"], "caps": {}}, "caps", "at least one"),
    ],
)
def test_a_new_key_is_never_wider_than_its_maker(tenant: Tenant, clock: Any, body: Any, field: str, said: str) -> None:
    ends = datetime(2026, 3, 3, tzinfo=UTC)
    maker = Caller(a_key(tenant, scopes=NARROW | {Scope.KEYS_WRITE}, expires_at=ends))
    before = everything()
    [error] = maker.ask("POST", "keys", body, status=422)["errors"]
    assert error["field"] == field
    assert said in error["detail"]
    assert everything() == before


def test_a_new_key_ends_with_its_maker(tenant: Tenant) -> None:
    ends = clock.now() + timedelta(days=3)
    maker = Caller(a_key(tenant, expires_at=ends))
    assert (
        datetime.fromisoformat(maker.ask("POST", "keys", {"scopes": ["runs:read"]}, status=201)["expires_at"]) == ends
    )


def test_a_tenant_has_so_many_live_keys_and_no_more(
    owner: Caller, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_keys, "LIVE_KEYS_MAX", 2)
    made = owner.ask("POST", "keys", {"scopes": ["runs:read"]}, status=201)
    before = everything()
    assert owner.ask("POST", "keys", {"scopes": ["runs:read"]}, status=409)["reason_code"] == "CONFLICT"
    assert everything() == before
    owner.ask("POST", f"keys/{made['key_id']}/revoke")
    owner.ask("POST", "keys", {"scopes": ["runs:read"]}, status=201)


@pytest.mark.contract("CAP-06")
def test_rotation_and_revocation_change_nothing_of_what_is_counted(owner: Caller, tenant: Tenant) -> None:
    old = a_key(tenant, scopes=NARROW)
    limited(tenant, old.key, day=500_000)
    a_run(tenant, old.key, 200_000, charge=120_000, day=today())
    made = owner.ask("POST", f"keys/{old.key.pk}/rotate", {"grace_sec": 60}, status=201)
    assert (made["lineage_id"], made["caps"]["day_usd"]) == (str(old.key.lineage_id), "0.5000")
    new = IssuedKey(ApiKey.objects.get(pk=made["key_id"]), made["key"])
    a_run(tenant, new.key, 250_000, charge=None, day=today())
    both = [Caller(issued).ask("GET", "budget")["caps"] for issued in (old, new)]
    assert both[0] == both[1]
    assert [both[0][0][f"{it}_usd_micros"] for it in ("limit", "used", "held", "left")] == [
        *(500_000, 120_000),
        *(250_000, 130_000),
    ]
    gone = owner.ask("POST", f"keys/{old.key.pk}/revoke")
    assert (gone["status"], gone["replaced_by"]) == ("REVOKED", made["key_id"])
    assert owner.ask("POST", f"keys/{old.key.pk}/revoke") == gone
    assert Caller(new).ask("GET", "budget")["caps"] == both[1]
    authentication.memory.forget()
    Caller(old).ask("GET", "whoami", status=401)


def test_a_rotation_gives_nobody_a_wider_or_longer_key(tenant: Tenant) -> None:
    ends = clock.now() + timedelta(days=3)
    maker = Caller(a_key(tenant, scopes=NARROW | {Scope.KEYS_WRITE}, expires_at=ends))
    narrow, wide, equal = (a_key(tenant, scopes=some).key for some in (NARROW, TENANT_SCOPES, {Scope.KEYS_WRITE}))
    before = everything()
    for key in (wide, equal):
        assert maker.ask("POST", f"keys/{key.pk}/rotate", {}, status=403)["reason_code"] == "CAPS_PROTECTED"
    for wrong in ({"grace_sec": -1}, {"grace_sec": 2_592_001}, {"grace_sec": "1"}, {"grace": 1}):
        maker.ask("POST", f"keys/{narrow.pk}/rotate", wrong, status=422)
    assert everything() == before
    assert datetime.fromisoformat(maker.ask("POST", f"keys/{narrow.pk}/rotate", {}, status=201)["expires_at"]) == ends
    assert maker.ask("POST", f"keys/{narrow.pk}/rotate", {}, status=409)["reason_code"] == "CONFLICT"
    assert (
        datetime.fromisoformat(maker.ask("POST", f"keys/{maker.issued.key.pk}/rotate", {}, status=201)["expires_at"])
        == ends
    )


def charged(tenant: Tenant, key: ApiKey, micros: int, day: date) -> None:
    LedgerEntry.objects.create(
        tenant=tenant,
        run_id=uuid.uuid4(),
        kind="CHARGE",
        amount_usd_micros=-micros,
        actor="test",
        lineage_id=key.lineage_id,
        spend_day=day,
    )


@pytest.mark.contract("CAP-13")
def test_each_key_tells_what_it_spent_capped_or_not(owner: Caller, tenant: Tenant) -> None:
    free, capped = a_key(tenant, scopes=NARROW), a_key(tenant, scopes=NARROW)
    long_ago = today() - timedelta(days=40)
    charged(tenant, free.key, 5, today())
    charged(tenant, free.key, 70, long_ago)
    limited(tenant, capped.key, total=1_000_000)
    a_run(tenant, capped.key, 900, charge=600, day=today())
    charged(tenant, capped.key, 600, today())
    listed = {key["key_id"]: key for key in owner.ask("GET", "keys")["keys"]}
    assert set(listed) == {str(it.key.pk) for it in (owner.issued, free, capped)}

    def told(issued: IssuedKey) -> list[int]:
        spent = listed[str(issued.key.pk)]["spent"]
        return [spent[f"{period}_usd_micros"] for period in ("day", "week", "month", "total")]

    assert [told(it) for it in (owner.issued, free, capped)] == [[0] * 4, [5, 5, 5, 75], [600] * 4]
    entries = LedgerEntry.objects.filter(tenant=tenant, kind="CHARGE").values_list("amount_usd_micros", flat=True)
    assert sum(told(it)[3] for it in (owner.issued, free, capped)) == -sum(entries)
    [window] = listed[str(capped.key.pk)]["caps"]
    assert (window["used_usd_micros"], window["left_usd_micros"], window["resets_at"]) == (600, 999_400, None)
    assert [key["key_id"] for key in Caller(free).ask("GET", "keys")["keys"]] == [str(free.key.pk)]


def test_keys_come_in_pages_newest_first(owner: Caller, tenant: Tenant) -> None:
    made = [owner.issued.key, *(a_key(tenant).key for _ in range(3))]
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = owner.ask("GET", f"keys?limit=3{cursor and f'&cursor={cursor}'}")
        seen += [key["key_id"] for key in page["keys"]]
        cursor = page["next_cursor"]
    assert seen == [str(key.pk) for key in reversed(made)]
    assert [key["prefix"] for key in Caller(an_operator_key()).ask("GET", "keys")["keys"]] != []


@pytest.mark.contract("CAP-03", "CAP-04")
def test_the_budget_shows_each_window_with_a_limit(owner: Caller, tenant: Tenant) -> None:
    """A window that ended shows nothing spent, though Redis still has its numbers; the total goes on."""
    yesterday = today() - timedelta(days=1)
    limited(tenant, owner.issued.key, day=500_000, total=700_000)
    a_run(tenant, owner.issued.key, 300_000, charge=200_000, day=yesterday)
    a_run(tenant, owner.issued.key, 90_000, charge=None, day=yesterday)
    budget = owner.ask("GET", "budget")
    day, total = budget["caps"]
    assert (budget["held_usd_micros"], budget["zone"], budget["low_usd"]) == (90_000, "UTC", None)
    assert [day[f"{it}_usd_micros"] for it in ("limit", "used", "held", "left")] == [500_000, 0, 0, 500_000]
    assert (day["window"], day["resets_at"]) == (today().isoformat(), f"{today() + timedelta(days=1)}T00:00:00Z")
    assert [total[f"{it}_usd_micros"] for it in ("limit", "used", "held", "left")] == [
        *(700_000, 200_000),
        *(90_000, 410_000),
    ]
    assert (total["window"], total["resets_at"]) == ("ever", None)


@pytest.mark.contract("CAP-09")
@pytest.mark.parametrize("path", ["keys", "budget"])
def test_a_scope_that_is_lost_is_shown_as_unknown_and_never_as_unspent(
    owner: Caller, tenant: Tenant, path: str
) -> None:
    """While another rebuild is at work nobody can count it; then it is counted, and shown."""
    limited(tenant, owner.issued.key, day=500_000)
    charged(tenant, owner.issued.key, 300_000, today())
    scripts.shared_scripts().client.delete(keys.caps_key(tenant.pk, str(owner.issued.key.lineage_id)))
    with rebuilders.another_at_work():
        unknown = rebuilders.in_another_session(lambda: owner.ask("GET", path, status=503))
    assert unknown["reason_code"] == "BUDGET_UNAVAILABLE"
    seen = owner.ask("GET", path)
    [cap] = seen["caps"] if path == "budget" else seen["keys"][0]["caps"]
    assert (cap["used_usd_micros"], cap["left_usd_micros"]) == (300_000, 200_000)


@pytest.mark.contract("CAP-04")
def test_a_cap_lowered_below_what_is_counted_leaves_nothing(owner: Caller, tenant: Tenant) -> None:
    key = a_key(tenant).key
    limited(tenant, key, day=500_000)
    a_run(tenant, key, 300_000, charge=200_000, day=today())
    owner.ask("PUT", f"keys/{key.pk}/caps", {"day_usd": "0.1000"})
    [shown] = next(it for it in owner.ask("GET", "keys")["keys"] if it["key_id"] == str(key.pk))["caps"]
    assert [shown[f"{it}_usd_micros"] for it in ("limit", "used", "held", "left")] == [100_000, 200_000, 0, 0]


@pytest.mark.contract("CAP-07")
def test_a_look_brings_a_change_that_never_came_to_redis(owner: Caller, tenant: Tenant) -> None:
    """As a death between the commit and Redis leaves it."""
    limited(tenant, owner.issued.key, day=500_000)
    SpendCap.objects.update(revision=2, day_usd_micros=400_000)
    [shown] = owner.ask("GET", "budget")["caps"]
    assert shown["limit_usd_micros"] == 400_000
    SpendCap.objects.update(revision=3, day_usd_micros=300_000)
    [listed] = owner.ask("GET", "keys")["keys"]
    assert (listed["caps"][0]["limit_usd_micros"], listed["caps_revision"]) == (300_000, 3)
    assert scope_of(tenant, owner.issued.key.lineage_id).revision == 3


def test_zone_and_threshold_are_changed_one_by_one(owner: Caller) -> None:
    assert owner.ask("PATCH", "budget", {"zone": "Europe/Berlin", "low_usd": "3.0000"}) == {
        "zone": "Europe/Berlin",
        "low_usd_micros": 3_000_000,
        "low_usd": "3.0000",
    }
    assert owner.ask("PATCH", "budget", {"low_usd": None})["zone"] == "Europe/Berlin"
    shown = owner.ask("GET", "budget")
    assert (shown["zone"], shown["low_usd"]) == ("Europe/Berlin", None)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"zone": None}, "body"),
        *[({"zone": wrong}, "zone") for wrong in ("Europe/Bonn", "", 5, "Z" * 65, "localtime")],
        *[({"low_usd": wrong}, "low_usd") for wrong in ("0.0000", "5", 5)],
        ({"low": "1.0000"}, "low"),
    ],
)
def test_wrong_settings_are_named_and_change_nothing(owner: Caller, body: Any, field: str) -> None:
    before = everything()
    problem = owner.ask("PATCH", "budget", body, status=422)
    assert [error["field"] for error in problem["errors"]] == [field]
    assert everything() == before
