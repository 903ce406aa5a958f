"""One trace of a run over all its processes, at a real collector; nothing where none is set (DPP-85)."""

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dpp_project import clock
from dpp_project.jobs.registry import RunOnce
from dpp_project.observe import span_ids, spans
from dpp_project.observe.span_maker import SpanMaker
from reaper import claim_reconciler, lease_reaper, reservation_sweeper
from runs.models import Run
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import RUNS, Shop, a_body, a_request_key
from tests.gear.servers.collector import Collector, SpanSent, a_collector
from tests.gear.servers.live_api import Api, an_api
from tests.gear.servers.live_processes import a_worker
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("DPP-85"), pytest.mark.django_db(transaction=True)]

CANARY = "a-canary-among-the-inputs"
SERVER, CLIENT_SPAN = 2, "b7ad6b7169203331"
OF_THE_RUN = {"run send", "run execute", "pack in its box", "result store", "run finish"}
OF_THE_SUBMIT = {"POST v1/runs", "run hold"}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with a_collector() as found:
        yield found


@pytest.fixture(scope="module")
def api(
    collector: Collector, aws: str, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Api]:
    environ: dict[str, Any] = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    folder = tmp_path_factory.mktemp("traces")
    with a_worker(folder, **environ), an_api(folder, threads=2, environ=environ) as found:
        yield found


def bought(api: Api, shop: Shop, *, headers: dict[str, str] | None = None, **body: Any) -> dict[str, Any]:
    """A run of the decision pack, from the submit to its end."""
    asked = (
        a_body(pack_type="decision", inputs={"question": "Who pays?", "context": f"The tenant pays {CANARY}."}) | body
    )
    content = json.dumps(asked).encode()
    lines = {
        "Host": "localhost",
        "Authorization": f"Bearer {shop.issued.plaintext}",
        "Idempotency-Key": a_request_key(),
        "Content-Type": "application/json",
        "Content-Length": str(len(content)),
    } | (headers or {})
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    answer = api.ask(f"POST {RUNS}?wait=50 HTTP/1.1\r\n{head}\r\n".encode() + content)
    assert answer.status == 200, answer
    run: dict[str, Any] = json.loads(answer.body)["run"]
    return run


def trace(
    collector: Collector, run: dict[str, Any], wanted: set[str] = OF_THE_RUN | OF_THE_SUBMIT
) -> dict[str, SpanSent]:
    trace_id = f"{span_ids.trace_of(run['meta']['trace_id']):032x}"
    wait_until(lambda: wanted <= set(collector.of(trace_id)), what=f"the spans of {trace_id}")
    return collector.of(trace_id)


def test_dpp_85_one_trace_leads_from_the_submit_over_queue_and_box_to_the_end(
    collector: Collector, api: Api, shop: Shop
) -> None:
    run = bought(api, shop)
    assert run["status"] == "COMPLETED"
    found = trace(collector, run)
    submit, execute = found["POST v1/runs"], found["run execute"]
    assert (submit.parent, submit.kind, submit.service) == ("", SERVER, "dpp-api")
    assert submit.trace_id == run["meta"]["trace_id"].removeprefix("t_"), "what the logs say, as it is"
    assert found["run hold"].parent == found["run send"].parent == submit.span_id
    assert (execute.parent, execute.service) == (found["run send"].span_id, "dpp-worker")
    assert {found[part].parent for part in ("pack in its box", "result store", "run finish")} == {execute.span_id}
    assert submit.facts == {
        "http.request.method": "POST",
        "http.route": "v1/runs",
        "http.response.status_code": 200,
        "dpp.tenant_id": shop.tenant.tenant_id,
        "dpp.trace_id": run["meta"]["trace_id"],
    }
    assert execute.facts == {
        "dpp.run_id": run["run_id"],
        "dpp.tenant_id": shop.tenant.tenant_id,
        "dpp.pack": "decision",
    }
    assert not any(span.failed for span in found.values())


def test_dpp_85_a_traceparent_gives_trace_and_parent_and_decides_nothing(
    collector: Collector, api: Api, shop: Shop
) -> None:
    theirs = uuid.uuid4().hex
    not_sampled = f"00-{theirs}-{CLIENT_SPAN}-00"
    run = bought(api, shop, headers={"traceparent": not_sampled})
    assert run["meta"]["trace_id"] == theirs
    assert trace(collector, run)["POST v1/runs"].parent == CLIENT_SPAN


