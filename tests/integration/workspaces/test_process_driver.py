"""What only the driver of processes owes: records, locks, and inits that outlive who made them or never were."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from dpp_project.devstack import process_identity
from dpp_project.devstack.supervisor import WORKSPACES_MARK
from dpp_project.process_env import ENV
from ops.workspaces import checks
from ops.workspaces.drivers.base import (
    DriverNoSpace,
    DriverRefused,
    DriverUnavailable,
    ExecEnd,
    VerbAnswer,
    WorkspaceLimits,
    WorkspaceSpec,
)
from ops.workspaces.drivers.process import sandbox, starting
from ops.workspaces.drivers.process.driver import Deadlines, ProcessDriver
from ops.workspaces.drivers.process.records import Containers, Record
from ops.workspaces.drivers.process.starting import Starting
from ops.workspaces.drivers.process.volumes import Volumes
from tests.gear.builders.workspace_drivers import Inhabited, Tenancy, process_driver
from tests.gear.faults import without_namespaces
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("WSP-11")

SHORT: Final = Deadlines(lock_seconds=0.2, answer_seconds=0.4)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems and becomes another user")


@pytest.fixture(scope="module")
def process() -> Iterator[ProcessDriver]:
    with process_driver(SHORT) as made:
        yield made


@pytest.fixture(scope="module")
def patient(process: ProcessDriver) -> ProcessDriver:
    """Of the same folder; waits as long as it must on a busy machine."""
    return ProcessDriver(process._root)


@pytest.fixture(scope="module")
def tenancy(patient: ProcessDriver) -> Tenancy:
    return Tenancy(patient)


def record(driver: ProcessDriver, name: str) -> Record:
    found = driver._containers.read(name)
    assert found is not None
    return found


def living(volume: str) -> list[int]:
    """Processes that have this volume mounted, whoever knows of them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if volume in (entry / "mountinfo").read_text(encoding="utf-8"):
                    found.append(int(entry.name))
    return found


def in_a_child(action: Callable[[], object], *, uid: int | None = None) -> str:
    """What went wrong there; "" for nothing. The child ends with the action, whatever it has begun."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if uid is not None:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            action()
        except BaseException:
            os.write(write, traceback.format_exc()[-4000:].encode())
            raise
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as said:
        told = said.read()
    os.waitpid(pid, 0)
    return told


def test_a_workspace_outlives_who_started_it(patient: ProcessDriver, tenancy: Tenancy) -> None:
    label = tenancy.label()
    volume, name = tenancy.volume(label), f"ws-{label.workspace_id}"
    assert in_a_child(
        lambda: patient.start(name=name, volume=volume, spec=WorkspaceSpec(), label=label, spec_hash="1")
    ) == ""  # fmt: skip
    seen = patient.look_container(name)
    assert seen is not None
    assert seen.running
    made = Inhabited(patient, name, volume, label, seen.container_id)
    init = record(patient, name).pid
    outside = int(Path(f"/proc/{init}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    marked = process_identity.pids_carrying(WORKSPACES_MARK, str(patient._root))
    assert {init, outside} <= set(marked)
    os.kill(outside, signal.SIGKILL)  # bubblewrap, which waits for it
    assert made.shell("echo here; env | grep -c DPP || true") == "here\n0\n"
    assert init in process_identity.pids_carrying(WORKSPACES_MARK, str(patient._root))
    made.remove()
    assert living(volume) == []


def _exit(*_: object, **__: object) -> None:
    os._exit(9)


AT_ONCE: Final = '"$@" &'
BEHIND_ITS_DEATH: Final = '(while kill -0 $PPID 2>/dev/null; do sleep 0.01; done; exec "$@") &'
"""$PPID is the starter, of the shell that it runs."""


@pytest.mark.parametrize(
    ("owner", "effect", "after", "recorded", "bubblewrap"),
    [
        (Starting, "_launch", False, False, AT_ONCE),
        (Starting, "_launch", True, False, AT_ONCE),
        (Starting, "_launch", True, False, BEHIND_ITS_DEATH),
        (Containers, "write", False, False, AT_ONCE),
        (Containers, "write", True, True, AT_ONCE),
        (Starting, "finish", True, True, AT_ONCE),
    ],
)
def test_no_death_of_the_starter_leaves_an_init_that_nobody_knows(
    owner: type,
    effect: str,
    bubblewrap: str,
    *,
    after: bool,
    recorded: bool,
    patient: ProcessDriver,
    tenancy: Tenancy,
) -> None:
    label = tenancy.label()
    volume, name = tenancy.volume(label), f"ws-{label.workspace_id}"
    performed = getattr(owner, effect)

    def die(*given: object, **named: object) -> None:
        if after:
            performed(*given, **named)
        os._exit(9)

    def start() -> VerbAnswer:
        return patient.start(name=name, volume=volume, spec=WorkspaceSpec(), label=label, spec_hash="1")

    def start_and_die() -> None:
        setattr(owner, effect, die)
        launch = starting._LAUNCH
        setattr(starting, "_LAUNCH", launch.replace(AT_ONCE, bubblewrap))  # noqa: B010  of this child alone
        start()

    assert in_a_child(start_and_die) == ""
    seen = patient.look_container(name)
    assert (seen is not None) is recorded
    if effect == "finish":
        assert start() is VerbAnswer.ALREADY
    else:
        wait_until(lambda: living(volume) == [])
        assert not recorded or not record(patient, name).runs()
        assert start() is VerbAnswer.DONE
    assert [record(patient, name).pid] == [pid for pid in living(volume) if identity_is_init(pid)]
    tenancy.made.append(Inhabited(patient, name, volume, label, record(patient, name).container_id))
    tenancy.made[-1].remove()
    assert living(volume) == []


def identity_is_init(pid: int) -> bool:
    """Pid 1 of the namespace it lives in."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("NSpid:"):
                return line.split()[-1] == "1"
    return False


