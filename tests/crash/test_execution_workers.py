"""Real workers, killed and restarted while runs are under way (DPP-32, 37, 38, 78)."""

import json
import signal
import uuid
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import Min

from budget.models import LedgerEntry
from dpp_project.aws import clients
from dpp_project.celery_sqs import celery_message
from dpp_project.processes import process_tree
from dpp_project.reasons import ReasonCode
from dpp_project.settings import ENV
from reaper import lease_reaper
from runs.bucket import storage
from runs.models import Run, RunHistory
from runs.states import MoneyState, Stage, Status
from runs.submit import wake_worker
from runs.submit.wake_worker import Wakeup
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.box import lives
from tests.gear.builders.shop import Shop, a_body
from tests.gear.faults.proxy import Mode, Proxy
from tests.gear.faults.scripted import Scripted
from tests.gear.servers.live_processes import a_worker, database_url
from tests.gear.waiting import wait_until
from tests.proving import proofs

pytestmark = pytest.mark.timeout(180)

SOON_AGAIN: dict[str, Any] = {"DPP_SQS_FIRST_VISIBILITY_SECONDS": "2"}
COST_MICROS = 10_000
WARNING = '"level": "warning"'


def submitted(shop: Shop, *, price: str = "0.2500", **inputs: Any) -> Run:
    answer = shop.submit(a_body(inputs={"cost_usd": "0.0100"} | inputs, reservation={"max_cost_usd": price}))
    assert answer.status_code == 202, answer.content
    return gear.row(uuid.UUID(answer.json()["run_id"]))


def over(*runs: Run) -> bool:
    ids = [run.run_id for run in runs]
    return Run.objects.filter(run_id__in=ids, finalize_stage=Stage.COMMITTED).count() == len(ids)


def starts(run: Run) -> int:
    return RunHistory.objects.filter(run_id=run.run_id, status=Status.PROCESSING, stage=None).count()


@pytest.mark.contract("DPP-25", "DPP-34", "DPP-73")
def test_dpp_34_from_the_request_to_the_result_with_one_trace(shop: Shop, tmp_path: Path) -> None:
    with a_worker(tmp_path) as worker:
        answer = shop.submit(a_body(inputs={"cost_usd": "0.0100", "sleep_ms": 1}, meta={"trace_id": "t-of-the-caller"}))
        run = gear.row(uuid.UUID(answer.json()["run_id"]))
        wait_until(lambda: over(run), seconds=30, what="the run to be over")
        wait_until(lambda: worker.log_lines("dpp.task"), what="the worker's last line")
        lines = [line for line in worker.log_lines("dpp.run") if line["run_id"] == str(run.run_id)]
    started, ended = lines
    assert (started["event"], started["version_before"], started["version_after"]) == ("run started", 1, 2)
    assert {name: ended[name] for name in ended if name not in {"timestamp", "level", "logger"}} == {
        "event": "run ended",
        "service": "worker",
        "run_id": str(run.run_id),
        "tenant_id": run.tenant_id,
        "trace_id": "t-of-the-caller",
        "status": "COMPLETED",
        "version_before": 2,
        "version_after": 4,
        "finalize_stage": "COMMITTED",
        "money_state": "SETTLED",
        "reserved_usd_micros": 250_000,
        "charge_usd_micros": COST_MICROS,
        "refund_usd_micros": 240_000,
    }
    found = gear.row(run.run_id)
    assert found.result_key is not None
    assert json.loads(storage.shared_run_storage().read(found.result_key, max_bytes=1_000_000))["meta"]["trace_id"] == (
        "t-of-the-caller"
    )
    assert "sleep_ms" not in worker.log()
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("DPP-32", "DPP-37", "DPP-40")
def test_dpp_40_a_worker_killed_at_work_leaves_nothing_running_and_its_run_to_the_reaper(
    shop: Shop, tmp_path: Path
) -> None:
    run = submitted(shop, sleep_ms=60_000)
    with a_worker(tmp_path, concurrency=1, **SOON_AGAIN) as worker:
        wait_until(lambda: gear.row(run.run_id).status == Status.PROCESSING, seconds=20, what="the start")
        family = wait_until(lambda: _packs_of(worker.process.pid), what="the pack's process")
        worker.process.send_signal(signal.SIGKILL)
        worker.wait_exit(seconds=5)
        wait_until(lambda: not any(lives(pid) for pid in family), what="worker, zygote and pack to be gone")
    with a_worker(tmp_path, concurrency=1, **SOON_AGAIN):
        wait_until(queue_is_empty, seconds=30, what="the repeated message to be done with")
        assert (gear.row(run.run_id).status, starts(run)) == (Status.PROCESSING, 1)
        gear.aged(run, lease_expires_at=1)
        recovery.run_loop(lease_reaper.reap_leases)
    found = gear.row(run.run_id)
    assert (found.status, found.last_error_reason_code) == (Status.FAILED, ReasonCode.WORKER_TIMEOUT)
    assert recovery.charges(run) == [-gear.FEE_MICROS]
    recovery.law_holds(shop.tenant)


