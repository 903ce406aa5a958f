"""Usage adds up: each total is the ledger's of the same dates, in every grouping and every form (CAP-15)."""

import csv
import io
import itertools
import json
import re
import uuid
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction

from budget import daily_snapshots
from budget.models import LedgerEntry
from budget.usage import csv_rows, focus_rows, ranges
from budget.usage.ranges import UsagePeriod
from runs import transitions
from runs.models import Run, RunMetadata
from tenants import services
from tenants.models import ApiKey, Tenant
from tenants.services import IssuedKey
from tests.gear import source
from tests.gear.builders.runs import claim_of, claimed, fee, won
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import a_key, a_tenant

pytestmark = [pytest.mark.django_db, pytest.mark.contract("CAP-15")]

USAGE = "/v1/usage"
FIRST = date(2026, 2, 26)
YEAR = "from=2026-01-01&to=2027-01-01"


@pytest.fixture
def shop() -> Shop:
    tenant = a_tenant(poll_rate_per_minute=10_000)
    return Shop(tenant, a_key(tenant))


def ended(shop: Shop, day: date, *, key: ApiKey | None, pack: str = "decision", **intent: Any) -> Run:
    """A run that counts on a date, which was today when it was accepted."""
    run = claimed(
        tenant_id=shop.tenant.pk, pack_type=pack, lineage_id=None if key is None else key.lineage_id, **intent
    )
    at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE runs SET spend_day = %s WHERE run_id = %s", [day, run.run_id])
        won(transitions.commit(claim=claim_of(run, **intent), taken_micros=run.intent_charge_usd_micros or 0))
        cursor.execute("UPDATE ledger_entries SET created_at = %s WHERE run_id = %s", [at, run.run_id])
        cursor.execute("SET LOCAL session_replication_role = origin")
    return run


def given_back(run: Run, micros: int) -> None:
    charged = LedgerEntry.objects.get(run_id=run.run_id, kind="CHARGE")
    LedgerEntry.objects.create(
        tenant_id=run.tenant_id,
        run_id=run.run_id,
        kind="ADJUST",
        amount_usd_micros=micros,
        reference=f"dispute:{run.run_id}",
        actor="test",
        lineage_id=charged.lineage_id,
        spend_day=charged.spend_day,
    )


@pytest.fixture
def two_keys(shop: Shop) -> tuple[ApiKey, ApiKey]:
    """The shop's own, since rotated, and another."""
    rotated = services.rotate_key(key_id=shop.issued.key.key_id, actor="test")
    assert isinstance(rotated, IssuedKey)
    other = a_key(shop.tenant).key
    ApiKey.objects.filter(key_id=other.key_id).update(label="=cmd|' /C calc'!A0")
    return rotated.key, ApiKey.objects.get(key_id=other.key_id)


@pytest.fixture
def year(shop: Shop, two_keys: tuple[ApiKey, ApiKey]) -> Shop:
    """Six runs of three dates, one given back; half of it summed up; beside them what counts on no date."""
    first, second = two_keys
    ended(shop, FIRST, key=first)
    ended(shop, FIRST, key=second, intent=fee())
    ended(shop, FIRST + timedelta(days=1), key=None, pack="ocr")
    assert daily_snapshots.sum_up(now=datetime(2026, 3, 2, tzinfo=UTC), limit=10) == 1
    refunded = ended(shop, date(2026, 3, 5), key=first)
    ended(shop, date(2026, 3, 5), key=second, pack="ocr")
    ended(shop, date(2026, 3, 31), key=second, intent=fee())
    given_back(refunded, 20_000)
    entry: dict[str, Any] = {"tenant_id": shop.tenant.pk, "actor": "test"}
    LedgerEntry.objects.create(kind="CHARGE", amount_usd_micros=-7, run_id=uuid.uuid4(), **entry)
    LedgerEntry.objects.create(kind="ADJUST", amount_usd_micros=3, reference="gift", **entry)
    return shop


def asked(shop: Shop, query: str, *, status: int = 200) -> Any:
    answer = shop.get(f"{USAGE}?{query}")
    assert answer.status_code == status, answer.content
    return answer.json()


