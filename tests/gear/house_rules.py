"""House rules that no linter knows, each a function from source text to complaints."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath

MAX_FUNCTION_LINES = 70
MAX_MODULE_LINES = 600
MAX_FOLDER_MODULES = 26

# Longer for a reason, which stands here.
LONG_MODULES: dict[str, str] = {
    "ops/workspaces/init/pid1.py": "one file is copied into each workspace, and runs with nothing beside it",
}

# Threads that play another process: what ends one is kept, and raised again by whoever plays it.
KEEPS_WHAT_IT_CATCHES = frozenset({"tests/gear/faults/interruption.py", "tests/gear/faults/schedules.py"})


def wall_clock_reads(tree: ast.Module) -> Iterator[str]:
    """Time comes from dpp_project.clock, so that tests and drills can move it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = ast.unparse(node.func)
            if called.endswith(("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "timezone.now")):
                yield f"line {node.lineno}: {called}() reads the wall clock; use dpp_project.clock.now()"


def sleeps(tree: ast.Module) -> Iterator[str]:
    """A test that sleeps is slow on a good day and flaky on a bad one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "sleep"}:
            yield f"line {node.lineno}: sleeps; wait for a condition (tests.gear.waiting)"


def long_functions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"line {node.lineno}: {node.name} has {lines} lines; cut it along its seams"


def crowded_folders(modules: Iterable[PurePath]) -> Iterator[str]:
    """Side by side, more modules than these no longer show what a folder is made of."""
    for folder, count in sorted(Counter(path.parent for path in modules).items()):
        if count > MAX_FOLDER_MODULES:
            yield f"{folder} holds {count} modules; cut it along its seams"


NAMES_THAT_SAY_NOTHING = re.compile(r"(?:^|_)(?:utils?|helpers?|common)(?:_|$)")


def modules_that_say_nothing(modules: Iterable[PurePath]) -> Iterator[str]:
    """Everything fits into a module or folder of such a name, so nobody looks for anything there."""
    for path in modules:
        for part in path.with_suffix("").parts:
            if NAMES_THAT_SAY_NOTHING.search(part):
                yield f"{path}: {part} says nothing of what it holds"


def asserts_nothing(tree: ast.Module) -> Iterator[str]:
    """A test without an assertion, of its own or in a function of its module that it calls, cannot fail."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    asserting = {node.name for node in functions if _asserts(node, frozenset())}
    for node in functions:
        if node.name.startswith("test_") and not _asserts(node, frozenset(asserting)):
            yield f"line {node.lineno}: {node.name} asserts nothing"


_ASSERTING_CALLS = ("raises", "warns", "wait_until", "run_state_machine_as_test", "journey.sees")


def _asserts(node: ast.FunctionDef, asserting: frozenset[str]) -> bool:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assert):
            return True
        if isinstance(inner, ast.Call):
            whole = ast.unparse(inner.func)
            called = whole.rsplit(".", 1)[-1]
            if called in asserting or called.startswith("assert") or whole.endswith(_ASSERTING_CALLS):
                return True
    return False


# One name, several classes: Django finds a command by this name.
SHARED_CLASS_NAMES = frozenset({"Command"})


def class_names(tree: ast.Module) -> Iterator[str]:
    """The public names that a module gives to classes and type aliases. A nested class is read with its owner's name,
    a private one in its module alone, and a TypeVar stands for any type.
    """
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "TypeVar":
                continue
        else:
            continue
        if name[0].isupper() and not name.isupper() and name not in SHARED_CLASS_NAMES:
            yield name


def class_names_with_two_meanings(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """A reader who has met a class name knows what it means everywhere."""
    places: dict[str, list[str]] = {}
    for path, tree in trees.items():
        for name in class_names(tree):
            places.setdefault(name, []).append(path)
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"{name} is a class in {' and '.join(found)}; rename all but one"


MAX_PLACES_OF_A_FUNCTION_NAME = 2

# One name in more modules than that, for a reason, which stands here.
SHARED_FUNCTION_NAMES: dict[str, str] = {
    "main": "what a process begins with, called by its command alone",
}


def function_names_in_many_places(
    trees: Mapping[str, ast.Module], shared: Mapping[str, str] = SHARED_FUNCTION_NAMES
) -> Iterator[str]:
    """Who meets a function's name, in a trace or a search, finds its module by it, be it private or not."""
    places: dict[str, list[str]] = {}
    for path, tree in trees.items():
        for name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}:
            places.setdefault(name, []).append(path)
    crowded = {name for name, found in places.items() if len(found) > MAX_PLACES_OF_A_FUNCTION_NAME}
    for name in sorted(crowded - set(shared)):
        yield f"{name} is a function in {' and '.join(places[name])}; say of each what it does to what"
    for name in sorted(set(shared) - crowded):
        yield f"{name} is listed, and stands in no more modules than any other may; take it off the list"


def silent_excepts(tree: ast.Module) -> Iterator[str]:
    """What is caught is named; a bare except also swallows the order to stop."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = "" if node.type is None else ast.unparse(node.type)
            reraises = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
            if caught in {"", "BaseException"} and not reraises:
                yield f"line {node.lineno}: catches everything and does not raise it again"


LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


def log_calls_that_fail(tree: ast.Module) -> Iterator[str]:
    """structlog's own name for what a line says is `event`: a value of that name is a TypeError, and ends a handler."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(word.arg == "event" for word in node.keywords):
            logger, _, method = ast.unparse(node.func).rpartition(".")
            if logger == "log" and method in LOG_METHODS:
                yield f"line {node.lineno}: names a value `event`, which is what the line says; call it otherwise"
