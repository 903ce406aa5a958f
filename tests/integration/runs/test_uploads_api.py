"""`POST /v1/uploads`: room in the tenant's own prefix, for one file of one length and type (DPP-65)."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Barrier, BrokenBarrierError
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3
from botocore.exceptions import EndpointConnectionError
from django.db import connections
from django.db.models import Sum
from django.db.models.functions import Now

from dpp_project import clock
from reaper import retention
from runs.bucket import storage, uploads
from runs.bucket.uploads import MAX_UPLOAD_BYTES
from runs.models import UploadRoom
from tenants.scopes import Scope
from tests.gear.builders import recovery
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import a_key, a_tenant, bearer

pytestmark = pytest.mark.contract("DPP-65")


def asked(**changes: Any) -> dict[str, Any]:
    return {"filename": "receipt.png", "content_type": "image/png", "size_bytes": 3} | changes


def prepare(shop: Shop, body: dict[str, Any]) -> Any:
    return shop.client.post(
        "/v1/uploads", data=json.dumps(body), content_type="application/json", headers=bearer(shop.issued)
    )


def test_dpp_65_the_file_lands_in_the_tenants_own_prefix(shop: Shop) -> None:
    response = prepare(shop, asked())
    room = response.json()
    assert response.status_code == 201
    assert re.fullmatch(rf"uploads/{shop.tenant.tenant_id}/\d{{4}}/\d\d/\d\d/[0-9a-f-]{{36}}/receipt\.png", room["key"])
    assert (room["method"], room["bucket"]) == ("PUT", storage.shared_run_storage().bucket_name)
    assert room["headers"] == {"Content-Type": "image/png", "Content-Length": "3", "If-None-Match": "*"}
    left = datetime.fromisoformat(room["expires_at"]) - clock.now()
    assert timedelta(seconds=590) < left <= timedelta(seconds=600)
    assert urllib3.request("PUT", room["url"], body=b"png", headers=room["headers"]).status == 200
    assert storage.shared_run_storage().read(room["key"], max_bytes=10) == b"png"


@pytest.mark.contract("HRD-20")
def test_hrd_20_an_address_takes_one_file(shop: Shop) -> None:
    """An address that leaked after its use replaces nothing; S3 answers 412."""
    room = prepare(shop, asked()).json()
    assert urllib3.request("PUT", room["url"], body=b"one", headers=room["headers"]).status == 200
    assert urllib3.request("PUT", room["url"], body=b"two", headers=room["headers"]).status == 412
    assert storage.shared_run_storage().read(room["key"], max_bytes=10) == b"one"


def test_dpp_65_length_type_and_end_are_signed(shop: Shop) -> None:
    query = parse_qs(urlsplit(prepare(shop, asked()).json()["url"]).query)
    assert query["X-Amz-SignedHeaders"] == ["content-length;content-type;host;if-none-match"]
    assert query["X-Amz-Expires"] == ["600"]


def test_dpp_65_two_uploads_of_one_name_do_not_meet(shop: Shop) -> None:
    assert prepare(shop, asked()).json()["key"] != prepare(shop, asked()).json()["key"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"filename": "../../t_other/x"}, "filename"),
        ({"filename": "a/b"}, "filename"),
        ({"filename": ".hidden"}, "filename"),
        ({"filename": ""}, "filename"),
        ({"filename": "x" * 129}, "filename"),
        ({"filename": "line\n"}, "filename"),
        ({"content_type": "text/html"}, "content_type"),
        ({"content_type": "image/svg+xml"}, "content_type"),
        ({"size_bytes": 0}, "size_bytes"),
        ({"size_bytes": MAX_UPLOAD_BYTES + 1}, "size_bytes"),
        ({"size_bytes": "3"}, "size_bytes"),
        ({"tenant_id": "t_other"}, "tenant_id"),
    ],
)
def test_dpp_65_what_does_not_fit_is_422_by_field(shop: Shop, changes: dict[str, Any], field: str) -> None:
    response = prepare(shop, asked(**changes))
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field)


def test_dpp_65_needs_its_scope(shop: Shop) -> None:
    writer = Shop(tenant=shop.tenant, issued=a_key(shop.tenant, scopes=[Scope.RUNS_WRITE]))
    response = prepare(writer, asked())
    assert (response.status_code, response.json()["reason_code"]) == (403, "SCOPE_MISSING")


# What a tenant's files hold together is bounded (HRD-20).


@pytest.fixture
def room_for_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "room_bytes", lambda: 3_000)


@pytest.mark.contract("HRD-20")
@pytest.mark.usefixtures("room_for_three")
def test_hrd_20_files_hold_no_more_than_they_may_to_the_byte(shop: Shop) -> None:
    for size in (1_000, 1_999, 1):
        assert prepare(shop, asked(size_bytes=size)).status_code == 201
    oldest = UploadRoom.objects.earliest("created_at").created_at
    refused = prepare(shop, asked(size_bytes=1))
    assert (refused.status_code, refused.json()["reason_code"]) == (409, "UPLOAD_SPACE_FULL")
    assert refused.json()["detail"] == (
        "Your 3 uploads hold 3000 of 3000 bytes; this file has 1. The oldest is deleted at "
        f"{oldest + timedelta(days=30):%Y-%m-%dT%H:%M:%SZ}."
    )
    assert UploadRoom.objects.count() == 3
    assert "X-DPP-Budget-Remaining" in refused.headers


@pytest.mark.contract("HRD-20")
@pytest.mark.usefixtures("room_for_three")
def test_hrd_20_another_tenants_files_take_none_of_it(shop: Shop) -> None:
    assert prepare(shop, asked(size_bytes=3_000)).status_code == 201
    other = a_tenant()
    neighbour = Shop(tenant=other, issued=a_key(other))
    assert prepare(neighbour, asked(size_bytes=3_000)).status_code == 201


@pytest.mark.contract("HRD-20")
def test_hrd_20_files_are_counted_too(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "FILES_MAX", 1)
    assert prepare(shop, asked()).status_code == 201
    refused = prepare(shop, asked())
    assert refused.status_code == 409
    assert refused.json()["detail"].startswith("You have 1 uploads, and may have no more; this file has 3.")


@pytest.mark.contract("HRD-20")
@pytest.mark.usefixtures("room_for_three")
def test_hrd_20_of_two_at_once_one_finds_the_last_room(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both would have counted before either has its room: the one that has the lock is alone there."""
    both, create = Barrier(2), UploadRoom.objects.create

    def create_together(**values: Any) -> UploadRoom:
        with suppress(BrokenBarrierError):
            both.wait(0.5)
        return create(**values)

    def ask(_number: int) -> bool:
        try:
            uploads.prepare_upload(
                tenant_id=shop.tenant.tenant_id, filename="a.png", content_type="image/png", size_bytes=2_000
            )
        except uploads.NoRoom:
            return False
        finally:
            connections.close_all()
        return True

    monkeypatch.setattr(UploadRoom.objects, "create", create_together)
    with ThreadPoolExecutor(2) as rivals:
        assert sorted(rivals.map(ask, range(2))) == [False, True]
    assert UploadRoom.objects.aggregate(held=Sum("size_bytes"))["held"] == 2_000