def as_csv(shop: Shop, query: str, *, profile: str = "") -> list[dict[str, str]]:
    answer = shop.get(f"{USAGE}?{query}", Accept=f"text/csv{profile}")
    assert answer.status_code == 200, answer.content
    text = b"".join(answer.streaming_content).decode()
    answer.close()
    return list(csv.DictReader(io.StringIO(text)))


def of_the_ledger(shop: Shop, start: date, end: date) -> dict[str, int]:
    """Plainly, entry by entry."""
    sums: Counter[str] = Counter(charged_usd_micros=0, credited_usd_micros=0, net_usd_micros=0, runs=0, tokens=0)
    for entry in LedgerEntry.objects.filter(tenant=shop.tenant, spend_day__gte=start, spend_day__lt=end):
        sums["net_usd_micros"] -= entry.amount_usd_micros
        if entry.kind == "CHARGE":
            sums["charged_usd_micros"] -= entry.amount_usd_micros
            sums["runs"] += 1
            sums["tokens"] += Run.objects.get(run_id=str(entry.run_id)).tokens_consumed
        else:
            sums["credited_usd_micros"] += entry.amount_usd_micros
    return dict(sums)


def groups(answer: Any) -> dict[tuple[str, str | None], tuple[int, int]]:
    return {(row["period"], row["group"]): (row["net_usd_micros"], row["runs"]) for row in answer["rows"]}


@pytest.mark.django_db(transaction=True)
def test_the_totals_are_the_ledgers_in_every_grouping_and_form(year: Shop) -> None:
    for by, group in itertools.product(("day", "month"), ("", "pack", "key", "reason", "metadata&metadata_key=team")):
        _totals_agree(year, by, group)
    assert of_the_ledger(year, date(2026, 1, 1), date(2027, 1, 1))["net_usd_micros"] == 190_000


def _totals_agree(year: Shop, by: str, group: str) -> None:
    for start, end in [(date(2026, 1, 1), date(2027, 1, 1)), (FIRST, date(2026, 3, 5)), (FIRST, FIRST + timedelta(1))]:
        query = f"from={start}&to={end}&by={by}" + (f"&group_by={group}" if group else "")
        answer, true = asked(year, query), of_the_ledger(year, start, end)
        assert answer["totals"] == true
        for name, value in true.items():
            assert sum(row[name] for row in answer["rows"]) == value, name
        *lines, total = as_csv(year, query)
        assert total["period"] == "TOTAL"
        assert {name: int(total[name]) for name in true} == true
        assert [(line["period"], line["group"]) for line in lines] == [
            (row["period"], row["group"] or "") for row in answer["rows"]
        ]


@pytest.mark.django_db(transaction=True)
def test_rows_are_told_apart_by_pack_reason_and_the_newest_key(year: Shop, two_keys: tuple[ApiKey, ApiKey]) -> None:
    first, second = (f"dpp_{key.prefix}" for key in two_keys)
    assert groups(asked(year, f"{YEAR}&by=month")) == {("2026-02", None): (105_000, 3), ("2026-03", None): (85_000, 3)}
    assert groups(asked(year, f"{YEAR}&group_by=pack&by=month")) == {
        ("2026-02", "decision"): (55_000, 2),
        ("2026-02", "ocr"): (50_000, 1),
        ("2026-03", "decision"): (35_000, 2),
        ("2026-03", "ocr"): (50_000, 1),
    }
    assert groups(asked(year, f"{YEAR}&group_by=reason")) == {
        ("2026-02-26", "COMPLETED"): (50_000, 1),
        ("2026-02-26", "WORKER_TIMEOUT"): (5_000, 1),
        ("2026-02-27", "COMPLETED"): (50_000, 1),
        ("2026-03-05", "COMPLETED"): (80_000, 2),
        ("2026-03-31", "WORKER_TIMEOUT"): (5_000, 1),
    }
    by_key = asked(year, f"{YEAR}&group_by=key&by=month")
    assert groups(by_key) == {
        ("2026-02", first): (50_000, 1),
        ("2026-02", second): (5_000, 1),
        ("2026-02", None): (50_000, 1),
        ("2026-03", first): (30_000, 1),
        ("2026-03", second): (55_000, 2),
    }
    named = {row["group"]: row["key"] for row in by_key["rows"]}
    assert named[second] == {"key_id": str(two_keys[1].key_id), "prefix": second, "label": "=cmd|' /C calc'!A0"}
    assert named[None] is None
    assert (by_key["begins"], by_key["zone"], by_key["by"], by_key["group_by"]) == ("2026-02-26", "UTC", "month", "key")
    harmless = {line["label"] for line in as_csv(year, f"{YEAR}&group_by=key") if line["group"] == second}
    assert harmless == {"'=cmd|' /C calc'!A0"}
    told = {line["group"]: line["key_id"] for line in as_csv(year, f"{YEAR}&group_by=key")}
    assert told == {first: str(two_keys[0].key_id), second: str(two_keys[1].key_id), "": ""}


