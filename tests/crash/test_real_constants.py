"""The same deaths under the real constants: lease of 120 s, claim of 5 min, ticks of 30 and 60 s, and one wait for all.

Everywhere else in the suite rows are made older. Here nobody touches a clock: customers and workers are killed at each
request they send, each in a shop of its own; when leases have run out and submits count as abandoned, reaper and
auditor are killed at each of theirs; then a real beat and a real worker come up, as after the end of the whole machine,
and have the time that the constants give them and a tick.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from redis import Redis

from budget.models import PendingCredit
from budget.rebuild import rebuild
from dpp_project.constants import LEASE_TTL_SECONDS, RECOVERY_INTERVAL_SECONDS
from reaper import hold_auditor, lease_reaper
from runs.models import Run, RunHistory
from runs.reads import for_recovery
from runs.states import Stage, Status
from runs.timing import ABANDONED_AFTER_SECONDS, RECONCILE_AFTER_SECONDS
from runs.worker import execution
from tests.gear.builders import recovery
from tests.gear.builders.shop import a_shop
from tests.gear.faults import scenes
from tests.gear.faults.cutpoints import Ended, Forge, wire_of_the_services
from tests.gear.faults.scenes import InstantBox, Scene, Situation
from tests.gear.faults.wire import Fault
from tests.gear.servers.live_processes import a_beat, a_worker
from tests.gear.waiting import wait_until
from tests.proving import proofs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-40", "DPP-42", "DPP-44", "DPP-79")]

KILLS: Final = (Fault.KILL_BEFORE, Fault.KILL_AFTER)
VICTIMS: Final = 20
REQUESTS: Final = 9
"""Runs for each loop to die over, one at a time, and how far into its pass: beyond the commit of that one run."""
PATIENCE_SECONDS: Final = 40
"""What a pass itself may take on a busy machine."""


@dataclass(frozen=True)
class Case:
    scene: Scene
    answer: Any = None


def execute(scene: Scene) -> str:
    """As a worker does with the message in its hand; the message stays for whoever comes after it."""
    return execution.execute_run(scene.run_id, message=None).value


CUSTOMERS_AND_WORKERS: Final = (
    Situation("submit", scenes.nothing, scenes.submit),
    Situation("worker", scenes.queued_and_sent, execute),
    Situation("cancel while queued", scenes.queued_and_sent, scenes.cancel),
    Situation("cancel at work", scenes.at_work, scenes.cancel),
    Situation("top-up", scenes.nothing, scenes.top_up),
)
WAITING: Final = (
    Situation("left at work", scenes.at_work, lambda _scene: None),
    Situation("left unmarked", lambda shop: recovery.unmarked(shop.tenant), lambda _scene: None),
)


@pytest.fixture
def forge(valkey: Redis, aws: str, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    recovery.empty_queues()
    rebuild.rebuild_all()
    box = InstantBox()
    monkeypatch.setattr(execution, "box", lambda: box)
    with wire_of_the_services() as wire:
        yield Forge(wire)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_dpp_42_under_the_real_constants_each_run_ends_once_and_in_time(
    forge: Forge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = [Case(scenes.begin(situation, a_shop())) for situation in WAITING for _ in range(VICTIMS)]
    lived: list[Case] = []
    died: list[Case] = []
    for situation in CUSTOMERS_AND_WORKERS:
        some_lived, some_died = everywhere_killed(forge, situation)
        lived, died = lived + some_lived, died + some_died
    deaths = len(died)
    deaths += killed_at_work(
        forge, hold_auditor.audit_holds, due=for_recovery.abandoned_runs, seconds=ABANDONED_AFTER_SECONDS
    )
    deaths += killed_at_work(forge, lease_reaper.reap_leases, due=for_recovery.lease_expired, seconds=LEASE_TTL_SECONDS)
    with a_beat(tmp_path), a_worker(tmp_path):
        wait_until(
            lambda: not open_runs() and not PendingCredit.objects.exists(),
            seconds=RECONCILE_AFTER_SECONDS + RECOVERY_INTERVAL_SECONDS + PATIENCE_SECONDS,
            pause_seconds=1.0,
            what="the last run to end",
        )
    for case in (*waiting, *lived, *died):
        scenes.holds_true(case.scene, case.answer)
    said = nobody_was_early()
    with capsys.disabled():
        print(f"\n{deaths} deaths; {said}")  # noqa: T201
    assert deaths >= 60
    proofs.report(cases=deaths)


def everywhere_killed(forge: Forge, situation: Situation) -> tuple[list[Case], list[Case]]:
    """One death before and one after each request. Two are let live, to count; the first of them loads the scripts."""
    lived = [acted(forge, situation) for _ in range(2)]
    assert not any(ended.killed or ended.failed for ended, _ in lived)
    count = len(lived[-1][0].requests)
    assert count >= 3
    died = []
    for at in range(count):
        for fault in KILLS:
            ended, case = acted(forge, situation, at=at, fault=fault)
            assert ended.killed, (situation.name, at, fault)
            died.append(case)
    return [case for _, case in lived], died


def acted(forge: Forge, situation: Situation, **how: Any) -> tuple[Ended, Case]:
    scene = scenes.begin(situation, a_shop())
    ended = forge.run(lambda: situation.act(scene), **how)
    return ended, Case(scene, ended.answer)


def killed_at_work(forge: Forge, run_once: Any, *, due: Callable[[], Any], seconds: int) -> int:
    """When enough is due, the loop takes one run at a time and is killed at each of its requests for it."""
    wait_until(
        lambda: due().count() >= VICTIMS, seconds=seconds + PATIENCE_SECONDS, pause_seconds=1.0, what=due.__name__
    )
    one = partial(recovery.run_loop, run_once, limit=1)
    count = min(REQUESTS, *(len(forge.run(lambda: one().changed).requests) for _ in range(2)))
    for at in range(count):
        for fault in KILLS:
            assert forge.run(lambda: one().changed, at=at, fault=fault).killed, (run_once, at, fault)
    return count * len(KILLS)


def open_runs() -> bool:
    return Run.objects.exclude(finalize_stage=Stage.COMMITTED).exists()


def nobody_was_early() -> str:
    """A lease is a lease and a claim a claim: whoever recovers waits for the end of it, to the last second."""
    waited: dict[str, list[float]] = {"reaper": [], "reconciler": []}
    for run_id in Run.objects.values_list("run_id", flat=True):
        steps = list(RunHistory.objects.filter(run_id=run_id).order_by("version"))
        started = next((step.at for step in steps if step.status == Status.PROCESSING), None)
        claimed = next((step for step in steps if step.stage == Stage.CLAIMED), None)
        taken_over = next((step for step in steps if step.stage == Stage.CLAIMED and step.actor == "reconciler"), None)
        if claimed is not None and claimed.actor == "reaper" and started is not None:
            waited["reaper"].append((claimed.at - started).total_seconds())
        if claimed is not None and taken_over is not None:
            waited["reconciler"].append((taken_over.at - claimed.at).total_seconds())
    assert min(waited["reaper"]) >= LEASE_TTL_SECONDS
    assert min(waited["reconciler"]) >= RECONCILE_AFTER_SECONDS
    return "; ".join(
        f"{actor}: {len(all_)} runs, {min(all_):.0f} to {max(all_):.0f} s after their start or claim"
        for actor, all_ in waited.items()
    )
