"""What apps above this one show on a key's page in the console, registered when their own pages are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenants.models import ApiKey


@dataclass(frozen=True, slots=True)
class KeyPanel:
    """A template, and what it is shown with; `permission` is what a person needs to see it."""

    template: str
    permission: str
    build: Callable[[ApiKey], Mapping[str, Any]]


_panels: list[KeyPanel] = []


def register_key_panel(panel: KeyPanel) -> None:
    _panels.append(panel)


def key_panels() -> list[KeyPanel]:
    return list(_panels)
