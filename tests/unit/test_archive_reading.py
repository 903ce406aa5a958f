"""A packed home is read to its end, and one that is cut, changed or lengthened anywhere is refused."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from ops.workspaces.archive_store import frames, tar_walk
from ops.workspaces.archive_store.tar_walk import BLOCK
from ops.workspaces.drivers.base import DriverCorrupt
from tests.gear.builders.archives import EXPORT, odd_home, small_home, tar_of

pytestmark = pytest.mark.contract("WSP-07")

FORMATS = {
    "pax": EXPORT,
    "pax 0.1": (*EXPORT, "--sparse-version=0.1"),
    "pax 0.0": (*EXPORT, "--sparse-version=0.0"),
    "gnu": ("--sparse", "--format=gnu"),
    "oldgnu": ("--sparse", "--format=oldgnu"),
}


def pack(tar: bytes) -> bytes:
    frame = frames.frame_compressor()
    return frame.compress(tar) + frame.flush()


def unpack(packed: bytes, *, size: int = 1_000) -> bytes:
    return b"".join(frames.decompressed_frames(packed[at : at + size] for at in range(0, len(packed), size)))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return odd_home(tmp_path_factory.mktemp("homes") / "home")


@pytest.fixture(scope="module")
def tar(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Small, with a header of each kind that stands before a member."""
    return tar_of(small_home(tmp_path_factory.mktemp("homes") / "small", noise_bytes=1_300))


@pytest.mark.parametrize("kind", FORMATS)
def test_every_member_is_counted_in_each_format(kind: str, home: Path) -> None:
    content = tar_of(home, *FORMATS[kind])
    with tarfile.open(fileobj=io.BytesIO(content), errorlevel=2) as known:
        members = len(known.getnames())
    assert members == 47
    for size in (len(content), 10_007):
        chunks = (content[at : at + size] for at in range(0, len(content), size))
        assert tar_walk.walk_tar(chunks) == tar_walk.WalkedTar(bytes=len(content), members=members)


@pytest.mark.parametrize("known", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_member_of_nine_gibibytes_is_skipped_whole(known: Literal[1, 2]) -> None:
    head = tarfile.TarInfo("large")
    head.size = (9 << 30) + 1
    header, chunk = head.tobuf(known), bytes(1 << 20)

    def chunks() -> Iterator[bytes]:
        yield header
        yield from (chunk for _ in range(9 << 10))
        yield b"x" + bytes(BLOCK - 1) + bytes(2 * BLOCK)

    expected = len(header) + (9 << 30) + 3 * BLOCK
    assert tar_walk.walk_tar(chunks()) == tar_walk.WalkedTar(bytes=expected, members=1)


def test_a_tar_is_refused_wherever_it_is_cut(tar: bytes) -> None:
    """tarfile's stream mode takes one that ends between two members for whole."""
    end = len(tar.rstrip(b"\0"))
    end += -end % BLOCK
    assert tar_walk.walk_tar([tar]).members == 6
    for cut in [*range(0, end + 2 * BLOCK, BLOCK), *range(1, end + 2 * BLOCK, 97)]:
        with pytest.raises(DriverCorrupt, match="in the archive") as refused:
            tar_walk.walk_tar([tar[:cut]])
        assert refused.value.reason == "ArchiveCorrupted"
    assert tar_walk.walk_tar([tar[: end + 2 * BLOCK]]).members == 6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tar: tar[:-1] + b"x", "something follows its end"),
        (lambda tar: tar + tar, "something follows its end"),
        (lambda tar: tar + b"\0", "cut before its end"),
        (lambda tar: bytes(BLOCK) + tar, "the mark of its end is not whole"),
        (lambda tar: b"/" + tar[1:], "checksum is wrong"),
        (lambda tar: tar[:124] + b"-0000000001\0" + tar[136:], "checksum is wrong"),
        (lambda tar: tar[:148] + b"99999999" + tar[156:], "number is none"),
        (lambda _: b"", "cut before its end"),
        (lambda tar: announced(tar, b"20 size=1\n"), "extended header is cut"),
        (lambda tar: announced(tar, b"11 size=-1\n"), "size is none"),
        (lambda tar: announced(tar, b"0 size=1\n"), "extended header is cut"),
        (lambda tar: announced(tar, b"10 size=1\n", kind=b"g"), "for all members"),
        (lambda tar: announced(tar, b"8 a=bcd\n")[: 2 * BLOCK] + bytes(2 * BLOCK), "the mark of its end"),
        (lambda _: header(b"5", 512) + bytes(3 * BLOCK), "has 512 bytes"),
        (lambda _: header(b"Z", 0) + bytes(2 * BLOCK), "of the kind 0x5a"),
        (lambda _: header(b"x", 65 << 20) + bytes(2 * BLOCK), "an extended header has 68157440 bytes"),
    ],
)
def test_a_tar_that_is_none_is_refused(change: object, said: str, tar: bytes) -> None:
    assert callable(change)
    with pytest.raises(DriverCorrupt, match=said):
        tar_walk.walk_tar([change(tar)])


def header(kind: bytes, size: int) -> bytes:
    made = tarfile.TarInfo("member")
    made.type, made.size = kind, size
    return made.tobuf(tarfile.USTAR_FORMAT)


def announced(tar: bytes, content: bytes, *, kind: bytes = b"x") -> bytes:
    return header(kind, len(content)) + content + bytes(-len(content) % BLOCK) + tar


def test_a_frame_is_read_to_its_end_however_it_comes() -> None:
    content = bytes(range(256)) * 20_000
    packed = pack(content)
    for size in (1, 3, len(packed)):
        assert unpack(packed, size=size) == content
    assert unpack(pack(b"")) == b""


def test_a_frame_that_is_cut_changed_or_lengthened_is_refused(tar: bytes) -> None:
    packed = pack(tar)
    for cut in range(len(packed)):
        with pytest.raises(DriverCorrupt, match="cut before its end"):
            unpack(packed[:cut])
    unnoticed = [place for place in range(len(packed)) if not is_refused(flipped(packed, place), tar)]
    assert len(unnoticed) * 100 < len(packed)  # bits that no reader looks at; the object's hash sees them
    for more in (b"\0", packed, pack(b"")):
        with pytest.raises(DriverCorrupt, match="something follows"):
            unpack(packed + more)
        with pytest.raises(DriverCorrupt, match="something follows"):
            list(frames.decompressed_frames([packed, more]))


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]


def is_refused(packed: bytes, content: bytes) -> bool:
    """What is not refused is what was packed: never anything else."""
    try:
        found = unpack(packed)
    except DriverCorrupt:
        return True
    assert found == content
    return False
