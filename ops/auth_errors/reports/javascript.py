"""Reads stacks of V8 (node, Chrome, Edge: `at f (place)`), Firefox and Safari (`f@place`), with causes and groups as
node prints them.
"""

import re
from itertools import islice, pairwise
from typing import Final

from ops.auth_errors.normaliser.traces import CAUSE, EXCEPTIONS_MAX, MEMBER, TracedFrame
from ops.auth_errors.reports.patterns import linear_pattern
from ops.auth_errors.reports.scanning import FRAMES_SCANNED, LINE_LENGTH_MAX, FoundException, traced_frame

_V8_PLACE: Final = r"(?::\d+:\d+|<anonymous>|native|index \d+|\*\*\*)"
_GECKO: Final = (
    r"[^\n@]*@(?:[a-z-]+://[^\n]*|/[^\n]*(?::\d+){1,2}|(?:webpack|file|blob|node|resource|self-hosted|debugger)[^\n]*"
    r"(?::\d+){1,2}|\[native code\])"
)
FIRST_FRAME: Final = linear_pattern(
    rf"(?m)^[ \t]*at [^\n]*{_V8_PLACE}\)?(?:,| \{{)?$|^[ \t]*[\w$./<*: -]*@(?:[a-z-]+://[^\n]*|/[^\n]*):\d+(?::\d+)?$"
)
_FRAME: Final = linear_pattern(rf"(?m)^[ \t]*(?:at ([^\n]*{_V8_PLACE}\)?)(?:,| \{{)?|({_GECKO}))$")
_MARKER: Final = re.compile(r"\[cause\]: |^[ \t]*+(?:[Cc]ause|Caused by): (?=[A-Za-z_$])", re.MULTILINE)
_ERRORS: Final = "[errors]: ["
_NAME: Final = r"([A-Za-z_$][\w$.]*(?:Error|Exception|Rejection|Failure)|Error)"
_MEMBER: Final = re.compile(r"^[ \t]*+(?=[A-Za-z_$][\w$.]*(?:Error|Exception)\b)", re.MULTILINE)
_HEAD: Final = linear_pattern(
    r"(?m)^[ \t]*(?:Uncaught )?(?:\(in promise\):? )?(?:Unhandled [Rr]ejection:? )?"
    rf"{_NAME}(?: \[[^\]\n]*\])?(?:: |:?[ \t]*$)"
)
_INLINE: Final = linear_pattern(rf"\b{_NAME}\b(?: \[[^\]\n]*\])?:")
_POSITION: Final = re.compile(r"(?::\d++){1,2}$")
_ALIAS: Final = re.compile(r" \[as [^\]]*+\]$")
_EVALUATED: Final = re.compile(r"[ (]([^ (),]+?)(?::\d+){0,2}\)*+(?:,|$)")


def read_javascript_trace(text: str) -> list[FoundException]:
    """The root cause first; of more exceptions than are kept, those next to it."""
    markers = list(_MARKER.finditer(text))
    starts = [0, *(marker.end() for marker in markers)]
    ends = [*(marker.start() for marker in markers), len(text)]
    found: list[FoundException] = []
    for start, end in list(zip(starts, ends, strict=True))[::-1]:
        if len(found) >= EXCEPTIONS_MAX:
            break
        found += _group(text[start:end])
    return [one for one in found if one.exception_class or one.frames][:EXCEPTIONS_MAX]


def _group(text: str) -> list[FoundException]:
    """An exception, and before it the members that it was made of."""
    own, errors, members = text.partition(_ERRORS)
    if not errors:
        return [_exception_in_javascript_trace(text, CAUSE)]
    starts = [head.start() for head in islice(_MEMBER.finditer(members), EXCEPTIONS_MAX)]
    found = [
        _exception_in_javascript_trace(members[start:end], MEMBER) for start, end in pairwise([*starts, len(members)])
    ]
    return [*found[: EXCEPTIONS_MAX - 1], _exception_in_javascript_trace(own, CAUSE)]


def _exception_in_javascript_trace(text: str, relation: str) -> FoundException:
    data = text.encode()
    frames: list[TracedFrame] = []
    begin = len(data)
    for match in islice(_FRAME.finditer(data), FRAMES_SCANNED):
        begin = min(begin, match.start())
        if match.end() - match.start() > LINE_LENGTH_MAX:
            continue
        v8, gecko = match.group(1, 2)
        one = _gecko(gecko.decode()) if v8 is None else _v8(v8.decode())
        if one is not None:
            frames.append(one)
    name = _HEAD.search(data[:begin]) or _INLINE.search(data[:begin])
    return FoundException("" if name is None else name.group(1).decode(), frames, relation)


def _v8(written: str) -> TracedFrame | None:
    """`async Class.method [as alias] (place:1:2)`, or a place alone."""
    written = written.removeprefix("async ")
    function, bracket, place = written.partition(" (")
    if not bracket:
        function, place = "", written
    elif place.endswith(")"):
        place = place[:-1]
    else:
        return None
    if place.startswith("eval at "):
        evaluated = _EVALUATED.search(place)
        return traced_frame(function="eval", file="" if evaluated is None else evaluated[1])
    if " " in place and not place.startswith(("index ", "file:", "/", "http", "webpack")) and not bracket:
        return None
    return traced_frame(function=_ALIAS.sub("", function), file=_POSITION.sub("", place))


def _gecko(written: str) -> TracedFrame:
    """`outer/inner<@place:1:2`; before `*` stands what scheduled it."""
    function, _, place = written.partition("@")
    place = place.partition(" line ")[0]  # > eval, > Function
    return traced_frame(function=function.strip().rpartition("*")[2], file=_POSITION.sub("", place))
