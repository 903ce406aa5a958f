"""Every table, object and key belongs to one declared kind of data, and no kind declares what is not (LIF-01)."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import urllib3
from django.core.management import call_command
from django.db import connection
from redis import Redis

from budget.rebuild import rebuild
from dpp_project import clock, env, retention
from dpp_project.aws import provisioning
from dpp_project.lifecycle import page
from dpp_project.retention import DAILY, Clearing, DataKind
from ops.workspaces.drivers.process import driver as process_driver
from runs.box.box import Box
from runs.bucket import storage
from runs.models import Run
from tests.gear.builders import caps, work
from tests.gear.builders import tickets as gear
from tests.gear.builders.shop import Shop, a_request_key, top_up
from tests.gear.builders.tenants import bearer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-01")]

DATA_PAGE = Path(__file__).resolve().parents[3] / "docs" / "data.md"


def declared(where: str) -> list[str]:
    return [name for kind in retention.data_kinds().values() for name in getattr(kind, where)]


def test_lif_01_every_table_is_declared_once_and_no_other() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        there = sorted(name for (name,) in cursor.fetchall())
    assert sorted(declared("tables")) == there


def test_lif_01_every_queue_is_declared_and_no_other() -> None:
    queues = [name for name in env.Environment.model_fields if name.endswith(("QUEUE_URL", "DLQ_URL"))]
    assert sorted(declared("queues")) == sorted(queues)


@contextmanager
def names_of_changed_keys(client: Redis) -> Iterator[set[str]]:
    """Every key that anybody changes meanwhile, those that are gone again too: the server itself tells them."""
    names: set[str] = set()
    client.config_set("notify-keyspace-events", "KA")
    told: Any = client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
    told.psubscribe("__keyspace@*__:*")
    told.get_message(timeout=5)
    try:
        yield names
        client.set("rate:the-end", "1")
        while "rate:the-end" not in names:
            message = told.get_message(timeout=5)
            assert message is not None, "the server told no more before the end"
            names.add(str(message["channel"]).partition("__:")[2])
    finally:
        told.close()
        client.config_set("notify-keyspace-events", "")


def one_of_everything(shop: Shop) -> None:
    """A run sold with all that a caller may ask for, one that is canceled, a file, a ticket's report, a rebuild."""
    caps.count_everything(shop)
    top_up(shop.tenant, 1_000_000)
    sold = shop.submit(key=a_request_key())
    assert sold.status_code == 202
    assert work.execute(Run.objects.get(pk=sold.json()["run_id"])) is not None
    canceled = shop.submit(key=a_request_key())
    assert shop.cancel(canceled.json()["run_id"]).status_code == 200
    asked = {"filename": "receipt.png", "content_type": "image/png", "size_bytes": 3}
    room = shop.client.post(
        "/v1/uploads", data=json.dumps(asked), content_type="application/json", headers=bearer(shop.issued)
    ).json()
    assert urllib3.request("PUT", room["url"], body=b"png", headers=room["headers"]).status == 200
    gear.stale()
    gear.run_cycle()
    assert isinstance(rebuild.rebuild_all(), rebuild.Rebuilt)


def objects(bucket_name: str) -> list[str]:
    s3: Any = storage.shared_run_storage().client()
    return [
        one["Key"]
        for found in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket_name)
        for one in found.get("Contents", [])
    ]


def test_lif_01_every_key_and_every_object_belongs_to_one_kind_and_no_kind_is_without(
    shop: Shop, valkey: Redis, worker_here: Box
) -> None:
    with names_of_changed_keys(valkey) as keys:
        one_of_everything(shop)
    keys |= {str(key) for key in valkey.scan_iter()}
    of_keys = {key: retention.kinds_of_key(key) for key in keys}
    assert {key: kinds for key, kinds in of_keys.items() if len(kinds) != 1} == {}
    families = set(declared("redis"))
    assert {pattern for pattern in families if not any(fnmatchcase(key, pattern) for key in keys)} == set()
    there = objects(str(storage.shared_run_storage().bucket_name))
    of_objects = {key: retention.kinds_of_object(key, bucket="results") for key in there}
    assert {key: kinds for key, kinds in of_objects.items() if len(kinds) != 1} == {}
    assert {prefix for prefix in declared("results") if not any(key.startswith(prefix) for key in there)} == set()


