"""Room by kind of data, how disks grow, when they are full, and the alarm before (LIF-10)."""

import io
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from dpp_project import clock as time_source
from dpp_project import retention
from dpp_project.clock import FixedClock
from dpp_project.lifecycle import alarming, cleaning, measuring, projecting
from dpp_project.lifecycle.metrics import collect_disks
from dpp_project.lifecycle.models import DataSize, DiskUse
from dpp_project.lifecycle.projecting import DiskOutlook
from dpp_project.process_env import ENV
from runs.bucket import storage
from tests.gear.builders.shop import Shop

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-10")]

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TODAY = date(2026, 3, 1)
GB = 1_000_000_000


def grown(*used: int, first: date = date(2026, 2, 20)) -> list[tuple[date, int]]:
    return [(first + timedelta(days=number), one) for number, one in enumerate(used)]


@pytest.mark.parametrize(
    ("points", "total", "a_day", "days", "alarms"),
    [
        (grown(10, 20, 30), 100, 10.0, 7.0, None),
        (grown(10, 20, 31), 100, 10.5, 69 / 10.5, "full in 6.6 days as it grows"),
        (grown(50, 50, 50), 100, 0.0, None, None),
        (grown(60, 50, 40), 100, -10.0, None, None),
        (grown(10, 90), 100, None, None, "90 % full"),
        (grown(10, 89), 100, None, None, None),
        (grown(10, 20, 30), None, 10.0, None, None),
        (grown(90, 100, 110), 100, 10.0, 0.0, "110 % full"),
        ([(date(2026, 1, 1), 0), *grown(10, 20, 30)], 100, 10.0, 7.0, None),  # beyond fourteen days
    ],
)
def test_lif_10_a_disk_is_full_where_the_line_through_its_days_ends(
    points: list[tuple[date, int]], total: int | None, a_day: float | None, days: float | None, alarms: str | None
) -> None:
    found = projecting.project_disk(points, total)
    assert found.bytes_a_day == (None if a_day is None else pytest.approx(a_day))
    assert found.days_until_full == (None if days is None else pytest.approx(days))
    assert found.alarms == alarms


