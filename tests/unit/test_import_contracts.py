"""Each module of dpp_project is named by the contract that keeps its leaves from the apps and from its top."""

import tomllib

from tests.gear.source import REPOSITORY

LEAVES = "The leaves of dpp_project import no app and nothing of its top"


def test_each_module_of_dpp_project_is_a_leaf_or_of_the_top() -> None:
    """import-linter sees that its layers name each module; a list of what may not import does not miss one."""
    configured = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    (leaves,) = [one for one in configured["tool"]["importlinter"]["contracts"] if one["name"] == LEAVES]
    named = {".".join(one.split(".")[:2]) for one in (*leaves["source_modules"], *leaves["forbidden_modules"])}
    folder = REPOSITORY / "dpp_project"
    modules = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert {f"dpp_project.{name}" for name in modules - {"__init__"}} == {
        name for name in named if name.startswith("dpp_project.")
    }