def test_dpp_85_a_run_named_in_the_body_has_a_trace_of_its_own_linked_to_the_request(
    collector: Collector, api: Api, shop: Shop
) -> None:
    name = f"order-{uuid.uuid4()}"
    run = bought(api, shop, meta={"trace_id": name})
    assert run["meta"]["trace_id"] == name
    send = trace(collector, run, OF_THE_RUN)["run send"]
    request = wait_until(lambda: [span for span in collector.spans if span.facts.get("dpp.trace_id") == name])
    assert (send.parent, send.links) == ("", (request[0].trace_id,))


def test_dpp_85_what_is_sent_holds_nothing_of_inputs_keys_or_addresses(
    collector: Collector, api: Api, shop: Shop
) -> None:
    run = bought(api, shop, options={"inline": 1})
    assert CANARY in json.dumps(run)
    trace(collector, run)
    sent = b"".join(collector.bodies)
    secret = shop.issued.plaintext
    for never in (CANARY, secret, secret.rpartition("_")[2], "Who pays?", "Bearer", f"{RUNS}/{run['run_id']}", "wait="):
        assert never.encode() not in sent, never
    assert run["run_id"].encode() in sent


def test_dpp_85_of_an_exception_its_class_is_sent_and_not_what_it_says(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setattr(spans, "_maker", SpanMaker("dpp-test"))
    run_id, name = uuid.uuid4(), f"order-{uuid.uuid4()}"
    try:
        with (
            pytest.raises(ValueError, match=CANARY),
            spans.working_span(run_id, name, tenant_id="t_one", pack="url"),
            spans.within_span("result store"),
        ):
            raise ValueError(CANARY)
    finally:
        spans.stop_span_export()
    found = collector.of(f"{span_ids.trace_of(name):032x}")
    assert {one for one, span in found.items() if span.failed} == {"run execute", "result store"}
    (sent,) = [body for body in collector.bodies if run_id.hex in body.decode("utf-8", "replace").replace("-", "")]
    assert b"ValueError" in sent
    assert CANARY.encode() not in sent


@pytest.fixture
def spans_here(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process makes spans too, and hands them over when it is asked to stop."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setattr(spans, "_maker", SpanMaker("dpp-test"))
    yield
    spans.stop_span_export()


RECOVERIES = pytest.mark.parametrize(
    ("left_behind", "run_once", "finisher"),
    [
        (recovery.lease_ran_out, lease_reaper.reap_leases, "reaper"),
        (recovery.waited_an_hour, reservation_sweeper.sweep_reservations, "sweeper"),
        (recovery.left_claimed, claim_reconciler.reconcile_claims, "reconciler"),
    ],
    ids=["reaper", "sweeper", "reconciler"],
)


@RECOVERIES
def test_dpp_85_a_run_that_recovery_ends_has_its_end_in_its_trace(
    collector: Collector,
    spans_here: None,
    shop: Shop,
    left_behind: Callable[[Tenant], Run],
    run_once: RunOnce,
    finisher: str,
) -> None:
    run = left_behind(shop.tenant)
    run_once(now=clock.now(), limit=10)
    assert gear.row(run.run_id).finalize_stage == "COMMITTED"
    spans.stop_span_export()
    (finish,) = [span for span in collector.spans if span.facts.get("dpp.run_id") == str(run.run_id)]
    assert (finish.name, finish.trace_id) == ("run finish", f"{span_ids.trace_of(run.trace_id):032x}")
    assert finish.parent == f"{span_ids.sending_span_of(run.run_id):016x}", "below the span that sent it"
    assert (finish.links, finish.failed) == ((), False)
    assert finish.facts == {
        "dpp.run_id": str(run.run_id),
        "dpp.tenant_id": shop.tenant.tenant_id,
        "dpp.finisher": finisher,
    }


def test_dpp_85_a_cancel_ends_the_runs_trace_and_is_linked_to_its_own(
    collector: Collector, spans_here: None, shop: Shop
) -> None:
    submitted = shop.submit()
    run_id, theirs = uuid.UUID(submitted.json()["run_id"]), submitted.headers["X-Trace-Id"]
    canceled = shop.cancel(str(run_id))
    assert canceled.json()["status"] == "FAILED"
    spans.stop_span_export()
    finish = collector.of(f"{span_ids.trace_of(theirs):032x}")["run finish"]
    assert finish.parent == f"{span_ids.sending_span_of(run_id):016x}"
    assert finish.links == (f"{span_ids.trace_of(canceled.headers['X-Trace-Id']):032x}",)
    assert finish.facts["dpp.finisher"] == "owner"
    assert shop.issued.key.prefix.encode() not in b"".join(collector.bodies[-1:]), "who it was is in the audit trail"
