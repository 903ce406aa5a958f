"""`down` says that all is gone when all is gone."""

import json
import subprocess
from pathlib import Path

import pytest

from dpp_project.devstack import up_down
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.programs import DevstackError
from dpp_project.processes.identity import process_identity_of


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "state")
    made.make()
    return made


def is_supervised_by(folder: Folder, process: "subprocess.Popen[bytes]") -> str:
    known = process_identity_of(process.pid)
    assert known is not None
    (folder.root / "status.json").write_text(json.dumps({"supervisor": known}), encoding="utf-8")
    return known


def test_dpp_77_down_waits_for_a_supervisor_that_has_freed_its_lock_but_not_ended(folder: Folder) -> None:
    with subprocess.Popen(["sleep", "0.3"]) as ending:
        known = is_supervised_by(folder, ending)
        assert up_down.take_stack_down(folder)
        assert process_identity_of(ending.pid) != known


def test_dpp_77_down_names_a_supervisor_that_does_not_end(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up_down, "GONE_SECONDS", 0.0)
    with subprocess.Popen(["sleep", "60"]) as staying:
        is_supervised_by(folder, staying)
        with pytest.raises(DevstackError, match=f"does not end: pid {staying.pid}"):
            up_down.take_stack_down(folder)
        staying.kill()
