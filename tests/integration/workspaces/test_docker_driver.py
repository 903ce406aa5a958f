"""What only Docker's driver can lose: a daemon that dies, images that are away, files of many owners."""

import gc
import io
import signal
import tarfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import docker.errors as docker_errors
import pytest

from ops.workspaces import naming
from ops.workspaces.drivers.base import DriverNoSpace, DriverUnavailable, VerbAnswer, WorkspaceSpec
from ops.workspaces.drivers.docker import daemon
from ops.workspaces.drivers.docker.driver import DockerDriver
from ops.workspaces.rows import driver_rows
from ops.workspaces.states import DesiredState, Phase
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.workspace_drivers import Tenancy, docker_driver
from tests.gear.builders.workspace_loops import loops, shell
from tests.gear.builders.workspace_world import DRIVER_ID, World
from tests.gear.servers import dockerd, image_registry
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.contract("WSP-11")]
COMING_AND_GOING = 100
ROUNDS = 5


@pytest.fixture(scope="module")
def docker() -> Iterator[DockerDriver]:
    with docker_driver() as made:
        yield made


@pytest.fixture(scope="module")
def tenancy(docker: DockerDriver) -> Tenancy:
    return Tenancy(docker)


def is_at(world: World, workspace_id: uuid.UUID, phase: Phase) -> bool:
    row = world.row(workspace_id)
    return (row.phase, row.operation) == (phase, "NONE")


