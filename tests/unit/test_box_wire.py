"""The bytes between worker and job, and what is made of them."""

import signal
from typing import Any

import pytest

from dpp_project.reasons import ReasonCode
from runs.box import wire
from runs.box.outcomes import Done, Evidence, Failed, Fault, Stopped, decide_outcome
from runs.box.wire import Frame, FrameReader, Garbled, Oversized

pytestmark = pytest.mark.contract("DPP-32", "DPP-36")


@pytest.mark.parametrize("size", [1, 7, 12, 13, 1_000])
def test_box_frames_come_out_as_they_went_in_however_they_are_cut(size: int) -> None:
    sent = [Frame({"kind": "log", "text": "\u00e9" * 40}, b"\0\xff" * 30), Frame({}), Frame({"a": [1, None]})]
    data = b"".join(wire.encode_frame(frame.document, frame.content) for frame in sent)
    reader = FrameReader()
    found = [frame for at in range(0, len(data), size) for frame in reader.feed(data[at : at + size])]
    assert found == sent


@pytest.mark.parametrize(
    "data",
    [b"x" * 12, b"DPPb\0\0\0\x01\0\0\0\0{", b"DPPb\0\0\0\x02\0\0\0\0[]", b"DPPb\0\0\0\x02\0\0\0\0\xff\xff"],
)
def test_box_garbage_is_no_frame(data: bytes) -> None:
    with pytest.raises(Garbled):
        list(FrameReader().feed(data))


def test_box_nesting_without_end_is_garbage_and_not_a_stack_overflow() -> None:
    text = b"[" * 200_000
    with pytest.raises(Garbled):
        list(FrameReader().feed(b"DPPb" + len(text).to_bytes(4, "big") + b"\0\0\0\0" + text))


def test_box_a_frame_that_would_pass_the_limit_is_refused_before_it_is_received() -> None:
    reader = FrameReader(limit_bytes=100)
    with pytest.raises(Oversized):
        list(reader.feed(b"DPPb\0\0\x01\0\0\0\0\0"))


def test_box_frames_that_pass_the_limit_together_are_refused() -> None:
    reader = FrameReader(limit_bytes=2 * len(wire.encode_frame({"a": 1})))
    one = wire.encode_frame({"a": 1})
    assert [len(list(reader.feed(one))) for _ in range(2)] == [1, 1]
    with pytest.raises(Oversized):
        list(reader.feed(one))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"bytes"])
def test_box_what_json_does_not_know_is_not_sent(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        wire.encode_frame({"value": value})


DONE = {"kind": "done", "data": {"a": 1}, "discard_log": [], "blocked_log": [], "reliability": 0.5}
KILLED = -signal.SIGKILL


def evidence(**values: Any) -> Evidence:
    return Evidence(**({"memory_bytes": 1_000, "ceiling_micros": 50, "code": 0} | values))


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (evidence(code=3), ReasonCode.PACK_CRASHED),
        (evidence(code=0), ReasonCode.PACK_CRASHED),
        (evidence(code=None), ReasonCode.PACK_CRASHED),
        (evidence(code=-signal.SIGSEGV), ReasonCode.PACK_CRASHED),
        (evidence(code=KILLED, why="processes"), ReasonCode.PACK_CRASHED),
        (evidence(code=KILLED, why="timebox"), ReasonCode.TIMEBOX_EXCEEDED),
        (evidence(code=-signal.SIGALRM), ReasonCode.TIMEBOX_EXCEEDED),
        (evidence(code=-signal.SIGXCPU), ReasonCode.TIMEBOX_EXCEEDED),
        (evidence(code=KILLED, why="memory"), ReasonCode.PACK_MEMORY_EXCEEDED),
        (evidence(code=-signal.SIGABRT, private_bytes=950), ReasonCode.PACK_MEMORY_EXCEEDED),
        (evidence(code=-signal.SIGABRT, private_bytes=500), ReasonCode.PACK_CRASHED),
        (evidence(fault=Fault.OVERSIZED, code=KILLED, why="stopped"), ReasonCode.PACK_FAILED),
        (evidence(fault=Fault.GARBLED, code=KILLED, why="stopped"), ReasonCode.PACK_CRASHED),
        (evidence(not_started="OSError"), ReasonCode.ENGINE_UNAVAILABLE),
        (evidence(answer=DONE), ReasonCode.PACK_FAILED),
        (evidence(answer={"kind": "failed", "reason": "PACK_FAILED", "detail": "x"}), ReasonCode.PACK_FAILED),
    ],
)
def test_box_every_end_has_its_reason(found: Evidence, reason: ReasonCode) -> None:
    found.spent_micros, found.tokens = 7, 2
    outcome = decide_outcome(found)
    assert isinstance(outcome, Failed)
    assert outcome.reason is reason
    assert outcome.detail
    unpaid = found.answer is DONE
    assert (outcome.spent_micros, outcome.tokens) == ((0, 0) if unpaid else (7, 2))


def test_box_a_complete_answer_stands_whatever_followed_and_costs_no_more_than_the_hold() -> None:
    outcome = decide_outcome(evidence(answer=DONE, charged=True, spent_micros=80, code=KILLED, why="timebox"))
    assert outcome == Done(
        data={"a": 1}, artifacts=(), spent_micros=50, tokens=0, discard_log=[], blocked_log=[], reliability=0.5
    )


def test_box_a_stopped_run_is_nobodys_result() -> None:
    assert decide_outcome(evidence(answer=DONE, charged=True, spent_micros=8, stopped=True)) == Stopped(spent_micros=8)
