"""`GET /v1/runs/{id}`: what its owner sees, and what nobody else does."""

import json
import uuid
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3
from django.db import connection

from budget.money import FAILURE_FEE_RULE
from budget.redis import keys
from dpp_project import clock as clock_module
from dpp_project.clock import FixedClock, SystemClock
from dpp_project.reasons import ReasonCode
from dpp_project.stores import redis
from runs import transitions
from runs.bucket import storage
from runs.finish.finalization import Committed, finish_claim
from runs.intents import Intent, ResultPointer, StoredArtifact
from runs.models import Run
from runs.reads import for_tenant
from tenants.services import IssuedKey
from tests.gear import round_trips
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import RUNS, Shop, a_body, a_shop, close_money
from tests.gear.builders.tenants import a_key, bearer
from tests.gear.faults.proxy import Mode

ENVELOPE = {"schema_version": "0.4.2.2", "data": {"answer": 42}}
COST_HEADERS = {
    "X-DPP-Cost-Reserved": "reserved",
    "X-DPP-Cost-Used": "used",
    "X-DPP-Budget-Remaining": "budget_remaining",
    "X-DPP-Cost-Reserved-USD-Micros": "reserved_usd_micros",
    "X-DPP-Cost-Used-USD-Micros": "used_usd_micros",
    "X-DPP-Budget-Remaining-USD-Micros": "budget_remaining_usd_micros",
}


def submitted(shop: Shop, **changes: Any) -> Run:
    return gear.row(uuid.UUID(shop.submit(a_body(**changes)).json()["run_id"]))


def started(shop: Shop, **changes: Any) -> Run:
    run = submitted(shop, **changes)
    gear.won(transitions.start(run_id=run.run_id, version=run.version, lease_token="lease", actor="worker"))
    return gear.row(run.run_id)


def ended(run: Run, intent: Intent) -> Run:
    claimed = gear.won(transitions.claim_worked(run=run, lease_token="lease", token="t", intent=intent, actor="worker"))
    assert finish_claim(claimed.claim) == Committed(run.version + 2)
    return gear.row(run.run_id)


def completed(shop: Shop, *, content: bytes | None = None, **changes: Any) -> Run:
    run = started(shop, **changes)
    key = storage.envelope_key(tenant_id=run.tenant_id, run_id=run.run_id, created_at=run.created_at)
    digest = storage.shared_run_storage().put(
        key, json.dumps(ENVELOPE).encode() if content is None else content, content_type=storage.ENVELOPE_CONTENT_TYPE
    )
    pointer = ResultPointer(bucket=storage.shared_run_storage().bucket_name, key=key, sha256=digest)
    return ended(
        run, Intent.completed(actual_micros=50_000, reserved_micros=250_000, result=pointer, tokens_consumed=7)
    )


def failed(shop: Shop, *, detail: str | None = None) -> Run:
    intent = Intent.minimum_fee(
        minimum_fee_micros=5_000, reserved_micros=250_000, reason=ReasonCode.PACK_FAILED, detail=detail
    )
    return ended(started(shop), intent)


def read(shop: Shop, run: Run) -> Any:
    return shop.get(f"{RUNS}/{run.run_id}")


def costs_agree(response: Any) -> None:
    cost = response.json()["cost"]
    assert {name: response.headers[name] for name in COST_HEADERS} == {
        name: str(cost[field] or 0) for name, field in COST_HEADERS.items()
    }


@pytest.mark.contract("HRD-21")
def test_dpp_20_a_queued_run(shop: Shop) -> None:
    run = submitted(shop)
    response = read(shop, run)
    body = response.json()
    assert response.status_code == 200
    assert (body["run_id"], body["status"], body["money_state"]) == (str(run.run_id), "QUEUED", "RESERVED")
    assert body["cost"] == {
        "reserved": "0.2500",
        "used": "0.0000",
        "minimum_fee": "0.0050",
        "budget_remaining": "9.7500",
        "reserved_usd_micros": 250_000,
        "used_usd_micros": 0,
        "minimum_fee_usd_micros": 5_000,
        "budget_remaining_usd_micros": 9_750_000,
    }
    assert response.headers["X-DPP-Budget-Known"] == "1"
    assert body["result"] is None
    assert datetime.fromisoformat(body["meta"]["created_at"]) == run.created_at
    assert datetime.fromisoformat(body["meta"]["updated_at"]) == run.updated_at
    assert body["meta"]["trace_id"] == run.trace_id
    costs_agree(response)


