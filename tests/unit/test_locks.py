"""What is locked differs between Pythons only where docs/dependencies.md says why."""

import re
from collections import defaultdict
from pathlib import Path

from tests.gear.source import REPOSITORY

LOCKED = REPOSITORY / "requirements"
HEADING = "## Not the same on every Python\n"


def named(line: str) -> str:
    """The package of a line of a .in file, spelt as locks spell it; "" where it names none."""
    found = re.match(r"[A-Za-z0-9][\w.-]*", line)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def asked_for(folder: Path) -> set[str]:
    lines = [line for path in folder.glob("*.in") for line in path.read_text(encoding="utf-8").splitlines()]
    return {named(line) for line in lines} - {""}


def locked_apart(folder: Path) -> set[str]:
    """Of the packages asked for by name, those whose version depends on the Python."""
    versions: dict[tuple[Path, str], set[str]] = defaultdict(set)
    for path in folder.glob("*.txt"):
        for name, version in re.findall(
            r"^([a-z0-9-]+)(?:\[[^]]*\])?==([^ ;]+)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            versions[path, name].add(version)
    return {name for (_, name), several in versions.items() if len(several) > 1} & asked_for(folder)


def test_a_package_locked_at_two_versions_has_its_reason() -> None:
    page = (REPOSITORY / "docs/dependencies.md").read_text(encoding="utf-8")
    told = page.partition(HEADING)[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| ([a-z0-9-]+) \|", told, re.MULTILINE)) - {"package"} == locked_apart(LOCKED)


def test_a_second_version_is_found(tmp_path: Path) -> None:
    (tmp_path / "base.in").write_text("-r other.in\nOne.Package[extra]<3\nother; python_version < '3.14'\n")
    (tmp_path / "base.txt").write_text(
        "brought==1 ; python_full_version < '3.12' \\\n    --hash=sha256:0\n"
        "brought==2 ; python_full_version >= '3.12'\n"
        "one-package[extra]==2.1 ; python_full_version < '3.12'\n"
        "one-package[extra]==2.2 ; python_full_version >= '3.12'\n"
        "other==1.0 ; python_full_version < '3.14' \\\n"
    )
    assert asked_for(tmp_path) == {"one-package", "other"}
    assert locked_apart(tmp_path) == {"one-package"}
