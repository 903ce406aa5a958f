"""Which pages there are, and what stands on the first one. Each app's `account/` adds its own when imported."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenants.permissions import ANY_KEY, Requirement
from tenants.principals import Principal
from tenants.scopes import Scope


@dataclass(frozen=True, slots=True)
class MenuItem:
    """`needs` is what a key takes to see the page."""

    order: int
    title: str
    url_name: str
    needs: Requirement


@dataclass(frozen=True, slots=True)
class OverviewPart:
    """A template of the first page, and what it is shown with; a key without the scope does not see it."""

    order: int
    template: str
    needs: Requirement
    build: Callable[[Principal], Mapping[str, Any]]


_items: list[MenuItem] = []
_parts: list[OverviewPart] = []


def add_page(item: MenuItem) -> None:
    _items.append(item)


def add_part(part: OverviewPart) -> None:
    _parts.append(part)


def menu_items(principal: Principal) -> list[MenuItem]:
    return sorted((one for one in _items if menu_allows(principal, one.needs)), key=lambda one: one.order)


def menu_parts(principal: Principal) -> list[OverviewPart]:
    return sorted((one for one in _parts if menu_allows(principal, one.needs)), key=lambda one: one.order)


def menu_allows(principal: Principal, needs: Requirement) -> bool:
    if needs is ANY_KEY:
        return True
    enough = frozenset({needs}) if isinstance(needs, Scope) else needs
    return isinstance(enough, frozenset) and not enough.isdisjoint(principal.scopes)
