"""A home goes out as a tar and comes back as it was; what a hostile tar holds reaches nothing."""

import io
import tarfile
from collections.abc import Iterator
from typing import Any, Final

import pytest

from ops.workspaces.archive_store import tar_walk
from ops.workspaces.drivers.base import Driver, DriverCorrupt, DriverRefused, VerbAnswer
from tests.gear.builders.workspace_drivers import Inhabited, Tenancy

pytestmark = pytest.mark.contract("WSP-07", "WSP-11")

FURNISH: Final = r"""
import os, socket
def put(path, content=b'', mode=0o644):
    with open(path, 'wb') as output: output.write(content)
    os.chmod(path, mode)
os.makedirs('deep/' + '/'.join(['d' * 100] * 5))
put('deep/' + '/'.join(['d' * 100] * 5) + '/' + 'f' * 250, b'far')
for number, name in enumerate([b'line\nbreak', b'-rf', b'\xff\xfe', ' \u00e9 "\'\\'.encode(), b'*']):
    put(name, b'%d' % number)
put('shut', b'to myself', 0)
os.mkdir('closed'); put('closed/in', b'here'); os.chmod('closed', 0)
put('set-id', b'', 0o6755); os.mkdir('sticky'); os.chmod('sticky', 0o1777)
os.mkdir('empty')
os.link('-rf', 'hard'); os.symlink('hard', 'soft'); os.symlink('/etc/passwd', 'outside')
os.symlink('nowhere', 'broken')
os.symlink('../..', 'up')
os.mkfifo('pipe', 0o620)
with open('sparse', 'wb') as output:
    output.truncate(40_000_000); output.seek(20_000_000); output.write(b'middle')
put('with-attributes', b'x'); os.setxattr('with-attributes', 'user.colour', b'\x00blue\n')
os.setxattr('empty', 'user.of-a-folder', b'1')
os.utime('hard', ns=(1, 1_234_567_890_123_456_789))
os.utime('soft', ns=(1, 987_654_321_000_000_001), follow_symlinks=False)
os.utime('empty', ns=(1, 5_000_000_000))
made = socket.socket(socket.AF_UNIX); made.bind('socket')
"""
INVENTORY: Final = r"""
import hashlib, os, stat
first = {}
def tell(path):
    is_dir = os.path.isdir(path) and not os.path.islink(path)
    at = os.lstat(path)
    mode = at.st_mode
    if stat.S_ISSOCK(mode): return
    words = [ascii(path), oct(mode), at.st_mtime_ns if path != '.' else '', at.st_nlink]
    words.append(at.st_size if not is_dir else '')
    words.append(ascii(first.setdefault(at.st_ino, path)) if not is_dir else '')
    words.append(ascii(os.readlink(path)) if os.path.islink(path) else '')
    if not os.path.islink(path) and not stat.S_ISFIFO(mode):
        os.chmod(path, stat.S_IMODE(mode) | 0o700)
        names = [name for name in sorted(os.listxattr(path)) if name.startswith('user.')]
        words.append([(name, os.getxattr(path, name)) for name in names])
        if is_dir:
            for name in sorted(os.listdir(path)): tell(os.path.join(path, name))
        else:
            words.append(hashlib.sha256(open(path, 'rb').read()).hexdigest())
            words.append(at.st_blocks * 512 < at.st_size)
        os.chmod(path, stat.S_IMODE(mode))
    print(*words)
tell('.')
"""


def whole(driver: Driver, volume: str) -> bytes:
    with driver.export(volume) as stream:
        return stream.read()


def restored(tenancy: Tenancy, tar: Iterator[bytes]) -> Inhabited:
    label = tenancy.label()
    volume = tenancy.volume(label)
    tenancy.driver.import_(volume, tar)
    return tenancy.inhabited(label=label, volume=volume)


def in_pieces(content: bytes, size: int = 100_000) -> Iterator[bytes]:
    for begin in range(0, len(content), size):
        yield content[begin : begin + size]


