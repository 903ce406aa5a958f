"""Reads Python's tracebacks: each exception of a chain has one of its own, the root cause first; groups are drawn with
`|` and `+`, their members inside them.
"""

import re
from typing import Final

from ops.auth_errors.normaliser.traces import CAUSE, EXCEPTIONS_MAX, MEMBER, TracedFrame
from ops.auth_errors.reports.patterns import linear_pattern
from ops.auth_errors.reports.scanning import FRAMES_SCANNED, LINE_LENGTH_MAX, FoundException, traced_frame

FIRST_FRAME: Final = linear_pattern(
    r'(?m)^[ \t|+-]*(?:File "[^"\n]+", line \d+(?:, in |$)|Traceback \(most recent call last\):)'
)
_BEGIN: Final = re.compile(
    r"(?:Exception Group )?Traceback \(most recent call last\):|^[ ]*+\+[-+]*+ (?:\d++|\.\.\.) -++$", re.MULTILINE
)
"""Of an exception, or of a member of a group, which may have no traceback."""
_FRAME: Final = re.compile(r'File "([^"\n]++)", line \d++(?:, in ([^\n]++))?\n')
_MARK: Final = 'File "'
_MARKS_SCANNED: Final = 5 * FRAMES_SCANNED
_DRAWN: Final = re.compile(r"^[ ]*+\|[ ]?", re.MULTILINE)
_CLASS: Final = re.compile(r"([A-Za-z_]\w*+(?:\.(?:\w++|<locals>))*+)(?::|[ \t]*+$)", re.MULTILINE)
_MEMBER_INDENT: Final = 4


def read_python_trace(text: str) -> list[FoundException]:
    """The root cause first; of more exceptions than are kept, those next to it. The members of a group come before the
    group, whose own lines stand above them: they caused it.
    """
    begins = list(_BEGIN.finditer(text))
    starts = [begin.start() for begin in begins] or [0]
    ends = [*starts[1:], len(text)]
    is_drawn = "Exception Group Traceback" in text
    found: list[FoundException] = []
    group_at = 0
    for start, end in zip(starts, ends, strict=True):
        before = text[max(text.rfind("\n", 0, start) + 1, start - LINE_LENGTH_MAX) : start]
        relation = MEMBER if is_drawn and "|" in before and len(before) >= _MEMBER_INDENT else CAUSE
        if text[start] in " +":
            relation = MEMBER
        section = _DRAWN.sub("", text[start:end]) if is_drawn else text[start:end]
        one = _exception_in_python_trace(section, relation, indent=0 if is_drawn or before.strip() else len(before))
        if not one.exception_class and not one.frames:
            continue
        if relation == MEMBER:
            found.insert(max(len(found) - 1, group_at), one)
        else:
            group_at = len(found)
            found.append(one)
        if len(found) > EXCEPTIONS_MAX:
            break
    return found[:EXCEPTIONS_MAX]


def _exception_in_python_trace(text: str, relation: str, *, indent: int) -> FoundException:
    """Frames are indented deeper than their head; the first line that is not has the class."""
    head_end = text.find("\n") + 1
    ending = re.compile(rf"^[ ]{{0,{min(indent, LINE_LENGTH_MAX)}}}(?=[^\s])", re.MULTILINE)
    if _BEGIN.match(text):
        last = ending.search(text, head_end) if head_end else None
        end = len(text) if last is None else last.end()
    else:
        last, end = None, len(text)
    name = _CLASS.match(text, end, end + LINE_LENGTH_MAX) if last is not None else None
    return FoundException("" if name is None else name[1], _frames(text, end), relation)


def _frames(text: str, end: int) -> list[TracedFrame]:
    """The innermost stands last, so they are read from the end."""
    frames: list[TracedFrame] = []
    at = end
    for _ in range(_MARKS_SCANNED):
        at = text.rfind(_MARK, 0, at)
        if at < 0 or len(frames) == FRAMES_SCANNED:
            break
        if text[max(text.rfind("\n", 0, at) + 1, at - LINE_LENGTH_MAX) : at].strip(" \t|"):
            continue
        if match := _FRAME.match(text, at, min(end, at + LINE_LENGTH_MAX)):
            frames.append(traced_frame(function=match[2] or "", file=match[1]))
    return frames
