"""Runs of the probe pack, executed in this process by the code a worker runs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from budget.redis import keys as money_keys
from dpp_project.stores import redis
from runs.box.box import Box
from runs.bucket import storage
from runs.lease_key import lease_key
from runs.models import Run
from runs.packs import registry
from runs.worker import execution
from runs.worker.execution import End
from tenants.models import Tenant
from tests.gear.builders import recovery

PROBE_COST = "0.0500"
PROBE_COST_MICROS = 50_000


@pytest.fixture(scope="session")
def session_box() -> Iterator[Box]:
    box = Box(registry.pack_modules().values())
    yield box
    box.close()


@pytest.fixture(scope="session", autouse=True)
def products_box_ends() -> Iterator[None]:
    """The box of a worker, which some test made by the product's own way, ends no process of tests with a nursery."""
    yield
    if (left := execution.box.forget()) is not None:
        left.close()


@pytest.fixture
def worker_here(session_box: Box, monkeypatch: pytest.MonkeyPatch) -> Box:
    """This process is a worker: one box for the whole session, since a zygote takes a moment to come up."""
    monkeypatch.setattr(execution, "box", lambda: session_box)
    return session_box


def queued(tenant: Tenant, *, timebox_sec: int = 20, **inputs: Any) -> Run:
    """A run of the probe, held and due."""
    wanted = {"cost_usd": PROBE_COST} | inputs
    return recovery.queued(tenant, pack_type="probe", inputs=wanted, timebox_sec=timebox_sec)


def execute(run: Run) -> End:
    return execution.execute_run(run.run_id, message=None)


def stored_envelope(run: Run) -> dict[str, Any]:
    """The envelope that the row points to."""
    assert run.result_key is not None
    found: dict[str, Any] = json.loads(storage.shared_run_storage().read(run.result_key, max_bytes=1_000_000))
    return found


def objects(run: Run) -> list[str]:
    """What stands under the run's prefix."""
    prefix = storage.run_prefix(tenant_id=run.tenant_id, run_id=run.run_id, created_at=run.created_at)
    bucket = storage.shared_run_storage()
    found = bucket.client().list_objects_v2(Bucket=str(bucket.bucket_name), Prefix=prefix).get("Contents", [])
    return [str(one["Key"]).removeprefix(prefix) for one in found]


def receipt(run: Run) -> dict[str, str]:
    found: Any = redis.redis_client().get(money_keys.receipt_key(str(run.run_id)))
    names = ("charge_usd_micros", "refund_usd_micros", "balance_usd_micros", "tenant_id")
    return {} if found is None else dict(zip(names, str(found).split(" ", 3), strict=True))


def lease_signal(run: Run) -> str | None:
    found: Any = redis.redis_client().get(lease_key(run.run_id))
    return None if found is None else str(found)