def test_lif_01_a_key_and_an_object_of_no_kind_are_found(valkey: Redis) -> None:
    with names_of_changed_keys(valkey) as keys:
        valkey.set("stray:1", "x", ex=1)
        valkey.delete("stray:1")
    assert {key for key in keys if retention.kinds_of_key(key) == []} == {"stray:1"}
    assert retention.kinds_of_object("stray/1", bucket="results") == []
    assert retention.kinds_of_key("idem:t_a:any:thing") == ["idempotency"]


def test_lif_01_the_folders_of_workspaces_are_declared_and_no_other() -> None:
    folders = {f"$DPP_WORKSPACES_DIR/{name}/*" for name in process_driver.FOLDERS} | {"$DPP_WORKSPACES_DIR/sentinel"}
    assert {path for path in declared("files") if path.startswith("$DPP_WORKSPACES_DIR")} == folders


def test_lif_01_the_page_is_what_is_declared() -> None:
    assert DATA_PAGE.read_text(encoding="utf-8") == page.lifecycle_page()


@pytest.mark.contract("DPP-23")
def test_lif_01_the_bucket_expires_what_has_days_and_nothing_else() -> None:
    rules = {rule["Filter"]["Prefix"]: rule["Expiration"]["Days"] for rule in provisioning._expiring()}
    timed = {
        prefix: kind.period_days
        for kind in retention.data_kinds().values()
        for prefix in kind.results
        if kind.period_days is not None
    }
    assert rules == timed
    assert len(rules) == 3


def test_lif_01_an_index_begins_with_what_a_clearing_goes_by() -> None:
    """Without one each batch would read the table from its beginning, for minutes."""
    faults = []
    for kind in retention.data_kinds().values():
        if kind.clearing is None:
            continue
        model = kind.clearing.rows(clock.now()).model
        columns = [model._meta.get_field(name).column for name in kind.clearing.order]
        if columns[-1] != model._meta.pk.column or not any(begins_with(model._meta.db_table, columns[0])):
            faults.append(kind.name)
        assert kind.deleted_by == DAILY
    assert faults == []


def begins_with(table: str, column: str) -> Iterator[bool]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]"
            " WHERE indrelid = %s::regclass",
            [table],
        )
        yield from (name == column for (name,) in cursor.fetchall())


ALL_RUNS = Clearing(rows=lambda _cutoff: Run.objects.all(), order=("pk",))
FACTS: dict[str, Any] = {
    "name": "x",
    "tables": ("x",),
    "states": "",
    "made_by": "",
    "read_by": "",
    "until": "",
    "why": "",
    "deleted_by": "",
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tables": ()}, "say where it lies"),
        ({"days": 0}, "one day at least"),
        ({"days": 1, "setting": "DPP_LOGS_DAYS"}, "a number or a setting"),
        ({"deleted_by": DAILY}, "has a clearing, and nothing else has"),
        ({"clearing": ALL_RUNS}, "has a clearing"),
        ({"deleted_by": DAILY, "clearing": ALL_RUNS}, "has days"),
    ],
)
def test_a_kind_that_says_too_little_or_two_things_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DataKind(**FACTS | changes)


def test_a_place_that_two_kinds_declare_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpp_project.lifecycle import retention as ours

    monkeypatch.setattr(ours, "KINDS", (*ours.KINDS, DataKind(**FACTS | {"tables": ("runs",)})))
    retention.data_kinds.cache_clear()
    try:
        with pytest.raises(ValueError, match="tables runs is declared by"):
            retention.data_kinds()
    finally:
        monkeypatch.undo()
        retention.data_kinds.cache_clear()


def test_lif_01_a_kinds_days_come_from_its_setting_and_its_page_says_the_default() -> None:
    kind = DataKind(**FACTS | {"setting": "DPP_SEEN_DAYS", "until": "after it was seen"})
    assert (kind.period_days, page.how_long_data_stay(kind)) == (30, "30 days (`DPP_SEEN_DAYS`) after it was seen")


def test_lif_01_the_command_lists_every_kind() -> None:
    out = io.StringIO()
    call_command("data", "list", "--json", stdout=out)
    listed = {kind["name"]: kind for kind in json.loads(out.getvalue())["kinds"]}
    assert list(listed) == list(retention.data_kinds())
    assert (listed["runs"]["days"], listed["runs"]["results"]) == (30, ["dpp/"])
    out = io.StringIO()
    call_command("data", "list", stdout=out)
    assert "audit_trail: for good; by no part of the platform\n" in out.getvalue()
