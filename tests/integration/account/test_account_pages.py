"""A tenant's own pages: what they show is what the API answers, and what they do is what it does (DPP-84)."""

import re
from datetime import timedelta
from typing import Any

import pytest

from budget.caps import rows, setting
from dpp_project.audit.models import AuditEntry
from runs.models import Run
from tenants.models import ApiKey, Tenant
from tenants.scopes import Scope
from tests.gear.builders.account import a_visitor
from tests.gear.builders.shop import PRICE_MICROS, Shop
from tests.gear.builders.tenants import a_key

pytestmark = [pytest.mark.contract("DPP-84")]

PAGES = (
    *("", "activity/", "statement/", "usage/", "keys/", "caps/", "runs/", "webhooks/", "workspaces/"),
    *("statement.csv", "usage.csv", "usage.csv?form=focus"),
)


def whole(answer: Any) -> bytes:
    """Read to its end: a tenant reads one at a time."""
    content = b"".join(answer.streaming_content)
    answer.close()
    return content


@pytest.mark.parametrize("path", PAGES)
def test_dpp_84_each_page_is_shown_to_a_tenant_with_nothing_yet(shop: Shop, path: str) -> None:
    answer = a_visitor(shop.issued).get(path)
    answer.close()
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "private, no-store"


@pytest.mark.parametrize("before", ["0", "x", "9" * 30, "0" * 19 + "1" + "0" * 5_000, "1" * 6_000])
def test_dpp_84_a_place_in_the_activity_that_is_none_is_not_found(shop: Shop, before: str) -> None:
    assert a_visitor(shop.issued).get("activity/", before=before).status_code == 404


@pytest.mark.parametrize("query", [{"pack": "\0"}, {"metadata": "a=\0"}, {"metadata": "\0=a"}, {"from": "0001-01-01"}])
def test_dpp_84_a_filter_that_no_column_takes_is_no_fault_of_ours(shop: Shop, query: dict[str, str]) -> None:
    assert a_visitor(shop.issued).get("runs/", **query).status_code in {200, 400, 404, 422}


def test_dpp_84_the_activity_says_what_changed_in_words(shop: Shop) -> None:
    visitor = a_visitor(shop.issued)
    visitor.post("keys/", label="night", scopes=["runs:read", "runs:write"])
    visitor.post("caps/", act="caps", day_usd="1.2500")
    visitor.post("caps/", act="caps", day_usd="2.5000")
    page = visitor.text("activity/")
    for said in ("label: night", "scopes: runs:read, runs:write", "day: none → $1.25", "day: $1.25 → $2.50"):
        assert f"<div>{said}</div>" in page
    for literal in ("None", "[&#x27;", "micros", "True", "False"):
        assert literal not in page


def test_dpp_84_a_run_is_seen_with_its_life_money_and_receipt(shop: Shop) -> None:
    run_id = shop.submit().json()["run_id"]
    visitor = a_visitor(shop.issued)
    assert run_id in visitor.text()
    assert run_id in visitor.text("runs/")
    page = visitor.text(f"runs/{run_id}/")
    for shown in ("queued", "$0.25", "Receipt", "Timeline", "money reserved"):
        assert shown in page


def test_dpp_84_a_run_is_canceled_as_over_the_api(shop: Shop) -> None:
    run_id = shop.submit().json()["run_id"]
    answer = a_visitor(shop.issued).post(f"runs/{run_id}/")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/account/runs/{run_id}/")
    (run,) = Run.objects.all()
    assert (run.status, run.money_state, run.last_error_reason_code) == ("FAILED", "REFUNDED", "CANCELED_BY_OWNER")
    assert run.last_actor == f"owner:dpp_{shop.issued.key.prefix}"
    assert shop.holds() == {}


def test_dpp_84_a_run_that_is_over_is_not_canceled(shop: Shop) -> None:
    run_id = shop.submit().json()["run_id"]
    shop.cancel(run_id)
    answer = a_visitor(shop.issued).post(f"runs/{run_id}/")
    assert answer.status_code == 409
    assert "cannot be canceled" in answer.content.decode()