def test_an_init_that_hangs_is_seen_and_ended_and_hides_no_other(
    process: ProcessDriver, patient: ProcessDriver, tenancy: Tenancy
) -> None:
    hung = tenancy.inhabited(WorkspaceSpec(command=("/bin/sh", "-c", "echo said; exec sleep 7777")))
    beside = tenancy.inhabited()
    wait_until(lambda: process.logs(hung.container_id, offset=0, bytes_max=10).content == b"said\n")
    running = hung.begin("/bin/sleep", "7777", deadline_seconds=60)
    os.kill(record(process, hung.name).pid, signal.SIGSTOP)
    for verb in (
        lambda: replace(hung, driver=process, begun=[]).begin("true"),
        lambda: process.put_file(hung.container_id, "x", b""),
        lambda: process.connect(hung.container_id, 80),
    ):
        with pytest.raises(DriverUnavailable):
            verb()
    assert running.wait(0.01) is None
    running.close()
    assert process.logs(hung.container_id, offset=0, bytes_max=10).content == b"said\n"
    seen = {one.name: one.running for one in process.list().containers}
    assert (seen[hung.name], seen[beside.name]) == (True, True)
    assert beside.shell("echo served") == "served\n"
    replace(hung, driver=process).remove(grace_seconds=0.1)
    assert living(hung.volume) == []
    beside.remove()


def test_an_init_answers_no_peer_of_its_own_workspace(patient: ProcessDriver, tenancy: Tenancy) -> None:
    """Were its socket ever in reach: here by a second name of it, laid into the home."""
    made = tenancy.inhabited()
    control = patient._containers.folder(made.name) / "control"
    (patient._volumes.home(made.volume) / "stolen").hardlink_to(control)
    control.chmod(0o777)
    ask = (
        'import socket, struct\nframe = b\'{"verb": "ping", "body": 0}\'\n'
        "made = socket.socket(socket.AF_UNIX)\nmade.connect('stolen')\n"
        "try:\n  made.sendall(struct.pack('>I', len(frame)) + frame); print(made.recv(100))\n"
        "except OSError as refused: print(b'')"
    )
    assert made.python(ask) == "b''\n"
    assert made.shell("echo served") == "served\n"
    made.remove()


def test_a_home_has_one_owner_whoever_an_archive_names(patient: ProcessDriver, tenancy: Tenancy) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for uid in (0, 1_234, 2**31):
            info = tarfile.TarInfo(f"of-{uid}")
            info.uid, info.gid, info.mode = uid, uid, 0o640
            archive.addfile(info)
    label = tenancy.label()
    volume = tenancy.volume(label)
    patient.import_(volume, iter([packed.getvalue()]))
    made = tenancy.inhabited(label=label, volume=volume)
    assert made.shell("stat -c '%n %u %g %a' of-*") == (
        "of-0 1000 1000 640\nof-1234 1000 1000 640\nof-2147483648 1000 1000 640\n"
    )
    made.remove()


