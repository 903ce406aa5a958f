"""A pack's rehearsal warms the process that its runs are forked from, and whatever it does, the pack works (DPP-32)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpp_project.processes import process_tree
from runs.box.box import Box
from runs.box.outcomes import Done
from runs.box.running import PackRequest
from runs.packs import registry
from tests.gear.builders.box import begin, lives
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("DPP-32")

REHEARSALS = "tests.gear.faults.rehearsals"
BAD = ("raises", "hangs", "crashes", "leaves_thread", "leaves_child", "leaves_socket")


@contextmanager
def a_box(*modules: str) -> Iterator[Box]:
    box = Box(modules)
    try:
        yield box
    finally:
        box.close()


def data(box: Box, module: str) -> dict[str, Any]:
    job = PackRequest(
        run_id="r", module=module, inputs={}, timebox_seconds=20, ceiling_micros=10, memory_bytes=100_000_000
    )
    found = begin(box, job).wait()
    assert isinstance(found, Done), found
    return found.data


def zygotes(box: Box) -> list[int]:
    nursery = box.nursery_pid()
    assert nursery is not None
    return process_tree.child_processes(nursery)


def test_box_runs_find_their_pack_rehearsed() -> None:
    with a_box(f"{REHEARSALS}.well") as box:
        assert data(box, f"{REHEARSALS}.well") == {"rehearsed": ["begun"]}


def test_box_a_rehearsal_that_goes_wrong_costs_no_run_and_no_other_pack() -> None:
    """Each zygote is made anew without its rehearsal, beside one whose rehearsal went well and that stays as it is."""
    modules = [f"{REHEARSALS}.{name}" for name in (*BAD, "well")]
    with a_box(*modules) as box:
        first = box.ready(f"{REHEARSALS}.well")[0].pid
        assert {module: data(box, module)["rehearsed"] for module in modules} == {
            module: ["begun"] if module.endswith("well") else [] for module in modules
        }
        assert box.nursery_pid() == first
        assert len(zygotes(box)) == len(modules)
        for pid in zygotes(box):
            assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
            assert process_tree.child_processes(pid) == []
        assert not [pid for pid in process_tree.process_tree_of(first) if "sleep" in _command(pid)]


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8") if lives(pid) else ""


def test_box_a_zygote_that_dies_after_its_rehearsal_ends_all_as_ever() -> None:
    with a_box(f"{REHEARSALS}.well", f"{REHEARSALS}.raises") as box:
        for name in ("well", "raises"):
            data(box, f"{REHEARSALS}.{name}")
        for _ in range(2):
            before = [box.nursery_pid(), *zygotes(box)]
            os.kill(zygotes(box)[-1], 9)
            wait_until(lambda: not any(lives(pid or 0) for pid in before), what="all to be gone")  # noqa: B023  at once
            assert data(box, f"{REHEARSALS}.well") == {"rehearsed": ["begun"]}
            assert data(box, f"{REHEARSALS}.raises") == {"rehearsed": []}


def test_box_a_rehearsal_leaves_no_choice_behind_that_a_run_must_make_itself() -> None:
    module = f"{REHEARSALS}.touches"
    with a_box(module) as box:
        found = [data(box, module) for _ in range(2)]
    folders = [Path(one["folder"]).name for one in found]
    assert folders == ["1", "2"]
    assert found[0]["number"] != found[1]["number"]


def test_box_every_pack_for_sale_is_rehearsed_and_leaves_one_thread(capfd: pytest.CaptureFixture[str]) -> None:
    with a_box(*registry.pack_modules().values()) as box:
        for module in registry.pack_modules().values():
            box.ready(module)
        for pid in zygotes(box):
            assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
            assert process_tree.child_processes(pid) == []
    assert all(pack.rehearsal is not None for pack in registry.packs_for_sale().values())
    assert "not rehearsed" not in capfd.readouterr().err
