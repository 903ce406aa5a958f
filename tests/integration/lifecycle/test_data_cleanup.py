"""The daily cleanup: once a local date, bounded, resumed, nothing young and nothing in use (LIF-03, LIF-04)."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, OperationalError, connection
from django.test import Client
from psycopg import errors

from dpp_project import clock as time_source
from dpp_project import retention
from dpp_project.clock import FixedClock
from dpp_project.jobs import deadline
from dpp_project.jobs.models import JobReport
from dpp_project.lifecycle import alarming, cleaning, clearing
from dpp_project.lifecycle.clearing import ClearedBatch
from dpp_project.lifecycle.metrics import collect_alarms, collect_cleanup
from dpp_project.lifecycle.models import Alarm, CleanupStep, DataCleanup
from dpp_project.outbox.models import OutboxMessage, ProcessedMessage
from dpp_project.retention import Clearing, DataKind
from tests.gear.builders import recovery

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-04")]

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
"""21:00 in Seoul, the zone of reports; the clock of these tests stands here, which the database's is far ahead of."""


def old_reports(count: int, *, days: float = 31) -> None:
    began = time_source.now() - timedelta(days=days)
    JobReport.objects.bulk_create(
        JobReport(job="old", started_at=began + timedelta(milliseconds=number), host="h", pid=1)
        for number in range(count)
    )


def left() -> int:
    return JobReport.objects.filter(job="old").count()


def tick(limit: int = 10**6) -> Any:
    return cleaning.clean_due_data(now=time_source.now(), limit=limit)


@pytest.fixture
def one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"job_reports": retention.data_kinds()["job_reports"]}
    monkeypatch.setattr(cleaning, "cleanup_clearings", lambda: kinds)


@pytest.fixture
def two_kinds(monkeypatch: pytest.MonkeyPatch) -> dict[str, DataKind]:
    """Alarms come first."""
    kinds = {name: retention.data_kinds()[name] for name in ("alarms", "job_reports")}
    monkeypatch.setattr(cleaning, "cleanup_clearings", lambda: kinds)
    return kinds


@pytest.fixture
def refused() -> Iterator[int]:
    """The id of one of fifty rows, which the database does not let go."""
    old_reports(50)
    pk: int = JobReport.objects.order_by("started_at")[17].pk
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'restrict_violation'; END $$"
        )
        cursor.execute(
            f"CREATE TRIGGER refuse BEFORE DELETE ON job_reports FOR EACH ROW WHEN (OLD.id = {pk:d})"
            " EXECUTE FUNCTION refuse()"
        )
    yield pk
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION refuse CASCADE")


def test_lif_04_a_row_that_cannot_be_deleted_stays_alone_and_is_shown(
    clock: FixedClock, one_kind: None, refused: int
) -> None:
    for last in (False, True):
        report = tick()
        assert (report.changed, report.errors) == (0 if last else 49, 1)
        assert [place.split()[-1] for place in report.detail["skipped"]] == [str(refused)]
        assert JobReport.objects.get(job="old").pk == refused
        cleanup = DataCleanup.objects.latest("day")
        assert cleanup.ended_at is not None  # the date is over; the next one tries the row again
        assert cleanup.steps.get().error == "1 rows skipped"
        clock.advance(seconds=86_400)


def test_lif_04_a_kind_of_which_no_row_goes_has_failed(
    clock: FixedClock, one_kind: None, refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "SKIPPED_MAX", 0)
    report = tick()
    assert (report.changed, report.errors, report.detail["failed"]) == (17, 1, {"job_reports": "IntegrityError"})
    cleanup = DataCleanup.objects.get()
    assert (cleanup.ended_at, cleanup.failures) == (None, 1)


@pytest.mark.contract("LIF-03")
def test_lif_04_once_a_date_and_again_on_the_next(clock: FixedClock, one_kind: None) -> None:
    old_reports(5)
    assert (tick().changed, left()) == (5, 0)
    cleanup = DataCleanup.objects.get()
    assert (cleanup.day, cleanup.due_at) == (date(2026, 3, 1), datetime(2026, 2, 28, 18, 0, tzinfo=UTC))
    assert cleanup.ended_at is not None
    old_reports(3)
    assert (tick().changed, left()) == (0, 3)
    clock.advance(seconds=5 * 3_600 + 3_599)
    assert (tick().changed, left()) == (0, 3)
    clock.advance(seconds=1)  # 03:00 in Seoul
    assert (tick().changed, left()) == (3, 0)
    assert DataCleanup.objects.count() == 2