TEAMS = ("red", "blue", "red", "=1+1;=2+2")


def _of_teams(year: Shop) -> list[Run]:
    """In the order of their dates: of each team one, one in both, the rest in none."""
    runs = list(Run.objects.filter(tenant=year.tenant).order_by("spend_day", "pack_type", "run_id"))
    for run, team in zip(runs, TEAMS, strict=False):
        for key, value in (("team", team), ("other", "x")):
            RunMetadata.objects.create(
                run=run, tenant_id=run.tenant_id, created_at=run.created_at, key=key, value=value
            )
    return runs


@pytest.mark.contract("DPP-91")
@pytest.mark.django_db(transaction=True)
def test_rows_are_told_apart_by_a_key_of_metadata_and_add_up(year: Shop) -> None:
    runs = _of_teams(year)
    query = f"{YEAR}&by=month&group_by=metadata&metadata_key=team"
    answer = asked(year, query)
    assert answer["totals"] == asked(year, YEAR)["totals"]
    assert (answer["group_by"], answer["metadata_key"]) == ("metadata", "team")
    net: Counter[str | None] = Counter()
    for row in answer["rows"]:
        net[row["group"]] += row["net_usd_micros"]
    true: Counter[str | None] = Counter()
    teams = dict(RunMetadata.objects.filter(key="team").values_list("run_id", "value"))
    for run_id, amount in LedgerEntry.objects.filter(run_id__in=[run.run_id for run in runs]).values_list(
        "run_id", "amount_usd_micros"
    ):
        true[teams.get(run_id) if run_id else None] -= amount
    assert {group: micros for group, micros in net.items() if micros} == {
        group: micros for group, micros in true.items() if micros
    }
    assert set(TEAMS) <= set(net)
    assert "'=1+1;'=2+2" in {line["group"] for line in as_csv(year, query)}
    # Summed up by day, or not: the same rows.
    assert daily_snapshots.sum_up(now=datetime(2026, 5, 2, tzinfo=UTC), limit=10) >= 1
    assert asked(year, query) == answer
    # A key that no run has, and metadata that went: all of it under none.
    assert {row["group"] for row in asked(year, f"{YEAR}&group_by=metadata&metadata_key=none")["rows"]} == {None}
    RunMetadata.objects.filter(run__in=runs).delete()
    after = asked(year, query)
    assert ({row["group"] for row in after["rows"]}, after["totals"]) == ({None}, answer["totals"])


@pytest.mark.contract("DPP-91")
@pytest.mark.django_db(transaction=True)
def test_focus_has_the_value_as_a_tag(year: Shop) -> None:
    _of_teams(year)
    plain, tagged = (as_csv(year, query, profile=";profile=focus") for query in (YEAR, f"{YEAR}&metadata_key=team"))
    assert {line["Tags"] for line in plain} == {""}
    tags = {line["Tags"] for line in tagged} - {""}
    assert {json.loads(one)["team"] for one in tags} == set(TEAMS)
    assert ";" not in "".join(tags)  # it begins a cell where the list separator is one

    def billed(lines: list[dict[str, str]]) -> Decimal:
        return sum((Decimal(line["BilledCost"]) for line in lines), Decimal())

    assert billed(plain) == billed(tagged) == Decimal("0.190000")


