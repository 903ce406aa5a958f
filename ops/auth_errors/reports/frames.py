"""Which language wrote a trace, and what is kept of it: the same data for all, so that one normaliser reads them."""

from collections.abc import Callable
from typing import Any, Final

from ops.auth_errors.normaliser.traces import (
    CAUSE,
    EXCEPTIONS_MAX,
    GO,
    JAVA,
    JAVASCRIPT,
    PYTHON,
    SUPPRESSED,
    UNKNOWN,
    Trace,
)
from ops.auth_errors.reports import golang, java, javascript, python
from ops.auth_errors.reports.scanning import FoundException, as_traced

Reader = Callable[[str], list[FoundException]]

READERS: Final[dict[str, tuple[Any, Reader]]] = {
    PYTHON: (python.FIRST_FRAME, python.read_python_trace),
    GO: (golang.FIRST_FRAME, golang.read_golang_trace),
    JAVA: (java.FIRST_FRAME, java.read_java_trace),
    JAVASCRIPT: (javascript.FIRST_FRAME, javascript.read_javascript_trace),
}


def read_trace(text: str, exception_class: str, root_cause_class: str | None) -> Trace:
    """`text` masked and whole. What it does not name, the reported classes do: a stack of Firefox has no class in it,
    and a stack may end before the root cause.
    """
    if "\n" not in text:
        text = text.replace("\\n", "\n").replace("\\t", "\t")  # escaped once too often on its way
    language = _language(text)
    found = (java.read_java_trace if language == UNKNOWN else READERS[language][1])(text)
    if language == UNKNOWN:
        found = [one for one in found if one.exception_class]
    found = _with_reported(found, exception_class, root_cause_class)
    return {"language": language, "exceptions": [as_traced(one, language) for one in found[:EXCEPTIONS_MAX]]}


def _language(text: str) -> str:
    """The one whose frame stands first: a message may quote a trace of another."""
    data = text.encode()
    firsts = {language: pattern.search(data) for language, (pattern, _) in READERS.items()}
    places = {language: first.start() for language, first in firsts.items() if first is not None}
    return min(places, key=lambda language: places[language]) if places else UNKNOWN


def _with_reported(
    found: list[FoundException], exception_class: str, root_cause_class: str | None
) -> list[FoundException]:
    chain = [one for one in found if one.relation != SUPPRESSED]
    if chain and not chain[-1].exception_class:
        chain[-1].exception_class = exception_class
    for one in chain[:1]:
        one.exception_class = one.exception_class or root_cause_class or ""
    named = {_simple(one.exception_class) for one in chain}
    if _simple(exception_class) not in named:
        place = len(chain)
        found = [*found[:place], FoundException(exception_class, [], CAUSE), *found[place:]]
    if root_cause_class is not None and _simple(root_cause_class) not in named | {_simple(exception_class)}:
        found = [FoundException(root_cause_class, [], CAUSE), *found]
    return found


def _simple(name: str) -> str:
    """Reporters give a class with or without its package."""
    return name.replace("$", ".").rpartition(".")[2]
