"""Two plots as SVG, written by hand: nothing is loaded to show them, and they follow the reader's light or dark."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from bench._figures import shown

WIDTH: Final = 760
_STYLE: Final = (
    "<style>text{font:12px system-ui,sans-serif;fill:#1f2328}.soft{fill:#59636e}.grid{stroke:#d1d9e0;stroke-width:1}"
    ".bar{fill:#0969da}.rest{fill:#8b949e}"
    "@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.soft{fill:#9198a1}.grid{stroke:#3d444d}"
    ".bar{fill:#4493f8}.rest{fill:#6e7681}}</style>"
)
_COLOURS: Final = ("#0969da", "#bf8700", "#1a7f37", "#cf222e", "#8250df", "#bc4c00", "#bf3989", "#6e7781", "#0a7ea4")
"""Each stands out from white and from black."""
_BAR: Final = 26
_LEFT: Final = 230

Point = tuple[float, float]


def bars(title: str, values: Mapping[str, float], *, unit: str, ours: Sequence[str]) -> str:
    """Lengths from zero, those of ours in colour."""
    most = max(values.values(), default=1.0)
    height = 34 + _BAR * len(values)
    found = []
    for row, (name, value) in enumerate(values.items()):
        top, length = 34 + row * _BAR, value / most * (WIDTH - _LEFT - 90)
        kind = "bar" if name in ours else "rest"
        found += [
            f'<text x="{_LEFT - 10}" y="{top + 14}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{kind}" x="{_LEFT}" y="{top + 2}" width="{length:.1f}" height="{_BAR - 9}" rx="2"/>',
            f'<text class="soft" x="{_LEFT + length + 6:.1f}" y="{top + 14}">{shown(value)} {escape(unit)}</text>',
        ]
    return _svg(title, height, found)


def lines(title: str, series: Mapping[str, Sequence[Point]], *, unit: str) -> str:
    """Both axes in powers of ten; the names stand at the right, in the order of the last values."""
    points = [point for some in series.values() for point in some]
    if not points:
        return _svg(title, 40, [])
    low, high = (math.log10(edge) for edge in (min(x for x, _ in points), max(x for x, _ in points)))
    least, most = (edge(math.log10(pick(y for _, y in points))) for edge, pick in ((math.floor, min), (math.ceil, max)))
    height, right = 380, WIDTH - 250

    def place(point: Point) -> Point:
        across = (math.log10(point[0]) - low) / ((high - low) or 1)
        up = (math.log10(point[1]) - least) / ((most - least) or 1)
        return 70 + across * (right - 70), height - 40 - up * (height - 80)

    found = []
    for power in range(least, most + 1):
        y = place((10**low, 10.0**power))[1]
        found.append(f'<line class="grid" x1="70" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        found.append(
            f'<text class="soft" x="62" y="{y + 4:.1f}" text-anchor="end">{_number(10.0**power)} {unit}</text>'
        )
    for x in sorted({x for x, _ in points}):
        at = place((x, 10.0**least))[0]
        found.append(f'<text class="soft" x="{at:.1f}" y="{height - 18}" text-anchor="middle">{x:,.0f} runs</text>')
    ordered = sorted(series, key=lambda name: -series[name][-1][1])
    for row, name in enumerate(ordered):
        colour = _COLOURS[row % len(_COLOURS)]
        where = [place(point) for point in series[name]]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in where)
        y = 48 + row * 22
        found += [
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>',
            *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in where),
            f'<circle cx="{right + 24}" cy="{y - 4}" r="4" fill="{colour}"/>',
            f'<text x="{right + 34}" y="{y}">{escape(name)}</text>',
        ]
    return _svg(title, height, found)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _svg(title: str, height: int, body: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    inner = [f"<title>{escape(title)}</title>", _STYLE, f'<text x="8" y="18">{escape(title)}</text>', *body]
    return "\n".join([head, *inner, "</svg>"]) + "\n"