@pytest.mark.parametrize("query", ["group_by=metadata", "metadata_key=team", "group_by=pack&metadata_key=team"])
def test_metadata_takes_its_key_and_the_key_takes_metadata(shop: Shop, query: str) -> None:
    answer = shop.get(f"{USAGE}?{query}")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "query.metadata_key")


@pytest.mark.django_db(transaction=True)
def test_a_stream_does_not_change_while_entries_are_added_and_summed_up(year: Shop) -> None:
    chosen = ranges.usage_range(year.tenant.pk, start=date(2026, 1, 1), end=date(2027, 1, 1))
    assert isinstance(chosen, ranges.UsageRange)
    before = list(csv_rows.usage_csv_rows(chosen, UsagePeriod.DAY, None))
    stream = csv_rows.usage_csv_rows(chosen, UsagePeriod.DAY, None)
    begun = [next(stream) for _ in range(2)]
    charge: dict[str, Any] = {"kind": "CHARGE", "amount_usd_micros": -7, "actor": "test"}
    LedgerEntry.objects.create(tenant=year.tenant, run_id=uuid.uuid4(), spend_day=date(2026, 3, 31), **charge)
    assert daily_snapshots.sum_up(now=datetime(2026, 4, 2, tzinfo=UTC), limit=10) == 1
    assert begun + list(stream) == before
    after = list(csv_rows.usage_csv_rows(chosen, UsagePeriod.DAY, None))
    assert (before[-1], after[-1]) == (
        "TOTAL,,,,210000,20000,190000,0.190000,6,28\r\n",
        "TOTAL,,,,210007,20000,190007,0.190007,7,28\r\n",
    )


def test_without_dates_it_is_the_running_month_of_the_tenants_zone(shop: Shop) -> None:
    """The database's date: far in the east it is tomorrow for half of the day, far in the west yesterday."""
    seen = set()
    for zone in ("Pacific/Kiritimati", "Etc/GMT+12"):
        Tenant.objects.filter(pk=shop.tenant.pk).update(zone=zone)
        with connection.cursor() as cursor:
            cursor.execute("SELECT (now() AT TIME ZONE %s)::date", [zone])
            (today,) = cursor.fetchone()
        assert ranges.zone_and_today(shop.tenant.pk) == (zone, today)
        answer = asked(shop, "")
        assert answer["from"] == today.replace(day=1).isoformat()
        assert answer["to"] == ranges.next_month(today).isoformat()
        assert (answer["zone"], answer["rows"], answer["begins"]) == (zone, [], None)
        seen.add(today)
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("query", "field", "cure"),
    [
        ("from=2026-03-02&to=2026-03-01", "query.from", "must lie before `to`, which is excluded and here 2026-03-01"),
        ("from=2026-03-01&to=2026-03-01", "query.from", "must lie before `to`"),
        ("from=2999-01-01", "query.from", "must lie before `to`"),
        ("from=2025-01-01&to=2026-02-06", "query.from", "at most 400 days before `to`, here 2026-02-06"),
        ("from=yesterday", "query.from", "give a date from 2000 to 2999, such as 2026-11-19"),
        ("from=20260301", "query.from", "give a date"),
        ("to=2026-W10-1", "query.to", "give a date"),
        ("to=2026-02-30", "query.to", "give a date"),
        ("to=0001-01-01", "query.to", "give a date"),
        ("from=", "query.from", "give a date"),
        ("by=week", "query.by", "'day' or 'month'"),
        ("group_by=colour", "query.group_by", "'pack', 'key', 'reason' or 'metadata'"),
        ("form=2026-03-01", "query.form", "did you mean `from`?"),
        ("from=2026-03-01&from=2026-03-02", "query.from", "give it once"),
    ],
)
def test_a_wrong_question_names_its_field_and_the_cure(shop: Shop, query: str, field: str, cure: str) -> None:
    for accept in ("application/json", "text/csv"):
        answer = shop.get(f"{USAGE}?{query}", Accept=accept)
        assert answer.status_code == 422
        (error,) = answer.json()["errors"]
        assert error["field"] == field
        assert cure in error["detail"]


