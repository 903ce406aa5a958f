"""Caps at the console and at the prompt: what is shown, what is set, and what is refused without a trace."""

import io
import json
import re
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client

from budget.caps import rows
from budget.money import format_exact_usd
from budget.rebuild import rebuild
from budget.redis import keys, scripts
from budget.redis.windows import PERIODS
from dpp_project.audit.models import AuditEntry
from tenants import services
from tenants.models import SpendCap, Tenant
from tenants.services import IssuedKey
from tests.gear.builders.caps import spent_around_today
from tests.gear.builders.console import page
from tests.gear.builders.tenants import a_key, a_tenant
from tests.integration.budget.test_caps_api import a_run, everything, limited, today

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("CAP-01", "CAP-16")]


@pytest.fixture
def issued(valkey: redis.Redis) -> IssuedKey:
    issued = a_key()
    rebuild.rebuild_all()
    return issued


@pytest.fixture
def tenant(issued: IssuedKey) -> Tenant:
    return Tenant.objects.get(pk=issued.key.tenant_id)


def account(tenant: Tenant) -> str:
    return f"/admin/budget/account/{tenant.pk}/"


def with_a_cap_half_used(tenant: Tenant, issued: IssuedKey) -> None:
    scripts.shared_scripts().client.set(keys.balance_key(tenant.pk), 10_000_000)
    limited(tenant, None, month=4_000_000)
    limited(tenant, issued.key, day=1_000_000)
    a_run(tenant, issued.key, 500_000, charge=500_000, day=today())
    a_run(tenant, issued.key, 250_000, charge=None, day=today())


def test_pages_show_what_is_used_held_and_left_and_when_it_resets(
    console: Client, tenant: Tenant, issued: IssuedKey
) -> None:
    assert page(console, f"{account(tenant)}change/").count("No cap.") == 1
    with_a_cap_half_used(tenant, issued)
    for path in (f"{account(tenant)}change/", f"/admin/tenants/apikey/{issued.key.pk}/change/"):
        shown = page(console, path)
        assert "today: limit 1.00, used 0.50, held 0.25, left 0.25 USD" in shown
        assert f"resets {today() + timedelta(days=1)} 00:00 (UTC)" in shown
        assert 'class="dpp-bar-held" x="500" width="250"' in shown
    assert "left 3.25 USD" in page(console, f"{account(tenant)}change/")
    assert "No run is taken" not in page(console, f"{account(tenant)}change/")
    scripts.shared_scripts().put_caps(
        tenant_id=tenant.pk, lineage_id=None, revision=2, limits={**rows.NO_LIMITS, "total": 0}, new=False
    )
    assert "No run is taken." in page(console, f"{account(tenant)}change/")
    assert "left 3.25 USD" not in page(console, f"/admin/tenants/apikey/{issued.key.pk}/change/")


@pytest.mark.contract("CAP-13")
def test_the_keys_page_shows_what_it_spent_in_each_window(console: Client, tenant: Tenant, issued: IssuedKey) -> None:
    path = f"/admin/tenants/apikey/{issued.key.pk}/change/"
    assert amounts(page(console, path)) == [(when, "0.000000") for when in WHEN]
    spent = spent_around_today(issued.key, today())
    assert amounts(page(console, path)) == [
        (when, format_exact_usd(spent[period])) for when, period in zip(WHEN, PERIODS, strict=True)
    ]


WHEN = ("today", "this week", "this month", "ever")


def amounts(shown: str) -> list[tuple[str, str]]:
    return re.findall(r'<dt class="text-subtle">([a-z ]+)</dt><dd class="text-important">([0-9.]+)</dd>', shown)


def test_pages_say_that_nothing_is_known_while_money_is_rebuilt(
    console: Client, tenant: Tenant, issued: IssuedKey, valkey: redis.Redis
) -> None:
    with_a_cap_half_used(tenant, issued)
    valkey.flushall()
    for path in (f"{account(tenant)}change/", f"/admin/tenants/apikey/{issued.key.pk}/change/"):
        shown = page(console, path)
        assert "Being rebuilt" in shown
        assert "dpp-bar" not in shown
        assert "dpp-cap-amounts" not in shown


