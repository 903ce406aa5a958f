"""The pack `command` in the box: paid before each second, and every way in which a command can end."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dpp_project.reasons import ReasonCode
from runs.box.box import Box
from runs.box.outcomes import Done, Failed, PackOutcome, Stopped
from runs.box.running import PackRequest
from runs.packs.command import EXAMPLE_ID, PACK, SECOND_MICROS
from runs.packs.pack import CommandEnd, CommandResult, EngineUnavailable, Reach
from tests.gear.builders.box import begin
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("WSP-13")
MODULE = "runs.packs.command"


class Worker:
    """The worker's side: a command that lasts, and can be stopped."""

    def __init__(
        self, *, seconds: float = 0.0, fails: str | None = None, exit_code: int = 0, hears: bool = True
    ) -> None:
        self._hears = hears
        self._lasts = seconds
        self._fails = fails
        self._exit_code = exit_code
        self._stop: asyncio.Event | None = None
        self.given: list[float] = []
        self.cut = False

    async def run(self, *, seconds: float) -> CommandResult:
        self.given.append(seconds)
        self._stop = asyncio.Event()
        if self._fails is not None:
            raise EngineUnavailable(self._fails)
        end, code = CommandEnd.EXITED, self._exit_code
        try:
            async with asyncio.timeout(min(self._lasts, seconds)):
                await self._stop.wait()
            end, code = CommandEnd.KILLED, None  # type: ignore[assignment]
        except TimeoutError:
            if self._lasts > seconds:
                end, code = CommandEnd.DEADLINE, None  # type: ignore[assignment]
        except asyncio.CancelledError:
            self.cut = True
            raise
        return CommandResult(
            end=end, exit_code=code, stdout=b"out\xff", stderr=b"err", stdout_cut=True, stderr_cut=False, seconds=0.5
        )

    async def stop(self) -> None:
        assert self._stop is not None
        if not self._hears:
            raise EngineUnavailable("The host of this workspace does not answer.")
        self._stop.set()


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    made = Box([MODULE])
    yield made
    made.close()


def a_command(
    worker: Worker, *, ceiling: int = 100 * SECOND_MICROS, timebox: float = 30.0, **inputs: Any
) -> PackRequest:
    return PackRequest(
        run_id="a-run",
        module=MODULE,
        inputs={"workspace_id": EXAMPLE_ID, "argv": ["true"], "stdin": "", "deadline_sec": 20} | inputs,
        timebox_seconds=timebox,
        ceiling_micros=ceiling,
        memory_bytes=PACK.memory_bytes,
        reach=Reach(command=worker),
    )


def ran(box: Box, worker: Worker, **values: Any) -> PackOutcome:
    return begin(box, a_command(worker, **values)).wait()


def test_wsp_13_a_command_that_exits_with_an_error_is_a_result_and_its_second_is_paid(box: Box) -> None:
    worker = Worker(exit_code=3)
    outcome = ran(box, worker)
    assert isinstance(outcome, Done)
    assert outcome.spent_micros == SECOND_MICROS
    assert outcome.data == {
        "ended": "exited",
        "exit_code": 3,
        "seconds": 0.5,
        "stdout": "out\ufffd",
        "stderr": "err",
        "stdout_cut": True,
        "stderr_cut": False,
    }
    assert worker.given == [20.0]


def test_wsp_13_it_is_given_no_more_than_the_timebox_leaves(box: Box) -> None:
    worker = Worker()
    assert isinstance(ran(box, worker, timebox=10.0), Done)
    assert 5.0 < worker.given[0] <= 7.0


def test_wsp_13_each_second_is_paid_and_the_hold_ends_it(box: Box) -> None:
    began = time.monotonic()
    outcome = ran(box, Worker(seconds=60.0), ceiling=2 * SECOND_MICROS + SECOND_MICROS // 2)
    assert isinstance(outcome, Done)
    assert (outcome.data["ended"], outcome.data["exit_code"]) == ("hold", None)
    assert outcome.spent_micros == 2 * SECOND_MICROS
    assert time.monotonic() - began >= 2.0, "both seconds that were paid"


def test_wsp_13_a_stop_that_gets_lost_lets_no_command_run_on_unpaid(box: Box) -> None:
    worker = Worker(seconds=60.0, hears=False)
    outcome = ran(box, worker, ceiling=SECOND_MICROS)
    assert isinstance(outcome, Done)
    assert (outcome.data["ended"], outcome.spent_micros, worker.given) == ("hold", SECOND_MICROS, [2.0])


def test_wsp_13_its_own_deadline_is_a_result(box: Box) -> None:
    outcome = ran(box, Worker(seconds=60.0), deadline_sec=1)
    assert isinstance(outcome, Done)
    assert outcome.data["ended"] == "deadline"


def test_wsp_13_a_workspace_that_is_asleep_or_away_costs_nothing(box: Box) -> None:
    outcome = ran(box, Worker(fails="The workspace does not run."))
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.detail) == (ReasonCode.ENGINE_UNAVAILABLE, "The workspace does not run.")


def test_wsp_13_a_cancel_reaches_the_command_at_once(box: Box) -> None:
    worker = Worker(seconds=60.0)
    running = begin(box, a_command(worker))
    with ThreadPoolExecutor(1) as slot:
        outcome = slot.submit(running.wait)
        wait_until(lambda: worker.given, what="the command to begin")
        running.stop()
        assert isinstance(outcome.result(), Stopped)
    wait_until(lambda: worker.cut, what="its worker to have let it go")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"argv": []}, "at least 1"),
        ({"argv": [""]}, "must not be empty"),
        ({"argv": ["a\0b"]}, "NUL"),
        ({"argv": ["x"] * 65}, "at most 64"),
        ({"workspace_id": "../x"}, "match pattern"),
        ({"deadline_sec": 0}, "greater than or equal to 1"),
        ({"deadline_sec": 88}, "less than or equal to 87"),
        ({"shell": True}, "Extra inputs"),
    ],
)
def test_wsp_13_what_cannot_be_done_is_refused_by_its_field(changed: dict[str, Any], said: str) -> None:
    inputs = {"workspace_id": EXAMPLE_ID, "argv": ["true"]} | changed
    with pytest.raises(ValueError, match=said) as refused:
        PACK.inputs.model_validate(inputs)
    assert next(iter(changed)) in str(refused.value)


def test_wsp_13_a_deadline_asks_for_a_timebox_that_is_longer() -> None:
    assert PACK.least_timebox(PACK.inputs(workspace_id=EXAMPLE_ID, argv=["true"], deadline_sec=30)) == 33
