"""Spend, caps and usage on a tenant's own pages: the numbers of the API, in full, in part, with nothing, unknown."""

import re
from datetime import date
from typing import Any

import pytest
from redis import Redis

from budget.money import format_plain_usd
from budget.redis import keys as money_keys
from budget.redis.windows import PERIODS
from budget.usage import focus_rows
from tenants.models import ApiKey
from tenants.scopes import Scope
from tests.gear.builders.account import AccountVisitor, a_visitor
from tests.gear.builders.caps import put_in_force, spent_around_today
from tests.gear.builders.shop import PRICE_MICROS, Shop
from tests.gear.builders.tenants import a_key
from tests.integration.budget.test_ledger_tables import charge, entry
from tests.integration.runs.test_submit_caps import today

pytestmark = pytest.mark.contract("CAP-13", "CAP-15", "CAP-16")

WHEN = ("Today", "This week", "This month", "Ever")
NARROW = {Scope.BUDGET_READ, Scope.RUNS_READ}


def usd(micros: int) -> str:
    return f"${format_plain_usd(micros)}"


def texts(page: str) -> str:
    """Without tags, each run of spaces as one."""
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def row_of(page: str, key: ApiKey) -> list[str]:
    """The cells of the key's line in the table, as a person reads them."""
    (row,) = [row for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL) if f">dpp_{key.prefix}</a>" in row]
    return [texts(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]


def test_cap_13_keys_show_what_each_spent_in_each_window_and_whether_it_is_capped(shop: Shop) -> None:
    free, capped = shop.issued.key, a_key(shop.tenant)
    spent = spent_around_today(free, today(shop))
    charge(shop.tenant.pk, 700_000, spend_day=today(shop), lineage_id=capped.key.lineage_id)
    put_in_force(shop.tenant, capped.key, limits={"week": 1_000_000})
    assert Shop(shop.tenant, capped).submit().status_code == 202
    visitor = a_visitor(shop.issued)
    page = visitor.text("keys/")
    assert row_of(page, free)[2:7] == [*(usd(spent[period]) for period in PERIODS), "none"]
    assert row_of(page, capped.key)[2:7] == ["$0.70"] * 4 + ["yes"]
    one = texts(visitor.text(f"keys/{free.key_id}/"))
    told = [f"{when} {usd(spent[period])}" for when, period in zip(WHEN, PERIODS, strict=True)]
    assert f"{' '.join(told)} No cap." in one
    other = visitor.text(f"keys/{capped.key.key_id}/")
    assert "this week: limit 1.00, used 0.70, held 0.25, left 0.05 USD" in other
    assert 'class="used" width="700"' in other
    assert 'class="held" x="700" width="250"' in other


def test_cap_16_the_overview_tells_the_tenants_caps_from_the_keys_own(shop: Shop) -> None:
    agent = a_key(shop.tenant)
    put_in_force(shop.tenant, limits={"month": 4_000_000})
    put_in_force(shop.tenant, agent.key, limits={"day": PRICE_MICROS})
    assert Shop(shop.tenant, agent).submit().status_code == 202
    seen = texts(a_visitor(agent).text())
    assert re.search(
        r"Caps: all keys This month resets .* Limit \$4\.00 Used \$0\.00 Held \$0\.25 Left \$3\.75 Caps:", seen
    )
    assert re.search(r"Caps: this key Today resets .* Limit \$0\.25 Used \$0\.00 Held \$0\.25 Left \$0\.00 Full:", seen)
    assert "Caps: this key" not in texts(a_visitor(shop.issued).text())


def month_of(shop: Shop) -> tuple[ApiKey, ApiKey]:
    """Of February 2026: two keys, three charges, one of them given back in part."""
    first, second = shop.issued.key, a_key(shop.tenant).key
    day = date(2026, 2, 3)
    back = charge(shop.tenant.pk, 1_000_000, spend_day=day, lineage_id=first.lineage_id)
    entry(
        shop.tenant.pk,
        kind="ADJUST",
        amount_usd_micros=250_000,
        run_id=back.run_id,
        spend_day=day,
        lineage_id=first.lineage_id,
    )
    charge(shop.tenant.pk, 500_000, spend_day=date(2026, 2, 28), lineage_id=second.lineage_id)
    charge(shop.tenant.pk, 9, spend_day=date(2026, 3, 1), lineage_id=second.lineage_id)
    return first, second


def test_cap_15_usage_shows_a_month_in_numbers_and_as_a_picture(shop: Shop) -> None:
    first, second = month_of(shop)
    page = a_visitor(shop.issued).text("usage/", month="2026-02")
    seen = texts(page)
    assert "Net $1.25 Charged $1.50 Given back $0.25 Runs charged 2 Tokens 0" in seen
    assert f"dpp_{first.prefix} $0.75 $1.00 $0.25 1 0 dpp_{second.prefix} $0.50 $0.50 $0.00 1 0" in seen
    assert "unknown $1.25 $1.50 $0.25 2 0" in seen
    assert "Usage begins on 2026-02-03." in seen
    bars = re.findall(
        r"<title>(\S+): (\S+)</title>.*?height=\"104\"/><rect x=\"(\d+)\" y=\"(\d+)\" .*?height=\"(\d+)\"", page
    )
    assert len(bars) == 28
    assert [bar for bar in bars if bar[1] != "$0.00"] == [
        ("2026-02-03", "$0.75", "40", "0", "101"),
        ("2026-02-28", "$0.50", "540", "34", "67"),
    ]


def test_cap_15_the_files_of_a_month_are_the_apis(shop: Shop) -> None:
    month_of(shop)
    visitor = a_visitor(shop.issued)
    asked = "/v1/usage?from=2026-02-01&to=2026-03-01"
    plain = whole(visitor.get("usage.csv", month="2026-02"))
    assert plain == whole(shop.get(f"{asked}&group_by=pack", Accept="text/csv"))
    assert plain.splitlines()[-1] == b"TOTAL,,,,1500000,250000,1250000,1.250000,2,0"
    focus = whole(visitor.get("usage.csv", month="2026-02", form="focus"))
    assert focus == whole(shop.get(asked, Accept="text/csv; profile=focus"))
    assert focus.splitlines()[0].decode() == ",".join(focus_rows.COLUMNS)


def test_cap_15_a_key_without_keys_write_is_told_of_no_other_key(shop: Shop) -> None:
    _first, second = month_of(shop)
    narrow = a_key(shop.tenant, scopes=NARROW)
    charge(shop.tenant.pk, 3, spend_day=date(2026, 2, 4), lineage_id=narrow.key.lineage_id)
    visitor = a_visitor(narrow)
    page, focus = (
        visitor.text("usage/", month="2026-02"),
        whole(visitor.get("usage.csv", month="2026-02", form="focus")),
    )
    for text in (page, focus.decode()):
        assert f"dpp_{narrow.key.prefix}" in text
        assert f"dpp_{second.prefix}" not in text
        assert str(second.key_id) not in text
    assert "no key $1.25 $1.50 $0.25 2 0" in texts(page), "what the others spent is in no key's row, and adds up"


def test_cap_16_pages_say_that_there_is_nothing_yet(shop: Shop) -> None:
    visitor = a_visitor(shop.issued)
    assert row_of(visitor.text("keys/"), shop.issued.key)[2:7] == ["$0.00"] * 4 + ["none"]
    assert "No cap: runs are bounded by the balance alone." in visitor.text("caps/")
    assert "No run of February 2026 has been charged." in visitor.text("usage/", month="2026-02")
    assert 'class="bar"' not in visitor.text()


def test_cap_16_pages_say_that_nothing_is_known_while_money_is_rebuilt(shop: Shop, valkey: Redis) -> None:
    capped = a_key(shop.tenant)
    put_in_force(shop.tenant, capped.key, limits={"day": 1_000_000})
    put_in_force(shop.tenant, limits={"day": 1_000_000})
    visitor = a_visitor(shop.issued)
    valkey.delete(money_keys.EPOCH)
    assert row_of(visitor.text("keys/"), capped.key)[2:7] == [""] * 5, "neither spent nothing, nor without a cap"
    for path in ("keys/", f"keys/{capped.key.key_id}/", "caps/", ""):
        page = visitor.text(path)
        assert "rebuilt" in page
        assert 'class="bar"' not in page


def test_cap_01_caps_that_are_not_in_force_are_not_called_so(shop: Shop, valkey: Redis) -> None:
    visitor = a_visitor(shop.issued)
    assert "The caps are in force." in after(visitor, "caps/", day_usd="1.0000")
    valkey.delete(money_keys.EPOCH)
    assert "not in force yet" in after(visitor, "caps/", day_usd="2.0000")


def after(visitor: AccountVisitor, path: str, **values: str) -> str:
    """The page that follows a form."""
    assert visitor.post(path, act="caps", **values).status_code == 302
    return visitor.text(path)


def whole(answer: Any) -> bytes:
    content = b"".join(answer.streaming_content)
    answer.close()
    return content