def test_lif_04_a_week_without_it_is_one_cleanup_and_a_clock_set_back_is_none(
    clock: FixedClock, one_kind: None
) -> None:
    tick()
    clock.advance(seconds=7 * 86_400)
    old_reports(2)
    assert (tick().changed, DataCleanup.objects.count()) == (2, 2)
    clock.advance(seconds=-3 * 86_400)
    old_reports(1)
    assert (tick().changed, DataCleanup.objects.count(), left()) == (0, 2, 1)


def test_lif_04_nothing_young_goes_whatever_this_hosts_clock_says(one_kind: None) -> None:
    """The database's clock bounds one that is ahead: a report of yesterday is not a month old."""
    with time_source.use_clock(FixedClock(time_source.now())):
        old_reports(1, days=1)
        JobReport.objects.create(job="old", started_at=time_source.now() - timedelta(days=29.9), host="h", pid=1)
        old_reports(1, days=30.1)
    with time_source.use_clock(FixedClock(time_source.now() + timedelta(days=400))):
        assert (tick().changed, left()) == (1, 2)


def test_lif_04_a_pass_that_dies_is_gone_on_with_where_it_was(
    clock: FixedClock, one_kind: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "BATCH_FIRST", 10)
    monkeypatch.setattr(cleaning, "BATCH_MIN", 10)
    monkeypatch.setattr(cleaning, "BATCH_MAX", 10)
    old_reports(35)
    batches: list[Any] = []
    real = clearing.clear_batch

    def dies(*given: Any, **asked: Any) -> Any:
        if len(batches) == 2:
            raise KeyboardInterrupt
        batches.append(real(*given, **asked))
        return batches[-1]

    with monkeypatch.context() as patched:
        patched.setattr(clearing, "clear_batch", dies)
        with pytest.raises(KeyboardInterrupt):
            tick()
    step = CleanupStep.objects.get()
    assert (step.rows, left(), step.ended_at, step.watermark) == (20, 15, None, batches[-1].watermark)
    assert (tick().changed, left()) == (15, 0)
    step.refresh_from_db()
    assert (step.rows, DataCleanup.objects.get().ended_at is None) == (35, False)
    assert step.bytes_deleted > 35 * 40


