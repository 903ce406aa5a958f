"""Reads what the JVM prints: `Caused by` sections, the root cause last; `Suppressed` ones beside them."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from ops.auth_errors.normaliser.traces import CAUSE, EXCEPTIONS_MAX, SUPPRESSED, TracedFrame
from ops.auth_errors.reports.patterns import linear_pattern
from ops.auth_errors.reports.scanning import FRAMES_SCANNED, LINE_LENGTH_MAX, FoundException, traced_frame

_WHERE: Final = (
    r"[^()\n:]+\.(?:java|kt|kts|scala|groovy|clj)(?::-?\d+)?|Native Method|Unknown Source(?::\d+)?|<generated>"
    r"|(?:SourceFile|r8-map-id-\w+):\d+"
)
FIRST_FRAME: Final = linear_pattern(
    rf"(?m)^[ \t]*at (?:[\w.@-]*/){{0,2}}[\w$.]+(?:/(?:0x)?[0-9a-f]+)?\.[\w$<>-]+\((?:{_WHERE})\)"
)
_NO_PLACE: Final = frozenset(("", " ", "\t", "\r", "\f"))
_MARKER: Final = re.compile(
    r"^([ \t]*+)(?:(Caused by)|(Suppressed)|(Wrapped by)): (?!reactor\.core\.publisher\.\w+\$OnAssemblyException)",
    re.MULTILINE,
)
"""Reactor moves the frames of an exception into one that it suppresses: they stay the exception's."""
_ADDRESS: Final = re.compile(r"(?:0x)?[0-9a-f]+\.")
_NAME: Final = r"(?:[A-Za-z_$][\w$]*\.)+[A-Z_$][\w$]*|[A-Z][\w$]*(?:Exception|Error|Throwable|Failure|Fault)"
_CLASS: Final = linear_pattern(rf"^(?:[\w.@-]+/)?({_NAME})")
_HEAD: Final = linear_pattern(
    rf'(?m)^[ \t]*(?:Exception in thread "[^"\n]*" |[A-Z][\w ]{{0,40}}: )?(?:[\w.@-]+/)?({_NAME})(?:$|: |[ \t]*$)'
)
_INLINE: Final = linear_pattern(r"\b((?:[a-z_]\w*\.)+[A-Z][\w$]*(?:Exception|Error|Throwable|Failure))\b")


def read_java_trace(text: str) -> list[FoundException]:
    """The root cause first; of more exceptions than are kept, those next to it."""
    markers = list(_MARKER.finditer(text))
    starts = [0, *(marker.end() for marker in markers)]
    ends = [*(marker.start() for marker in markers), len(text)]
    chain: list[int] = [0]
    beside: list[int] = []
    inside: int | None = None
    for number, marker in enumerate(markers, start=1):
        indent = len(marker[1])
        if marker[3] is not None:
            inside = indent if inside is None else min(inside, indent)
            beside.append(number)
        elif inside is not None and indent >= inside > 0:
            beside.append(number)
        else:
            inside = None
            chain.append(number)
    from_root = chain if any(marker[4] is not None for marker in markers) else chain[::-1]
    chosen = [(number, CAUSE) for number in from_root[:EXCEPTIONS_MAX]]
    chosen += [(number, SUPPRESSED) for number in beside[: EXCEPTIONS_MAX - len(chosen)]]
    found = [
        _exception_in_java_trace(text[starts[number] : ends[number]], relation, first=number == 0)
        for number, relation in chosen
    ]
    return [one for one in found if one.exception_class or one.frames]


def _exception_in_java_trace(text: str, relation: str, *, first: bool) -> FoundException:
    frames: list[TracedFrame] = []
    begin = len(text)
    for start, place, length in islice(_frame_lines(text), FRAMES_SCANNED):
        begin = min(begin, start)
        if length <= LINE_LENGTH_MAX and (one := _frame(place)):
            frames.append(one)
    head = text[:begin].encode()
    name = (_HEAD.search(head) or _INLINE.search(head)) if first else _CLASS.search(head)
    return FoundException("" if name is None else name.group(1).decode(), frames, relation)


def _frame_lines(text: str) -> Iterator[tuple[int, str, int]]:
    """Lines of the form `at place(file:line)`: where each begins, its place, its length to the bracket that closes it.

    By hand: a match costs the library ten times what it costs to look at a line, and there is one for each frame.
    """
    start = 0
    for line in text.split("\n"):
        inner = line.lstrip(" \t")
        if inner.startswith("at "):
            place, bracket, rest = inner[3:].partition("(")
            end = rest.find(")")
            if bracket and end >= 0 and "(" not in rest[:end] and place[:1] not in _NO_PLACE:
                closed = len(line) - len(rest) + end + 1
                yield start, place.strip(), closed
        start += len(line) + 1


def _frame(place: str) -> TracedFrame | None:
    """`java.base@17/java.lang.Thread.run`, `app//a.B.c`, `a.B$$Lambda$14/0x0000000800c8.run`: loaders, modules and the
    addresses of hidden classes go.
    """
    *before, last = place.split("/")
    if before and _ADDRESS.match(last):
        last = before[-1] + "." + last.partition(".")[2]
    module, dot, function = last.rpartition(".")
    return traced_frame(module=module, function=function) if dot else None
