"""What every driver of workspaces promises to the loops, whatever holds them."""

import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from ops.workspaces.drivers.base import (
    Driver,
    DriverCorrupt,
    DriverError,
    DriverRefused,
    DriverUnavailable,
    ExecEnd,
    ExecRequest,
    VerbAnswer,
    WorkspaceSpec,
)
from tests.gear.builders.workspace_drivers import Inhabited, Tenancy, leave_nothing
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("WSP-11")

DONE, ALREADY, ABSENT, IN_USE = VerbAnswer.DONE, VerbAnswer.ALREADY, VerbAnswer.ABSENT, VerbAnswer.IN_USE
FOR_EVER: Final = ("/bin/sleep", "7777")


def refused(reason: str, verb: Callable[[], object]) -> None:
    with pytest.raises(DriverRefused) as caught:
        verb()
    assert caught.value.reason == reason


def at_once(verb: Callable[[], object], *, times: int = 4) -> list[object]:
    """The answers of so many threads that ask in the same moment."""
    found: list[object] = []
    gate = threading.Barrier(times)

    def ask() -> None:
        gate.wait()
        try:
            found.append(verb())
        except DriverError as error:
            found.append(error)

    threads = [threading.Thread(target=ask) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def sleepers(workspace: Inhabited) -> int:
    said = workspace.python(
        "import os\nfound = 0\nfor pid in os.listdir('/proc'):\n"
        "    if pid.isdigit():\n"
        "        try: found += open(f'/proc/{pid}/cmdline').read().split(chr(0))[-2:-1] == ['7777']\n"
        "        except OSError: pass\nprint(found)"
    )
    return int(said)


def test_the_sentinel_is_placed_once_and_read_with_every_list(driver: Driver) -> None:
    token = uuid.uuid4().hex
    assert (driver.place_sentinel(token), driver.place_sentinel(token)) == (DONE, ALREADY)
    with pytest.raises(DriverRefused):
        driver.place_sentinel("another")
    assert driver.list().sentinel == token


def test_a_workspace_from_its_volume_to_its_end(driver: Driver, tenancy: Tenancy) -> None:
    label = tenancy.label()
    volume, name = tenancy.volume(label), f"ws-{label.workspace_id}"
    spec = WorkspaceSpec(environment={"COLOUR": "blue green"})

    def start() -> VerbAnswer:
        return driver.start(name=name, volume=volume, spec=spec, label=label, spec_hash="h")

    assert driver.ensure_volume(volume, label) is ALREADY
    assert driver.look_container(name) is None
    assert (start(), start()) == (DONE, ALREADY)
    seen = driver.look_container(name)
    assert seen is not None
    assert (seen.name, seen.label, seen.volume, seen.spec_hash) == (name, label, volume, "h")
    assert (seen.running, seen.placeholder, seen.exit_code, seen.ended_at) == (True, False, None, None)
    assert seen.started_at is not None
    listing = driver.list()
    assert seen in listing.containers
    assert [one.label for one in listing.volumes if one.name == volume] == [label]
    assert driver.users_of(volume) == (seen.container_id,)
    assert driver.delete_volume(volume) is IN_USE
    inside = Inhabited(driver, name, volume, label, seen.container_id)
    assert inside.shell('echo "$COLOUR" >kept; pwd; id -u') == "/home/workspace\n1000\n"
    assert [driver.remove_container(seen.container_id) for _ in range(2)] == [DONE, ABSENT]
    assert (driver.look_container(name), driver.users_of(volume)) == (None, ())
    with pytest.raises(DriverUnavailable):
        driver.exec_start(seen.container_id, ExecRequest("late", ("true",), 1))
    assert start() is DONE
    again = driver.look_container(name)
    assert again is not None
    assert again.container_id != seen.container_id
    assert replace(inside, container_id=again.container_id).shell("cat kept") == "blue green\n"
    assert driver.remove_container(again.container_id) is DONE
    assert [driver.delete_volume(volume) for _ in range(2)] == [DONE, ABSENT]
    assert driver.look_volume(volume) is None


def test_a_volume_that_was_started_since_is_not_deleted(driver: Driver, tenancy: Tenancy) -> None:
    """Whoever asks by an older state of things, as a restored database does, is refused."""
    label = tenancy.label()
    volume, name = tenancy.volume(label), f"ws-{label.workspace_id}"

    def starts() -> int | None:
        seen = driver.look_volume(volume)
        return None if seen is None else seen.starts

    assert starts() == 0
    for count in (1, 2):
        assert driver.start(name=name, volume=volume, spec=WorkspaceSpec(), label=label, spec_hash="1") is DONE
        driver.start(name=name, volume=volume, spec=WorkspaceSpec(), label=label, spec_hash="1")
        assert starts() == count
        seen = driver.look_container(name)
        assert seen is not None
        driver.remove_container(seen.container_id, grace_seconds=0)
    for known in (0, 1):
        refused("UsedSince", partial(driver.delete_volume, volume, starts=known))
    assert driver.delete_volume(volume, starts=2) is DONE
    assert driver.ensure_volume(volume, label) is DONE
    assert starts() == 0
    assert driver.delete_volume(volume, starts=0) is DONE


def test_a_name_is_one_operation_s(driver: Driver, tenancy: Tenancy) -> None:
    """The fence: what holds the name for an operation lets no late start through."""
    label, late = tenancy.label(), tenancy.label()
    volume, name = tenancy.volume(label), f"ws-{label.workspace_id}"
    late = replace(late, workspace_id=label.workspace_id)

    def place(whose: object) -> VerbAnswer:
        assert whose in {label, late}
        return driver.place_placeholder(name=name, label=label if whose is label else late)

    def start(spec_hash: str) -> VerbAnswer:
        return driver.start(name=name, volume=volume, spec=WorkspaceSpec(), label=late, spec_hash=spec_hash)

    assert (place(label), place(label), place(late)) == (DONE, ALREADY, IN_USE)
    refused("NameTaken", lambda: start("1"))
    held = driver.look_container(name)
    assert held is not None
    assert (held.running, held.placeholder, held.label, driver.users_of(volume)) == (False, True, label, ())
    assert driver.remove_container(held.container_id) is DONE
    assert start("1") is DONE
    assert place(label) is IN_USE
    refused("NameTaken", lambda: start("2"))  # another spec
    running = driver.look_container(name)
    assert running is not None
    assert running.running
    driver.remove_container(running.container_id)


def test_a_volume_is_one_workspace_s(driver: Driver, tenancy: Tenancy) -> None:
    label, other = tenancy.label(), tenancy.label()
    volume = tenancy.volume(label)
    with pytest.raises(DriverRefused):
        driver.ensure_volume(volume, other)
    for wanted in (volume, "ws-none-home-00000000-1"):
        refused(
            "VolumeMissing",
            lambda: driver.start(
                name=f"ws-{other.workspace_id}",
                volume=wanted,  # noqa: B023  called at once
                spec=WorkspaceSpec(),
                label=other,
                spec_hash="1",
            ),
        )
    assert driver.look_container(f"ws-{other.workspace_id}") is None
    assert driver.look_volume("ws-none-home-00000000-1") is None


def test_of_many_at_once_one_does_it(driver: Driver, tenancy: Tenancy) -> None:
    label = tenancy.label()
    volume, name = f"ws-{label.workspace_id}-home-00000000-1", f"ws-{label.workspace_id}"
    answers = at_once(lambda: driver.ensure_volume(volume, label))
    assert sorted(answers, key=str) == [ALREADY, ALREADY, ALREADY, DONE]
    answers = at_once(
        lambda: driver.start(name=name, volume=volume, spec=WorkspaceSpec(), label=label, spec_hash="1"), times=8
    )
    assert (answers.count(DONE), answers.count(ALREADY)) == (1, 7), answers
    seen = driver.look_container(name)
    assert seen is not None
    answers = at_once(lambda: driver.remove_container(seen.container_id))
    assert set(answers) <= {DONE, ABSENT}
    assert driver.look_container(name) is None
    assert set(at_once(lambda: driver.delete_volume(volume))) <= {DONE, ABSENT, IN_USE}
    assert driver.look_volume(volume) is None


def test_an_exec_is_answered_as_a_shell_says_it(workspace: Inhabited) -> None:
    result = workspace.run("/bin/sh", "-c", "cat; echo wrong >&2; exit 3", stdin=b"given\n" * 30_000)
    assert (result.end, result.exit_code, result.stderr) == (ExecEnd.EXITED, 3, b"wrong\n")
    assert result.stdout == b"given\n" * 30_000
    assert workspace.run("/bin/sh", "-c", "kill -9 $$").exit_code == 137
    missing = workspace.run("no-such-program")
    assert (missing.exit_code, missing.stderr) == (127, b"dpp: no-such-program: No such file or directory\n")
    assert workspace.run("/etc/passwd").exit_code == 126
    assert workspace.run("/bin/sh", "-c", "exec <&-; exec true", stdin=b"x" * 300_000).exit_code == 0  # unread
    odd = ("printf", "%s", " '\"\n\udcff")
    assert workspace.run(*odd).stdout == b" '\"\n\xff"


def test_an_exec_has_its_own_environment_and_folder(driver: Driver, workspace: Inhabited) -> None:
    request = ExecRequest(
        "with-all", ("/bin/sh", "-c", "pwd; echo $A"), 5, environment={"A": "1"}, working_directory="/tmp"  # noqa: S108
    )  # fmt: skip
    result = driver.exec_start(workspace.container_id, request).wait(5)
    assert result is not None
    assert result.stdout == b"/tmp\n1\n"
    environment = workspace.run("/usr/bin/env").stdout.decode().splitlines()
    assert sorted(line.split("=")[0] for line in environment) == ["HOME", "LANG", "PATH", "USER"]


def test_an_exec_id_is_run_once(driver: Driver, workspace: Inhabited) -> None:
    request = ExecRequest("once", ("/bin/sh", "-c", "echo more >>counted"), 5)
    assert driver.exec_start(workspace.container_id, request).wait(5) is not None
    refused("ExecRepeated", lambda: driver.exec_start(workspace.container_id, request))
    assert workspace.shell("cat counted") == "more\n"
    with pytest.raises(DriverRefused):
        driver.exec_start(workspace.container_id, ExecRequest("empty", (), 5))
    refused(
        "StdinTooLong",
        lambda: driver.exec_start(workspace.container_id, ExecRequest("long", ("true",), 5, stdin=bytes(16_000_001))),
    )


def test_output_is_bounded_and_read_on(driver: Driver, workspace: Inhabited) -> None:
    script = "import sys\nsys.stdout.write('o' * 3_000_000)\nsys.stderr.write('e' * 10)"
    request = ExecRequest("much", ("/usr/bin/python3", "-c", script), 10, output_bytes_max=1_000)
    result = driver.exec_start(workspace.container_id, request).wait(10)
    assert result is not None
    assert (result.exit_code, result.stdout, result.stdout_cut) == (0, b"o" * 1_000, True)
    assert (result.stderr, result.stderr_cut) == (b"e" * 10, False)


HIDDEN: Final = "(setsid sleep 7777 &) ; (setsid sh -c 'sleep 7777 & sleep 7777' &) ; sleep 7777"
"""In sessions of their own, and no child of what started them."""


def test_a_deadline_ends_the_whole_tree(workspace: Inhabited) -> None:
    result = workspace.begin("/bin/sh", "-c", f"echo begun; {HIDDEN}", deadline_seconds=0.4).wait(10)
    assert result is not None
    assert (result.end, result.exit_code, result.stdout) == (ExecEnd.DEADLINE, None, b"begun\n")
    assert sleepers(workspace) == 0


def test_a_stopped_exec_ends_with_its_whole_tree(workspace: Inhabited) -> None:
    running = workspace.begin("/bin/sh", "-c", HIDDEN)
    wait_until(lambda: sleepers(workspace) == 4)
    assert running.wait(0) is None
    beside = workspace.begin(*FOR_EVER)
    running.stop()
    running.stop()
    result = running.wait(10)
    assert result is not None
    assert (result.end, result.exit_code) == (ExecEnd.KILLED, None)
    assert sleepers(workspace) == 1  # the one beside it is another exec's
    beside.stop()
    assert beside.wait(10) is not None


def test_what_an_exec_leaves_behind_ends_with_it(workspace: Inhabited) -> None:
    assert workspace.shell("(setsid sleep 7777 >/dev/null 2>&1 &) ; echo left") == "left\n"
    assert sleepers(workspace) == 0


def test_the_deadline_holds_though_the_caller_died(driver: Driver, workspace: Inhabited) -> None:
    """A forked caller that ends at once, with its handle."""
    pid = os.fork()
    if pid == 0:
        try:
            script = "(setsid sleep 7777 &) ; echo >begun; exec sleep 7777"
            workspace.begin("/bin/sh", "-c", script, deadline_seconds=2.0)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    wait_until(lambda: workspace.run("/bin/cat", "begun").exit_code == 0)
    wait_until(lambda: sleepers(workspace) == 0, pause_seconds=0.1)


def test_a_put_file_is_whole_or_not_at_all(driver: Driver, workspace: Inhabited) -> None:
    def put(path: str, content: bytes) -> None:
        driver.put_file(workspace.container_id, path, content)

    content = os.urandom(3_000_000)
    put("deep/er/file", content)
    assert workspace.run("/bin/cat", "deep/er/file").stdout == content[:1_000_000]
    put("deep/er/file", b"second")
    workspace.shell("mkdir folder; ln -s /tmp out; ln -s /etc/passwd linked; mkfifo pipe")
    put("linked", b"third")
    put("pipe", b"fourth")
    assert workspace.shell("cat deep/er/file linked pipe; test ! -L linked") == "secondthirdfourth"
    for path in ("/etc/x", "../x", "a/../../x", "a//x", "", ".", "folder", "out/x", "deep/er/file/x", "n" * 300):
        refused("PathRefused", lambda: put(path, b"never"))  # noqa: B023  called at once
    assert workspace.shell("ls -A /tmp; ls -A folder; ls -A | grep dpp-put || true") == ""


def test_a_port_is_reached_through_the_init(driver: Driver, workspace: Inhabited) -> None:
    refused("PortClosed", lambda: driver.connect(workspace.container_id, 8123))
    refused("PortClosed", lambda: driver.connect(workspace.container_id, 65_536))
    server = workspace.begin(
        *("/usr/bin/python3", "-c"),
        "import socket\nmade = socket.create_server(('127.0.0.1', 8123))\nprint('ready')\n"
        "while True:\n  one, _ = made.accept()\n  data = one.recv(100)\n  one.sendall(data[::-1])\n  one.close()",
    )

    def connected() -> bytes | None:
        try:
            with driver.connect(workspace.container_id, 8123) as port:
                port.settimeout(5)
                port.sendall(b"there and back")
                return port.recv(100)
        except DriverRefused:
            return None

    assert wait_until(connected) == b"kcab dna ereht"
    server.stop()
    assert server.wait(10) is not None


def test_a_command_is_started_again_and_its_crashes_are_told(driver: Driver, tenancy: Tenancy) -> None:
    made = tenancy.inhabited(WorkspaceSpec(command=("/bin/sh", "-c", "echo run; echo wrong >&2; exit 5")))
    wait_until(lambda: made.seen().restarts >= 3)
    seen = made.seen()
    assert (seen.running, seen.command_exit_code) == (True, 5)
    assert seen.crashes_in_a_row >= seen.restarts >= 3
    page = driver.logs(made.container_id, offset=0, bytes_max=20)
    assert (page.content, page.next_offset, page.dropped) == (b"run\nwrong\nrun\nwrong\n", 20, False)
    more = wait_until(lambda: driver.logs(made.container_id, offset=20, bytes_max=4).content)
    assert more == b"run\n"
    assert made.shell("echo beside") == "beside\n"
    made.remove()


def test_old_logs_are_dropped_and_offsets_go_on(driver: Driver, tenancy: Tenancy) -> None:
    script = "import sys, time\nfor n in range(300_000): print(f'{n:07d}')\nsys.stdout.flush()\ntime.sleep(7777)"
    made = tenancy.inhabited(WorkspaceSpec(command=("/usr/bin/python3", "-c", script)))
    written = 300_000 * 8

    def at_the_end() -> bool:
        return driver.logs(made.container_id, offset=written - 8, bytes_max=8).content == b"0299999\n"

    wait_until(at_the_end)
    page = driver.logs(made.container_id, offset=0, bytes_max=written)
    assert (page.dropped, page.next_offset) == (True, written)
    assert 500_000 < len(page.content) < 2_000_000
    begin = written - len(page.content)
    assert page.content[(8 - begin % 8) % 8 :][:8] == f"{-(-begin // 8):07d}\n".encode()
    assert driver.logs(made.container_id, offset=written, bytes_max=8) == replace(page, content=b"", dropped=False)
    made.remove()


def test_an_end_is_asked_for_before_it_is_made(driver: Driver, tenancy: Tenancy) -> None:
    """The writer of a file ends it at TERM; what ignores TERM is killed when its grace is over."""
    polite = "trap 'echo ended >>kept; exit' TERM; echo begun >kept; while :; do sleep 0.01; done"
    made = tenancy.inhabited(WorkspaceSpec(command=("/bin/sh", "-c", polite)))
    wait_until(lambda: made.run("/bin/cat", "kept").stdout == b"begun\n")
    made.remove(grace_seconds=10)
    deaf = ("/bin/sh", "-c", "trap '' TERM; echo >deaf; while :; do sleep 0.01; done")
    again = tenancy.inhabited(WorkspaceSpec(command=deaf), label=made.label, volume=made.volume)
    assert again.shell("cat kept") == "begun\nended\n"
    wait_until(lambda: again.run("/bin/cat", "deaf").exit_code == 0)
    again.remove(grace_seconds=0.2)
    assert driver.look_container(again.name) is None


HELD: Final = (
    "import signal, socket\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "made = socket.create_server(('127.0.0.1', 8125))\nmade.accept()[0].recv(1)"
)
"""Ends when its connection does."""


def test_an_exec_that_closed_its_output_takes_no_other_s_place(workspace: Inhabited) -> None:
    """The numbers of its pipes are another's by the time that it ends."""
    waits = "while ! test -e go; do sleep 0.05; done"
    silent = workspace.begin("/bin/sh", "-c", f"exec >&- 2>&-; touch closed; {waits}")
    wait_until(partial(_is_there, workspace, "closed"))
    beside = [workspace.begin("/bin/sh", "-c", f"{waits}; sleep 0.5; echo {number}") for number in range(3)]
    workspace.shell("touch go")
    assert silent.wait(10) is not None
    ended = [running.wait(10) for running in beside]
    assert [(one and one.stdout, one and one.end) for one in ended] == [
        (b"0\n", ExecEnd.EXITED),
        (b"1\n", ExecEnd.EXITED),
        (b"2\n", ExecEnd.EXITED),
    ]
    workspace.shell("rm go closed")


def _is_there(made: Inhabited, name: str) -> bool:
    return made.run("/usr/bin/test", "-e", name).exit_code == 0


def test_what_does_not_heed_the_stop_of_its_workspace_was_killed(tenancy: Tenancy) -> None:
    """An answer, and no fault of ours: what it used is charged for."""
    for grace_seconds in (0.1, 0.0):
        made = tenancy.inhabited()
        running = made.begin("/bin/sh", "-c", "trap '' TERM; touch begun; while :; do sleep 0.1; done")
        wait_until(partial(_is_there, made, "begun"))
        made.driver.remove_container(made.container_id, grace_seconds=grace_seconds)
        result = running.wait(10)
        assert result is not None
        assert (result.end, result.exit_code, result.stdout_cut) == (ExecEnd.KILLED, None, True)
        assert result.seconds > 0
        assert running.wait(0) == result


def test_nothing_begins_in_what_is_being_stopped(driver: Driver, tenancy: Tenancy) -> None:
    made = tenancy.inhabited(WorkspaceSpec(command=("/usr/bin/python3", "-c", HELD)))

    def connected() -> socket.socket | None:
        try:
            return driver.connect(made.container_id, 8125)
        except DriverRefused:
            return None

    def stops() -> bool:
        try:
            made.begin("true").close()
        except DriverUnavailable:
            return True
        return False

    with wait_until(connected):
        stopping = threading.Thread(target=made.remove, kwargs={"grace_seconds": 30.0})
        stopping.start()
        wait_until(stops)
        assert made.seen().running
        with pytest.raises(DriverUnavailable):  # it would be removed under its user
            driver.start(name=made.name, volume=made.volume, spec=WorkspaceSpec(), label=made.label, spec_hash="1")
        with pytest.raises(DriverUnavailable):
            driver.put_file(made.container_id, "late", b"")
    stopping.join()
    assert driver.look_container(made.name) is None


def test_what_is_used_and_what_is_free(driver: Driver, workspace: Inhabited) -> None:
    before = driver.usage_bytes(workspace.volume)
    assert 0 < before < 5_000_000
    workspace.shell("head -c 5000000 /dev/urandom >large; mkdir shut; echo 1 >shut/in; chmod 0 shut")
    assert 5_000_000 <= driver.usage_bytes(workspace.volume) < 5_200_000
    assert driver.free_bytes() > 0
    workspace.shell("chmod 700 shut; rm -r shut large")


def test_what_fills_a_volume_is_read_to_its_end(driver: Driver, tenancy: Tenancy) -> None:
    """tar stops at its mark; whether the bytes were right is known behind it."""
    volume = tenancy.volume(tenancy.label())

    def tar() -> Iterator[bytes]:
        yield bytes(10_240)
        yield from (b"x" * 65_536 for _ in range(32))
        raise DriverCorrupt("not what was verified")

    with pytest.raises(DriverCorrupt, match="not what was verified"):
        driver.import_(volume, tar())


def test_nothing_is_left(driver: Driver) -> None:
    leave_nothing(driver)
    listing = driver.list()
    assert (listing.containers, listing.volumes) == ((), ())
