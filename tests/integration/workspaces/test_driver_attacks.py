"""From inside a workspace: nothing of the host and nothing of another tenant is reached, and no bomb goes beyond it."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from ops.workspaces.drivers.base import Driver, DriverRefused, WorkspaceLimits, WorkspaceSpec
from tests.gear.builders.workspace_drivers import Inhabited, Tenancy
from tests.gear.faults import workspace_attacks
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("WSP-11")

OF_THE_IMAGE: Final = frozenset({"folders_of_the_host", "files_in_etc", "sockets_that_are_named"})
"""What lies there is of an image that an operator chose, not of the host; and the init's socket has a name, which is
shown to be of no use."""
ATTACKS_LEAST: Final = 82


def serving(stack: ExitStack, family: int, address: object) -> socket.socket:
    """Gives the canary to each that connects, as a service of the host might."""
    server = stack.enter_context(socket.socket(family))
    server.bind(address)  # type: ignore[arg-type]
    server.listen()

    def serve() -> None:
        try:
            while True:
                with server.accept()[0] as stream:
                    stream.sendall(workspace_attacks.CANARY.encode())
        except OSError:
            return

    threading.Thread(target=serve, daemon=True).start()
    return server


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    """True names of what is there, each readable by all."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("outside")
        file = folder / "secret"
        file.write_text(workspace_attacks.CANARY, encoding="utf-8")
        for one in (file, folder):
            one.chmod(0o777)
        abstract = f"dpp-test-{os.getpid()}"
        server = serving(stack, socket.AF_INET, ("0.0.0.0", 0))  # noqa: S104
        serving(stack, socket.AF_UNIX, f"\0{abstract}")
        serving(stack, socket.AF_UNIX, str(folder / "socket"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DPP_CANARY", workspace_attacks.CANARY)
            disk = Path(file).stat().st_dev
            yield {
                "file": str(file),
                "socket": str(folder / "socket"),
                "abstract": abstract,
                "port": server.getsockname()[1],
                "address": _own_address(),
                "disk": [os.major(disk), os.minor(disk)],
            }


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def test_no_attack_reaches_anything(
    driver: Driver, tenancy: Tenancy, workspace: Inhabited, outside: dict[str, object]
) -> None:
    other = tenancy.inhabited(WorkspaceSpec(environment={"SECRET": workspace_attacks.CANARY}))
    other.shell(f"echo {workspace_attacks.CANARY} >mine; chmod 777 . mine")
    sleeper = other.begin("/bin/sleep", "7778")
    server = other.begin(
        *("/usr/bin/python3", "-c"),
        "import socket\nmade = socket.create_server(('127.0.0.1', 8124))\nwhile True: made.accept()",
    )
    root = getattr(driver, "_root", "/var/lib/docker")
    told = workspace_attacks.told(**outside, root=str(root), other_port=8124)
    reached: dict[str, str | None] = json.loads(workspace.python(workspace_attacks.SCRIPT, told).splitlines()[-1])
    assert len(reached) >= ATTACKS_LEAST
    known = OF_THE_IMAGE if driver.kind == "docker" else frozenset()
    assert {name: what for name, what in reached.items() if what is not None and name not in known} == {}
    assert (sleeper.wait(0), server.wait(0)) == (None, None)
    assert workspace.seen().running
    other.remove()


def test_a_tenant_that_kills_all_it_can_kills_its_own(tenancy: Tenancy) -> None:
    """Keepers too: what they held is ended, and the init starts the command again."""
    made = tenancy.inhabited(WorkspaceSpec(command=("/bin/sleep", "7777")))
    hidden = made.begin("/bin/sh", "-c", "(setsid sleep 7777 &) ; exec sleep 7777")
    killer = made.begin("/usr/bin/python3", "-c", "import os, signal\nos.kill(-1, signal.SIGKILL)")
    codes = [result and result.exit_code for result in (hidden.wait(10), killer.wait(10))]
    assert codes in ([137, 137], [137, 0]), "where keepers are root's, who kills all others ends well"
    wait_until(lambda: made.seen().restarts == 1)
    names = "cat /proc/[0-9]*/comm | sort | xargs"
    wait_until(lambda: made.shell(names).split().count("sleep") == 1, what="its command, and nothing of the exec's")
    made.remove()


BOMB: Final = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
RUNNING_AWAY: Final = (
    "import os\nos.setsid()\nwhile True:\n"
    "  try:\n    if os.fork(): os._exit(0)\n    os.setsid()\n  except OSError: pass"
)
"""Each generation is another's orphan before anybody can look."""


def test_a_fork_bomb_stays_inside_and_ends_with_its_exec(driver: Driver, tenancy: Tenancy) -> None:
    made = tenancy.inhabited(WorkspaceSpec(limits=WorkspaceLimits(processes=40)))
    beside = tenancy.inhabited()
    for bomb in (BOMB, RUNNING_AWAY):
        running = made.begin("/usr/bin/python3", "-c", bomb, deadline_seconds=0.7)
        assert beside.shell("echo still") == "still\n"
        result = running.wait(15)
        assert result is not None
        assert result.end.value in {"deadline", "exited"}
        wait_until(lambda: made.run("/bin/true").exit_code == 0)
        count = "import os\nprint(sum(name.isdigit() for name in os.listdir('/proc')))"
        assert int(made.python(count)) <= 4  # the init, a keeper, what counts
    made.begin("/usr/bin/python3", "-c", BOMB, deadline_seconds=60)
    try:
        wait_until(lambda: made.run("/bin/true").exit_code != 0)
    except DriverRefused as full:
        assert full.reason == "ProcessLimit"
    made.remove()
    assert beside.shell("echo still") == "still\n"
    beside.remove()


def test_a_memory_bomb_is_ended_and_told(tenancy: Tenancy) -> None:
    made = tenancy.inhabited(WorkspaceSpec(limits=WorkspaceLimits(memory_mb=64)))
    bomb = "held = []\nwhile True: held.append(bytearray(b'x' * 1_000_000))"
    result = made.run("/usr/bin/python3", "-c", bomb)
    assert result.exit_code == 137
    assert made.shell("echo alive") == "alive\n"
    seen = made.seen()
    assert (seen.running, seen.out_of_memory) == (True, True)
    made.remove()


def test_the_small_file_systems_of_a_workspace_are_bounded(workspace: Inhabited) -> None:
    """Its home is bounded by the disk it lies on (docs/operations.md)."""
    for folder, size in (("/tmp", 256_000_000), ("/dev/shm", 64_000_000)):  # noqa: S108
        script = f"cd {folder}; head -c 600000000 /dev/zero >full; stat -c %s full; rm full"
        said = workspace.run("/bin/sh", "-c", script)
        assert b"No space left on device" in said.stderr
        assert 0 < int(said.stdout) <= size