def test_dpp_84_the_statement_adds_up_and_its_file_is_the_apis(shop: Shop) -> None:
    visitor = a_visitor(shop.issued)
    page = visitor.text("statement/")
    assert page.count("$10.00") >= 2  # the top-up, and the balance after it
    (month,) = re.findall(r'name="month" value="([0-9-]{7})"', page)
    ours = whole(visitor.get("statement.csv", month=month))
    assert ours == whole(shop.get("/v1/budget/entries", Accept="text/csv"))


@pytest.mark.parametrize("query", ["month=2026", "month=2026-13", "kind=NONE", "cursor=x"])
def test_dpp_84_a_wrong_question_is_answered_with_what_to_ask(shop: Shop, query: str) -> None:
    answer = a_visitor(shop.issued).client.get(f"/account/statement/?{query}")
    assert answer.status_code == 422
    assert "text/html" in answer.headers["Content-Type"]


def test_dpp_84_a_key_is_made_shown_once_rotated_and_revoked(shop: Shop) -> None:
    visitor = a_visitor(shop.issued)
    made = visitor.post("keys/", label="night", scopes=["runs:read", "runs:write"], day_usd="1.0000")
    assert made.status_code == 201
    (plaintext,) = re.findall(r"dpp_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}", made.content.decode())
    key = ApiKey.objects.get(label="night")
    assert plaintext.startswith(f"dpp_{key.prefix}_")
    assert sorted(key.scopes) == ["runs:read", "runs:write"]
    row = rows.row_of(key.tenant_id, key.lineage_id)
    assert row is not None
    assert row.day_usd_micros == 1_000_000
    assert plaintext not in visitor.text("keys/")

    rotated = visitor.post(f"keys/{key.key_id}/", act="rotate", grace_sec="3600")
    assert rotated.status_code == 201
    key.refresh_from_db()
    assert key.replaced_by is not None
    assert key.expires_at is not None
    assert key.expires_at - key.replaced_by.created_at < timedelta(hours=1, minutes=1)

    assert visitor.post(f"keys/{key.key_id}/", act="revoke").status_code == 302
    key.refresh_from_db()
    assert key.status == "REVOKED"
    who = f"owner:dpp_{shop.issued.key.prefix}"
    acts = AuditEntry.objects.filter(actor=who).order_by("pk").values_list("act", flat=True)
    assert list(acts) == [
        "signed in to the account pages", "key issued", "spend caps set", "key rotated", "key revoked",
    ]  # fmt: skip


def test_dpp_84_a_key_that_is_wider_is_not_made(shop: Shop) -> None:
    narrow = a_key(shop.tenant, scopes={Scope.KEYS_WRITE, Scope.RUNS_READ})
    before = ApiKey.objects.count()
    for scopes in (["runs:write"], ["keys:write"], [], ["nonsense"]):
        assert a_visitor(narrow).post("keys/", scopes=scopes).status_code == 422
    assert ApiKey.objects.count() == before


@pytest.mark.contract("CAP-01")
def test_cap_01_caps_are_set_on_the_account_page(shop: Shop) -> None:
    visitor = a_visitor(shop.issued)
    assert visitor.post("caps/", act="caps", day_usd="5.0000", total_usd="0.0000").status_code == 302
    row = rows.row_of(shop.tenant.tenant_id, None)
    assert row is not None
    assert (row.day_usd_micros, row.week_usd_micros, row.total_usd_micros) == (5_000_000, None, 0)
    assert row.actor == f"owner:dpp_{shop.issued.key.prefix}"
    page = visitor.text("caps/")
    assert "Today: limit 5.00, used 0.00, held 0.00, left 5.00 USD" in page.replace("today:", "Today:")
    assert "No run is taken." in page
    assert shop.submit().status_code == 402
    assert visitor.post("caps/", act="caps", total_usd="").status_code == 302
    assert rows.limits_of(rows.row_of(shop.tenant.tenant_id, None)) == dict(rows.NO_LIMITS)