def test_dpp_20_a_run_at_work_and_one_being_finished(shop: Shop) -> None:
    run = started(shop)
    assert read(shop, run).json()["status"] == "PROCESSING"
    intent = Intent.full_refund(reason=ReasonCode.CANCELED_BY_OWNER)
    gear.won(transitions.claim_worked(run=run, lease_token="lease", token="t", intent=intent, actor="worker"))
    body = read(shop, run).json()
    assert (body["status"], body["money_state"], body["result"]) == ("PROCESSING", "RESERVED", None)
    assert body["cost"]["used"] == "0.0000"


@pytest.mark.contract("DPP-24")
def test_dpp_21_a_completed_run_tells_where_its_result_lies(shop: Shop) -> None:
    run = completed(shop)
    response = read(shop, run)
    body = response.json()
    assert (body["status"], body["money_state"]) == ("COMPLETED", "SETTLED")
    assert body["cost"]["used"] == "0.0500"
    assert body["cost"]["budget_remaining"] == "9.9500"
    assert response.headers["X-DPP-Tokens-Consumed"] == "7"
    costs_agree(response)
    result = body["result"]
    assert result["sha256"] == run.result_sha256
    assert (result["data"], result["data_omitted"]) == (None, None)
    query = parse_qs(urlsplit(result["presigned_url"]).query)
    assert query["X-Amz-Expires"] == ["600"]
    left = datetime.fromisoformat(result["expires_at"]) - clock_module.now()
    assert timedelta(seconds=590) < left <= timedelta(seconds=600)
    assert json.loads(urllib3.request("GET", result["presigned_url"]).data) == ENVELOPE


def test_dpp_21_an_address_ends_with_the_retention(shop: Shop) -> None:
    run = gear.aged(completed(shop), retention_until=-100)
    (seconds,) = parse_qs(urlsplit(read(shop, run).json()["result"]["presigned_url"]).query)["X-Amz-Expires"]
    assert 90 < int(seconds) <= 100


def test_dpp_21_inline_adds_the_data(shop: Shop) -> None:
    run = completed(shop, options={"inline": 1})
    result = read(shop, run).json()["result"]
    assert (result["data"], result["data_omitted"]) == ({"answer": 42}, None)
    assert result["presigned_url"].startswith("http")


@pytest.mark.parametrize(("size", "omitted"), [(262_142, None), (262_143, "TOO_LARGE"), (1_048_576, "TOO_LARGE")])
def test_dpp_21_inline_ends_at_256_kb(shop: Shop, size: int, omitted: str | None) -> None:
    data = "x" * size  # and two quotes
    run = completed(shop, options={"inline": 1}, content=json.dumps({"data": data}).encode())
    result = read(shop, run).json()["result"]
    assert result["data_omitted"] == omitted
    assert result["data"] == (data if omitted is None else None)


def test_dpp_21_without_the_bucket_a_completed_run_is_still_answered(shop: Shop) -> None:
    run = completed(shop, options={"inline": 1})
    storage.shared_run_storage().delete_prefix(str(run.result_key))
    response = read(shop, run)
    assert response.status_code == 200
    assert response.json()["result"]["data_omitted"] == "UNAVAILABLE"


def test_dpp_21_a_failed_run_says_why(shop: Shop) -> None:
    run = failed(shop, detail="The page was blank.")
    body = read(shop, run).json()
    assert (body["status"], body["money_state"], body["cost"]["used"]) == ("FAILED", "SETTLED", "0.0050")
    assert body["result"] == {
        "reason_code": "PACK_FAILED",
        "problem": {
            "type": "urn:dpp:problem:pack-failed",
            "title": "Pack failed",
            "detail": "The page was blank.",
            "instance": f"/v1/runs/{run.run_id}",
            "reason_code": "PACK_FAILED",
            "trace_id": run.trace_id,
            "run_id": str(run.run_id),
        },
        "failure_fee": {"charged_usd_micros": 5_000, "refunded_usd_micros": 0, "rule": FAILURE_FEE_RULE},
    }


@pytest.mark.contract("DPP-33")
def test_dpp_21_a_failed_runs_envelope_is_not_presigned(shop: Shop) -> None:
    run = started(shop)
    pointer = ResultPointer(bucket="b", key="k", sha256="c" * 64)
    intent = Intent.minimum_fee(
        minimum_fee_micros=5_000, reserved_micros=250_000, reason=ReasonCode.PACK_FAILED, result=pointer
    )
    ended(run, intent)
    assert "presigned_url" not in read(shop, run).json()["result"]


def anonymous(response: Any) -> dict[str, Any]:
    """The answer without what names the address and the trace."""
    body = response.json() | {"instance": "", "trace_id": ""}
    headers = {
        name: value
        for name, value in response.headers.items()
        if name not in {"X-Trace-Id", "Content-Length"} and not name.lower().startswith(("x-ratelimit", "ratelimit"))
    }
    return {"status": response.status_code, "body": body, "headers": headers}


