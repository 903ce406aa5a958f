"""An ocr run from its upload to its charge: read from the tenant's own prefix, and from nowhere else."""

import uuid

import pytest

from dpp_project import clock
from runs.bucket import storage
from runs.models import Run
from runs.states import MoneyState, Status
from runs.worker.execution import End
from tenants.models import Tenant
from tests.gear.builders import ocr, recovery, work
from tests.gear.builders import runs as gear
from tests.gear.corpora import ocr_corpus

pytestmark = [pytest.mark.contract("DPP-63", "DPP-66"), ocr.needs_engine, pytest.mark.usefixtures("worker_here")]


def uploaded(tenant_id: str, content: bytes) -> str:
    key = storage.upload_key(tenant_id=tenant_id, upload_id=uuid.uuid4(), filename="receipt.png", at=clock.now())
    storage.shared().put(key, content, content_type="image/png")
    return key


def queued(tenant: Tenant, key: str) -> Run:
    return recovery.queued(
        tenant,
        pack_type="ocr",
        inputs={"images": [{"kind": "s3", "bucket": storage.shared().bucket_name, "key": key}]},
        timebox_sec=60,
    )


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


def test_dpp_63_another_tenants_upload_is_refused_by_name(tenant: Tenant) -> None:
    run = queued(tenant, uploaded("t_somebody_else", ocr_corpus.sample("receipt", 1).png()))
    assert work.execute(run) is End.COMMITTED
    found = gear.row(run.run_id)
    assert (found.status, found.last_error_reason_code) == (Status.FAILED, "PACK_FAILED")
    assert "receipt.png" in str(found.last_error_detail)
    assert "not one of your uploads" in str(found.last_error_detail)
    assert found.actual_cost_usd_micros == found.minimum_fee_usd_micros
