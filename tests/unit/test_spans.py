"""What traces are made of, and that without a collector nothing is made or loaded (DPP-85)."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from dpp_project.observe import span_ids, spans, tracing

pytestmark = pytest.mark.contract("DPP-85")

ROOT = Path(__file__).resolve().parents[2]
STARTED = """
import sys, uuid
from dpp_project.observe import span_ids, spans
spans.start_span_export("api")
assert spans.answering_span("t_" + "1" * 32, 0) is None
with spans.answering_span_here(None), spans.within_span("run hold"), spans.sending_span(uuid.uuid4(), "t"):
    pass
spans.stop_span_export()
print(sorted(name for name in sys.modules if name.startswith("opentelemetry")))
"""


def loaded(**environ: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", STARTED], cwd=ROOT, env=os.environ | environ, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


def test_dpp_85_without_a_collector_nothing_of_it_is_loaded() -> None:
    assert loaded() == "[]"
    assert spans.within_span("a") is spans.within_span("b") is spans.answering_span_here(None), (
        "and nothing is made either"
    )


def test_dpp_85_our_own_trace_ids_and_those_of_a_traceparent_are_the_traces_as_they_are() -> None:
    made = tracing.make_trace_id()
    assert f"{span_ids.trace_of(made):032x}" == made.removeprefix("t_")
    assert span_ids.trace_of("0af7651916cd43dd8448eb211c80319c") == 0x0AF7651916CD43DD8448EB211C80319C


def test_dpp_85_any_other_text_has_a_trace_of_its_own_and_always_the_same() -> None:
    names = ["order-77", "order-78", "0" * 32, "t_" + "0" * 32, "한"]
    found = [span_ids.trace_of(name) for name in names]
    assert found == [span_ids.trace_of(name) for name in names]
    assert len(set(found)) == len(names)
    assert all(0 < one < 1 << 128 for one in found)
    assert (span_ids.trace_of(None), span_ids.trace_of("")) == (0, 0)


def test_dpp_85_the_span_that_sends_a_run_is_known_by_the_run() -> None:
    run = uuid.uuid4()
    assert span_ids.sending_span_of(run) == span_ids.sending_span_of(run) != span_ids.sending_span_of(uuid.uuid4())


def test_dpp_85_a_parent_is_taken_in_its_own_trace_alone() -> None:
    headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    assert tracing.parent_span(headers, "0af7651916cd43dd8448eb211c80319c") == 0xB7AD6B7169203331
    assert tracing.parent_span(headers, "order-77") == 0
    assert tracing.parent_span({}, "order-77") == 0
