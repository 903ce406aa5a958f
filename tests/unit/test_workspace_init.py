"""Parts of a workspace's pid 1 that need no workspace: frames, the ring of logs, when a command is started again."""

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from ops.workspaces.init import pid1

pytestmark = pytest.mark.contract("WSP-11")
SIZE = pid1.CHUNK + 10_000


@pytest.fixture
def ring() -> Iterator[pid1.LogRing]:
    with tempfile.TemporaryFile() as file:
        made = pid1.LogRing(file.fileno(), SIZE)
        made.create()
        yield made


def test_a_ring_answers_what_was_written_or_says_that_it_is_gone(ring: pid1.LogRing) -> None:
    pieces, written = random.Random(7), b""  # noqa: S311
    for _ in range(60):
        piece = os.urandom(pieces.randrange(1, 20_000))
        ring.append(piece)
        written += piece
        offset = pieces.randrange(len(written) + 1)
        content, begin = ring.read(offset, 3_000)
        assert begin == max(offset, len(written) - 10_000)
        assert content == written[begin : begin + 3_000]
    assert ring.total() == len(written) > 3 * SIZE
    assert ring.read(len(written) + 5, 10) == (b"", len(written))
    ring.append(written)
    assert ring.read(0, SIZE) == (written[-10_000:], 2 * len(written) - 10_000)


def test_a_file_that_is_no_ring_is_refused() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(200_000))
        file.flush()
        with pytest.raises(ValueError, match="no ring"):
            pid1.LogRing(file.fileno()).read(0, 10)


def test_a_frame_is_read_when_its_header_is_whole() -> None:
    frame = pid1.pack_frame({"verb": "exec", "word": "\udcff"}, b"body")
    for cut in range(len(frame) - 4):
        assert pid1.unpack_init_header(frame[:cut]) is None
    found = pid1.unpack_init_header(frame)
    assert found == ({"verb": "exec", "word": "\udcff", "body": 4}, len(frame) - 4)
    for wrong in (b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\2{}", b"\0\0\0\1{"):
        with pytest.raises(ValueError):  # noqa: PT011  JSON's own is one of them
            pid1.unpack_init_header(wrong)


@dataclass
class Waiting:
    """What the command asks of its init, noted."""

    config: pid1.Config
    waits: list[float] = field(default_factory=list)
    shutting_down: bool = False

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        assert what.__name__ == "_again"
        self.waits.append(seconds)

    def save_state(self) -> None:
        pass


def test_a_command_that_ends_at_once_is_started_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    config = pid1.Config({"command": ["x"], "environment": {}, "home": "/", "rlimits": []})
    init = Waiting(config)
    command = pid1.Command(cast("Any", init))
    at = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])

    def ran(seconds: float, code: int) -> tuple[float, int]:
        command._begun = at[0]
        at[0] += seconds
        command.ended(code)
        return init.waits[-1], command.crashes_in_a_row

    assert [ran(9.9, 1) for _ in range(8)] == [
        (1, 1), (2, 2), (4, 3), (8, 4), (16, 5), (32, 6), (60, 7), (60, 8)
    ]  # fmt: skip
    assert [ran(0, 1) for _ in range(2_000)][-1] == (60, 2_008), "a day of crashes does not end the init"
    assert ran(10, 3) == (1, 0)
    assert ran(0, 0) == (1, 1)
    assert command.told() == {"restarts": 0, "crashes_in_a_row": 1, "command_exit_code": 0}
    init.shutting_down = True
    command._again()
    assert command.restarts == 0
