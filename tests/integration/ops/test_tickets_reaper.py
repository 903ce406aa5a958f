"""The ticket reaper: what is stale, what cleaning leaves, the report and where it goes (TKT-02 to TKT-06)."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from django.db import connection
from django.test import Client
from redis import Redis

from dpp_project import clock
from dpp_project.aws import prefixes
from dpp_project.clock import FixedClock
from ops.tickets import cycle, reaper, reports, transitions
from ops.tickets.models import ReaperReport, Ticket, TicketResult
from ops.tickets.reports import LATEST_PATH
from ops.tickets.states import RequestType, TicketStatus
from runs.bucket import storage
from tenants.scopes import Scope
from tests.gear.builders import tickets as gear
from tests.gear.builders.tenants import a_key, an_operator_key, bearer

pytestmark = [pytest.mark.django_db(transaction=True)]

LATEST, RUN = "/api/tickets/reaper/latest", "/api/tickets/reaper/run"
SCHEMA = gear.validator("ticket_reaper_report_v1")

WAIT = reaper.wait_for_the_next_second


@pytest.fixture(autouse=True)
def _empty(valkey: Redis, aws: str) -> None:
    storage.shared_run_storage().delete_prefix(prefixes.REPORTS)


def run(**values: Any) -> dict[str, Any]:
    document = reaper.reap_tickets(**values).report.document()
    SCHEMA.validate(document)
    return document


def in_storage(path: str) -> bytes:
    return storage.shared_run_storage().read(path, max_bytes=1_000_000)


def snapshots() -> list[str]:
    bucket = storage.shared_run_storage()
    found = bucket.client().list_objects_v2(Bucket=bucket.bucket_name, Prefix=prefixes.REPORT_SNAPSHOTS)
    return [one["Key"] for one in found.get("Contents", [])]


def test_tkt_02_only_what_was_in_progress_beyond_the_threshold_is_stale() -> None:
    old, young, waiting = gear.stale(), gear.stale(seconds=gear.DAY_SECONDS - 60), gear.opened()
    done = gear.taken()
    gear.finish(done)
    document = run()
    assert (document["stale_count"], document["cleaned_count"]) == (1, 1)
    assert document["cleaned_items"][0]["request_id"] == str(old.pk)
    assert [gear.row(one.pk).status for one in (young, waiting, done)] == ["IN_PROGRESS", "OPEN", "DONE"]


def test_tkt_02_a_ticket_never_processed_counts_from_when_it_went_in_progress() -> None:
    never = gear.stale(processed=False)
    assert never.last_processed_at is None
    assert never.in_progress_at is not None
    (item,) = run()["cleaned_items"]
    assert item["request_id"] == str(never.pk)
    assert item["last_processed_at"] == reports.report_time_text(never.in_progress_at)


def test_tkt_02_what_was_processed_lately_is_not_stale_however_old_it_is() -> None:
    ticket = gear.aged(gear.taken(), seconds=200_000)
    transitions.resume_ticket(request_id=ticket.pk, version=ticket.version)
    assert run()["stale_count"] == 0
    assert gear.row(ticket.pk).status == TicketStatus.IN_PROGRESS


def test_tkt_03_a_ticket_that_cannot_be_ended_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bad, others = gear.stale(seconds=gear.DAY_SECONDS + 900), [gear.stale() for _ in range(2)]
    clean = transitions.clean_ticket

    def breaks(**values: Any) -> Any:
        if values["request_id"] == bad.pk:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 / 0")
        return clean(**values)

    with monkeypatch.context() as patch:
        patch.setattr(transitions, "clean_ticket", breaks)
        ran = reaper.reap_tickets(max_clean=1)
        assert (ran.report.stale_count, ran.report.cleaned_count, ran.skipped) == (3, 1, (str(bad.pk),))
        receipt = cycle.run_cycle(now=clock.now(), limit=10)
    steps = {step["step"]: step for step in receipt.document["steps"]}
    assert (steps["0.25"]["status"], steps["0.25"]["note"]) == ("FAILED", f"1 skipped: {bad.pk}")
    assert [gear.row(one.pk).status for one in (bad, *others)] == ["IN_PROGRESS", "FAILED", "FAILED"]
    assert run()["cleaned_items"][0]["request_id"] == str(bad.pk)


def test_tkt_06_a_report_that_the_storage_refuses_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    put = storage.RunStorage.put
    refused: list[str] = []

    def away(*_: Any, **__: Any) -> str:
        raise EndpointConnectionError(endpoint_url="s3")

    def refuses_one(self: storage.RunStorage, key: str, content: bytes, **values: Any) -> str:
        if key in refused:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "PutObject")
        return put(self, key, content, **values)

    with monkeypatch.context() as patch:
        patch.setattr(storage.RunStorage, "put", away)
        paths = [reaper.reap_tickets().report.evidence_refs[0] for _ in range(2)]
        refused.append(paths[1])
        patch.setattr(storage.RunStorage, "put", refuses_one)
        assert reaper.reap_tickets().published
        assert paths[0] in snapshots()
        assert paths[1] not in snapshots()
    reaper.publish_due()
    assert set(paths) < set(snapshots())


def test_tkt_02_excluded_types_are_left_out(settings: Any) -> None:
    settings.TICKET_REAPER_EXCLUDED_TYPES = ["KEY_REVOKE"]
    kept = gear.stale(request_type=RequestType.KEY_REVOKE, payload={"key": "dpp_a1b2c3d4"})
    gone = gear.stale()
    document = run()
    assert document["stale_count"] == 1
    assert [item["request_id"] for item in document["cleaned_items"]] == [str(gone.pk)]
    assert gear.row(kept.pk).status == TicketStatus.IN_PROGRESS


def test_tkt_02_threshold_can_be_set(settings: Any) -> None:
    ticket = gear.stale(seconds=120)
    assert run()["stale_count"] == 0
    settings.TICKET_STALE_SECONDS = 100
    document = run()
    assert (document["threshold_seconds"], document["cleaned_count"]) == (100, 1)
    assert gear.result(ticket).message == "AUTO_CLEANUP_STALE_IN_PROGRESS: exceeded 100s threshold"


def test_tkt_03_cleaning_leaves_the_documents_result(clock: FixedClock) -> None:
    ticket = gear.stale()
    run()
    made = gear.result(ticket)
    assert gear.row(ticket.pk).status == TicketStatus.FAILED
    assert (made.processor_id, made.status) == ("TICKET_REAPER", "FAILED")
    assert made.message == "AUTO_CLEANUP_STALE_IN_PROGRESS: exceeded 86400s threshold"
    assert made.processed_at == clock.now()
    assert gear.row(ticket.pk).last_processed_at == ticket.last_processed_at, "the reaper has processed nothing"


def test_tkt_04_the_report_has_exactly_the_documents_form(clock: FixedClock) -> None:
    ticket = gear.stale()
    assert ticket.last_processed_at is not None
    document = run()
    assert document == {
        "schema": "TICKET_REAPER_REPORT_V1",
        "asof": "2026-03-01T21:00:00+09:00",
        "decision": "CLEANED",
        "threshold_seconds": 86400,
        "stale_count": 1,
        "cleaned_count": 1,
        "cleaned_items": [
            {
                "request_id": str(ticket.pk),
                "request_type": "EXECUTION_ENABLE",
                "last_processed_at": reports.report_time_text(ticket.last_processed_at),
                "reason": "AUTO_CLEANUP_STALE_IN_PROGRESS",
            }
        ],
        "evidence_refs": ["reports/ops/tickets/reaper/snapshots/reaper_20260301_210000.json"],
    }
    assert list(document) == [*SCHEMA_ORDER], "in the document's order"


SCHEMA_ORDER = json.loads((gear.SCHEMAS / "ticket_reaper_report_v1.json").read_text(encoding="utf-8"))["required"]


def test_tkt_04_nothing_to_clean_is_none_and_the_schema_holds_them_together() -> None:
    document = run()
    assert (document["decision"], document["stale_count"], document["cleaned_items"]) == ("NONE", 0, [])
    assert not SCHEMA.is_valid(document | {"decision": "CLEANED"})
    assert not SCHEMA.is_valid(document | {"cleaned_count": 1})
    assert not SCHEMA.is_valid(document | {"asof": "2026-03-01T12:00:00Z"})
    assert not SCHEMA.is_valid(document | {"more": 1})


def test_tkt_04_max_clean_bounds_and_the_rest_is_seen() -> None:
    oldest = [gear.stale(seconds=200_000 - at) for at in range(2)]
    rest = gear.stale()
    document = run(max_clean=2)
    assert (document["decision"], document["stale_count"], document["cleaned_count"]) == ("CLEANED", 3, 2)
    assert [item["request_id"] for item in document["cleaned_items"]] == [str(one.pk) for one in oldest]
    assert gear.row(rest.pk).status == TicketStatus.IN_PROGRESS
    assert run()["stale_count"] == 1


# The addresses.


def post(client: Client, body: Any = None, **headers: str) -> Any:
    data: dict[str, Any] = {} if body is None else {"data": body if isinstance(body, str) else json.dumps(body)}
    return client.post(RUN, content_type="application/json", headers=bearer(an_operator_key()) | headers, **data)


def test_tkt_05_latest_is_a_problem_before_the_first_run_and_the_report_after_it(client: Client) -> None:
    operator = bearer(an_operator_key(scopes=[Scope.OPERATOR_READ]))
    before = client.get(LATEST, headers=operator)
    assert (before.status_code, before.headers["Content-Type"]) == (404, "application/problem+json")
    assert before.json()["reason_code"] == "NOT_FOUND"
    document = run()
    after = client.get(LATEST, headers=operator)
    assert (after.status_code, after.json()) == (200, document)


def test_tkt_05_the_body_may_be_left_out(client: Client) -> None:
    ticket = gear.stale()
    response = post(client)
    assert response.status_code == 200, response.content
    SCHEMA.validate(response.json())
    assert (response.json()["cleaned_count"], response.json()["threshold_seconds"]) == (1, 86_400)
    assert gear.row(ticket.pk).status == TicketStatus.FAILED


def test_tkt_05_threshold_and_bound_can_be_given(client: Client) -> None:
    for _ in range(2):
        gear.stale(seconds=500)
    document = post(client, {"threshold_seconds": 300, "max_clean": 1}).json()
    assert (document["threshold_seconds"], document["stale_count"], document["cleaned_count"]) == (300, 2, 1)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"threshold_seconds": 0}, 422),
        ({"threshold_seconds": -1}, 422),
        ({"threshold_seconds": "86400"}, 422),
        ({"threshold_seconds": 1.5}, 422),
        ({"threshold_seconds": True}, 422),
        ({"threshold_seconds": 10**12}, 422),
        ({"max_clean": 0}, 422),
        ({"max_clean": 1_001}, 422),
        ({"max": 1}, 422),
        ([], 422),
        ("{", 400),
    ],
    ids=str,
)
def test_tkt_05_a_bad_body_is_refused_and_nothing_is_cleaned(client: Client, body: Any, status: int) -> None:
    ticket = gear.stale()
    response = post(client, body)
    assert (response.status_code, response.headers["Content-Type"]) == (status, "application/problem+json")
    assert gear.row(ticket.pk) == ticket
    assert not TicketResult.objects.exists()
    assert not ReaperReport.objects.exists()
    assert snapshots() == []


def test_tkt_05_only_operators_may(client: Client) -> None:
    ticket = gear.stale()
    for headers in (bearer(a_key()), bearer(an_operator_key(scopes=[Scope.OPERATOR_READ]))):
        refused = client.post(RUN, content_type="application/json", headers=headers)
        assert (refused.status_code, refused.json()["reason_code"]) == (403, "SCOPE_MISSING")
    assert client.get(LATEST, headers=bearer(a_key())).status_code == 403
    assert client.get(LATEST).status_code == 401
    assert gear.row(ticket.pk).status == TicketStatus.IN_PROGRESS


# The artifacts.


def test_tkt_06_latest_and_snapshot_are_one_report_at_the_documents_paths(clock: FixedClock) -> None:
    document = run()
    (path,) = document["evidence_refs"]
    assert path == "reports/ops/tickets/reaper/snapshots/reaper_20260301_210000.json"
    assert LATEST_PATH == "reports/ops/tickets/reaper/latest/reaper_latest.json"
    assert in_storage(path) == in_storage(LATEST_PATH)
    assert json.loads(in_storage(LATEST_PATH)) == document
    assert storage.shared_run_storage().client().head_object(Bucket=storage.shared_run_storage().bucket_name, Key=path)[
        "ContentType"
    ] == ("application/json; charset=utf-8")


def test_tkt_06_the_zone_can_be_set_for_content_and_names(clock: FixedClock, settings: Any) -> None:
    settings.REPORT_TIME_ZONE = "America/New_York"
    document = run()
    assert document["asof"] == "2026-03-01T07:00:00-05:00"
    assert document["evidence_refs"] == ["reports/ops/tickets/reaper/snapshots/reaper_20260301_070000.json"]


def test_tkt_06_a_second_run_in_one_second_waits_for_the_next(
    clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[datetime] = []

    def pass_on(now: datetime) -> None:
        waits.append(now)
        clock.advance(seconds=(1_000_000 - now.microsecond) / 1_000_000)

    monkeypatch.setattr(reaper, "wait_for_the_next_second", pass_on)
    clock.advance(seconds=0.25)
    first, second = run(), run()
    assert len(waits) == 1
    assert [one["asof"][-14:] for one in (first, second)] == ["21:00:00+09:00", "21:00:01+09:00"]
    assert [path.rsplit("_", 1)[1] for path in snapshots()] == ["210000.json", "210001.json"]
    assert json.loads(in_storage(LATEST_PATH)) == second


def test_tkt_06_the_wait_ends_with_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    WAIT(datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC))
    WAIT(datetime(2026, 3, 1, 12, 0, tzinfo=UTC))
    assert slept == [0.75, 1.0]


def test_tkt_06_who_finds_every_second_taken_is_told_to_come_again(
    clock: FixedClock, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    ticket = gear.stale()
    waits: list[datetime] = []
    monkeypatch.setattr(reaper, "wait_for_the_next_second", waits.append)  # the clock stands: somebody is always first
    response = post(client)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "2")
    assert "Nothing was cleaned" in response.json()["detail"]
    assert (gear.row(ticket.pk), ReaperReport.objects.count(), len(waits)) == (ticket, 1, reaper.TURNS)


def test_tkt_06_a_clock_that_goes_back_takes_no_name_twice_and_the_last_run_is_the_latest(
    clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "wait_for_the_next_second", lambda _now: clock.advance(seconds=1))
    ticket = gear.stale(seconds=gear.DAY_SECONDS - 60)
    for hours in (0, 1, -1):
        clock.advance(seconds=hours * 3_600)
        last = run()
        assert last["stale_count"] == 0, "ages go by the database's clock"
    assert last["asof"] == "2026-03-01T21:00:01+09:00"
    assert [path[-11:] for path in snapshots()] == ["210000.json", "210001.json", "220000.json"]
    assert json.loads(in_storage(LATEST_PATH)) == last
    assert gear.row(ticket.pk).status == TicketStatus.IN_PROGRESS


def test_tkt_06_without_the_storage_nothing_is_half_written_and_the_next_run_writes_it(
    clock: FixedClock, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket = gear.stale()

    def away(*_args: Any, **_values: Any) -> str:
        raise OSError("the storage is away")

    with monkeypatch.context() as patch:
        patch.setattr(storage.RunStorage, "put", away)
        response = post(client)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "2")
    assert gear.row(ticket.pk).status == TicketStatus.FAILED
    assert snapshots() == []
    kept = ReaperReport.objects.get()
    assert kept.published_at is None
    clock.advance(seconds=60)
    run()
    assert in_storage(kept.snapshot_path).decode() == kept.content
    assert json.loads(in_storage(LATEST_PATH))["asof"] == "2026-03-01T21:01:00+09:00"
    assert not ReaperReport.objects.filter(published_at__isnull=True).exists()


def test_tkt_06_after_an_outage_the_latest_is_written_first_and_the_rest_in_bounds(
    clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "PUBLISHED_AT_ONCE", 3)
    with monkeypatch.context() as patch:
        patch.setattr(reaper, "publish_due", lambda: None)
        for _ in range(5):
            assert reaper.reap_tickets().published is False
            clock.advance(seconds=60)
    put, written = storage.RunStorage.put, list[str]()

    def noted(self: storage.RunStorage, key: str, content: bytes, *, content_type: str) -> str:
        written.append(key.rsplit("_", 1)[1])
        return put(self, key, content, content_type=content_type)

    monkeypatch.setattr(storage.RunStorage, "put", noted)
    assert reaper.reap_tickets().published is True
    assert written == ["210500.json", "latest.json", "210400.json", "210300.json"]
    reaper.publish_due()
    assert written[4:] == ["210200.json", "210100.json", "210000.json"]
    assert json.loads(in_storage(LATEST_PATH))["asof"] == "2026-03-01T21:05:00+09:00"
    assert not ReaperReport.objects.filter(published_at__isnull=True).exists()


def test_tkt_06_dying_between_snapshot_and_latest_is_mended_by_the_next_run(
    clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run()
    clock.advance(seconds=60)
    put = storage.RunStorage.put

    def dies_at_latest(self: storage.RunStorage, key: str, content: bytes, *, content_type: str) -> str:
        if key == LATEST_PATH:
            raise KeyboardInterrupt
        return put(self, key, content, content_type=content_type)

    with monkeypatch.context() as patch:
        patch.setattr(storage.RunStorage, "put", dies_at_latest)
        with pytest.raises(KeyboardInterrupt):
            reaper.reap_tickets()
    assert json.loads(in_storage(LATEST_PATH)) == first, "whole, and the one before"
    reaper.publish_due()
    assert json.loads(in_storage(LATEST_PATH))["asof"] == "2026-03-01T21:01:00+09:00"


def test_tkt_06_dying_while_cleaning_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = gear.stale()

    def dies(**_values: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(reports, "reaper_report", dies)
        with pytest.raises(KeyboardInterrupt):
            reaper.reap_tickets()
    assert gear.row(ticket.pk).status == TicketStatus.IN_PROGRESS
    assert (TicketResult.objects.count(), ReaperReport.objects.count(), Ticket.objects.count()) == (0, 0, 1)


def test_tkt_06_the_default_zone_is_seoul(settings: Any) -> None:
    assert settings.REPORT_TIME_ZONE == "Asia/Seoul"
    assert reports.report_time_text(datetime(2026, 1, 23, 12, tzinfo=UTC)) == "2026-01-23T21:00:00+09:00"