def test_four_hundred_days_are_answered_and_more_rows_than_fit_are_refused(
    year: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(asked(year, "from=2025-03-01&to=2026-04-05")["rows"]) == 4
    monkeypatch.setattr("budget.usage.documents.ROWS_MAX", 3)
    refused = asked(year, YEAR, status=422)
    assert refused["errors"] == [
        {
            "field": "query.from",
            "detail": "more than 3 rows; ask for fewer days, for by=month, or for CSV, which has no end",
        }
    ]
    assert len(asked(year, f"{YEAR}&by=month")["rows"]) == 2
    assert len(said(capsys, year.tenant.pk, "--from", "2026-01-01", "--to", "2027-01-01", "--format", "csv")) == 6


# FOCUS.

DECIMALS = {"BilledCost", "ContractedCost", "EffectiveCost", "ListCost", "PricingQuantity", "ConsumedQuantity"}
NOT_NULL = {
    *("BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory"),
    *("ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost"),
    *("ProviderName", "PublisherName", "ServiceCategory", "ServiceName", "PricingQuantity", "PricingUnit"),
}
"""As the specification has them, of rows whose ChargeCategory is Usage."""
MANDATORY = NOT_NULL | {"BillingAccountName", "ChargeClass", "ChargeDescription"}


@pytest.mark.django_db(transaction=True)
def test_focus_rows_add_up_and_hold_every_mandatory_column(year: Shop, two_keys: tuple[ApiKey, ApiKey]) -> None:
    lines = as_csv(year, f"{YEAR}&by=month", profile="; profile=focus")
    assert set(lines[0]) == set(focus_rows.COLUMNS) >= MANDATORY
    for line in lines:
        assert all(line[name] for name in NOT_NULL)
        assert line["BilledCost"] == line["ContractedCost"] == line["EffectiveCost"] == line["ListCost"]
        assert line["ChargeClass"] == ""
    micros = [round(float(line["BilledCost"]) * 1_000_000) for line in lines]
    true = of_the_ledger(year, date(2026, 1, 1), date(2027, 1, 1))
    assert (sum(micros), sum(int(line["PricingQuantity"]) for line in lines)) == (true["net_usd_micros"], true["runs"])
    (back,) = [line for line in lines if line["BilledCost"].startswith("-")]
    assert (back["BilledCost"], back["ChargeDescription"], back["PricingQuantity"], back["x_KeyPrefix"]) == (
        "-0.020000",
        "Given back of runs of decision that completed",
        "0",
        f"dpp_{two_keys[0].prefix}",
    )


@pytest.mark.django_db(transaction=True)
def test_every_cell_of_a_focus_line_is_what_the_docs_say(year: Shop, two_keys: tuple[ApiKey, ApiKey]) -> None:
    lines = as_csv(year, "from=2026-02-01&to=2026-03-01&by=month", profile="; profile=focus")
    first, second = two_keys
    at, of_key = f"dpp_{first.prefix}", {line["x_KeyPrefix"]: line for line in lines}
    months = dict.fromkeys(("BillingPeriodStart", "ChargePeriodStart"), "2026-02-01T00:00:00Z")
    months |= dict.fromkeys(("BillingPeriodEnd", "ChargePeriodEnd"), "2026-03-01T00:00:00Z")
    costs = dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), "0.050000")
    names = dict.fromkeys(("InvoiceIssuerName", "ProviderName", "PublisherName"), "Decision Pack Platform")
    assert of_key[at] == {
        **(months | costs | names),
        "BillingAccountId": year.tenant.pk,
        "BillingAccountName": year.tenant.display_name,
        "BillingCurrency": "USD",
        "ChargeCategory": "Usage",
        "ChargeClass": "",
        "ChargeDescription": "runs of decision that completed",
        "ChargeFrequency": "Usage-Based",
        "ConsumedQuantity": "1",
        "ConsumedUnit": "Runs",
        "PricingQuantity": "1",
        "PricingUnit": "Runs",
        "ServiceCategory": "Other",
        "ServiceName": "decision",
        "ServiceSubcategory": "Other (Other)",
        "Tags": "",
        "x_KeyId": str(first.key_id),
        "x_KeyPrefix": at,
        "x_KeyLabel": first.label or "",
        "x_Pack": "decision",
        "x_Reason": "",
        "x_Tokens": "7",
    }
    failed = of_key[f"dpp_{second.prefix}"]
    assert (failed["BilledCost"], failed["x_Reason"], failed["x_KeyLabel"]) == (
        *("0.005000", "WORKER_TIMEOUT"),
        "'=cmd|' /C calc'!A0",
    )
    assert failed["ChargeDescription"] == "runs of decision that failed with WORKER_TIMEOUT"
    of_none = of_key[""]
    assert (of_none["x_KeyId"], of_none["x_Pack"], of_none["ServiceName"]) == ("", "ocr", "ocr")