def _packs_of(worker: int) -> list[int]:
    """The worker's descendants, its zygotes' jobs among them; empty while no job runs."""
    zygotes = [
        zygote for nursery in process_tree.child_processes(worker) for zygote in process_tree.child_processes(nursery)
    ]
    return (
        process_tree.process_tree_of(worker) if any(process_tree.child_processes(zygote) for zygote in zygotes) else []
    )


def queue_is_empty() -> bool:
    found = clients.sqs_client().get_queue_attributes(QueueUrl=ENV.DPP_QUEUE_URL, AttributeNames=["All"])["Attributes"]
    return found["ApproximateNumberOfMessages"] == found["ApproximateNumberOfMessagesNotVisible"] == "0"


@pytest.mark.slow
@pytest.mark.contract("DPP-78")
def test_dpp_78_a_hundred_runs_survive_two_rolling_restarts(shop: Shop, tmp_path: Path) -> None:
    """All end once, none is charged twice, none falls to the reaper, and no message is left over."""
    runs = [submitted(shop, price="0.0500", sleep_ms=150) for _ in range(100)]

    def done() -> int:
        return Run.objects.filter(finalize_stage=Stage.COMMITTED).count()

    for restart in (1, 2):
        with a_worker(tmp_path, concurrency=4) as worker:
            wait_until(lambda: done() >= 20 * restart, seconds=60, what="some runs to be over")  # noqa: B023  at once
            at_work = set(
                Run.objects.filter(status=Status.PROCESSING, finalize_stage=None).values_list("run_id", flat=True)
            )
            worker.terminate()
            assert worker.wait_exit(seconds=60) == 0
            assert Run.objects.filter(run_id__in=at_work, finalize_stage=Stage.COMMITTED).count() == len(at_work)
        assert not Run.objects.filter(status=Status.PROCESSING).exists()
        assert done() < len(runs)
    with a_worker(tmp_path, concurrency=4):
        wait_until(lambda: over(*runs), seconds=60, what="all runs to be over")
        wait_until(queue_is_empty, seconds=20, what="all messages to be deleted")
    ends = Run.objects.values_list("status", "money_state", "actual_cost_usd_micros", "last_error_reason_code")
    assert Counter(ends) == {(Status.COMPLETED, MoneyState.SETTLED, COST_MICROS, None): 100}
    assert LedgerEntry.objects.filter(kind="CHARGE").count() == 100
    assert set(RunHistory.objects.values_list("actor", flat=True)) == {"submit", "worker"}
    assert RunHistory.objects.count() == 500
    assert RunHistory.objects.aggregate(least=Min("version"))["least"] == 0
    assert recovery.balance_micros(shop.tenant) == recovery.FUNDS_MICROS - 100 * COST_MICROS
    recovery.law_holds(shop.tenant)
    proofs.report(cases=100)


def _address(service: str) -> tuple[str, int]:
    url = urlsplit({"REDIS_URL": settings.REDIS_URL, "S3_ENDPOINT_URL": str(ENV.S3_ENDPOINT_URL)}[service])
    return str(url.hostname), url.port or 80


def _through(service: str, proxy: Proxy) -> str:
    return {
        "DATABASE_URL": database_url(host="127.0.0.1", port=proxy.port),
        "REDIS_URL": f"redis://127.0.0.1:{proxy.port}/0",
        "S3_ENDPOINT_URL": proxy.url,
    }[service]


