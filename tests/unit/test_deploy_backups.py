"""deploy/postgres: what is half done has no name, what would overwrite is refused (DPP-86).

That they restore is shown by `make prove P=restore`.
"""

import subprocess
from pathlib import Path

import pytest

from dpp_project.devstack.programs import REPOSITORY

SCRIPTS = REPOSITORY / "deploy" / "postgres"
MOMENT = "2026-11-19 21:40:00+00"

pytestmark = pytest.mark.contract("DPP-86")


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(SCRIPTS / script), *map(str, arguments)],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_dpp_86_a_segment_is_archived_once_and_never_overwritten(tmp_path: Path) -> None:
    segment, archive = tmp_path / "segment", tmp_path / "wal"
    archive.mkdir()
    segment.write_bytes(b"a" * 4_096)
    (archive / "0001.part").write_bytes(b"left by one that died")
    assert [run("archive.sh", segment, "0001", archive).returncode for _ in range(2)] == [0, 0]
    assert [(path.name, path.read_bytes()) for path in archive.iterdir()] == [("0001", b"a" * 4_096)]
    segment.write_bytes(b"b" * 4_096)
    refused = run("archive.sh", segment, "0001", archive)
    assert (refused.returncode, "another" in refused.stderr) == (1, True)
    assert (archive / "0001").read_bytes() == b"a" * 4_096


def test_an_archive_that_is_away_fails_the_command(tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(b"a")
    assert run("archive.sh", tmp_path / "segment", "0001", tmp_path / "none").returncode != 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"moment": "2026-11-19 21:40:00"}, "zone"),
        ({"moment": "yesterday"}, "zone"),
        ({"backup": "none"}, "no base backup"),
        ({"archive": "none"}, "no folder"),
        ({"data": "there"}, "left as it is"),
    ],
)
def test_dpp_86_a_wrong_restore_names_the_fault_and_changes_nothing(
    tmp_path: Path, wrong: dict[str, str], said: str
) -> None:
    for name in ("base", "wal", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "base" / "backup_manifest").write_text("{}", encoding="utf-8")
    given = {"backup": "base", "archive": "wal", "moment": MOMENT, "data": "new"} | wrong
    before = sorted(tmp_path.rglob("*"))
    done = run(
        "restore.sh",
        tmp_path / given["backup"],
        tmp_path / given["archive"],
        given["moment"],
        tmp_path / given["data"],
    )
    assert (done.returncode, said in done.stderr) == (2, True)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_backup_that_fails_leaves_nothing_that_looks_like_one(tmp_path: Path) -> None:
    done = run("backup.sh", "postgresql://nobody@127.0.0.1:1/none", tmp_path / "base")
    assert done.returncode != 0
    assert [path for path in (tmp_path / "base").iterdir() if not path.name.endswith(".part")] == []
