"""In a workspace: the two files written whole before each attempt, over the real wire; one task at a time."""

import json
import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from dpp_project import uuid7
from dpp_project.refusals import Refusal
from ops.automations.models import AutomationAttempt, AutomationTask
from ops.automations.tasks import buying, ending, workspace_files
from ops.automations.tasks.workspace_files import FilesLater
from ops.workspaces import selectors, using
from ops.workspaces.drivers.base import DriverUnavailable
from ops.workspaces.remote import client
from ops.workspaces.remote.server import WorkspaceServer
from runs.box.box import Box
from runs.models import Run
from tenants.models import Tenant
from tests.gear.builders import automations as gear
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop, due_again
from tests.gear.builders.recovery import tenant
from tests.gear.builders.work import session_box, worker_here
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-09")]
__all__ = ["session_box", "tenant", "worker_here"]


class Home:
    """A driver as far as a file goes: what was put stands in it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def put_file(self, container_id: str, path: str, content: bytes) -> None:
        assert container_id == "c-1"
        self.files[path] = content


@pytest.fixture
def shop(tenant: Tenant, worker_here: Box) -> AutomationShop:
    return an_automation_shop(tenant)


@pytest.fixture
def home() -> Home:
    return Home()


@pytest.fixture
def address(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The server of a workspace's host, on a port of its own."""
    told: list[str] = []
    driver: Any = home
    server = WorkspaceServer(driver, host="127.0.0.1", port=0, tell_address=told.append, tell_seconds=60)

    async def container(_workspace_id: str, *, running: bool = True) -> str:
        assert running
        return "c-1"

    monkeypatch.setattr(server, "_container", container)
    stop = threading.Event()
    thread = threading.Thread(target=server.run, args=(stop,))
    thread.start()
    wait_until(lambda: bool(told), what="the server listens")
    yield told[0]
    stop.set()
    thread.join(10)


def a_task(number: int = 1, *, workspace_id: uuid.UUID, source_name: str = "hooks") -> AutomationTask:
    source = gear.source(source_name)
    rule = gear.bare_rule(source, name=source_name, workspace_id=workspace_id)
    made = gear.bare_task(
        gear.event(source),
        rule,
        number=f"task-20260301-{number:03d}",
        workspace_id=workspace_id,
        context_file="Be brief.",
    )
    return AutomationTask.objects.select_related("rule").get(pk=made)