HOLDS: Final = """
import ctypes, os, time
libc = ctypes.CDLL(None)
while libc.inotify_init1(0) >= 0: pass
open("holds", "w").close()
time.sleep(1000)
"""


@as_root
def test_what_the_kernel_counts_by_user_is_no_other_tenant_s(tenancy: Tenancy) -> None:
    made, beside = tenancy.inhabited(), tenancy.inhabited()
    made.begin("/usr/bin/python3", "-c", HOLDS)
    wait_until(lambda: made.run("/usr/bin/test", "-e", "holds").exit_code == 0)
    watches = "import ctypes\nprint(ctypes.CDLL(None).inotify_init1(0) >= 0)"
    assert (made.python(watches), beside.python(watches)) == ("False\n", "True\n")
    made.remove()
    beside.remove()


def test_an_init_that_was_killed_is_seen_as_ended(patient: ProcessDriver, tenancy: Tenancy) -> None:
    made = tenancy.inhabited()
    os.kill(record(patient, made.name).pid, signal.SIGKILL)
    wait_until(lambda: made.seen().ended_at is not None)
    seen = made.seen()
    assert (seen.running, seen.exit_code, seen.volume) == (False, 137, made.volume)
    assert patient.users_of(made.volume) == (made.container_id,)
    assert patient.delete_volume(made.volume) is VerbAnswer.IN_USE
    with pytest.raises(DriverRefused) as caught:
        tenancy.inhabited(label=replace(made.label, op_id="another"), volume=made.volume)
    assert caught.value.reason == "NameTaken"
    again = tenancy.inhabited(label=made.label, volume=made.volume)
    assert again.container_id != made.container_id
    assert patient.remove_container(made.container_id) is VerbAnswer.ABSENT
    assert again.shell("echo runs") == "runs\n"
    again.remove()


def test_a_pid_that_is_another_s_is_left_alone(patient: ProcessDriver, tenancy: Tenancy) -> None:
    """After a reboot, or when the numbers have come round."""
    made = tenancy.inhabited()
    kept = record(patient, made.name)
    assert kept.process is not None
    boot, pid, start = kept.process.split("/")
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as stranger:
        for process in (f"another-boot/{pid}/{start}", f"{boot}/{stranger.pid}/1"):
            patient._containers.write(replace(kept, process=process))
            assert not made.seen().running
            with pytest.raises(DriverUnavailable):
                made.begin("true")
        made.remove()
        assert stranger.poll() is None
    with contextlib.suppress(ProcessLookupError):  # in a control group it was found without its record
        os.kill(int(pid), signal.SIGKILL)
    wait_until(lambda: living(made.volume) == [])


def test_a_volume_in_someone_s_hands_is_not_given_away(process: ProcessDriver, tenancy: Tenancy) -> None:
    label = tenancy.label()
    volume = tenancy.volume(label)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("in"))
    met: list[object] = []

    def start() -> VerbAnswer:
        return process.start(name="ws-busy", volume=volume, spec=WorkspaceSpec(), label=label, spec_hash="1")

    def pieces() -> Iterator[bytes]:
        yield packed.getvalue()
        for verb in (start, lambda: process.import_(volume, iter(())), lambda: process.export(volume).__enter__()):
            with pytest.raises(DriverUnavailable) as caught:
                verb()
            met.append(caught.value.reason)
        met.append(process.delete_volume(volume))

    process.import_(volume, pieces())
    assert met == ["VolumeBusy", "Busy", "Busy", VerbAnswer.IN_USE]
    with process.export(volume) as stream, process.export(volume) as beside:
        assert process.delete_volume(volume) is VerbAnswer.IN_USE
        assert stream.read() == beside.read()
    assert process.look_container("ws-busy") is None
    assert process.delete_volume(volume) is VerbAnswer.DONE