def test_a_home_comes_back_as_it_was(driver: Driver, tenancy: Tenancy) -> None:
    """Twice there and back: what a restore makes is what the next archive holds."""
    made = tenancy.inhabited()
    made.python(FURNISH)
    inventory = made.python(INVENTORY)
    assert inventory.count("\n") == 27
    made.python("import os; os.unlink('socket')")
    first = whole(driver, made.volume)
    made.remove()
    assert len(first) < 200_000  # 40 MB of holes are not in it
    again = restored(tenancy, in_pieces(first))
    assert again.python(INVENTORY) == inventory
    again.shell("echo new >new")
    third = restored(tenancy, iter([whole(driver, again.volume)]))
    assert third.shell("cat new; rm new") == "new\n"
    assert third.python(INVENTORY).splitlines()[:-1] == inventory.splitlines()[:-1]  # its root was written to
    for inhabited in (again, third):
        inhabited.remove()


def test_a_socket_is_left_out_and_told(driver: Driver, tenancy: Tenancy, caplog: pytest.LogCaptureFixture) -> None:
    made = tenancy.inhabited()
    made.python("import socket\nmade = socket.socket(socket.AF_UNIX)\nmade.bind('control')")
    with caplog.at_level("INFO", logger="dpp.workspaces"):
        content = whole(driver, made.volume)
    said: list[Any] = [record.msg for record in caplog.records if record.name == "dpp.workspaces"]
    assert [(one["event"], one["volume"], one["sockets"]) for one in said] == [
        ("sockets are in no archive", made.volume, 1)
    ]
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert archive.getnames() == ["."]
    made.remove()


def test_what_changes_while_it_is_read_is_no_archive(driver: Driver, tenancy: Tenancy) -> None:
    made = tenancy.inhabited()
    made.shell("head -c 5000000 /dev/zero >large")
    stream = driver.export(made.volume)
    opened = stream.__enter__()
    assert len(opened.read(100_000)) == 100_000
    made.shell("echo more >>large")
    assert opened.read()
    with pytest.raises(DriverCorrupt) as caught:
        stream.__exit__(None, None, None)
    assert caught.value.reason == "ChangedWhileRead"
    with driver.export(made.volume) as left:
        left.read(1_000)  # left in the middle: no word of the whole
    assert whole(driver, made.volume)[:2] == b"./"
    made.remove()