@pytest.mark.contract("CAP-01")
def test_cap_01_a_page_that_was_open_takes_no_cap_away_that_was_set_since(shop: Shop) -> None:
    visitor, tenant_id = a_visitor(shop.issued), shop.tenant.tenant_id
    visitor.post("caps/", act="caps", month_usd="9.0000", total_usd="9.0000")
    shown = dict(
        re.findall(r'name="((?:initial-)?(?:day|week|month|total)_usd)"(?: value="([^"]*)")?', visitor.text("caps/"))
    )
    assert (len(shown), shown["initial-month_usd"], shown["initial-day_usd"]) == (8, "9.0000", "")
    setting.set_caps(tenant_id=tenant_id, lineage_id=None, changes={"day": 5_000_000}, actor="another")
    sent = shown | {"week_usd": "7.0000", "total_usd": ""}
    assert visitor.post("caps/", act="caps", **sent).status_code == 302
    limits = rows.limits_of(rows.row_of(tenant_id, None))
    assert limits == {"day": 5_000_000, "week": 7_000_000, "month": 9_000_000, "total": None}


@pytest.mark.contract("CAP-01")
@pytest.mark.parametrize("amount", ["5", "5.00", "-1.0000", "x", "99999999999.0000"])
def test_cap_01_a_wrong_amount_changes_nothing(shop: Shop, amount: str) -> None:
    answer = a_visitor(shop.issued).post("caps/", act="caps", day_usd=amount)
    assert answer.status_code == 422
    assert "four decimals" in answer.content.decode() or "lies between" in answer.content.decode()
    assert rows.row_of(shop.tenant.tenant_id, None) is None


@pytest.mark.contract("CAP-01")
def test_cap_01_a_capped_key_changes_no_caps(shop: Shop) -> None:
    capped = a_key(shop.tenant)
    visitor = a_visitor(shop.issued)
    assert visitor.post(f"keys/{capped.key.key_id}/", act="caps", day_usd="1.0000").status_code == 302
    other = a_visitor(capped)
    for path, values in (("caps/", {"act": "caps"}), ("caps/", {"act": "settings", "zone": "UTC"})):
        assert other.post(path, **values, day_usd="9.0000").status_code == 422
    assert rows.row_of(shop.tenant.tenant_id, None) is None


def test_dpp_84_zone_and_low_balance_are_set(shop: Shop) -> None:
    visitor = a_visitor(shop.issued)
    assert visitor.post("caps/", act="settings", zone="Europe/Berlin", low_usd="2.0000").status_code == 302
    tenant = Tenant.objects.get(pk=shop.tenant.pk)
    assert (tenant.zone, tenant.low_balance_usd_micros) == ("Europe/Berlin", 2_000_000)
    assert visitor.post("caps/", act="settings", zone="Berlin", low_usd="").status_code == 422


@pytest.mark.contract("CAP-13", "CAP-15", "CAP-16")
def test_cap_13_15_16_spend_usage_and_what_is_left_are_shown(shop: Shop) -> None:
    visitor = a_visitor(shop.issued)
    visitor.post("caps/", act="caps", day_usd="1.0000")
    shop.submit()
    page = visitor.text()
    assert "today: limit 1.00, used 0.00, held 0.25, left 0.75 USD" in page
    assert f"<dd>${PRICE_MICROS / 1_000_000:.2f}</dd>" in page  # held for open runs
    assert "$0.00" in visitor.text("keys/")
    assert "has been charged" in visitor.text("usage/")


def test_dpp_84_a_page_is_refused_without_its_scope(shop: Shop) -> None:
    visitor = a_visitor(a_key(shop.tenant, scopes={Scope.UPLOADS_WRITE}))
    for path in ("statement/", "statement.csv", "usage/", "caps/", "runs/", "webhooks/", "workspaces/"):
        answer = visitor.get(path)
        assert (answer.status_code, "lacks the scope" in answer.content.decode()) == (403, True)
    page = visitor.text()
    assert "Statement" not in page
    assert "10.00" not in page


def test_dpp_84_without_keys_write_a_key_sees_itself_alone(shop: Shop) -> None:
    narrow = a_key(shop.tenant, scopes={Scope.RUNS_READ})
    visitor = a_visitor(narrow)
    page = visitor.text("keys/")
    assert f"dpp_{narrow.key.prefix}" in page
    assert f"dpp_{shop.issued.key.prefix}" not in page
    assert visitor.get(f"keys/{shop.issued.key.key_id}/").status_code == 404
    assert visitor.post(f"keys/{narrow.key.key_id}/", act="revoke").status_code == 403
    assert ApiKey.objects.get(pk=narrow.key.pk).status == "ACTIVE"