def test_the_form_shows_what_stands_and_sets_all_four(console: Client, tenant: Tenant, issued: IssuedKey) -> None:
    limited(tenant, issued.key, day=1_000_000)
    path = f"{account(tenant)}set_caps/?lineage={issued.key.lineage_id}"
    asked = page(console, path)
    assert 'name="day_usd" value="1.0000"' in asked
    assert 'name="initial-day_usd" value="1.0000"' in asked
    assert "a key of theirs with keys:write and no cap can change them" in asked
    sent = {"day_usd": "", "week_usd": "0.0000", "month_usd": "2.5000", "total_usd": "", "reason": "an agent"}
    assert console.post(path, sent).status_code == 302
    row = SpendCap.objects.get()
    assert rows.limits_of(row) == {"day": None, "week": 0, "month": 2_500_000, "total": None}
    assert (row.actor, row.revision) == ("operator:ada", 2)
    assert trail() == ("spend caps set", f"caps of key {issued.key}", "operator:ada", "an agent")


@pytest.mark.parametrize(
    ("query", "sent", "status"),
    [
        ("", {"day_usd": "1"}, 200),
        ("", {"total_usd": "9007199254.7410"}, 200),
        ("", {"day_usd": "1.0000", "reason": "x" * 201}, 200),
        ("?lineage=x", {"day_usd": "1.0000"}, 404),
        ("?lineage=00000000-0000-0000-0000-000000000000", {"day_usd": "1.0000"}, 404),
    ],
)
def test_the_form_refuses_what_is_wrong(
    console: Client, tenant: Tenant, query: str, sent: dict[str, str], status: int
) -> None:
    before = everything()
    assert console.post(f"{account(tenant)}set_caps/{query}", sent).status_code == status
    assert everything() == before


def test_who_may_only_read_sees_caps_and_sets_none(client: Client, tenant: Tenant, issued: IssuedKey) -> None:
    with_a_cap_half_used(tenant, issued)
    eve = User.objects.create_user("eve", is_staff=True)
    eve.user_permissions.add(*Permission.objects.filter(codename__in=["view_account", "view_apikey"]))
    client.force_login(eve)
    before = everything()
    for path in (f"{account(tenant)}change/", f"/admin/tenants/apikey/{issued.key.pk}/change/"):
        shown = client.get(path).content.decode()
        assert "left 0.25 USD" in shown
        assert "set_caps" not in shown
    assert client.post(f"{account(tenant)}set_caps/", {"day_usd": "1.0000"}).status_code == 403
    eve.user_permissions.remove(*Permission.objects.filter(codename="view_account"))
    client.force_login(User.objects.get(pk=eve.pk))
    assert "USD" not in client.get(f"/admin/tenants/apikey/{issued.key.pk}/change/").content.decode()
    assert everything() == before


def trail() -> tuple[str, str, str, str]:
    """The newest line: what was done, to what, by whom and why."""
    entry = AuditEntry.objects.order_by("-pk")[0]
    return entry.act, entry.subject, entry.actor, entry.reason


def test_the_form_says_that_caps_are_not_in_force_while_money_is_rebuilt(
    console: Client, tenant: Tenant, issued: IssuedKey, valkey: redis.Redis
) -> None:
    path = f"{account(tenant)}set_caps/"
    assert "in force (revision 1)" in console.post(path, {"day_usd": "1.0000"}, follow=True).content.decode()
    valkey.delete(keys.EPOCH)
    assert "not in force yet" in console.post(path, {"day_usd": "2.0000"}, follow=True).content.decode()


def printed(*arguments: str, code: int = 0) -> tuple[list[str], str]:
    """What a person reads: the lines, and the remarks beside them."""
    out, err = io.StringIO(), io.StringIO()
    ended = 0
    try:
        call_command("caps", *arguments, stdout=out, stderr=err)
    except SystemExit as exited:
        ended = int(str(exited.code))
    assert ended == code
    return out.getvalue().splitlines(), err.getvalue()


def run(*arguments: str, code: int = 0) -> Any:
    out = io.StringIO()
    try:
        call_command("caps", *arguments, "--json", stdout=out, stderr=io.StringIO())
    except CommandError as refused:
        assert refused.returncode == code
    except SystemExit as ended:
        assert ended.code == code
    else:
        assert code == 0
    return json.loads(out.getvalue())


