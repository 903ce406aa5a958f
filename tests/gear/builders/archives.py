"""Homes as tenants leave them, GNU tar around them, and a store of archives in a bucket of the test process."""

import hashlib
import os
import struct
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Final, cast

from dpp_project.aws import clients
from dpp_project.settings import ENV
from ops.workspaces import naming
from ops.workspaces.archive_store.archives import ArchiveIdentity
from ops.workspaces.archive_store.store import ArchiveStore
from ops.workspaces.drivers.base import DriverCorrupt

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PART_BYTES: Final = 64 << 10
"""So that a small home has many parts; S3 itself wants 5 MiB."""
OURS: Final = ArchiveIdentity(token="a-token", epoch=3)
EXPORT: Final = ("--xattrs", "--xattrs-include=*", "--numeric-owner", "--sparse", "--format=posix")
IMPORT: Final = ("--xattrs", "--xattrs-include=*", "--numeric-owner", "--same-permissions", "--same-owner", "--sparse")


def new_key() -> str:
    return naming.archive_key(uuid.uuid4(), op_id=uuid.uuid4())


def store(client: "S3Client | None" = None, **given: int) -> ArchiveStore:
    """Over the real bucket, with small parts; `client` may lead through something that fails."""
    return ArchiveStore(
        client or clients.s3_client(ENV.S3_ENDPOINT_URL), ENV.DPP_ARCHIVE_BUCKET, **{"part_bytes": PART_BYTES, **given}
    )


def ignore(_value: object) -> None:
    """For a callback that the test does not look at."""


@contextmanager
def export(folder: Path, *options: str, status: int = 0) -> Iterator[BinaryIO]:
    """As a driver exports. `status` is what tar is said to have ended with."""
    command = ["tar", "-C", str(folder), *(options or EXPORT), "-c", "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
        try:
            yield cast("BinaryIO", tar.stdout)
        except BaseException:
            tar.kill()
            raise
    if tar.returncode or status:
        raise DriverCorrupt(f"tar ended with {tar.returncode or status}", reason="ChangedWhileRead")


@contextmanager
def given(content: IO[bytes]) -> Iterator[BinaryIO]:
    """An export of bytes that stand."""
    yield cast("BinaryIO", content)


def tar_of(folder: Path, *options: str) -> bytes:
    with export(folder, *options) as tar:
        return tar.read()


def unpack(folder: Path, tar: Iterator[bytes]) -> None:
    """As a driver imports."""
    folder.mkdir()
    command = ["tar", "-C", str(folder), *IMPORT, "-x"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for chunk in tar:
            process.stdin.write(chunk)
    assert process.returncode == 0


def noise(size: int) -> bytes:
    """It does not pack, so that an archive has the bytes that were meant."""
    return hashlib.shake_256(b"noise").digest(size)


def small_home(folder: Path, *, noise_bytes: int = 5 * PART_BYTES // 2) -> Path:
    """Three parts, and members of each size a header may stand before."""
    folder.mkdir()
    (folder / "empty").touch()
    (folder / "noise").write_bytes(noise(noise_bytes))
    (folder / "block").write_bytes(b"x" * 512)
    (folder / "folder").mkdir()
    (folder / "folder" / ("n" * 200)).write_bytes(b"long name")
    return folder


def odd_home(folder: Path) -> Path:
    """What a home may hold and a careless archive loses. A socket is not in it: tar leaves sockets out."""
    small_home(folder)
    _links(folder)
    _names(folder)
    _modes_and_times(folder)
    _holes(folder)
    for name, value in (("user.plain", b"value"), ("user.binary", bytes(range(256))), ("user.empty", b"")):
        os.setxattr(folder / "block", name, value)
    os.setxattr(folder / "folder", "user.of.folder", b"=\n=")
    _keep_times(folder)
    return folder


def add_privileges(folder: Path) -> None:
    """Of files as root alone may make them: a capability, and an access list that names strangers."""
    if os.geteuid() != 0:
        return
    file = folder / "privileged"
    file.write_bytes(b"#!/bin/sh\n")
    os.chown(file, 1_000, 1_000)
    entries = ((1, 7, -1), (2, 5, 1_234), (4, 5, -1), (16, 5, -1), (32, 5, -1))
    access = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    os.setxattr(file, "system.posix_acl_access", access)
    os.setxattr(file, "security.capability", struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0))
    _keep_times(folder)


def _links(folder: Path) -> None:
    os.link(folder / "noise", folder / "zz-hard")
    os.link(folder / "noise", folder / "folder" / "hard")
    (folder / "to-file").symlink_to("folder/hard")
    (folder / "dangling").symlink_to("/nowhere/" + "x" * 300)
    (folder / "loop").symlink_to("loop")
    os.link(folder / "loop", folder / "loop-again", follow_symlinks=False)
    os.mkfifo(folder / "fifo", 0o640)


def _names(folder: Path) -> None:
    for name in (
        b"new\nline",
        b"\xff\xfe not utf-8",
        b"n" * 255,
        "홈 폴더".encode(),
        b"-rf",
        b" ",
        b"back\\slash",
        b"*",
        b"@x",
    ):
        (folder / os.fsdecode(name)).write_bytes(name)
    deep = folder
    for _ in range(14):
        deep /= "d" * 200
        deep.mkdir()
    (deep / "file").write_bytes(b"deep")


def _modes_and_times(folder: Path) -> None:
    for number, mode in enumerate((0o000, 0o400, 0o4755, 0o2711, 0o777)):
        made = folder / f"mode-{number}"
        made.write_bytes(b"#!/bin/sh\n")
        if os.geteuid() == 0:
            os.chown(made, 1000 + number, 65_534)
        made.chmod(mode)
    sticky = folder / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    for name, seconds in (("1960", -315_619_200), ("2100", 4_102_444_800)):
        (folder / name).touch()
        os.utime(folder / name, ns=(0, seconds * 10**9 + 123_456_789))


def _holes(folder: Path) -> None:
    """The ends of a file, its middle, and more holes than a header has room for."""
    with (folder / "holes").open("wb") as file:
        for number in range(40):
            file.seek(number * 200_000)
            file.write(b"data")
        file.truncate(9 << 20)
    with (folder / "all-hole").open("wb") as file:
        file.truncate(3 << 20)


def _keep_times(folder: Path) -> None:
    """A folder's time that is not of now."""
    for at, one in enumerate((folder / "folder", folder)):
        os.utime(one, ns=(0, 1_600_000_000_123_456_789 + at))