def test_lif_04_what_was_deleted_is_written_in_the_batchs_own_transaction(clock: FixedClock, one_kind: None) -> None:
    """A death between the two would count rows twice, or not at all."""
    old_reports(3)
    kind = retention.data_kinds()["job_reports"]
    assert kind.clearing is not None

    def dies(_batch: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clearing.clear_batch(kind.clearing, cutoff=NOON, after=None, size=10, noted=dies)
    assert left() == 3


def test_lif_04_a_pass_ends_at_its_deadline_or_limit_and_the_next_goes_on(
    clock: FixedClock, one_kind: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "BATCH_FIRST", 4)
    old_reports(20)
    assert (tick(limit=3).changed, left()) == (3, 17)
    with deadline.within_deadline(deadline.Pass(seconds=0)):
        assert (tick().changed, left()) == (4, 13)
    assert DataCleanup.objects.get().ended_at is None
    assert (tick().changed, left()) == (13, 0)
    assert DataCleanup.objects.get().ended_at is not None


def test_lif_04_a_batch_is_as_large_as_its_time_allows(one_kind: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement beyond 200 ms: a slow one makes the next smaller, and each leaves the disk to others for a while."""
    sizes, rests, now = list[int](), list[float](), [0.0]
    took = iter([0.001] * 6 + [0.6, 6.0, 60.0, 0.06])

    def cleared(*_: Any, size: int, **__: Any) -> ClearedBatch:
        sizes.append(size)
        seconds = next(took, None)
        now[0] += seconds or 0.0
        return ClearedBatch() if seconds is None else ClearedBatch(watermark=["1"])

    monkeypatch.setattr(clearing, "clear_batch", cleared)
    monkeypatch.setattr(cleaning, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=rests.append))
    (kind,) = cleaning.cleanup_clearings().values()
    running = cleaning._Pass(10**6)
    at = time_source.now()
    assert len(list(cleaning._batches(running, kind, at=at, after=None, noted=None))) == 11
    assert sizes == [200, 400, 800, 1_600, 3_200, 5_000, 5_000, 500, 20, 20, 20]
    assert rests[6:] == pytest.approx([0.12, 1.2, 12.0, 0.012])


def test_lif_04_two_at_once_delete_each_row_once_and_count_it_once(clock: FixedClock, one_kind: None) -> None:
    old_reports(300)
    at = time_source.now()

    def both() -> int:
        with time_source.use_clock(FixedClock(at)):
            return int(cleaning.clean_due_data(now=at, limit=10**6).changed)

    changed = [int(str(one)) for one in recovery.at_once(both, both)]
    tick()
    assert (sum(changed), left(), CleanupStep.objects.get().rows) == (300, 0, 300)


def test_lif_04_a_row_in_another_sessions_hands_is_left_for_the_next_day(clock: FixedClock, one_kind: None) -> None:
    old_reports(3)
    held = JobReport.objects.order_by("started_at")[1].pk

    def beside() -> Iterator[None]:
        from django.db import transaction

        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM job_reports WHERE id = %s FOR UPDATE", [held])
            yield

    session = beside()
    next(session)
    found: list[object] = recovery.at_once(lambda: cleaning.clean_due_data(now=NOON, limit=100).changed)
    next(session, None)
    assert (found, list(JobReport.objects.filter(job="old").values_list("pk", flat=True))) == ([2], [held])
    clock.advance(seconds=86_400)
    assert tick().changed == 1


def test_lif_04_a_use_that_begins_between_choice_and_deletion_is_refused_and_chosen_anew(clock: FixedClock) -> None:
    old_reports(2)
    kind = retention.data_kinds()["job_reports"]
    assert kind.clearing is not None
    turns = []

    def used_meanwhile(_batch: object) -> None:
        turns.append(left())
        if len(turns) == 1:
            raise IntegrityError("a row that another session inserted names it")

    batch = clearing.clear_batch(kind.clearing, cutoff=NOON, after=None, size=10, noted=used_meanwhile)
    assert (batch.rows, turns, left()) == (2, [0, 0], 0)

    def always(_batch: object) -> None:
        raise IntegrityError("again")

    old_reports(1)
    with pytest.raises(IntegrityError):
        clearing.clear_batch(kind.clearing, cutoff=NOON, after=None, size=10, noted=always)
    assert left() == 1


def test_lif_04_what_hangs_on_a_row_goes_with_it(clock: FixedClock) -> None:
    from tests.gear.builders import events as gear

    old = gear.written(gear.an_event("a"))
    OutboxMessage.objects.filter(pk=old.pk).update(status="PROCESSING", processing_owner=old.pk, claimed_at=NOON)
    OutboxMessage.objects.filter(pk=old.pk).update(status="DEAD", processing_owner=None, claimed_at=None)
    ProcessedMessage.objects.create(outbox_id=old.pk, status="DEAD", retry_count=0, last_error="")
    clock.advance(seconds=31 * 86_400)
    assert cleaning.clean_now(now=time_source.now(), limit=10, only="events").changed == 1
    assert (OutboxMessage.objects.filter(pk=old.pk).exists(), ProcessedMessage.objects.exists()) == (False, False)


def test_lif_04_an_act_instead_of_deleting_gets_each_row_once(clock: FixedClock) -> None:
    old_reports(7)
    seen: list[int] = []

    def empty(keys: Any) -> int:
        seen.extend(keys)
        return 10 * int(JobReport.objects.filter(pk__in=keys).update(detail={"emptied": True}))

    emptied = Clearing(
        rows=lambda cutoff: JobReport.objects.filter(started_at__lt=cutoff).exclude(detail={"emptied": True}),
        order=("started_at", "id"),
        instead=empty,
    )
    first = clearing.clear_batch(emptied, cutoff=NOON, after=None, size=5)
    second = clearing.clear_batch(emptied, cutoff=NOON, after=first.watermark, size=5)
    third = clearing.clear_batch(emptied, cutoff=NOON, after=second.watermark, size=5)
    assert [one.rows for one in (first, second, third)] == [5, 2, 0]
    assert (first.bytes, third.watermark, len(set(seen)), len(seen)) == (50, None, 7, 7)


def test_lif_04_a_kind_that_fails_hinders_no_other_and_twice_in_a_row_is_an_alarm(
    clock: FixedClock, monkeypatch: pytest.MonkeyPatch, console: Client
) -> None:
    good = retention.data_kinds()["job_reports"]

    def broken(_cutoff: datetime) -> Any:
        raise ValueError("wrong")

    assert good.clearing is not None
    bad = replace(retention.data_kinds()["alarms"], clearing=replace(good.clearing, rows=broken))
    kinds = {"alarms": bad, "job_reports": good}
    monkeypatch.setattr(cleaning, "cleanup_clearings", lambda: kinds)
    old_reports(2)
    report = tick()
    assert (report.changed, report.errors, report.detail["failed"], left()) == (2, 1, {"alarms": "ValueError"}, 0)
    assert DataCleanup.objects.get().failures == 1
    assert failing() == []
    assert tick().errors == 0  # put off for two minutes
    clock.advance(seconds=120)
    assert tick().errors == 1
    assert failing() == ["failed 2 times in a row: alarms (ValueError)"]
    assert {sample.labels["alarm"]: sample.value for one in collect_alarms() for sample in one.samples}[
        "cleanup_failing"
    ] == 1
    assert next(iter(collect_cleanup())).samples[0].value == 2
    assert "failed 2 times in a row" in console.get("/admin/").content.decode()
    assert failing() == ["failed 2 times in a row: alarms (ValueError)"]
    assert Alarm.objects.filter(name="cleanup_failing").count() == 1
    clock.advance(seconds=86_400)
    assert tick().errors == 1
    assert DataCleanup.objects.get(day="2026-03-02").failures == 3  # the day before never ended
    kinds["alarms"] = replace(bad, clearing=retention.data_kinds()["alarms"].clearing)
    clock.advance(seconds=3_600)
    assert tick().errors == 0
    assert (failing(), Alarm.objects.get(name="cleanup_failing").ended_at is None) == ([], False)


def test_lif_04_a_kind_of_which_no_batch_goes_uses_up_one_pass_alone(
    clock: FixedClock, two_kinds: dict[str, DataKind], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that another session keeps costs ten seconds a batch, and nothing changes by it."""
    old_reports(2)
    tried: list[str] = []
    real = clearing.clear_batch

    def locked(given: Clearing, **asked: Any) -> ClearedBatch:
        tried.append(next(name for name, kind in two_kinds.items() if kind.clearing is given))
        if tried[-1] == "alarms":
            raise ValueError
        return real(given, **asked)

    monkeypatch.setattr(clearing, "clear_batch", locked)
    with deadline.within_deadline(deadline.Pass(seconds=0)):
        report = tick()
    assert (tried, report.changed, report.errors) == (["alarms"], 0, 1)
    assert (report.detail["failed"], left()) == ({"alarms": "ValueError"}, 2)
    clock.advance(seconds=120)
    with deadline.within_deadline(deadline.Pass(seconds=0)):
        report = tick()
    assert (tried, report.changed, report.errors, left()) == (["alarms", "job_reports"], 2, 0, 0)
    assert [tick().errors for _ in range(2)] == [1, 0]  # put off again
    assert failing() == ["failed 2 times in a row: alarms (ValueError)"]


def test_lif_04_a_table_that_cannot_be_measured_hinders_no_other_kind(
    clock: FixedClock, two_kinds: dict[str, DataKind], monkeypatch: pytest.MonkeyPatch
) -> None:
    """VACUUM FULL keeps it from every other session, also from one that asks for its size."""
    old_reports(2)
    asked: list[str] = []
    real = cleaning.table_bytes

    def measured(kind: DataKind) -> int:
        asked.append(kind.name)
        if kind.name == "alarms":
            raise OperationalError("lock timeout") from errors.LockNotAvailable()
        return real(kind)

    with monkeypatch.context() as patched:
        patched.setattr(cleaning, "table_bytes", measured)
        report = tick()
        assert (report.changed, report.errors, left()) == (2, 1, 0)
        assert report.detail["failed"] == {"alarms": "OperationalError"}
        clock.advance(seconds=120)
        assert tick().errors == 1
    assert asked == ["alarms", "job_reports", "job_reports", "alarms"], "once before and once after"
    assert failing() == ["failed 2 times in a row: alarms (OperationalError)"]
    clock.advance(seconds=240)
    assert tick().errors == 0
    step = CleanupStep.objects.get(kind="alarms")
    assert min(step.table_bytes_before, step.table_bytes_after or 0) > 0
    assert (DataCleanup.objects.get().ended_at is None, failing()) == (False, [])


def failing() -> list[str]:
    alarming.look_at_all()
    return [alarm.said for alarm in alarming.standing_alarms() if alarm.name == "cleanup_failing"]


def test_lif_04_a_database_that_is_away_is_no_failure_of_a_kind(
    clock: FixedClock, one_kind: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_given: Any, **_asked: Any) -> Any:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(clearing, "clear_batch", away)
    with pytest.raises(OperationalError):
        tick()
    assert DataCleanup.objects.get().failures == 0


def call(*arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("data", *arguments, "--json", stdout=out, stderr=io.StringIO())
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def test_lif_04_due_and_a_dry_run_count_and_change_nothing(clock: FixedClock) -> None:
    old_reports(4)
    assert call("due")["due"]["job_reports"] == 4
    assert call("due", "--limit", "3")["due"]["job_reports"] == 3
    dry = call("clean", "--dry-run")
    assert (dry["changed"], dry["detail"]["rows"], left()) == (4, {"job_reports": 4}, 4)
    assert DataCleanup.objects.count() == 0
    assert (call("clean")["changed"], left()) == (4, 0)
    for wrong in (["clean", "--kind", "runs"], ["due", "--kind", "stray"], ["clean", "--limit", "0"]):
        with pytest.raises(CommandError) as refused:
            call(*wrong)
        assert refused.value.returncode == 1


def test_lif_04_the_console_shows_cleanups_and_alarms(clock: FixedClock, one_kind: None, console: Client) -> None:
    old_reports(4)
    tick()
    page = console.get("/admin/").content.decode()
    assert "Daily cleanup" in page
    assert "2026-03-01" in page
    CleanupStep.objects.update(bytes_deleted=700, table_bytes_before=5_000, table_bytes_after=4_900)
    step = CleanupStep.objects.get()
    assert (step.bytes_deleted, step.bytes_returned) == (700, 100), "Postgres keeps the room for the table"
    for path in ("alarm/", "datacleanup/", "cleanupstep/"):
        assert console.get(f"/admin/lifecycle/{path}").status_code == 200


def test_lif_04_a_late_cleanup_is_an_alarm_of_its_own(clock: FixedClock) -> None:
    """Where beat is away, nothing counts as a failure."""
    DataCleanup.objects.create(day=date(2026, 2, 27), due_at=time_source.now() - timedelta(days=2))
    alarming.look_at_all()
    assert [alarm.name for alarm in alarming.standing_alarms()] == ["cleanup_late"]


def test_a_check_that_fails_leaves_what_stood_and_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, dict[str, str]] = {"a": {"x": "first"}, "b": {"y": "second"}}

    def look(name: str) -> dict[str, str]:
        if found[name].get("fails"):
            raise ValueError
        return found[name]

    made = {name: alarming.AlarmCheck(name=name, means="", look=lambda name=name: look(name)) for name in found}  # type: ignore[misc]
    monkeypatch.setattr(alarming, "alarm_checks", lambda: made)
    assert alarming.look_at_all().changed == 2
    found |= {"a": {"fails": "1"}, "b": {"y": "third"}}
    report = alarming.look_at_all()
    assert (report.errors, [alarm.said for alarm in alarming.standing_alarms()]) == (1, ["first", "third"])
    found |= {"a": {}, "b": {"z": "fourth"}}
    assert alarming.look_at_all().detail == {"begun": 1, "ended": 2}
    assert [(alarm.name, alarm.subject) for alarm in alarming.standing_alarms()] == [("b", "z")]