MALFORMED = (
    *("not-a-uuid", "1", "{}", "null", "%00", "..", "01980f6e7a517c2e9d0b0f5a3c1b2d4e"),
    *("{01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e}", "urn:uuid:01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e"),
    *("01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e%0a", "\uff10\uff11980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e", "a" * 3_000),
)


# Files beside the envelope.


def with_a_file(shop: Shop) -> tuple[Run, str]:
    run = completed(shop)
    key = storage.artifact_key(run.result_key or "", "text.md")
    storage.shared_run_storage().put(key, b"# a page", content_type="text/markdown; charset=utf-8")
    return run, f"{RUNS}/{run.run_id}/artifacts"


@pytest.mark.contract("DPP-33")
def test_dpp_33_a_file_beside_the_envelope_is_its_owners_for_ten_minutes(shop: Shop) -> None:
    _, files = with_a_file(shop)
    response = shop.get(f"{files}/text.md")
    body = response.json()
    assert (response.status_code, response.headers["X-DPP-Cost-Used"]) == (200, "0.0500")
    assert (body["name"], body["content_type"], body["size"]) == ("text.md", "text/markdown; charset=utf-8", 8)
    assert parse_qs(urlsplit(body["presigned_url"]).query)["X-Amz-Expires"] == ["600"]
    left = datetime.fromisoformat(body["expires_at"]) - clock_module.now()
    assert timedelta(seconds=590) < left <= timedelta(seconds=600)
    assert urllib3.request("GET", body["presigned_url"]).data == b"# a page"


@pytest.mark.parametrize("name", ["text.docx", "..", ".hidden", "%2e%2e%2fpack_envelope.json", "a%00b", "x" * 200])
def test_dpp_33_what_is_no_file_of_the_run_is_a_404(shop: Shop, name: str) -> None:
    _, files = with_a_file(shop)
    assert shop.get(f"{files}/{name}").status_code == 404


def test_dpp_33_files_of_another_tenant_of_a_run_that_failed_or_is_past_its_time_are_not_given(shop: Shop) -> None:
    run, files = with_a_file(shop)
    assert a_shop().get(f"{files}/text.md").status_code == 404
    assert shop.get(f"{RUNS}/{failed(shop).run_id}/artifacts/text.md").status_code == 404
    gear.aged(run, retention_until=1)
    assert shop.get(f"{files}/text.md").status_code == 410


def test_dpp_22_another_tenants_run_an_unknown_and_a_malformed_id_are_one_404(shop: Shop) -> None:
    other = a_shop()
    theirs = submitted(other)
    shop.submit()
    seen = [
        anonymous(shop.get(f"{RUNS}/{text}"))
        for text in (theirs.run_id, uuid.uuid4(), uuid.uuid4(), str(theirs.run_id).upper(), *MALFORMED)
    ]
    assert seen[0]["status"] == 404
    assert seen[0]["body"]["reason_code"] == "NOT_FOUND"
    assert all(answer == seen[0] for answer in seen)
    assert read(other, theirs).status_code == 200


@pytest.mark.contract("DPP-23")
def test_dpp_23_past_the_retention_the_owner_is_told_gone_and_others_nothing(shop: Shop) -> None:
    run = gear.aged(completed(shop), retention_until=1)
    other = a_shop()
    gone = read(shop, run)
    assert (gone.status_code, gone.json()["reason_code"], gone.json()["run_id"]) == (410, "GONE", str(run.run_id))
    assert (gone.headers["X-DPP-Cost-Reserved"], gone.headers["X-DPP-Cost-Used"]) == ("0.2500", "0.0500")
    assert anonymous(read(other, run)) == anonymous(other.get(f"{RUNS}/{uuid.uuid4()}"))
    assert shop.cancel(str(run.run_id)).status_code == 410


@pytest.mark.contract("DPP-23")
def test_dpp_23_gone_goes_by_the_clock_and_stays_when_the_tombstone_is_made(shop: Shop) -> None:
    run = completed(shop)
    with clock_module.use_clock(SystemClock(timedelta(days=30, seconds=-60))):
        assert read(shop, run).status_code == 200
    with clock_module.use_clock(SystemClock(timedelta(days=30, seconds=1))):
        before = read(shop, run)
    assert before.status_code == 410
    run = gear.aged(run, retention_until=1)
    gear.won(transitions.expire(run_id=run.run_id, version=run.version, actor="retention"))
    after = read(shop, run)
    assert anonymous(after) == anonymous(before)


@pytest.mark.contract("DPP-23")
def test_dpp_23_at_the_instant_of_its_retention_a_run_is_gone(shop: Shop) -> None:
    run = completed(shop)
    with clock_module.use_clock(FixedClock(run.retention_until - timedelta(microseconds=1))):
        assert for_tenant.is_gone(run) is False
    with clock_module.use_clock(FixedClock(run.retention_until)):
        assert for_tenant.is_gone(run) is True
        assert read(shop, run).status_code == 410


