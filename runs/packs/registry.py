"""Finds the packs. No other part of the platform knows a pack by name."""

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import runs.packs
from dpp_project.process_env import ENV
from runs.packs.pack import Pack

ONLY_FOR_TESTS = frozenset({"probe"})
_NOT_PACKS = frozenset({"pack", "registry", "shared"})


class UnknownPack(LookupError):  # noqa: N818  named for the finding
    """No module here defines this pack."""


@cache
def modules() -> Mapping[str, str]:
    """The module of every pack for sale, by the pack's name."""
    found: dict[str, str] = {}
    for module in pkgutil.iter_modules(runs.packs.__path__):
        if module.name in _NOT_PACKS or (module.name in ONLY_FOR_TESTS and not ENV.DPP_ENABLE_PROBE_PACK):
            continue
        path = f"runs.packs.{module.name}"
        found[import_module(path).PACK.name] = path
    return dict(sorted(found.items()))


@cache
def packs() -> Mapping[str, Pack[Any]]:
    """Every pack for sale, by name."""
    return {name: import_module(path).PACK for name, path in modules().items()}


def get(name: str) -> Pack[Any]:
    try:
        return packs()[name]
    except KeyError:
        raise UnknownPack(name) from None
