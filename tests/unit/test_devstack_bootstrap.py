"""Which Python is taken on a machine where half of what is called python does not run."""

import subprocess
import sys
from pathlib import Path

import pytest

from dpp_project.devstack.programs import REPOSITORY

SCRIPT = REPOSITORY / "dpp_project/devstack/bootstrap.sh"
GOOD = f'exec {sys.executable} "$@"'
SHIM = "echo 'command not found in any version' >&2; exit 127"
TOO_OLD = "exit 4"
WITHOUT_VENV = f'case "$2" in *ensurepip*) exit 3;; esac; exec {sys.executable} "$@"'


class Machine:
    """A home and a PATH of one's own."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.home = folder / "bin", folder / "home"
        self.bin.mkdir()
        self.home.mkdir()
        for name in ("sh", "dirname", "id", "cat", "mkdir", "tail"):
            found = subprocess.check_output(["sh", "-c", f"command -v {name}"], text=True).strip()
            (self.bin / name).symlink_to(found)

    def add(self, name: str, body: str) -> Path:
        path = self.home / name if "/" in name else self.bin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def choose(self, script: Path = SCRIPT, **more: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": str(self.bin), "HOME": str(self.home), **more}
        return subprocess.run(
            ["sh", str(script), "--print-python"], env=environ, capture_output=True, text=True, check=False
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_shim_that_fails_is_passed_over(machine: Machine) -> None:
    machine.add("python3.13", SHIM)
    machine.add("python3.12", GOOD)
    assert machine.choose().stdout == "python3.12\n"


def test_one_that_is_too_old_or_lacks_venv_is_passed_over(machine: Machine) -> None:
    machine.add("python3.13", TOO_OLD)
    machine.add("python3.12", WITHOUT_VENV)
    machine.add("python3", GOOD)
    assert machine.choose().stdout == "python3\n"


def test_one_under_pyenv_is_found_though_its_shims_fail(machine: Machine) -> None:
    machine.add("python3.13", SHIM)
    machine.add("python3", SHIM)
    old = machine.add(".pyenv/versions/3.12.1/bin/python", GOOD)
    assert machine.choose().stdout == f"{old}\n"
    new = machine.add(".pyenv/versions/3.13.0/bin/python", GOOD)
    assert machine.choose().stdout == f"{new}\n"


def test_the_one_that_was_named_is_taken(machine: Machine) -> None:
    machine.add("python3.13", GOOD)
    named = machine.add("mine/python", GOOD)
    assert machine.choose(PYTHON=str(named)).stdout == f"{named}\n"


@pytest.mark.parametrize("body", [SHIM, TOO_OLD])
def test_a_named_one_that_will_not_do_is_refused_and_not_replaced(machine: Machine, body: str) -> None:
    machine.add("python3.13", GOOD)
    named = machine.add("mine/python", body)
    chosen = machine.choose(PYTHON=str(named))
    assert chosen.returncode == 1
    assert chosen.stdout == ""
    assert f"PYTHON={named} is no Python of at least 3.11 that runs" in chosen.stderr


def test_where_only_venv_is_missing_the_cure_is_named(machine: Machine) -> None:
    named = machine.add("mine/python", WITHOUT_VENV)
    chosen = machine.choose(PYTHON=str(named))
    assert chosen.returncode == 1
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"sudo apt-get install -y python{version}-venv" in chosen.stderr


def test_root_on_debian_gets_the_missing_venv_by_itself(machine: Machine, tmp_path: Path) -> None:
    script = tmp_path / "clone/dpp_project/devstack/bootstrap.sh"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    installed = tmp_path / "installed"
    body = f'[ -e {installed} ] || case "$2" in *ensurepip*) exit 3;; esac; exec {sys.executable} "$@"'
    named = machine.add("mine/python", body)
    machine.add("mine/id", "echo 0").rename(machine.bin / "id.new")
    (machine.bin / "id.new").replace(machine.bin / "id")
    machine.add(
        "apt-get",
        f'[ "$1" = update ] && {{ : >{tmp_path}/updated; exit 0; }}\n'
        f'[ -e {tmp_path}/updated ] || {{ echo no lists >&2; exit 100; }}\necho "$*" >{installed}',
    )
    chosen = machine.choose(script, PYTHON=str(named))
    assert (chosen.returncode, chosen.stdout.splitlines()[-1]) == (0, str(named)), chosen.stderr
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert installed.read_text(encoding="utf-8") == f"install -y -q python{version}-venv\n"


@pytest.mark.parametrize("name", ["bootstrap", "setup_ocr", "setup_model", "setup_workspaces"])
def test_the_scripts_are_plain_sh(name: str) -> None:
    script = SCRIPT.with_name(f"{name}.sh")
    subprocess.run(["sh", "-n", str(script)], check=True)
    assert script.read_text(encoding="utf-8").startswith("#!/bin/sh\n")