def test_the_docs_name_every_focus_column_and_no_other() -> None:
    table = (source.REPOSITORY / "docs/usage.md").read_text(encoding="utf-8").partition("## FOCUS 1.2")[2]
    first_cells = "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert sorted(re.findall(r"`(\w+)`", first_cells)) == sorted(focus_rows.COLUMNS)


@pytest.mark.django_db(transaction=True)
def test_focus_periods_are_the_zones_and_end_with_the_range(year: Shop) -> None:
    """In Berlin summer time begins on 29 March: the month has an hour less."""
    Tenant.objects.filter(pk=year.tenant.pk).update(zone="Europe/Berlin")
    lines = as_csv(year, "from=2026-03-05&to=2026-04-01&by=month", profile=";profile=focus")
    names = ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")
    assert {tuple(line[name] for name in names) for line in lines} == {
        ("2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z", "2026-03-04T23:00:00Z", "2026-03-31T22:00:00Z")
    }


def test_focus_takes_no_grouping_and_another_profile_is_not_acceptable(year: Shop) -> None:
    refused = year.get(f"{USAGE}?group_by=pack", Accept="text/csv; profile=focus")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "query.group_by")
    assert year.get(USAGE, Accept="text/csv; profile=bill").status_code == 406


# The command.


def test_the_command_says_the_same_in_each_format(year: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    tenant_id, dates = year.tenant.pk, ("--from", "2026-01-01", "--to", "2027-01-01")
    assert said(capsys, tenant_id, *dates, "--by", "month", "--group-by", "pack") == [
        "period      group            charged        credited        net, USD       runs        tokens",
        "2026-02     decision        0.055000        0.000000        0.055000          2             7",
        "2026-02     ocr             0.050000        0.000000        0.050000          1             7",
        "2026-03     decision        0.055000        0.020000        0.035000          2             7",
        "2026-03     ocr             0.050000        0.000000        0.050000          1             7",
        "total                       0.210000        0.020000        0.190000          6            28",
    ]
    answer = asked(year, f"{YEAR}&group_by=key")
    for form in (("--format", "json"), ("--json",)):
        assert json.loads("\n".join(said(capsys, tenant_id, *dates, "--group-by", "key", *form))) == answer
    assert said(capsys, tenant_id, *dates, "--format", "focus")[0] == ",".join(focus_rows.COLUMNS)
    assert said(capsys, tenant_id, *dates, "--format", "csv")[-1].startswith("TOTAL,,,,2")


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [
        (("t_nobody",), "tenant_id: there is no tenant t_nobody"),
        (("--from", "1.3.2026"), "--from: give a date from 2000 to 2999, such as 2026-11-19"),
        (("--from", "2026-03-02", "--to", "2026-03-01"), "--from: must lie before `to`"),
        (("--format", "focus", "--group-by", "key"), "--group-by: leave it out"),
    ],
)
def test_the_command_names_what_is_wrong(shop: Shop, arguments: tuple[str, ...], cure: str) -> None:
    whose = () if arguments[0].startswith("t_") else (shop.tenant.pk,)
    with pytest.raises(CommandError, match=re.escape(cure)):
        call_command("usage", *whose, *arguments)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    call_command("usage", *arguments)
    return capsys.readouterr().out.splitlines()