def test_what_is_not_whole_fills_nothing(driver: Driver, tenancy: Tenancy) -> None:
    made = tenancy.inhabited()
    made.shell("for n in 1 2 3; do head -c 20000 /dev/urandom >$n; done")
    content = whole(driver, made.volume)
    made.remove()
    for cut in (b"", content[:700], content[:30_000], b"\x1f" + content[1:]):
        volume = tenancy.volume(tenancy.label())
        with pytest.raises(DriverCorrupt):
            driver.import_(volume, iter([cut]))
        assert driver.delete_volume(volume) is VerbAnswer.DONE
    filled = tenancy.volume(label := tenancy.label())
    driver.import_(filled, iter([content]))
    with pytest.raises(DriverRefused) as caught:
        driver.import_(filled, iter([content]))
    assert caught.value.reason == "VolumeNotEmpty"
    with pytest.raises(ZeroDivisionError):
        driver.import_(tenancy.volume(label := tenancy.label()), (bytes(1 // one) for one in (1, 0)))
    assert driver.delete_volume(f"ws-{label.workspace_id}-home-{label.op_id[:8]}-1") is VerbAnswer.DONE


DEEP: Final = """
import os, sys
for _ in range(40):
    os.mkdir('d' * 100); os.chdir('d' * 100)
open('f' * int(sys.argv[1]), 'w').write('far')
"""


def test_a_path_that_no_restore_could_make_is_told_while_its_home_is_there(driver: Driver, tenancy: Tenancy) -> None:
    """tar reads a path of any length, and makes none that the kernel takes no name of."""
    longest, longer = tenancy.inhabited(), tenancy.inhabited()
    longest.python(DEEP, "53")
    longer.python(DEEP, "54")
    content, too_long = whole(driver, longest.volume), whole(driver, longer.volume)
    assert tar_walk.walk_tar([content]).members == tar_walk.PATH_BYTES_MAX // 101 + 2
    again = restored(tenancy, in_pieces(content))
    assert again.shell("find . -type f | wc -c") == f"{tar_walk.PATH_BYTES_MAX + 1}\n"
    with pytest.raises(DriverCorrupt) as caught:
        tar_walk.walk_tar([too_long])
    assert (caught.value.reason, caught.value.for_good) == ("PathTooLong", True)
    with pytest.raises(DriverCorrupt):
        driver.import_(tenancy.volume(tenancy.label()), in_pieces(too_long))
    for inhabited in (longest, longer, again):
        inhabited.remove()


def test_a_home_that_its_tenant_closed_to_itself_is_opened_by_it_again(driver: Driver, tenancy: Tenancy) -> None:
    made = tenancy.inhabited()
    made.shell("echo kept >kept; chmod 0 .")
    content = whole(driver, made.volume)
    made.remove()
    for again in (tenancy.inhabited(label=made.label, volume=made.volume), restored(tenancy, in_pieces(content))):
        assert again.shell("pwd; chmod 755 ~") == "/\n"
        assert again.shell("pwd; cat kept") == "/home/workspace\nkept\n"
        again.remove()


def member(
    name: str, kind: bytes = tarfile.REGTYPE, *, to: str = "", content: bytes = b""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, to, len(content), 0o4777
    info.devmajor, info.devminor = 1, 3
    return info, content


EVIL: Final = {
    "absolute": [member("/tmp/evil", content=b"x")],  # noqa: S108
    "parents": [member("a/../../evil", content=b"x")],
    "through_an_absolute_link": [member("out", tarfile.SYMTYPE, to="/home"), member("out/evil", content=b"x")],
    "through_a_relative_link": [member("out", tarfile.SYMTYPE, to="../.."), member("out/usr/evil", content=b"x")],
    "over_a_link": [member("out", tarfile.SYMTYPE, to="../evil"), member("out", content=b"x")],
    "hard_link_to_the_system": [member("mine", tarfile.LNKTYPE, to="/etc/passwd")],
    "hard_link_upwards": [member("mine", tarfile.LNKTYPE, to="../../usr/bin/env")],
    "hard_link_through_a_link": [
        member("out", tarfile.SYMTYPE, to="/usr/bin"),
        member("mine", tarfile.LNKTYPE, to="out/env"),
    ],
    "character_device": [member("null", tarfile.CHRTYPE)],
    "block_device": [member("disk", tarfile.BLKTYPE)],
    "names_of_one_place": [member("x", content=b"1"), member("x/y", content=b"2")],
}


LANDS: Final = frozenset({"absolute", "over_a_link"})
"""Inside the home, whatever its name says."""


def test_a_hostile_tar_reaches_nothing(driver: Driver, tenancy: Tenancy) -> None:
    """It is refused or lands inside; no device is made, and no file of another place is read through it."""
    for which, members in EVIL.items():
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for info, content in members:
                archive.addfile(info, io.BytesIO(content))
        label = tenancy.label()
        volume = tenancy.volume(label)
        try:
            driver.import_(volume, iter([packed.getvalue()]))
        except DriverCorrupt:
            assert which not in LANDS
        else:
            assert which in LANDS
        with tarfile.open(fileobj=io.BytesIO(whole(driver, volume))) as archive:
            for info in archive:
                assert info.isdir() or info.issym() or info.isreg(), (which, info)
                kept = archive.extractfile(info) if info.isreg() else None
                assert kept is None or kept.read() in {b"x", b"1"}, (which, info)
