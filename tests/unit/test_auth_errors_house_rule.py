"""Nobody but transitions.py moves an auth error: read from the source."""

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.gear.source import REPOSITORY

pytestmark = pytest.mark.contract("AUT-04")

FOLDER: Final = REPOSITORY / "ops" / "auth_errors"
THE_WRITER: Final = "transitions.py"
MAY_INSERT: Final = "recording.py"
WRITES: Final = frozenset(
    {"update", "create", "bulk_create", "bulk_update", "get_or_create", "update_or_create", "save"}
)
SQL: Final = re.compile(r"\bUPDATE\s+\"?auth_error\"?\s", re.IGNORECASE)
INSERT: Final = re.compile(r"\bINSERT\s+INTO\s+\"?auth_error\"?[\s(]", re.IGNORECASE)


def writes(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in WRITES and _of_an_error(node):
                yield f"{node.lineno}: AuthError is written"
            case ast.Call(func=ast.Attribute(attr=name)) if name == "update" and _names_a_status_of_an_error(node):
                yield f"{node.lineno}: a status is written"
            case ast.Assign(targets=[ast.Attribute(attr="status")]):
                yield f"{node.lineno}: .status is assigned"
            case ast.Constant(value=str(text)) if SQL.search(text):
                yield f"{node.lineno}: SQL moves an auth error"


def _of_an_error(call: ast.Call) -> bool:
    return ast.unparse(call.func).startswith("AuthError.")


def _names_a_status_of_an_error(call: ast.Call) -> bool:
    return any(word.arg == "status" and "AuthErrorStatus" in ast.unparse(word.value) for word in call.keywords)


@pytest.mark.parametrize(
    "source",
    [
        "AuthError.objects.filter(pk=1).update(version=2)",
        "AuthError.objects.create(pk=1)",
        "rows.update(status=AuthErrorStatus.RESOLVED)",
        "error.status = 'RESOLVED'",
        "cursor.execute('UPDATE auth_error SET version = 1')",
    ],
)
def test_a_write_beside_the_transitions_is_found(source: str) -> None:
    assert len(list(writes(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "AuthError.objects.filter(status=AuthErrorStatus.NEW).count()",
        "Cluster.objects.filter(pk=1).update(status=ClusterStatus.OPEN)",
        "cursor.execute('UPDATE auth_error_cluster SET occurrences = 1')",
    ],
)
def test_what_is_no_write_of_an_error_passes(source: str) -> None:
    assert list(writes(source)) == []


def test_aut_04_nobody_but_transitions_moves_an_auth_error() -> None:
    files = [path for path in sorted(FOLDER.rglob("*.py")) if "migrations" not in path.parts]
    assert len(files) > 15
    found = {path.name: list(writes(path.read_text(encoding="utf-8"))) for path in files if path.name != THE_WRITER}
    assert {name: said for name, said in found.items() if said} == {}
    inserting = [path.name for path in files if INSERT.search(path.read_text(encoding="utf-8"))]
    assert inserting == [MAY_INSERT]
