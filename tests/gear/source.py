"""The repository as text, for tests that read it: its folder, the product's packages, and each module parsed once."""

import ast
import os
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SKIPPED = frozenset({"migrations", "__pycache__", "staticfiles"})

with REPOSITORY.joinpath("pyproject.toml").open("rb") as _file:
    PRODUCT: tuple[str, ...] = tuple(tomllib.load(_file)["tool"]["importlinter"]["root_packages"])
"""The product's packages, as the import rules name them."""


@cache
def files() -> tuple[Path, ...]:
    """Every file of ours, relative to the repository. Environments are not walked: they hold ten times as much."""
    found: list[Path] = []
    for folder, inside, names in os.walk(REPOSITORY):
        inside[:] = [name for name in inside if name not in SKIPPED and not name.startswith(".")]
        found += [Path(folder, name).relative_to(REPOSITORY) for name in names]
    return tuple(sorted(found))


def modules() -> Iterator[Path]:
    return (path for path in files() if path.suffix == ".py")


def of_product() -> Iterator[Path]:
    return (path for path in modules() if path.parts[0] in PRODUCT)


@cache
def text(path: Path) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(text(path))