def older(seconds: int) -> None:
    UploadRoom.objects.update(created_at=Now() - timedelta(seconds=seconds))


def looked(**detail: int) -> None:
    report = recovery.run_loop(retention.expire_runs)
    assert (report.errors, report.detail) == (0, detail)


@pytest.mark.contract("HRD-20")
@pytest.mark.usefixtures("room_for_three")
def test_hrd_20_room_that_no_file_came_into_is_given_back_and_a_file_keeps_its_room(shop: Shop) -> None:
    unused, used = (prepare(shop, asked(size_bytes=size)).json() for size in (2_996, 4))
    assert urllib3.request("PUT", used["url"], body=b"four", headers=used["headers"]).status == 200
    older(3_590)
    looked()
    assert prepare(shop, asked()).status_code == 409
    older(3_610)
    looked(**{"unused room given back": 1, "uploads found": 1})
    assert UploadRoom.objects.get().key == used["key"] != unused["key"]
    assert prepare(shop, asked(size_bytes=2_996)).status_code == 201
    assert prepare(shop, asked(size_bytes=1)).status_code == 409
    looked()


@pytest.mark.contract("HRD-20")
def test_hrd_20_an_old_file_goes_with_its_room_and_a_younger_one_stays(shop: Shop) -> None:
    room = prepare(shop, asked()).json()
    assert urllib3.request("PUT", room["url"], body=b"png", headers=room["headers"]).status == 200
    older(30 * 86_400 - 10)
    looked(**{"uploads found": 1})
    assert storage.shared_run_storage().head(room["key"]) is not None
    older(30 * 86_400 + 10)
    looked(**{"uploads deleted": 1})
    assert storage.shared_run_storage().head(room["key"]) is None
    assert UploadRoom.objects.count() == 0


@pytest.mark.contract("HRD-20")
def test_hrd_20_where_s3_is_away_no_room_is_given_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(shop, asked())
    prepare(shop, asked())
    older(3_610)

    def away(_self: object, key: str) -> None:
        raise EndpointConnectionError(endpoint_url=key)

    monkeypatch.setattr(storage.RunStorage, "head", away)
    report = recovery.run_loop(retention.expire_runs)
    assert (report.errors, report.detail) == (0, {"waiting": 1, "waits_for": "S3"})
    assert UploadRoom.objects.count() == 2