def test_the_command_sets_shows_and_clears(tenant: Tenant, issued: IssuedKey) -> None:
    with_a_cap_half_used(tenant, issued)
    key = ("--key", str(issued.key))
    before = everything()
    assert run("set", tenant.pk, *key, "--day", "none", "--dry-run")["caps"]["day_usd"] is None
    assert everything() == before
    changed = run("set", tenant.pk, *key, "--week", "2.0000", "--reason", "an agent")
    assert changed == {
        "tenant_id": tenant.pk,
        "key": str(issued.key),
        "caps": {"day_usd": "1.0000", "week_usd": "2.0000", "month_usd": None, "total_usd": None},
        "revision": 2,
        "changed": True,
        "enforced": True,
        "dry_run": False,
    }
    shown = run("show", tenant.pk)
    assert [(cap["name"], cap["period"], cap["left_usd"]) for cap in shown["caps"]] == [
        (tenant.pk, "month", "3.2500"),
        (str(issued.key), "day", "0.2500"),
        (str(issued.key), "week", "1.2500"),
    ]
    assert trail() == ("spend caps set", f"caps of key {issued.key}", "command", "an agent")
    rotated = services.rotate_key(key_id=issued.key.key_id, actor="test")
    assert isinstance(rotated, IssuedKey)
    assert run("clear", tenant.pk, *key)["revision"] == 3
    assert run("show", tenant.pk, "--key", str(rotated.key))["caps"] == []


@pytest.mark.contract("CAP-04")
def test_the_command_prints_a_table_that_adds_up_to_the_micro(tenant: Tenant, issued: IssuedKey) -> None:
    assert printed("show", tenant.pk)[0] == ["no caps"]
    with_a_cap_half_used(tenant, issued)
    a_run(tenant, issued.key, 1_001, charge=7, day=today())
    lines, remarks = printed("show", tenant.pk)
    tomorrow = f"{today() + timedelta(days=1)}T00:00:00+00:00"
    assert lines[0].split() == ["window", "limit", "used", "held", "left,", "USD", "resets", "at"]
    assert lines[1].split()[:7] == [
        *(tenant.pk, "month", f"{today():%Y-%m}"),
        *("4.000000", "0.500007", "0.250000", "3.249993"),
    ]
    assert lines[2].split() == [
        *(str(issued.key), "day", today().isoformat()),
        *("1.000000", "0.500007", "0.250000", "0.249993", tomorrow),
    ]
    assert remarks == f"Days end at midnight in UTC; it is {today()} there.\n"
    assert printed("set", tenant.pk, "--total", "9.0000")[1] == ""
    assert printed("show", tenant.pk)[0][2].split()[1:] == [
        *("ever", "9.000000", "0.500007", "0.250000", "8.249993", "never")
    ]


def test_the_command_shows_limits_while_nothing_else_is_known(
    tenant: Tenant, issued: IssuedKey, valkey: redis.Redis
) -> None:
    with_a_cap_half_used(tenant, issued)
    valkey.delete(keys.EPOCH)
    assert run("show", tenant.pk, code=3)["caps"] == []
    lines, remarks = printed("show", tenant.pk, code=3)
    assert lines == [f"{tenant.pk}: month 4.0000", f"{issued.key}: day 1.0000"]
    assert "what is used and left is not known now" in remarks
    assert run("set", tenant.pk, "--month", "3.0000")["enforced"] is False
    assert "not in force yet" in printed("set", tenant.pk, "--month", "2.0000")[1]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["set"], "--day"),
        *[(["set", "--day", wrong], "--day") for wrong in ("5", "0.00001", "nan", "", "9007199254.7410", "None")],
        (["clear", "--week", "5.0000"], "--week"),
        (["show", "--total", "none"], "--total"),
        (["set", "--day", "1.0000", "--reason", "a\nb"], "--reason"),
        (["set", "--day", "1.0000", "--key", "dpp_AAAAAAAA"], "--key"),
        (["set", "--day", "1.0000", "--key", "somebody"], "--key"),
    ],
)
def test_the_command_names_what_is_wrong(tenant: Tenant, arguments: list[str], field: str) -> None:
    if arguments[-1] == "somebody":
        arguments = [*arguments[:-1], str(a_key(a_tenant()).key)]
    before = everything()
    assert run(arguments[0], tenant.pk, *arguments[1:], code=1)["error"]["field"] == field
    assert everything() == before


@pytest.mark.parametrize(("tenant_id", "field"), [("t_nobody", "tenant_id"), ("t_operator", "tenant_id")])
def test_the_command_caps_tenants_that_spend(tenant: Tenant, tenant_id: str, field: str) -> None:
    before = everything()
    assert run("set", tenant_id, "--day", "1.0000", code=1)["error"]["field"] == field
    assert everything() == before
