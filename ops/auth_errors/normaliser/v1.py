"""Version 1. Never edited once a release has stored its hashes: what moves a hash is a new version.

Two traces are the same fault when they have the same classes from the root cause upward and the same places in the
application, or, where no place is the application's, the same places in its frameworks. Line numbers, messages,
addresses and generated names count for nothing; what was suppressed beside the chain neither; the members of a group
count without their order.
"""

import hashlib
import json
import re
from typing import Final

from ops.auth_errors.normaliser.frameworks import in_app
from ops.auth_errors.normaliser.traces import (
    GO,
    JAVA,
    JAVASCRIPT,
    MEMBER,
    PYTHON,
    SUPPRESSED,
    Trace,
    TracedException,
    TracedFrame,
)

VERSION: Final = 1

Folds = tuple[tuple[re.Pattern[str], str], ...]


def _folds(*pairs: tuple[str, str]) -> Folds:
    return tuple((re.compile(pattern), text) for pattern, text in pairs)


_JAVA: Final = _folds(
    (r"\$\$(?:EnhancerBy\w+?|SpringCGLIB|FastClassBy\w+?|KeyFactoryBy\w+?)\$\$\w*", ""),
    (r"\$(?:ByteBuddy|HibernateProxy|HibernateInstantiator|MockitoMock|MockitoProxy|auxiliary)\$\w+", ""),
    (r"_\$\$_(?:jvst|javassist|Weld)\w*", ""),
    (r"_(?:ClientProxy|Subclass|Bean)$", ""),
    (r"\$Proxy\d+", "$Proxy"),
    (r"Generated(Method|Constructor|SerializationConstructor)Accessor\d+", r"Generated\1Accessor"),
    (r"(?:lambda\$|\$anonfun\$)(\w*?)\$?\d+$", r"lambda$\1"),
    (r"\$\d+(?=\$|\.|$)", "$0"),
    (r"\$access\$\d+|access\$\d+", "access$"),
    (r"(?:/|\+)(?:0x)?[0-9a-f]{4,}", ""),
)
_JAVA_REFLECTION: Final = ("java.lang.reflect.", "java.lang.invoke.", "jdk.internal.reflect.", "sun.reflect.")
"""How a method was called by reflection changes while a process runs: natively at first, by generated code later.
Lambdas have a class of their own, which newer releases do not show.
"""
_JAVA_LAMBDA: Final = re.compile(r"\$\$(?:Lambda|ExternalSynthetic)")
_PYTHON_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Frames of their own up to Python 3.11, and none since."""
_PYTHON_PLACE: Final = re.compile(r".*[/\\](?:(?:site|dist)-packages|lib(?:64)?/(?:python|pypy)\d[\w.]*)[/\\]")
_PYTHON_NUMBERED: Final = re.compile(r"^\d+(?=\.|$)|(?<=ipykernel_)\d+|\d{5,}|\b(?=[a-f]*\d)[0-9a-f]{7,}\b")
_NUMBERED: Final = re.compile(r"(?<![A-Za-z])\d+(?![A-Za-z])|\b(?=[a-f]*\d)[0-9a-f]{7,}\b")
_JAVASCRIPT_PLACE: Final = re.compile(r"^[a-z-]+:(?://[^/]*)?/*(?:\([\w-]+\)/)?(?:\./)*")
_JAVASCRIPT_HASH: Final = re.compile(
    r"[-.~_](?:[0-9a-f]{8,40}|(?=[A-Za-z_]*(?:\d|[a-z][A-Z]))(?:[0-9a-f]{6,7}|\w{8,10}|[\w-]{20,24}))(?=\.|$)"
)
_JAVASCRIPT_OWNER: Final = re.compile(r"^(?:Object|Module|Function|exports|module\.exports)\.(?=[\w$<])")
_JAVASCRIPT_CALLEE: Final = re.compile(r"_callee\d*\$|_loop_?\d*$")
_GO: Final = _folds(
    (r"\[(?:\.\.\.|[^\[\]]*)\]", ""),
    (r"\b(?:func|gowrap|deferwrap)\d+(?:\.\d+)*", "func"),
    (r"-fm$", ""),
)
_GO_VERSION: Final = re.compile(r"@v?[^/]+|/v\d+(?=/|$)|%2ev\d+$")
_PATH_PARTS: Final = 3


def stack_hash(trace: Trace) -> str:
    return hashlib.sha256(json.dumps(["v1", *trace_shape(trace)], ensure_ascii=True).encode()).hexdigest()


def trace_shape(trace: Trace) -> list[list[str]]:
    """What is hashed: for each exception its class and its places, the root cause first."""
    language = trace["language"]
    chain = [one for one in trace["exceptions"] if one["relation"] != SUPPRESSED]
    own_only = any(in_app(language, frame) for one in chain for frame in one["frames"])
    members = sorted(_exception(one, language, own_only=own_only) for one in chain if one["relation"] == MEMBER)
    causes = [_exception(one, language, own_only=own_only) for one in chain if one["relation"] != MEMBER]
    once: list[list[str]] = []
    for one in (*members, *causes):
        if one not in once:
            once.append(one)
    return once


def _exception(one: TracedException, language: str, *, own_only: bool) -> list[str]:
    frames = [frame for frame in one["frames"] if not own_only or in_app(language, frame)]
    places = [folded_frame(language, frame) for frame in frames if not comes_and_goes(language, frame)]
    return [_class(one["exception_class"]), *dict.fromkeys(places)]


def comes_and_goes(language: str, frame: TracedFrame) -> bool:
    """A frame that the same fault has in one release of its language, or in one hour, and not in another."""
    if language == JAVA:
        return frame["module"].startswith(_JAVA_REFLECTION) or _JAVA_LAMBDA.search(frame["module"]) is not None
    return language == PYTHON and frame["function"] in _PYTHON_COMPREHENSIONS


def _class(name: str) -> str:
    return _apply(_JAVA, name.removeprefix("builtins.").removeprefix("__main__."))


def folded_frame(language: str, frame: TracedFrame) -> str:
    """One place, without what changes from build to build and from start to start."""
    module, function, file = frame["module"], frame["function"], frame["file"]
    if language == JAVA:
        return f"{_apply(_JAVA, module)}.{_apply(_JAVA, function)}"
    if language == PYTHON:
        return f"{_python_file(file)}:{function}"
    if language == JAVASCRIPT:
        return f"{_javascript_file(file)}:{_javascript_function(function)}"
    if language == GO:
        return f"{_GO_VERSION.sub('', module.rpartition('/vendor/')[2])}.{_apply(_GO, function)}"
    return f"{module}.{function}:{file}"


def _apply(folds: Folds, text: str) -> str:
    for pattern, replacement in folds:
        text = pattern.sub(replacement, text)
    return text


def _python_file(file: str) -> str:
    """From the package on; of an application's own, which may be installed anywhere, the end of the path."""
    if file.startswith("<"):
        return _NUMBERED.sub("#", file)
    inside = _PYTHON_PLACE.sub("", file).replace("\\", "/")
    return "/".join(_PYTHON_NUMBERED.sub("#", part) for part in inside.split("/")[-_PATH_PARTS:])


def _javascript_file(file: str) -> str:
    path = _JAVASCRIPT_PLACE.sub("", file).partition("?")[0].partition("#")[0].replace("\\", "/")
    parts = [_NUMBERED.sub("#", _JAVASCRIPT_HASH.sub("-#", part)) for part in path.split("/")]
    return "/".join(parts[-_PATH_PARTS:])


def _javascript_function(function: str) -> str:
    name = function.removeprefix("new ").removeprefix("async ").rstrip("</")
    if name in {"<anonymous>", "anonymous", "Object.<anonymous>", "eval"}:
        return ""
    return _JAVASCRIPT_CALLEE.sub("#", _JAVASCRIPT_OWNER.sub("", name))
