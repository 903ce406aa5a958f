"""`POST /v1/uploads`: room in the tenant's own prefix, for one file of one length and type (DPP-65)."""

import json
import re
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3

from dpp_project import clock
from runs.bucket import storage
from runs.bucket.uploads import MAX_UPLOAD_BYTES
from tenants.scopes import Scope
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import a_key, bearer

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
    assert (room["method"], room["bucket"]) == ("PUT", storage.shared().bucket_name)
    assert room["headers"] == {"Content-Type": "image/png", "Content-Length": "3", "If-None-Match": "*"}
    left = datetime.fromisoformat(room["expires_at"]) - clock.now()
    assert timedelta(seconds=590) < left <= timedelta(seconds=600)
    assert urllib3.request("PUT", room["url"], body=b"png", headers=room["headers"]).status == 200
    assert storage.shared().read(room["key"], max_bytes=10) == b"png"


@pytest.mark.contract("HRD-20")
def test_hrd_20_an_address_takes_one_file(shop: Shop) -> None:
    """An address that leaked after its use replaces nothing; S3 answers 412."""
    room = prepare(shop, asked()).json()
    assert urllib3.request("PUT", room["url"], body=b"one", headers=room["headers"]).status == 200
    assert urllib3.request("PUT", room["url"], body=b"two", headers=room["headers"]).status == 412
    assert storage.shared().read(room["key"], max_bytes=10) == b"one"


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
