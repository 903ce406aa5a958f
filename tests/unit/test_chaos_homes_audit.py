"""What `make chaos` finds of workspaces: each planted loss is found, and an answer that got lost is no fault."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proving.chaos.customers import Account
from tests.proving.chaos.homes import Home
from tests.proving.chaos.homes_audit import HomeFindings, wrong_in_the_bucket, wrong_with_tree


@pytest.fixture
def home() -> Home:
    """Files 1 and 2 were answered, 3 by a run, 4 got no answer; 2 was removed, and of 5 that is not known."""
    made = Home(Account("t_a", "a-key"), "home-1", "a-workspace")
    made.tried = {1: 10, 2: 0, 3: 300, 4: 7, 5: 9}
    made.written, made.removing, made.removed = {1, 2, 5}, {2, 5}, {2}
    made.acts, made.done = {1, 2, 3, 4, 5, 6, 7}, {1, 2, 5, 6}
    return made


@pytest.fixture
def folder(tmp_path: Path, home: Home) -> Path:
    (tmp_path / "files").mkdir()
    for number in (1, 3):
        (tmp_path / "files" / str(number)).write_bytes(home.content(number))
    (tmp_path / "log").write_text("1\n2\n5\n3\n6\n", encoding="ascii")
    return tmp_path


def wrong(folder: Path, home: Home) -> list[str]:
    return list(wrong_with_tree(folder, home, {3}, HomeFindings()))


def test_what_was_answered_is_there(folder: Path, home: Home) -> None:
    assert wrong(folder, home) == []


def test_what_was_not_answered_may_be_there_whole_or_in_part(folder: Path, home: Home) -> None:
    (folder / "files" / "4").write_bytes(home.content(4))
    (folder / "files" / "5").write_bytes(home.content(5))
    (folder / "files" / "4.part").write_bytes(b"")
    with (folder / "log").open("a") as log:
        log.write("4\n7\n")
    assert wrong(folder, home) == []


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (lambda folder: (folder / "files" / "1").unlink(), "the file 1 was written, and is gone"),
        (lambda folder: (folder / "files" / "3").unlink(), "the file 3 was written, and is gone"),
        (lambda folder: (folder / "files" / "1").write_bytes(b"0123456789"), "the file 1 has another content"),
        (lambda folder: (folder / "files" / "3").write_bytes(b""), "the file 3 has another content"),
        (lambda folder: (folder / "files" / "2").touch(), "the file 2 was removed, and is there again"),
        (lambda folder: (folder / "files" / "9").touch(), "the file 9 was never written"),
        (lambda folder: (folder / "files" / "odd").touch(), "the file odd was never written"),
        (lambda folder: (folder / "stale").touch(), "nobody made {'stale'}"),
        (lambda folder: (folder / "log").write_text("1\n2\n5\n3\n6\n3\n"), "act 3 was done 2 times"),
        (lambda folder: (folder / "log").write_text("1\n2\n5\n3\n"), "act 6 was done, and is not in the log"),
        (lambda folder: (folder / "log").write_text("1\n2\n5\n3\n6\n8\n"), "act 8 was never asked for"),
    ],
)
def test_a_planted_loss_is_found(folder: Path, home: Home, plant: Callable[[Path], object], found: str) -> None:
    plant(folder)
    (told,) = wrong(folder, home)
    assert told.startswith(found)


def test_what_lies_in_the_bucket_has_a_row_and_the_other_way_round() -> None:
    row = {"archive_key": "k", "state": "VERIFIED", "object_bytes": 5, "pinned_by": None}
    assert list(wrong_in_the_bucket({"k": 5}, [], [row])) == []
    assert len(list(wrong_in_the_bucket({}, [], [row]))) == 1, "the archive is gone"
    assert len(list(wrong_in_the_bucket({"k": 4}, [], [row]))) == 1, "it is another one"
    assert len(list(wrong_in_the_bucket({"k": 5, "l": 1}, [], [row]))) == 1, "an object that no row knows"
    assert len(list(wrong_in_the_bucket({"k": 5}, [("l", "u")], [row]))) == 1, "an upload that no row knows"
    assert len(list(wrong_in_the_bucket({"k": 5}, [], [row | {"pinned_by": "op"}]))) == 1
    uploading = row | {"state": "UPLOADING"}
    assert list(wrong_in_the_bucket({}, [("k", "u")], [uploading])) == []
