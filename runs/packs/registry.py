"""Finds the packs: those of `runs/packs/`, and those that installed packages name by the entry-point group `dpp.packs`.
No other part of the platform knows a pack by name.

A package that cannot be imported, defines no pack, or takes a name that is taken is left out, with its reason: it never
keeps the platform from starting, nor another pack from being sold. `manage.py check` shows the reasons (dpp.W010).
"""

import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import runs.packs
from dpp_project.process_env import ENV
from runs.packs.pack import Pack

GROUP: Final = "dpp.packs"
ONLY_FOR_TESTS = frozenset({"probe"})
_NOT_PACKS = frozenset({"pack", "registry", "shared"})
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


class UnknownPack(LookupError):  # noqa: N818  named for the finding
    """Neither a module here nor an installed package defines this pack."""


@dataclass(frozen=True, slots=True)
class FoundPacks:
    modules: Mapping[str, str]
    left_out: tuple[str, ...]


@cache
def found_packs() -> FoundPacks:
    """Once for the process: a package that is installed later is sold after the next start."""
    modules = _own()
    left_out: list[str] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (_package(entry), entry.name)):
        fault = _take(entry, modules)
        if fault is not None:
            left_out.append(f"{entry.name} = {entry.value} of {_package(entry)}: {fault}")
    return FoundPacks(dict(sorted(modules.items())), tuple(left_out))


def _own() -> dict[str, str]:
    own: dict[str, str] = {}
    for module in pkgutil.iter_modules(runs.packs.__path__):
        if module.name in _NOT_PACKS or (module.name in ONLY_FOR_TESTS and not ENV.DPP_ENABLE_PROBE_PACK):
            continue
        path = f"runs.packs.{module.name}"
        own[import_module(path).PACK.name] = path
    return own


def _take(entry: EntryPoint, modules: dict[str, str]) -> str | None:
    """Adds it, or answers why not. Of two packages with one name the first by the package's name is sold."""
    if entry.attr:
        return "it must name a module, which defines PACK"
    try:
        pack = getattr(import_module(entry.module), "PACK", None)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a stranger's code may raise anything
        return f"it cannot be imported ({type(error).__name__}: {error})"
    if not isinstance(pack, Pack):
        return "its module defines no PACK"
    if pack.name != entry.name or not _NAME.fullmatch(pack.name):
        return f"its pack is called {pack.name!r}: a pack's name is that of its entry point, of a-z, 0-9 and _"
    if pack.name in modules:
        return f"{modules[pack.name]} has this name"
    modules[pack.name] = entry.module
    return None


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else ""


def pack_modules() -> Mapping[str, str]:
    """The module of every pack for sale, by the pack's name."""
    return found_packs().modules


@cache
def packs_for_sale() -> Mapping[str, Pack[Any]]:
    """Every pack for sale, by name."""
    return {name: import_module(path).PACK for name, path in pack_modules().items()}


def pack_named(name: str) -> Pack[Any]:
    try:
        return packs_for_sale()[name]
    except KeyError:
        raise UnknownPack(name) from None
