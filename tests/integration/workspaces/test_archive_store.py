"""An archive is written once, whole, and read back: against the real bucket."""

import io
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

import pytest

from dpp_project.aws import clients
from dpp_project.settings import ENV
from ops.workspaces import naming
from ops.workspaces.archive_store import configured
from ops.workspaces.archive_store.archives import ArchiveHead, ArchiveIdentity, SentArchive, VerifiedArchive
from ops.workspaces.archive_store.store import ArchiveStore
from ops.workspaces.drivers.base import DriverCorrupt, DriverRefused
from tests.gear.builders import archives
from tests.gear.builders.archives import OURS, PART_BYTES, export, ignore, new_key, odd_home, small_home, unpack
from tests.gear.tree_hash import tree_lines

pytestmark = [pytest.mark.contract("WSP-07"), pytest.mark.usefixtures("aws")]

THEIRS = (
    ArchiveIdentity(token="another", epoch=OURS.epoch),
    ArchiveIdentity(token=OURS.token, epoch=OURS.epoch + 1),
)


@pytest.fixture
def store() -> ArchiveStore:
    return archives.store()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return small_home(tmp_path / "home")


def send(store: ArchiveStore, key: str, tar: AbstractContextManager[BinaryIO]) -> SentArchive:
    sent = store.upload(key, OURS, tar, opened=ignore)
    assert sent is not None
    return sent


def nothing_lies_at(store: ArchiveStore, key: str) -> None:
    assert store.look(key) is None
    assert store.list_uploads(key) == []


def test_a_home_comes_back_as_it_was(store: ArchiveStore, tmp_path: Path) -> None:
    """With files of several owners and privileges, too. In test_archive_driver.py five times, through volumes."""
    first, second, key = odd_home(tmp_path / "first"), tmp_path / "second", new_key()
    archives.add_privileges(first)
    lines = tree_lines(first)
    sent = send(store, key, export(first))
    verified = store.verify(key, OURS, sent)
    assert (verified.object_bytes, verified.tar_bytes, verified.sha256, verified.members) == (
        *(sent.object_bytes, sent.tar_bytes, sent.sha256),
        len(lines),
    )
    unpack(second, store.read(key, verified))
    assert tree_lines(second) == lines
    assert (second / "all-hole").stat().st_blocks == 0
    assert (second / "holes").stat().st_blocks * 512 < 1 << 20


def test_what_lies_there_says_whose_it_is_and_how_large(store: ArchiveStore, home: Path) -> None:
    key = new_key()
    sent = send(store, key, export(home))
    head = store.look(key)
    assert isinstance(head, ArchiveHead)
    assert (head.identity, head.object_bytes) == (OURS, sent.object_bytes)
    assert sent.object_bytes > 2 * PART_BYTES
    assert [(one.key, one.object_bytes) for one in store.list_archives(key)] == [(key, sent.object_bytes)]
    store.delete(key)
    store.delete(key)
    nothing_lies_at(store, key)
    with pytest.raises(DriverCorrupt) as refused:
        store.verify(key, OURS, sent)
    assert refused.value.reason == "ArchiveNotFound"


def test_a_workspaces_list_holds_its_own_archives_alone(store: ArchiveStore) -> None:
    workspace, other = uuid.uuid4(), uuid.uuid4()
    keys = {naming.archive_key(workspace, op_id=uuid.uuid4()) for _ in range(2)}
    for key in (*keys, naming.archive_key(other, op_id=uuid.uuid4())):
        clients.s3_client(ENV.S3_ENDPOINT_URL).put_object(Bucket=store.bucket, Key=key, Body=b"x")
    assert {one.key for one in store.list_archives(naming.archive_prefix(workspace))} == keys


