"""Inputs made of a template: `{"$": "event.path.to.value"}` stands for that JSON value, whole. Pure.

Nothing is evaluated and no string is built: what a stranger wrote stays one value in the place that the rule gave it.
`{"$": "answer.text", "else": ""}` has a value for where there is none. Roots: `event`, `answer`, `former` (the result
that an answer was given to), `earlier` (results of the same thread, newest first). A number picks from a list; a name
with a dot in it is written as a list: `{"$": ["event", "a.b"]}`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

MARK: Final = "$"
ELSE: Final = "else"
ROOTS: Final = frozenset({"event", "answer", "former", "earlier"})
DEPTH_MAX: Final = 32
RENDERED_BYTES_MAX: Final = 262_144
"""As large as a run's inputs may be."""
_NOTHING: Final = object()
_PLACE: Final = re.compile(r"[0-9]{1,9}")
"""In a list. Longer ones Python may refuse to read."""


class TemplateInvalid(ValueError):  # noqa: N818  a refusal is named for what was refused
    """Not a template; `place` says where."""

    def __init__(self, place: str, detail: str) -> None:
        super().__init__(detail)
        self.place = place


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the template came to. Where it names what is not there, or becomes too large, there are no inputs."""

    inputs: Any = None
    missing: tuple[str, ...] = ()
    too_large: bool = False

    @property
    def is_whole(self) -> bool:
        return not self.missing and not self.too_large


def check_template(template: Any) -> None:
    """Raises TemplateInvalid."""
    for place, value, depth in _places(template, "inputs", 0):
        if depth > DEPTH_MAX:
            raise TemplateInvalid(place, f"is nested deeper than {DEPTH_MAX}")
        if isinstance(value, dict) and MARK in value:
            if not set(value) <= {MARK, ELSE}:
                raise TemplateInvalid(place, f'beside "{MARK}" there may be "{ELSE}" alone')
            path = _path(value[MARK])
            if not path:
                raise TemplateInvalid(place, f'"{MARK}" takes a path such as "event.issue.title"')
            if path[0] not in ROOTS:
                raise TemplateInvalid(place, f"a path begins with one of {', '.join(sorted(ROOTS))}")


def render_template(template: Any, roots: Mapping[str, Any]) -> Rendered:
    work = _Rendering(roots)
    made = work.value(template)
    if work.missing:
        return Rendered(missing=tuple(dict.fromkeys(work.missing)))
    return Rendered(too_large=True) if work.bytes_left < 0 else Rendered(inputs=made)


def template_names_root(template: Any, root: str) -> bool:
    """Whether any of its paths begins there."""
    found = (value[MARK] for _, value, _ in _places(template, "", 0) if isinstance(value, dict) and MARK in value)
    return any(_path(path)[:1] == [root] for path in found)


@dataclass(slots=True)
class _Rendering:
    roots: Mapping[str, Any]
    missing: list[str] = field(default_factory=list)
    bytes_left: int = RENDERED_BYTES_MAX

    def value(self, template: Any) -> Any:
        match template:
            case {"$": path}:
                return self._inserted(template, path)
            case dict():
                return {name: self.value(inner) for name, inner in template.items()}
            case list():
                return [self.value(inner) for inner in template]
        return template

    def _inserted(self, template: Mapping[str, Any], asked: Any) -> Any:
        found = _value_at_template_path(self.roots, _path(asked))
        if found is _NOTHING:
            if ELSE not in template:
                self.missing.append(".".join(_path(asked)))
                return None
            found = template[ELSE]
        if self.bytes_left >= 0:
            self.bytes_left -= len(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
        return found if self.bytes_left >= 0 else None


def _value_at_template_path(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and _PLACE.fullmatch(name) is not None and int(name) < len(value):
            value = value[int(name)]
        else:
            return _NOTHING
    return value


def _path(asked: Any) -> list[str]:
    parts = asked.split(".") if isinstance(asked, str) else asked
    is_path = isinstance(parts, list) and all(isinstance(part, str) and part for part in parts)
    return parts if is_path else []


def _places(value: Any, place: str, depth: int) -> Iterator[tuple[str, Any, int]]:
    yield place, value, depth
    if depth > DEPTH_MAX:
        return
    if isinstance(value, dict):
        if MARK not in value:
            for name, inner in value.items():
                yield from _places(inner, f"{place}.{name}", depth + 1)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _places(inner, f"{place}.{number}", depth + 1)