@pytest.mark.contract("DPP-39")
@pytest.mark.parametrize(
    ("service", "modes"),
    [
        ("DATABASE_URL", (Mode.REFUSE, Mode.RESET)),
        pytest.param("DATABASE_URL", (Mode.BLACK_HOLE,), marks=pytest.mark.slow),  # a dead connection costs 20 s
        pytest.param("REDIS_URL", (Mode.REFUSE, Mode.BLACK_HOLE), marks=pytest.mark.slow),
        pytest.param("S3_ENDPOINT_URL", (Mode.REFUSE,), marks=pytest.mark.slow),
    ],
)
def test_dpp_39_a_worker_comes_back_by_itself_and_loses_nothing(
    service: str, modes: tuple[Mode, ...], shop: Shop, tmp_path: Path
) -> None:
    host, port = (
        (str(connection.settings_dict["HOST"]), int(connection.settings_dict["PORT"]))
        if service == "DATABASE_URL"
        else _address(service)
    )
    runs: list[Run] = []
    with Proxy(host, port) as proxy, a_worker(tmp_path, **{service: _through(service, proxy)}) as worker:  # type: ignore[arg-type]  # it is one of environ

        def outlives(mode: Mode) -> None:
            batch = [submitted(shop, sleep_ms=200) for _ in range(12)]
            runs.extend(batch)
            wait_until(lambda: any(over(run) for run in batch), seconds=30, what="a first end")
            warned = worker.log().count(WARNING)
            with proxy.outage(mode):
                wait_until(lambda: worker.log().count(WARNING) > warned, seconds=40, what=f"it to notice: {mode}")
            wait_until(lambda: over(*batch), seconds=60, what="all runs to be over")

        for mode in modes:
            outlives(mode)
        assert worker.alive()
    assert {starts(run) for run in runs} == {1}
    assert {gear.row(run.run_id).status for run in runs} == {Status.COMPLETED}
    assert [recovery.charges(run) for run in runs] == [[-COST_MICROS]] * len(runs)
    recovery.law_holds(shop.tenant)
    proofs.report(cases=len(runs))


@pytest.mark.slow
@pytest.mark.contract("DPP-37", "DPP-39")
def test_dpp_37_a_delete_that_fails_repeats_the_message_and_not_the_run(shop: Shop, tmp_path: Path) -> None:
    with (
        Scripted(str(ENV.SQS_ENDPOINT_URL)).running() as scripted,
        a_worker(tmp_path, endpoint=scripted.url, **SOON_AGAIN) as worker,
    ):
        with scripted.answering(500, b"", only="DeleteMessageBatch"):
            run = submitted(shop, sleep_ms=1)
            wait_until(lambda: len(worker.log_lines("dpp.task")) >= 2, seconds=20, what="the message to come again")
        wait_until(queue_is_empty, seconds=20, what="the delete")
    assert starts(run) == 1
    assert gear.row(run.run_id).status == Status.COMPLETED
    assert recovery.charges(run) == [-COST_MICROS]
    recovery.law_holds(shop.tenant)
    proofs.report(cases=1)


@pytest.mark.slow
@pytest.mark.contract("DPP-38")
def test_dpp_38_a_message_of_an_unknown_run_ends_in_the_dlq(shop: Shop, tmp_path: Path) -> None:
    wakeup = Wakeup(run_id=uuid.uuid4(), tenant_id="t_nobody", pack_type="probe", trace_id=None)
    garbled = celery_message.pack_celery_message(
        task=wake_worker.TASK, kwargs={"run_id": "no uuid"}, queue="runs", trace_id=None
    )
    for body in (wakeup.message().body, garbled):
        clients.sqs_client().send_message(QueueUrl=ENV.DPP_QUEUE_URL, MessageBody=body)
    with a_worker(tmp_path, DPP_SQS_FIRST_VISIBILITY_SECONDS="1") as worker:
        wait_until(lambda: _dead_letters() == 2, seconds=40, what="two dead letters")
        run = submitted(shop, sleep_ms=1)
        wait_until(lambda: over(run), seconds=20, what="the worker to go on")
        assert worker.alive()
    proofs.report(cases=1)


def _dead_letters() -> int:
    found = clients.sqs_client().get_queue_attributes(QueueUrl=ENV.DPP_DLQ_URL, AttributeNames=["All"])["Attributes"]
    return int(found["ApproximateNumberOfMessages"])