def test_the_upload_is_named_before_its_first_part_and_each_mebibyte_is_counted(
    store: ArchiveStore, home: Path
) -> None:
    key, told = new_key(), []
    counted: list[int] = []

    def opened(upload_id: str) -> None:
        told.append(upload_id)
        assert [one.upload_id for one in store.list_uploads(key)] == [upload_id]
        assert clients.s3_client(ENV.S3_ENDPOINT_URL).list_parts(Bucket=store.bucket, Key=key, UploadId=upload_id).get(
            "Parts", []
        ) == []  # fmt: skip

    (home / "more").write_bytes(bytes(5 << 20))
    sent = store.upload(key, OURS, export(home), opened=opened, progress=counted.append)
    assert sent is not None
    assert len(told) == 1
    assert counted == sorted(counted)
    assert counted[-1] == sent.tar_bytes
    assert max(after - before for before, after in zip([0, *counted], counted, strict=False)) <= 1 << 20
    assert store.list_uploads(key) == []
    counted.clear()
    store.verify(key, OURS, sent, progress=counted.append)
    assert counted[-1] == sent.tar_bytes


def test_a_second_upload_of_the_same_operation_finds_the_first(store: ArchiveStore, home: Path) -> None:
    key = new_key()
    sent = send(store, key, export(home))
    (home / "later").write_bytes(b"not in the first")
    assert store.upload(key, OURS, export(home), opened=ignore) is None
    verified = store.verify(key, OURS, None)
    assert (verified.object_bytes, verified.tar_bytes, verified.sha256) == (
        *(sent.object_bytes, sent.tar_bytes, sent.sha256),
    )
    assert store.list_uploads(key) == []


def test_of_two_uploads_at_once_the_first_to_complete_stays(store: ArchiveStore, home: Path, tmp_path: Path) -> None:
    key, rival = new_key(), []

    def overtaken(_upload_id: str) -> None:
        rival.append(send(store, key, export(small_home(tmp_path / "rival", noise_bytes=9))))

    assert store.upload(key, OURS, export(home), opened=overtaken) is None
    assert store.verify(key, OURS, None).sha256 == rival[0].sha256
    assert store.list_uploads(key) == []


@pytest.mark.parametrize("theirs", THEIRS)
def test_another_operations_object_is_neither_overwritten_nor_believed(
    theirs: ArchiveIdentity, store: ArchiveStore, home: Path
) -> None:
    key = new_key()
    before = store.upload(key, theirs, export(home), opened=ignore)
    for refused in (
        lambda: store.upload(key, OURS, export(home), opened=ignore),
        lambda: store.verify(key, OURS, before),
        lambda: store.holds(key, OURS),
    ):
        with pytest.raises(DriverCorrupt) as taken:
            refused()
        assert taken.value.reason == "KeyTaken"
    assert before is not None
    assert store.holds(key, theirs)
    assert not store.holds(new_key(), OURS)
    assert store.verify(key, theirs, before).sha256 == before.sha256
    assert store.list_uploads(key) == []


def test_an_object_without_our_metadata_is_nobodys(store: ArchiveStore, home: Path) -> None:
    key = new_key()
    clients.s3_client(ENV.S3_ENDPOINT_URL).put_object(
        Bucket=store.bucket, Key=key, Body=b"by hand", Metadata={"epoch": "x"}
    )
    head = store.look(key)
    assert head is not None
    assert (head.identity, head.upload) == (None, None)
    with pytest.raises(DriverCorrupt, match="another object lies at"):
        store.upload(key, OURS, export(home), opened=ignore)


def test_a_tar_that_ends_well_formed_and_is_not_whole_is_never_completed(store: ArchiveStore, home: Path) -> None:
    """tar goes on past a file that it cannot read, and says so by its status alone."""
    key = new_key()
    with pytest.raises(DriverCorrupt) as changed:
        store.upload(key, OURS, export(home, status=1), opened=ignore)
    assert changed.value.reason == "ChangedWhileRead"
    nothing_lies_at(store, key)


class LeaseLost(Exception):  # noqa: N818  named for the finding
    """The caller's own."""


@pytest.mark.parametrize("after_bytes", [0, 2 << 20])
def test_a_caller_that_gives_up_leaves_nothing(after_bytes: int, store: ArchiveStore, home: Path) -> None:
    key = new_key()
    (home / "more").write_bytes(archives.noise(4 << 20))

    def progress(tar_bytes: int) -> None:
        if tar_bytes > after_bytes:
            raise LeaseLost

    def opened(_upload_id: str) -> None:
        raise LeaseLost

    with pytest.raises(LeaseLost):
        store.upload(key, OURS, export(home), opened=ignore, progress=progress)
    with pytest.raises(LeaseLost):
        store.upload(key, OURS, export(home), opened=opened)
    nothing_lies_at(store, key)