def packed(*members: tuple[str, int, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, owner, content in members:
            member = tarfile.TarInfo(name)
            member.uid, member.gid, member.mode, member.size = owner, owner + 1, 0o640, len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_files_of_foreign_owners_go_out_and_come_back_as_they_were(docker: DockerDriver, tenancy: Tenancy) -> None:
    owners = {"./mine": 1_000, "./root-s": 0, "./another-s": 4_242, "./far": 2_000_000_000}
    content = packed(*[(name, owner, name.encode()) for name, owner in owners.items()])
    for _ in range(2):
        volume = tenancy.volume(tenancy.label())
        docker.import_(volume, iter([content]))
        with docker.export(volume) as stream:
            content = stream.read()
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            found = {one.name: (one.uid, one.gid, one.mode) for one in archive if one.isfile()}
        assert found == {name: (owner, owner + 1, 0o640) for name, owner in owners.items()}


def test_a_tool_that_was_made_and_never_started_is_removed(
    docker: DockerDriver, tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By who made it; or an hour after its death. The daemon would refuse to delete its volume for ever."""
    label = tenancy.label()
    volume = tenancy.volume(label)
    monkeypatch.setattr(docker._api, "start", _cannot)
    with pytest.raises(ZeroDivisionError):
        docker.usage_bytes(volume)
    assert docker._api.containers(all=True, filters={"volume": [volume]}) == []
    with monkeypatch.context() as dies:
        dies.setattr(docker._api, "remove_container", _cannot_be_asked)
        with pytest.raises(ZeroDivisionError):
            docker.usage_bytes(volume)
    docker.remove_leftovers()
    assert docker.delete_volume(volume) is VerbAnswer.IN_USE, "its maker may be about to start it"
    monkeypatch.setattr("ops.workspaces.drivers.docker.driver.LEFTOVER_SECONDS", -1)
    docker.remove_leftovers()
    assert docker.delete_volume(volume) is VerbAnswer.DONE


def _cannot(_container_id: str) -> None:
    raise ZeroDivisionError


def _cannot_be_asked(_container_id: str, *, force: bool) -> None:
    raise docker_errors.DockerException(f"dead, {force}")


def test_a_volume_without_room_is_an_answer(docker: DockerDriver, tenancy: Tenancy) -> None:
    label = tenancy.label()
    volume = f"ws-{label.workspace_id}-home-00000000-1"
    labels = {daemon.INSTALLATION: docker._installation, **daemon.labels_of(label)}
    small = {"type": "tmpfs", "device": "tmpfs", "o": "size=4m"}
    docker._api.create_volume(volume, labels=labels, driver_opts=small)
    with pytest.raises(DriverNoSpace):
        docker.import_(volume, iter([packed(("./large", 1_000, bytes(8_000_000)))]))
    assert docker.delete_volume(volume) is VerbAnswer.DONE


WRITER = (
    "import os\nfd = os.open('log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\nn = os.fstat(fd).st_size\n"
    "while True:\n  os.write(fd, b'x'); os.fsync(fd); n += 1; print(n, flush=True)"
)


def test_the_last_byte_on_disk_is_in_the_archive(docker: DockerDriver, tenancy: Tenancy) -> None:
    """A writer that is killed in the middle, five times over the same home; each archive is of one tree."""
    spec = WorkspaceSpec(command=("/usr/bin/python3", "-c", WRITER))
    made = tenancy.inhabited(spec)
    for _ in range(ROUNDS):
        container = made.container_id
        wait_until(lambda: docker.logs(container, offset=30, bytes_max=1).content)  # noqa: B023  called at once
        docker._api.kill(container)
        wait_until(lambda: not made.seen().running)  # noqa: B023
        said = docker.logs(container, offset=0, bytes_max=10_000_000).content.split(b"\n")[:-1]
        with docker.export(made.volume) as stream:
            first = stream.read()
        with docker.export(made.volume) as stream:
            assert stream.read() == first
        with tarfile.open(fileobj=io.BytesIO(first)) as archive:
            assert archive.getmember("./log").size >= int(said[-1]) > 0
        made.remove()
        made = tenancy.inhabited(spec, label=made.label, volume=made.volume)
    made.remove()


def test_of_a_hundred_that_came_and_went_nothing_is_left(docker: DockerDriver, tenancy: Tenancy) -> None:
    kept = {one.name for one in docker.list().volumes}, {one.container_id for one in docker.list().containers}
    folders = set(docker._inside.root.glob("*"))

    def comes_and_goes(_number: int) -> VerbAnswer:
        made = tenancy.inhabited()
        made.remove()
        return docker.delete_volume(made.volume)

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(comes_and_goes, range(COMING_AND_GOING))) == {VerbAnswer.DONE}
    listing = docker.list()
    assert ({one.name for one in listing.volumes}, {one.container_id for one in listing.containers}) == kept
    assert set(docker._inside.root.glob("*")) == folders
    everything = docker._api.containers(all=True)
    assert [one["Id"] for one in everything if one["Id"] not in kept[1]] == [], "tools are gone too"


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the SDK's socket that found no daemon
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("valkey", "aws")
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_a_daemon_that_comes_back_has_its_workspaces_run_again(by: signal.Signals) -> None:
    if (why := dockerd.why_not()) is not None:
        pytest.skip(why)
    with dockerd.a_docker_daemon() as engine, docker_driver(engine) as driver:
        driver_rows.register_driver(DRIVER_ID, driver)
        world = World(a_tenant(), driver_id="nowhere")
        one = world.workspace()

        def runs() -> bool:
            return is_at(world, one, Phase.RUNNING) and driver.look_container(naming.container_name(one)) is not None

        with loops(driver, driver_id=DRIVER_ID, times=1):
            wait_until(runs, seconds=60)
            shell(driver, one, "echo kept >a && sync")
            before = driver.look_container(naming.container_name(one))
            engine.stop(by)
            wait_until(lambda: world.seen(one).volume.stale, seconds=60, what="a look that fails")
            row = world.row(one)
            assert (row.phase, row.operation, row.error_count) == ("RUNNING", "NONE", 0)
            with pytest.raises(DriverUnavailable):
                driver.list()
            engine.start()

            def runs_anew() -> bool:
                now = driver.look_container(naming.container_name(one))
                return runs() and now is not None and before is not None and now.container_id != before.container_id

            wait_until(runs_anew, seconds=90)
            assert shell(driver, one, "cat a") == "kept\n"
            assert not (world.row(one).error_info or {}).get("is_terminal")
            world.wish(one, DesiredState.STANDBY)
            wait_until(lambda: is_at(world, one, Phase.STANDBY), seconds=60)
    gc.collect()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("valkey", "aws")
def test_an_image_that_is_not_there_is_pulled_and_waited_for() -> None:
    """However long a registry is away: it is asked again later, and ends in no ERROR."""
    if (why := dockerd.why_not()) is not None:
        pytest.skip(why)
    with (
        image_registry.an_image_registry(dockerd.packages_as_tar()) as registry,
        dockerd.a_docker_daemon(has_image=False) as engine,
        docker_driver(engine, [registry.image]) as driver,
    ):
        driver_rows.register_driver(DRIVER_ID, driver)
        world = World(a_tenant(), driver_id="nowhere")
        one = world.workspace(spec={"image": registry.image})
        with loops(driver, driver_id=DRIVER_ID, times=1):
            wait_until(lambda: world.row(one).reconcile_failure_count >= 3, seconds=60, what="to be put off")
            wait_until(lambda: registry.asked, seconds=60, what="the registry to be asked")
            row = world.row(one)
            assert row.error_info is not None
            assert (row.error_count, row.operation, row.error_info["reason"]) == (0, "PROVISIONING", "ImageMissing")
            registry.is_away = False
            wait_until(
                lambda: world.row(one).phase == Phase.RUNNING and world.row(one).operation == "NONE", seconds=120
            )
            assert shell(driver, one, "echo here") == "here\n"
            assert world.row(one).error_count == 0
            world.wish(one, DesiredState.STANDBY)
            wait_until(lambda: is_at(world, one, Phase.STANDBY), seconds=60)