def test_a_deletion_that_broke_off_is_continued(
    patient: ProcessDriver, tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tenancy.inhabited()
    made.shell("mkdir -p shut/in; echo 1 >shut/in/file; chmod 0 shut; mkdir $(seq -s/ -f d%g 1 300) -p")
    made.remove()
    with monkeypatch.context() as patch:
        patch.setattr(Volumes, "remove_doomed", _exit)
        in_a_child(lambda: patient.delete_volume(made.volume))
    assert patient.look_volume(made.volume) is None
    assert len(patient._volumes.doomed(made.volume)) == 1
    assert patient.delete_volume(made.volume) is VerbAnswer.DONE
    assert patient._volumes.doomed(made.volume) == []
    assert patient.delete_volume(made.volume) is VerbAnswer.ABSENT


def test_what_is_not_ours_is_seen_and_left(patient: ProcessDriver, tenancy: Tenancy) -> None:
    patient.place_sentinel("ours")
    foreign = patient._root / "volumes" / "ws-foreign"
    (foreign / "home").mkdir(parents=True)
    (foreign / "home" / "kept").touch()
    seen = patient.look_volume("ws-foreign")
    assert seen is not None
    assert seen.label is None
    assert replace(seen, starts=None) in patient.list().volumes
    for verb in (
        lambda: patient.ensure_volume("ws-foreign", tenancy.label()),
        lambda: patient.delete_volume("ws-foreign"),
        lambda: patient.export("ws-foreign").__enter__(),
        lambda: patient.ensure_volume("../outside", tenancy.label()),
        lambda: patient.look_volume("a/b"),
    ):
        with pytest.raises(DriverRefused):
            verb()
    assert (foreign / "home" / "kept").exists()
    (foreign / "home" / "kept").unlink()
    (foreign / "home").rmdir()
    foreign.rmdir()


def test_the_last_byte_on_disk_is_in_the_archive(patient: ProcessDriver, tenancy: Tenancy) -> None:
    """A writer that is killed in the middle, five times over the same home; each archive is of one tree."""
    script = (
        "import os\nfd = os.open('log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\nn = os.fstat(fd).st_size\n"
        "while True:\n  os.write(fd, b'x'); os.fsync(fd); n += 1; print(n, flush=True)"
    )
    made = tenancy.inhabited(WorkspaceSpec(command=("/usr/bin/python3", "-c", script)))
    volume = made.volume
    for _ in range(5):
        container = made.container_id
        wait_until(lambda: patient.logs(container, offset=30, bytes_max=1).content)  # noqa: B023  called at once
        os.kill(record(patient, made.name).pid, signal.SIGKILL)
        wait_until(lambda: living(volume) == [])
        said = patient.logs(made.container_id, offset=0, bytes_max=10_000_000).content.split(b"\n")[:-1]
        with patient.export(made.volume) as stream:
            first = stream.read()
        with patient.export(made.volume) as stream:
            assert stream.read() == first
        with tarfile.open(fileobj=io.BytesIO(first)) as archive:
            assert archive.getmember("./log").size >= int(said[-1])
        made = tenancy.inhabited(
            WorkspaceSpec(command=("/usr/bin/python3", "-c", script)), label=made.label, volume=made.volume
        )
    made.remove()


TAKING: Final = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
made = os.open("taken", os.O_RDWR | os.O_CREAT)
for mode in (0, 1, 0x10):
    print(libc.fallocate(made, mode, ctypes.c_long(0), ctypes.c_long(10_000_000)), os.strerror(ctypes.get_errno()))
print(os.fstat(made).st_blocks)
os.posix_fallocate(made, 0, 10_000)
print(os.fstat(made).st_size, libc.fallocate(made, 3, ctypes.c_long(0), ctypes.c_long(8_192)))
"""


@pytest.mark.contract("WSP-14")
def test_wsp_14_room_is_taken_by_writing_alone(tenancy: Tenancy) -> None:
    """A call that takes all of a disk at once would be over before it was looked at."""
    made = tenancy.inhabited()
    refused = "-1 Operation not supported\n"
    assert made.python(TAKING) == f"{3 * refused}0\n10000 0\n"
    made.remove()


@contextlib.contextmanager
def on_a_disk(options: str) -> Iterator[ProcessDriver]:
    disk = Path(tempfile.mkdtemp(prefix="dpp-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
    if (mounted := subprocess.run(mount, capture_output=True, text=True, check=False)).returncode != 0:
        disk.rmdir()
        pytest.skip(mounted.stderr)
    try:
        with process_driver(folder=disk) as driver:
            yield driver
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
        disk.rmdir()


@as_root
@pytest.mark.contract("WSP-14")
def test_wsp_14_files_are_counted_as_room_though_nothing_is_in_them() -> None:
    """A disk without room for a further file is full for all, however many bytes are free."""
    with on_a_disk("size=64m,nr_inodes=2048") as driver:
        a_file = 64 * 1_048_576 // 2_048
        tenancy = Tenancy(driver)
        made = tenancy.inhabited()
        before, free = driver.usage_bytes(made.volume), driver.free_bytes()
        assert before == a_file, "its root"
        made.shell("seq 1500 | xargs touch")
        assert driver.usage_bytes(made.volume) - before == 1_500 * a_file
        assert free - driver.free_bytes() == 1_500 * a_file
        made.shell("rm *; head -c 9000000 /dev/zero >large")
        assert driver.usage_bytes(made.volume) >= 9_000_000
        made.remove()


@as_root
def test_a_full_disk_is_an_answer() -> None:
    with on_a_disk("size=6m") as driver:
        tenancy = Tenancy(driver)
        chatty = "until [ -e go ]; do sleep 0.02; done; head -c 3000000 /dev/zero; echo >done; exec sleep 7777"
        made = tenancy.inhabited(WorkspaceSpec(command=("/bin/sh", "-c", chatty)))
        driver.put_file(made.container_id, "kept", b"whole")
        with pytest.raises(DriverNoSpace):
            driver.put_file(made.container_id, "kept", bytes(8_000_000))
        assert made.shell("cat kept; ls -A") == "wholekept\n"
        made.run("/bin/sh", "-c", "cat /dev/zero >fill; touch go")
        wait_until(lambda: made.run("/bin/ls", "done").exit_code == 0)  # though its logs have no room
        assert made.shell("rm fill go done; echo lives") == "lives\n"
        assert made.seen().restarts == 0
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            large = tarfile.TarInfo("large")
            large.size = 8_000_000
            archive.addfile(large, io.BytesIO(bytes(large.size)))
        volume = tenancy.volume(tenancy.label())
        with pytest.raises(DriverNoSpace):
            driver.import_(volume, iter([packed.getvalue()]))
        with pytest.raises(DriverNoSpace) as caught:
            tenancy.volume(tenancy.label())
        assert str(caught.value) == "the disk: No space left on device", "without a path of the host"
        assert driver.delete_volume(volume) is VerbAnswer.DONE
        assert made.shell("cat kept") == "whole"
        made.remove()


@as_root
def test_without_a_privilege_it_keeps_the_same_promises() -> None:
    """As a user of no rights: limits by rlimits, and the same namespaces."""

    def live() -> None:
        with process_driver() as driver:
            tenancy = Tenancy(driver)
            made = tenancy.inhabited(WorkspaceSpec(limits=WorkspaceLimits(memory_mb=200, processes=20)))
            assert made.shell("id -u; echo kept >kept; chmod 0 kept") == "1000\n"
            assert made.run("/usr/bin/python3", "-c", "held = bytearray(400_000_000)").exit_code == 1
            bomb = made.begin("/usr/bin/python3", "-c", "import os\nwhile True: os.fork()", deadline_seconds=5)
            result = bomb.wait(10)
            assert result is not None
            assert (result.end, b"BlockingIOError" in result.stderr) == (ExecEnd.EXITED, True)
            with driver.export(made.volume) as stream:
                content = stream.read()
            made.remove()
            label = tenancy.label()
            volume = tenancy.volume(label)
            driver.import_(volume, iter([content]))
            again = tenancy.inhabited(label=label, volume=volume)
            assert again.shell("chmod 600 kept; cat kept") == "kept\n"
            assert driver.usage_bytes(volume) > 0
            again.remove()
            assert driver.delete_volume(made.volume) is VerbAnswer.DONE

    assert in_a_child(live, uid=65_534) == ""


def test_without_namespaces_nothing_is_started_and_the_reason_said(
    patient: ProcessDriver, tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = tenancy.label()
    volume = tenancy.volume(label)

    def refused(word: str) -> None:
        sandbox._why_not.cache_clear()
        assert word in str(sandbox.why_not())
        with pytest.raises(DriverUnavailable) as caught:
            patient.start(name="ws-none", volume=volume, spec=WorkspaceSpec(), label=label, spec_hash="1")
        assert (caught.value.reason, word in str(caught.value)) == ("NoNamespaces", True)

    def in_a_container() -> None:
        without_namespaces.enter()
        refused("namespaces of user, pid, mount and network cannot be made here")

    if sys.platform == "linux":
        assert in_a_child(in_a_container) == ""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(checks, "ENV", ENV.model_copy(update={"DPP_WORKSPACES_DRIVER": "process"}))
    try:
        refused("make setup-workspaces")
        (found,) = checks.processes_that_nothing_would_close_off(None)
        assert (found.id, "make setup-workspaces" in found.msg) == ("dpp.E016", True)
    finally:
        sandbox._why_not.cache_clear()
    monkeypatch.undo()
    assert checks.processes_that_nothing_would_close_off(None) == []
    assert patient.look_container("ws-none") is None
