"""Hostile native code in a job reaches nothing, with namespaces and with the other layers alone (HRD-15, 17, 18)."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from runs.box import landlock
from tests.gear.faults import attacks
from tests.proving import proofs

pytestmark = pytest.mark.contract("HRD-15", "HRD-17", "HRD-18")

ROOT = Path(__file__).resolve().parents[3]
MODES = {
    "namespaces": [],
    "alone": [sys.executable, "-m", "tests.gear.faults.without_namespaces"],
}
OF_NO_HARM_OPEN = {
    "send_descriptors_to_the_worker", "outlive_by_double_fork", "outlive_by_many", "flood_of_descriptors",
    "fill_the_disk_with_files", "many_files", "own_limits_raised", "regain_capabilities", "folder_of_sibling",
    "mq_open",
}  # fmt: skip
"""What others than the layers under test refuse or tell: resource limits, the zygote's sweep, the worker itself."""


def refused_here(*readable: str) -> str | None:
    """Asked in a process of its own: this one has threads, and what is cloned while one allocates waits for ever."""
    ask = (
        "import json, sys; from pathlib import Path; from runs.box import namespaces, readable; "
        "code = readable.readable_paths(Path.cwd(), []); "
        "print(json.dumps(namespaces.namespaces_refusal([*code, *sys.argv[1:]])))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", ask, *readable], cwd=ROOT, capture_output=True, text=True, check=True, timeout=20
    )
    refused: str | None = json.loads(ran.stdout)
    return refused


def attacked(mode: str) -> dict[str, dict[str, Any]]:
    """Every attack, a job each, at one worker."""
    command = [*MODES.get(mode, []), sys.executable, "-W", "ignore", "-m", "tests.gear.faults.attacked_worker"]
    with tempfile.TemporaryDirectory(prefix="dpp-attacked-") as folder:
        ran = subprocess.run(
            [*command, folder, *(["open"] if mode == "open" else [])],
            cwd=ROOT, env=os.environ | {"SECRET_OF_THE_WORKER": attacks.CANARY}, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
    found = {one["name"]: one for one in map(json.loads, ran.stdout.splitlines())}
    assert ("no namespaces" in ran.stderr) == (mode != "namespaces"), ran.stderr
    return found


@pytest.mark.slow
def test_hrd_15_each_attack_reaches_something_where_nothing_closes_a_job_in() -> None:
    """Else the table would prove nothing. What would harm the machine is tried only where it is refused."""
    found = attacked("open")
    assert set(found) == set(attacks.ATTACKS) - attacks.DESTRUCTIVE
    harmless = {name for name, one in found.items() if not one["reached"] and not one["after"]}
    assert harmless - OF_NO_HARM_OPEN == set()
    proofs.report(cases=1)


@pytest.mark.parametrize("mode", ["namespaces", pytest.param("alone", marks=pytest.mark.slow)])
def test_hrd_15_native_code_in_a_job_reaches_nothing(mode: str) -> None:
    """The first as it is sold here: with namespaces, wherever this machine has them."""
    if mode != "alone":
        mode = "alone" if refused_here() else "namespaces"
    if mode == "alone" and landlock.landlock_abi() < landlock.SCOPES_ABI:
        pytest.skip(f"Landlock {landlock.landlock_abi()} does not know signals")
    found = attacked(mode)
    assert set(found) == set(attacks.ATTACKS)
    assert len(found) > 200
    reached = {name: one["reached"] for name, one in found.items() if one["reached"]}
    changed = {name: one["after"] for name, one in found.items() if one["after"]}
    assert (reached, changed) == ({}, {})
    proofs.report(cases=1)


def test_hrd_15_code_below_a_temporary_folder_has_namespaces_too() -> None:
    """The link that a zygote's root has in its place must not stand in its way."""
    if refused := refused_here():
        pytest.skip(f"no namespaces on this machine: {refused}")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        assert refused_here(folder) is None


def test_hrd_15_check_names_each_layer_that_is_missing() -> None:
    """As a deploy is told where a container refuses namespaces."""
    ask = "from runs.box import layers; print(layers.missing_layers())"
    ran = subprocess.run(
        [*MODES["alone"], sys.executable, "-c", ask], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "namespaces: clone: Permission denied (EACCES)" in ran.stdout
    page = ROOT.joinpath("docs", "packs.md").read_text(encoding="utf-8")
    assert "dpp.I002" in page