@pytest.fixture
def awake(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(_tenant_id: str, workspace_id: uuid.UUID) -> object:
        return workspace_id

    monkeypatch.setattr(selectors, "workspace_of", found)
    monkeypatch.setattr(using, "awake_workspace", lambda workspace, **_: using.Awake(str(workspace), address))


@pytest.mark.usefixtures("awake")
def test_lif_09_both_files_stand_there_whole_and_anew_for_each_task(home: Home) -> None:
    workspace_id = uuid7.new_uuid7()
    for number in (1, 2):
        task = a_task(number, workspace_id=workspace_id, source_name=f"s-{number}")
        assert workspace_files.write_workspace_files(task) is None
        assert home.files["CLAUDE.md"] == b"Be brief."
        assert json.loads(home.files[".kingdom-task.json"]) == {
            "task_id": task.number,
            "result_path": f".kingdom-results/{task.number}.json",
        }
    assert set(home.files) == {"CLAUDE.md", ".kingdom-task.json"}


@pytest.mark.usefixtures("awake")
def test_lif_09_the_files_are_written_before_each_attempt(home: Home, shop: AutomationShop) -> None:
    """The attempt before may have changed them."""
    shop.rule(workspace_id=str(uuid7.new_uuid7()), context_file="Be brief.", retries=1)
    shop.event(payload={"fail": True})
    for attempt in (1, 2):
        home.files.clear()
        shop.buy()
        assert set(home.files) == {"CLAUDE.md", ".kingdom-task.json"}
        assert Run.objects.count() == attempt
        shop.work()
        ending.end_due(limit=10)
    shop.buy()
    assert shop.only_task().outcome == "FAILED"


def test_lif_09_a_workspace_that_sleeps_or_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    task = a_task(workspace_id=uuid7.new_uuid7())
    assert isinstance(workspace_files.write_workspace_files(task), Refusal)
    monkeypatch.setattr(selectors, "workspace_of", lambda _tenant_id, workspace_id: workspace_id)
    for found in (using.Asleep(), using.Awake(str(task.workspace_id), None), using.Awake("w", "127.0.0.1:1")):
        monkeypatch.setattr(using, "awake_workspace", lambda _workspace, found=found, **_: found)
        assert isinstance(workspace_files.write_workspace_files(task), FilesLater)


@pytest.fixture
def clock_of_hosts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Their time stands still, and nothing is known of any of them."""
    now = [1_000.0]
    monkeypatch.setattr(workspace_files, "monotonic", lambda: now[0])
    monkeypatch.setattr(workspace_files, "silent_hosts", workspace_files.SilentHosts())
    return now


def test_lif_09_a_host_that_hangs_is_asked_once_for_all_its_workspaces(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, clock_of_hosts: list[float]
) -> None:
    """Each ask of it takes five seconds, in which nothing else is submitted."""
    shop, asked, hangs = an_automation_shop(tenant), list[str](), [True]

    async def put_file(address: str, *_: object) -> None:
        asked.append(address)
        if hangs[0]:
            raise client.HostSilent("The host of this workspace did not answer in time.")

    monkeypatch.setattr(selectors, "workspace_of", lambda _tenant_id, workspace_id: workspace_id)
    monkeypatch.setattr(using, "awake_workspace", lambda workspace, **_: using.Awake(str(workspace), "host:1"))
    monkeypatch.setattr(client, "put_file", put_file)
    for number in range(10):
        shop.rule(name=f"r-{number}", filter=f"event.n == {number}", workspace_id=str(uuid7.new_uuid7()))
        shop.event(f"e-{number}", payload={"n": number})
    shop.rule(name="plain", position=200)
    shop.event("plain", payload={"n": 10})
    shop.buy()
    assert (len(asked), Run.objects.count()) == (1, 1)
    reasons = AutomationAttempt.objects.filter(status="OPEN").order_by("next_try_at").values_list("reason", flat=True)
    assert list(reasons) == ["workspace host away"] * 9 + ["The host of this workspace did not answer in time."]
    for pause, times in ((1.5, 1), (0.5, 2), (10.0, 3), (2.0, 3), (3.0, 4)):
        clock_of_hosts[0] += pause
        due_again()
        shop.buy()
        assert len(asked) == times, pause
    hangs[0] = False
    clock_of_hosts[0] += 5.0
    due_again()
    shop.buy()
    assert (len(asked), Run.objects.count()) == (4 + 10, 11)


@pytest.mark.parametrize(
    ("error", "put_off", "beside"),
    [
        (client.HostSilent("It hangs."), [4.0, 4.0, 5.0, 15.0, 60.0], FilesLater(2.0, "workspace host away")),
        (DriverUnavailable("It stopped."), [2.0, 2.0, 5.0, 15.0, 60.0], None),
    ],
)
def test_lif_09_a_workspace_that_alone_does_not_answer_holds_up_no_other_for_long(
    monkeypatch: pytest.MonkeyPatch,
    clock_of_hosts: list[float],
    error: DriverUnavailable,
    put_off: list[float],
    beside: FilesLater | None,
) -> None:
    """Its tenant may have made it hang. The next that asks its host is another, and hears it."""
    first, second = (a_task(number, workspace_id=uuid7.new_uuid7(), source_name=f"s-{number}") for number in (1, 2))

    async def put_file(_address: str, workspace_id: str, *_: object) -> None:
        if workspace_id == str(first.workspace_id):
            raise error

    monkeypatch.setattr(selectors, "workspace_of", lambda _tenant_id, workspace_id: workspace_id)
    monkeypatch.setattr(using, "awake_workspace", lambda workspace, **_: using.Awake(str(workspace), "host:1"))
    monkeypatch.setattr(client, "put_file", put_file)
    for waited, seconds in zip((0, 9, 10, 60, 300), put_off, strict=True):
        later = workspace_files.write_workspace_files(first, waited=timedelta(seconds=waited))
        assert later == FilesLater(seconds, str(error))
        assert workspace_files.write_workspace_files(second) == beside
        clock_of_hosts[0] += 2.0
        assert workspace_files.write_workspace_files(second) is None


def test_lif_09_the_pause_of_a_host_grows_to_a_minute(clock_of_hosts: list[float]) -> None:
    hosts = workspace_files.SilentHosts()
    pauses, until = list[float](), clock_of_hosts[0] + 600
    while clock_of_hosts[0] < until:
        pauses.append(hosts.was_silent("host:1"))
        assert (hosts.pause_left("host:1"), hosts.pause_left("host:2")) == (pauses[-1], 0.0)
        clock_of_hosts[0] += pauses[-1]
    assert pauses == [2.0] * 5 + [5.0] * 10 + [15.0] * 16 + [60.0] * 5
    clock_of_hosts[0] += 61
    assert hosts.was_silent("host:1") == 2.0, "of a while ago nothing is known"
    hosts.answered("host:1")
    assert hosts.pause_left("host:1") == 0.0


@pytest.mark.contract("LIF-02")
def test_lif_02_a_workspace_has_one_task_at_work() -> None:
    workspace_id = uuid7.new_uuid7()
    first, second = (a_task(number, workspace_id=workspace_id, source_name=f"s-{number}") for number in (1, 2))
    for task in (first, second):
        buying.go_on(task.pk)
    second.refresh_from_db()
    assert (AutomationAttempt.objects.get().task_id, second.status, second.waits_for) == (
        first.pk,
        "PENDING",
        "workspace",
    )