def test_an_archive_beyond_the_limit_is_refused_and_leaves_nothing(home: Path) -> None:
    key, store = new_key(), archives.store(object_bytes_max=2 * PART_BYTES)
    with pytest.raises(DriverRefused) as refused:
        store.upload(key, OURS, export(home), opened=ignore)
    assert refused.value.reason == "ArchiveTooLarge"
    nothing_lies_at(store, key)


def test_nothing_at_all_is_no_archive(store: ArchiveStore) -> None:
    key = new_key()
    sent = send(store, key, archives.given(io.BytesIO()))
    with pytest.raises(DriverCorrupt, match="cut before its end"):
        store.verify(key, OURS, sent)


def damaged(packed: bytes) -> Iterator[bytes]:
    """Cut at each part and beside it, changed at its ends and in each part, lengthened."""
    for part in range(PART_BYTES, len(packed), PART_BYTES):
        yield packed[:part]
        yield packed[: part - 1]
        yield packed[:part] + bytes([packed[part] ^ 1]) + packed[part + 1 :]
    yield packed[:-1]
    yield packed[:-1] + bytes([packed[-1] ^ 1])
    yield bytes([packed[0] ^ 1]) + packed[1:]
    yield packed + b"\0"
    yield packed + packed


def test_an_object_that_is_not_what_was_sent_is_refused_by_verify_and_by_read(store: ArchiveStore, home: Path) -> None:
    key, s3 = new_key(), clients.s3_client(ENV.S3_ENDPOINT_URL)
    sent = send(store, key, export(home))
    verified = store.verify(key, OURS, sent)
    packed = s3.get_object(Bucket=store.bucket, Key=key)["Body"].read()
    for known in (sent, None):
        for content in damaged(packed):
            s3.put_object(Bucket=store.bucket, Key=key, Body=content, Metadata=OURS.metadata("x"))
            with pytest.raises(DriverCorrupt) as refused:
                store.verify(key, OURS, known)
            assert refused.value.reason == "ArchiveCorrupted"
            with pytest.raises(DriverCorrupt, match=r"bytes, \d+ were verified|archive"):
                b"".join(store.read(key, verified))


def test_another_whole_archive_in_its_place_is_refused(store: ArchiveStore, home: Path) -> None:
    """Of the same length, so that its hash alone tells."""
    key, other = new_key(), new_key()
    tar = archives.tar_of(home)
    place = tar.index((home / "noise").read_bytes())
    sent = send(store, key, archives.given(io.BytesIO(tar)))
    verified = store.verify(key, OURS, sent)
    changed = tar[:place] + bytes([tar[place] ^ 1]) + tar[place + 1 :]
    sent_too = send(store, other, archives.given(io.BytesIO(changed)))
    assert sent_too.object_bytes == sent.object_bytes
    with pytest.raises(DriverCorrupt, match="is not what was sent"):
        store.verify(other, OURS, sent)
    assert store.verify(other, OURS, None).sha256 == sent_too.sha256
    with pytest.raises(DriverCorrupt, match="is not what was verified"):
        b"".join(store.read(other, verified))


def test_a_restore_that_is_given_up_closes_its_connection(store: ArchiveStore, home: Path) -> None:
    key = new_key()
    sent = send(store, key, export(home))
    verified = VerifiedArchive(
        object_bytes=sent.object_bytes, tar_bytes=sent.tar_bytes, members=6, sha256=sent.sha256
    )  # fmt: skip
    for _ in range(2 * clients.POOL_CONNECTIONS):
        reading = store.read(key, verified)
        assert next(reading)
        reading.close()  # type: ignore[attr-defined]
    assert len(b"".join(store.read(key, verified))) == sent.tar_bytes


def test_the_configured_store_is_the_bucket_of_archives() -> None:
    assert configured.shared_archive_store().bucket == ENV.DPP_ARCHIVE_BUCKET
    assert configured.shared_archive_store().look(new_key()) is None