def test_lif_10_each_kind_of_data_is_measured_once_a_date(
    shop: Shop, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.shared_run_storage().client().put_object(
        Bucket=ENV.DPP_BUCKET, Key="dpp/t_x/2026/03/01/r/result.json", Body=b"x" * 1_234
    )
    report = measuring.measure_disks(now=time_source.now(), limit=1)
    assert report.errors == 0
    found = {size.kind: size for size in measuring.data_sizes()}
    assert found["ledger"].bytes > 8_000
    kind = retention.data_kinds()["runs"]
    assert found["runs"].bytes >= 1_234 + cleaning.table_bytes(kind)
    assert (found["runs"].day, found["runs"].is_whole) == (TODAY, True)
    assert found["runs"].objects_count >= 1
    count = DataSize.objects.count()
    measuring.measure_disks(now=time_source.now(), limit=1)
    assert DataSize.objects.count() == count
    stores = {use.disk: use for use in DiskUse.objects.all()}
    assert stores["Postgres"].used_bytes > 1_000_000
    assert (stores["Postgres"].total_bytes, stores["Redis"].host) == (None, "")
    monkeypatch.setattr(measuring, "ENV", ENV.model_copy(update={"DPP_DATABASE_DISK_GB": 50}))
    measuring.measure_disks(now=time_source.now(), limit=1)
    assert DiskUse.objects.get(disk="Postgres").total_bytes == 50_000_000_000


def test_lif_10_a_bucket_too_large_for_a_pass_is_at_least_so_much(
    shop: Shop, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.shared_run_storage().client().put_object(
        Bucket=ENV.DPP_BUCKET, Key="dpp/t_x/2026/03/01/r/other.json", Body=b"x"
    )
    monkeypatch.setattr(measuring, "PAGES_MAX", 1)
    measuring.measure_disks(now=time_source.now(), limit=1)
    assert DataSize.objects.get(kind="runs").is_whole is False


def test_lif_10_a_host_measures_each_of_its_disks_once() -> None:
    measuring.measure_host(NOON, host="one")
    measuring.measure_host(NOON, host="one")
    measuring.measure_host(NOON, host="two")
    uses = list(DiskUse.objects.order_by("host", "disk"))
    assert [(use.host, use.day) for use in uses] == [("one", TODAY), ("two", TODAY)]
    assert all(0 < use.used_bytes <= (use.total_bytes or 0) for use in uses)


def filling(*, host: str = "one", last: int = 70 * GB, a_day: int = 5 * GB) -> None:
    for back in range(5):
        measuring.note_disk(
            TODAY - timedelta(days=back), host=host, disk="/", used=last - back * a_day, total=100 * GB
        )  # fmt: skip


def test_lif_10_a_disk_that_fills_is_an_alarm_before_it_is_full(console: Client, clock: FixedClock) -> None:
    filling()
    filling(host="two", a_day=1 * GB)
    alarming.look_at_all()
    (alarm,) = [alarm for alarm in alarming.standing_alarms() if alarm.name == "disk_filling"]
    assert (alarm.subject, alarm.said) == ("/ at one", "full in 6.0 days as it grows")
    page = console.get("/admin/").content.decode()
    assert "full in 6.0 days as it grows" in page
    assert "5,000.0 MB" in page
    families = {
        family.name: {s.labels["host"]: s.value for s in family.samples} for family in list(collect_disks())[:3]
    }
    assert families["dpp_disk_days_until_full"] == {"one": pytest.approx(6.0), "two": pytest.approx(30.0)}
    measuring.note_disk(TODAY, host="one", disk="/", used=10 * GB, total=100 * GB)
    alarming.look_at_all()
    assert [alarm.name for alarm in alarming.standing_alarms() if alarm.name == "disk_filling"] == []


def test_lif_10_a_host_that_is_gone_for_a_week_raises_no_alarm() -> None:
    filling(host="gone", last=99 * GB)
    for use in DiskUse.objects.order_by("day"):
        DiskUse.objects.filter(pk=use.pk).update(day=use.day - timedelta(days=30))
    measuring.note_disk(TODAY, host="here", disk="/", used=1, total=100)
    assert list(measuring.disk_outlooks()) == [("here", "/")]


def test_lif_10_what_lies_before_a_disks_line_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for by each scrape and each look for alarms, of all hosts that there were within a quarter."""
    for back in range(60):
        measuring.note_disk(TODAY - timedelta(days=back), host="one", disk="/", used=(60 - back) * GB, total=100 * GB)
    read: list[int] = []
    outlook = projecting.project_disk

    def noted(points: Sequence[tuple[date, int]], total_bytes: int | None) -> DiskOutlook:
        read.append(len(points))
        return outlook(points, total_bytes)

    monkeypatch.setattr(projecting, "project_disk", noted)
    (found,) = measuring.disk_outlooks().values()
    assert found.bytes_a_day == pytest.approx(GB)
    assert read == [21]


def test_lif_10_the_command_says_room_and_end(clock: FixedClock) -> None:
    out = io.StringIO()
    call_command("data", "disk", stdout=out)
    assert out.getvalue() == "Nothing was measured yet (data_sizes).\n"
    filling()
    DataSize.objects.create(day=TODAY, kind="runs", bytes=7, is_whole=False)
    out = io.StringIO()
    call_command("data", "disk", stdout=out)
    assert out.getvalue().splitlines() == [
        "one /: 70000000000 of 100000000000 bytes, full in 6.0 days",
        "runs: at least 7 bytes",
    ]
    out = io.StringIO()
    call_command("data", "disk", "--json", stdout=out)
    document: dict[str, Any] = json.loads(out.getvalue())
    assert document["disks"][0]["alarm"] == "full in 6.0 days as it grows"
    assert document["kinds"] == [{"kind": "runs", "day": "2026-03-01", "bytes": 7, "objects": 0, "whole": False}]


def test_lif_10_a_bucket_that_is_away_is_an_error_and_the_rest_is_measured(
    shop: Shop, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore.exceptions import EndpointConnectionError

    def away(_bucket: str) -> Any:
        raise EndpointConnectionError(endpoint_url="x")

    monkeypatch.setattr(measuring, "_objects", away)
    report = measuring.measure_disks(now=time_source.now(), limit=1)
    assert (report.errors, report.detail["failed"]) == (
        2,
        {"results": "EndpointConnectionError", "archives": "EndpointConnectionError"},
    )
    assert DataSize.objects.filter(kind="ledger").exists()


def test_the_folders_of_a_host_are_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "ENV", ENV.model_copy(update={"DPP_LOG_DIR": str(tmp_path)}))
    assert measuring._folders() == [tmp_path, Path("/")]
