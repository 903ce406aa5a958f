"""What a job says of its progress: put together where it comes too fast, and taken for what it is worth."""

import time
from typing import Any

import pytest

from runs.box import claimed, pack_process, wire
from runs.worker.telling_progress import LINE_LENGTH_MAX, joined_frames

pytestmark = pytest.mark.contract("DPP-90")


def test_what_comes_too_soon_goes_with_the_next_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    telling = pack_process._Telling(sent.append)
    telling.tell(percent=1, line="a\n")
    telling.tell(percent=2, line="b\n")
    telling.tell(note="third", line="c\n")
    assert sent == [{"kind": "progress", "percent": 1, "line": "a\n"}]
    now[0] += pack_process.TELL_SECONDS
    telling.tell(percent=4)
    assert sent[1:] == [{"kind": "progress", "percent": 4, "note": "third", "line": "b\nc\n"}]
    telling.tell(line="d\n")
    telling.flush()
    telling.flush()
    assert sent[2:] == [{"kind": "progress", "line": "d\n"}]


def test_lines_that_do_not_fit_lose_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    telling = pack_process._Telling(sent.append)
    telling.tell(line="x")
    telling.tell(line="a" * 3_000)
    telling.tell(line="end")
    telling.flush()
    assert sent[1]["line"] == "a" * (wire.PROGRESS_LINE_MAX - 3) + "end"
    assert joined_frames({"line": "a" * LINE_LENGTH_MAX, "note": "one"}, {"line": "b", "percent": 3}) == {
        "line": "a" * (LINE_LENGTH_MAX - 1) + "b",
        "note": "one",
        "percent": 3,
    }


@pytest.mark.parametrize(
    "said",
    [{"percent": "3"}, {"percent": True}, {"percent": -1}, {"percent": 101}, {"note": 3}, {"line": ["a"]}],
)
def test_a_member_of_another_form_is_no_frame(said: dict[str, Any]) -> None:
    with pytest.raises(wire.Garbled):
        claimed.claimed_progress(said)


def test_a_member_is_taken_within_its_length_and_without_what_steers_a_terminal() -> None:
    found = claimed.claimed_progress(
        {
            "kind": "progress",
            "percent": 12.5,
            "note": "a\x1b[2Jb\x00",
            "line": "z" * 5_000 + "\ttab\nend\ud800",
            "at": "never",
        }
    )
    assert set(found) == {"percent", "note", "line"}
    assert (found["percent"], found["note"]) == (12.5, "a [2Jb ")
    assert len(found["line"]) == wire.PROGRESS_LINE_MAX
    assert found["line"].endswith("z\ttab\nend ")


def test_a_frame_that_says_nothing_is_empty() -> None:
    assert claimed.claimed_progress({"kind": "progress"}) == {}
