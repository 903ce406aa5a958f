"""The console's first page: panels that each app's `dashboard.py` registers, a failing one shown as failing."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol, TypeVar

import structlog
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dpp_project import discovery

log = structlog.get_logger("dpp.console")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number with its name; `note` says what to make of it."""

    label: str
    value: str
    note: str = ""
    link: str = ""
    is_bad: bool = False
    """Shown in red: someone has to look."""


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Bars over labels. Several series stand on each other where they are parts of one whole, else side by side."""

    labels: Sequence[str]
    series: Mapping[str, Sequence[int | str]]
    """Counts as whole numbers, so that no label is rounded; amounts of dollars as they are written, exact."""
    stacked: bool = True
    unit: str = ""
    colors: Sequence[str] = ("#2563eb", "#f59e0b", "#dc2626", "#16a34a")

    def data(self) -> str:
        """What Unfold's chart component reads."""
        datasets = [
            {"label": name, "data": list(values), "backgroundColor": color}
            for (name, values), color in zip(self.series.items(), self.colors, strict=False)
        ]
        return json.dumps({"labels": list(self.labels), "datasets": datasets})

    def options(self) -> str:
        """Instead of Unfold's own, which show no scale and draw several series over each other."""
        grey = "#9ca3af"
        return json.dumps(
            {
                "animation": False,
                "responsive": True,
                "maintainAspectRatio": False,
                "datasets": {"bar": {"borderRadius": 3, "maxBarThickness": 18}},
                "plugins": {
                    "legend": {
                        "display": len(self.series) > 1,
                        "align": "end",
                        "labels": {"boxHeight": 8, "boxWidth": 8, "color": grey},
                    }
                },
                "scales": {
                    "x": {"stacked": self.stacked, "grid": {"display": False}, "ticks": {"color": grey}},
                    "y": {
                        "stacked": self.stacked,
                        "beginAtZero": True,
                        "grid": {"color": "rgba(156,163,175,.25)"},
                        "ticks": {"color": grey, "maxTicksLimit": 6} | ({} if self.unit else {"precision": 0}),
                        "title": {"display": bool(self.unit), "text": self.unit, "color": grey},
                    },
                },
            }
        )


def bad_cell(text: str) -> SafeString:
    """A table's cell in red: someone has to look."""
    return format_html('<span class="dpp-bad">{}</span>', text)


@dataclass(frozen=True, kw_only=True)
class Panel:
    title: str
    description: str = ""
    figures: Sequence[Figure] = ()
    plot: Plot | None = None
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    link: str = ""
    link_text: str = ""
    empty: str = "Nothing yet."
    wide: bool = False
    is_live: bool = False

    @property
    def table(self) -> dict[str, Any] | None:
        return {"headers": list(self.headers), "rows": [list(row) for row in self.rows]} if self.rows else None


Build = Callable[[], Panel | None]
"""None: there is nothing to say now, and the panel does not appear."""


class Permitted(Protocol):
    """Someone signed in, as Django has it."""

    def has_perm(self, perm: str) -> bool: ...


@dataclass(frozen=True)
class _Registered:
    order: int
    title: str
    permission: str
    is_live: bool
    build: Build = field(compare=False)


_panels: list[_Registered] = []


BuildT = TypeVar("BuildT", bound=Build)


def dashboard_panel(*, title: str, order: int, permission: str, is_live: bool = False) -> Callable[[BuildT], BuildT]:
    """Put a panel on the first page; low orders stand first. `permission` is what its figures take to be seen.

    A live one is read again every five seconds while someone looks: its figures come from indexes that hold little.
    """

    def register(build: BuildT) -> BuildT:
        _panels.append(_Registered(order, title, permission, is_live, build))
        return build

    return register


@cache
def _discover() -> None:
    """When the page is first asked for: a process without a console never imports a dashboard."""
    list(discovery.discovered_modules("dashboard"))


def dashboard_panels(user: Permitted, *, live_alone: bool = False) -> list[Panel]:
    """Those that this person may see; what she may not is not even counted."""
    _discover()
    shown = []
    for registered in sorted(_panels, key=lambda item: (item.order, item.title)):
        if not user.has_perm(registered.permission):
            continue
        if live_alone and not registered.is_live:
            continue
        try:
            built = registered.build()
            if built is not None:
                shown.append(replace(built, is_live=registered.is_live))
        except Exception as error:  # one panel that fails hides no other
            log.warning("panel failed", panel=registered.title, exc_info=error)
            shown.append(Panel(title=registered.title, empty=f"Cannot be shown: {type(error).__name__}."))
    return shown


def live_panels(request: HttpRequest) -> HttpResponse:
    """The fragment that console.js asks for: what changes by the second, without the charts."""
    user: Any = request.user
    return render(request, "admin/live_panels.html", {"panels": dashboard_panels(user, live_alone=True)})


def context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Unfold's DASHBOARD_CALLBACK."""
    user: Any = request.user
    return context | {"panels": dashboard_panels(user)}