@pytest.mark.contract("DPP-24")
def test_dpp_24_an_unknown_balance_is_shown_as_zero(shop: Shop) -> None:
    run = submitted(shop)
    close_money()
    response = read(shop, run)
    assert response.status_code == 200
    cost = response.json()["cost"]
    assert (cost["budget_remaining"], cost["budget_remaining_usd_micros"]) == ("0.0000", None)
    assert response.headers["X-DPP-Budget-Known"] == "0"
    costs_agree(response)
    redis.redis_client().delete(keys.balance_key(shop.tenant.tenant_id))
    costs_agree(read(shop, run))


@pytest.mark.contract("DPP-39")
def test_runs_api_reading_needs_no_redis(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    run = submitted(shop)
    with recovery.redis_through_proxy(monkeypatch) as proxy, proxy.outage(Mode.REFUSE):
        response = read(shop, run)
    assert response.status_code == 200
    cost = response.json()["cost"]
    assert (cost["budget_remaining"], cost["budget_remaining_usd_micros"]) == ("0.0000", None)
    assert response.headers["X-DPP-Budget-Known"] == "0"
    assert "X-RateLimit-Limit" not in response.headers


def test_runs_api_reading_takes_one_trip_and_one_statement(shop: Shop) -> None:
    run = submitted(shop)
    read(shop, run)
    with round_trips.counted() as seen:
        assert read(shop, run).status_code == 200
    assert seen.redis == 1
    assert [sql.split()[0] for sql in seen.sql] == ["SELECT"]
    assert seen.sqs == 0


@pytest.mark.contract("DPP-10")
def test_runs_api_polling_draws_from_the_bucket_of_polling(shop: Shop) -> None:
    run = submitted(shop)
    assert '"poll"' in read(shop, run).headers["RateLimit"]
    assert '"submit"' in shop.submit().headers["RateLimit"]
    type(shop.tenant).objects.filter(pk=shop.tenant.pk).update(poll_rate_per_minute=1)
    slow = Shop(tenant=shop.tenant, issued=fresh_key(shop))
    read(slow, run)
    response = read(slow, run)
    assert (response.status_code, response.headers["Retry-After"]) == (429, "30")


def fresh_key(shop: Shop) -> IssuedKey:
    """A key no process remembers yet, so that the tenant's new rate counts."""
    redis.redis_client().delete(f"rate:{shop.tenant.tenant_id}:poll")
    return a_key(shop.tenant)


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_dpp_03_other_methods_are_405_with_their_list(shop: Shop, method: str) -> None:
    run = submitted(shop)
    for path in (RUNS, f"{RUNS}/{run.run_id}", f"{RUNS}/{run.run_id}/cancel", "/v1/uploads", "/v1/packs"):
        response: Any = getattr(shop.client, method)(path, headers=bearer(shop.issued))
        assert (response.status_code, response.json()["reason_code"]) == (405, "METHOD_NOT_ALLOWED")
        assert response.headers["Allow"]


def test_dpp_20_the_files_beside_a_result_are_listed_with_their_addresses(shop: Shop) -> None:
    run = started(shop)
    assert read(shop, run).json()["artifacts"] == []
    key = storage.envelope_key(tenant_id=run.tenant_id, run_id=run.run_id, created_at=run.created_at)
    about = StoredArtifact(content_type="text/markdown", size=4, sha256="d" * 64)
    name = "쪽 1%.md"
    storage.shared_run_storage().put(storage.artifact_key(key, name), b"text", content_type="text/markdown")
    pointer = ResultPointer(
        bucket=storage.shared_run_storage().bucket_name,
        key=key,
        sha256="c" * 64,
        artifacts={name: about, "a.md": about},
    )
    ended(run, Intent.completed(actual_micros=50_000, reserved_micros=250_000, result=pointer))
    first, second = read(shop, run).json()["artifacts"]
    assert first == {
        "name": "a.md",
        "href": f"{RUNS}/{run.run_id}/artifacts/a.md",
        "content_type": "text/markdown",
        "size": 4,
        "sha256": "d" * 64,
    }
    assert second["name"] == name
    assert shop.get(second["href"]).json()["size"] == 4


def test_dpp_20_a_run_of_an_earlier_release_does_not_claim_to_have_no_files(shop: Shop) -> None:
    run = completed(shop)
    with connection.cursor() as cursor:  # as its worker left the row
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE runs SET result_artifacts = NULL WHERE run_id = %s", [run.run_id])
        cursor.execute("SET session_replication_role = origin")
    assert read(shop, run).json()["artifacts"] is None
