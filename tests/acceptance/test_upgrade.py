"""Migrate first, code after: the previous release works on this schema, and each release takes the other's work."""

import uuid
from pathlib import Path

import pytest

from dpp_project.devstack import http, ports
from runs.models import Run
from runs.submit.wake_worker import EXPRESS_BELOW
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.queues import Queues
from tests.gear.builders.shop import RUNS, Shop, a_body
from tests.gear.servers import previous_release
from tests.gear.servers.live_processes import a_worker
from tests.gear.waiting import wait_until
from tests.proving import proofs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.contract("HRD-27"),
    pytest.mark.django_db(transaction=True),
]

COST_MICROS = 10_000
BODY = a_body(inputs={"sleep_ms": 1, "cost_usd": "0.0100"})


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return previous_release.unpack(tmp_path / "before")


@pytest.fixture
def port() -> int:
    return ports.choose_port()


def ended(run_id: str, log: Path) -> Run:
    def look() -> Run | None:
        run = gear.row(uuid.UUID(run_id))
        return run if run.finalize_stage == "COMMITTED" else None

    try:
        return wait_until(look, seconds=60, pause_seconds=0.1, what=f"{run_id} to end")
    except AssertionError:
        raise AssertionError(log.read_text(encoding="utf-8", errors="replace")[-4_000:]) from None


def is_paid(shop: Shop, run: Run) -> None:
    assert (run.status, run.money_state, run.actual_cost_usd_micros) == ("COMPLETED", "SETTLED", COST_MICROS)
    assert recovery.charges(run) == [-COST_MICROS]
    assert shop.balance_micros() == recovery.FUNDS_MICROS - COST_MICROS
    recovery.law_holds(shop.tenant)
    proofs.report(cases=1)


def test_the_previous_worker_ends_runs_of_this_api(shop: Shop, before: Path) -> None:
    with previous_release.running(before, "worker", DPP_WORKER_CONCURRENCY="1", DPP_SQS_GROUP_BY="none") as log:
        run_id = shop.submit(BODY).json()["run_id"]
        run = ended(run_id, log)
        assert (run.last_actor, run.last_error_reason_code) == ("worker", None)
        is_paid(shop, run)


@pytest.mark.contract("DPP-86")
def test_runs_in_the_express_queue_wait_for_a_worker_of_this_release(
    shop: Shop, before: Path, tmp_path: Path, express: Queues
) -> None:
    """Hence docs/deploy.md: DPP_EXPRESS_QUEUE_URL is set when no worker before 0.2 is left."""
    *few, flood = [shop.submit(BODY).json()["run_id"] for _ in range(EXPRESS_BELOW + 1)]
    with previous_release.running(before, "worker", DPP_WORKER_CONCURRENCY="1", DPP_SQS_GROUP_BY="none") as log:
        run = ended(flood, log)
        assert (run.status, run.last_error_reason_code) == ("COMPLETED", None), log.read_text(encoding="utf-8")[-3_000:]
        assert {gear.row(uuid.UUID(run_id)).status for run_id in few} == {"QUEUED"}
    with a_worker(tmp_path, concurrency=2, DPP_EXPRESS_QUEUE_URL=express.express_url) as worker:
        for run_id in few:
            run = ended(run_id, worker._log)
            assert (run.status, recovery.charges(run)) == ("COMPLETED", [-COST_MICROS])
    assert shop.balance_micros() == recovery.FUNDS_MICROS - (EXPRESS_BELOW + 1) * COST_MICROS
    recovery.law_holds(shop.tenant)
    proofs.report(cases=1)


def test_this_worker_ends_runs_of_the_previous_api(shop: Shop, before: Path, tmp_path: Path, port: int) -> None:
    with (
        previous_release.running(before, "api", DPP_API_PORT=str(port), DPP_API_WORKERS="1") as log,
        a_worker(tmp_path, concurrency=1, DPP_QUEUE_UNSEALED="accept") as worker,
    ):
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: http.url_answers(f"{url}/healthz"), seconds=60, pause_seconds=0.1, what="the previous API")
        answer = http.call_api(
            "POST", f"{url}{RUNS}", key=shop.issued.plaintext, headers={"Idempotency-Key": "upgrade-1"}, send=BODY
        )
        assert answer.status == 202, answer.body
        run = ended(answer.body["run_id"], worker._log)
        is_paid(shop, run)
        again = http.call_api("GET", f"{url}{RUNS}/{run.run_id}", key=shop.issued.plaintext)
        assert (again.status, again.body["status"]) == (200, "COMPLETED"), log


def test_the_previous_recovery_ends_runs_of_this_release(shop: Shop, before: Path) -> None:
    run = recovery.lease_ran_out(shop.tenant)
    with previous_release.running(before, "beat") as log:
        found = ended(str(run.run_id), log)
    assert (found.status, found.last_error_reason_code) == ("FAILED", "WORKER_TIMEOUT")
    assert recovery.charges(run) == [-gear.FEE_MICROS]
    proofs.report(cases=1)
