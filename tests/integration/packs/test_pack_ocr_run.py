"""An ocr run from its upload to its charge: read from the tenant's own prefix, and from nowhere else."""

import uuid

import pytest
from botocore.exceptions import EndpointConnectionError

from dpp_project import clock
from runs.bucket import storage
from runs.models import Run
from runs.states import MoneyState, Status
from runs.worker.execution import End
from tenants.models import Tenant
from tests.gear.builders import ocr, recovery, work
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import Shop, a_body
from tests.gear.corpora import ocr_corpus

pytestmark = [pytest.mark.contract("DPP-63", "DPP-66"), ocr.needs_engine]


def uploaded(tenant_id: str, content: bytes) -> str:
    key = storage.upload_key(tenant_id=tenant_id, upload_id=uuid.uuid4(), filename="receipt.png", at=clock.now())
    storage.shared_run_storage().put(key, content, content_type="image/png")
    return key


def queued(tenant: Tenant, key: str) -> Run:
    return recovery.queued(
        tenant,
        pack_type="ocr",
        inputs={"images": [{"kind": "s3", "bucket": storage.shared_run_storage().bucket_name, "key": key}]},
        timebox_sec=60,
    )


@pytest.mark.usefixtures("worker_here")
def test_dpp_63_an_upload_is_read_stored_and_charged_by_the_page(tenant: Tenant) -> None:
    sample = ocr_corpus.sample("receipt", 1)
    run = queued(tenant, uploaded(tenant.tenant_id, sample.png()))
    assert work.execute(run) is End.COMMITTED
    found = gear.row(run.run_id)
    assert (found.status, found.money_state, found.actual_cost_usd_micros) == (
        Status.COMPLETED,
        MoneyState.SETTLED,
        2_000,
    )
    document = work.stored_envelope(found)
    assert ocr_corpus.character_error_rate(sample.truth, ocr.text_of(document["data"])) <= 0.02
    assert document["meta"]["reliability"]["score"] > 0.8
    recovery.law_holds(tenant)


@pytest.mark.usefixtures("worker_here")
def test_dpp_63_another_tenants_upload_is_refused_by_name(tenant: Tenant) -> None:
    run = queued(tenant, uploaded("t_somebody_else", ocr_corpus.sample("receipt", 1).png()))
    assert work.execute(run) is End.COMMITTED
    found = gear.row(run.run_id)
    assert (found.status, found.last_error_reason_code) == (Status.FAILED, "PACK_FAILED")
    assert "receipt.png" in str(found.last_error_detail)
    assert "not one of your uploads" in str(found.last_error_detail)
    assert found.actual_cost_usd_micros == found.minimum_fee_usd_micros


def asked_for(*keys: str) -> dict[str, object]:
    return a_body(pack_type="ocr", inputs={"images": [{"kind": "s3", "key": key} for key in keys]})


@pytest.mark.contract("HRD-24")
@pytest.mark.django_db(transaction=True)
def test_an_upload_that_never_came_is_refused_at_submit_and_costs_nothing(shop: Shop) -> None:
    there = uploaded(shop.tenant.tenant_id, b"bytes")
    never = there.replace("receipt", "other")
    foreign = uploaded("t_somebody_else", b"bytes")
    for keys, field in (
        ((never,), "inputs.images[0].key"),
        ((there, never), "inputs.images[1].key"),
        ((foreign,), "inputs.images[0].key"),
    ):
        answer = shop.submit(asked_for(*keys))
        assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (422, [field])
        assert answer.json()["errors"][0]["detail"].startswith("there is no such file among your uploads")
        shop.nothing_happened()
    assert shop.submit(asked_for(there)).status_code == 202


@pytest.mark.contract("HRD-24")
@pytest.mark.django_db(transaction=True)
def test_a_replay_is_answered_although_the_upload_has_gone_and_a_bucket_that_is_away_refuses_none(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = uploaded(shop.tenant.tenant_id, b"bytes")
    first = shop.submit(asked_for(there), key="key-of-the-run")
    storage.shared_run_storage().delete_prefix(there)
    again = shop.submit(asked_for(there), key="key-of-the-run")
    assert (again.status_code, again.content) == (202, first.content)

    def away(*_: object) -> None:
        raise EndpointConnectionError(endpoint_url="http://bucket")

    monkeypatch.setattr(storage.RunStorage, "head", away)
    assert shop.submit(asked_for(there)).status_code == 202
