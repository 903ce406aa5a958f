"""Finds the modules by which an app, or a folder of the platform, takes part: by their name, and by nothing else."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from django.apps import apps
from django.utils.module_loading import module_has_submodule

import dpp_project


def discovered_modules(name: str) -> Iterator[ModuleType]:
    """The module of this name in every installed app and in every folder of `dpp_project`, imported, each once."""
    for place in discovery_places():
        if module_has_submodule(import_module(place), name):
            yield import_module(f"{place}.{name}")


def discovery_places() -> list[str]:
    installed = [config.name for config in apps.get_app_configs()]
    folders = [f"dpp_project.{found.name}" for found in pkgutil.iter_modules(dpp_project.__path__) if found.ispkg]
    return [*installed, *sorted(set(folders) - set(installed))]
