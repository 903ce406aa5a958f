"""A migration never keeps a table that stands from those who write to it: indexes are made CONCURRENTLY, and again.

And it does next year what it did when it was written: it imports nothing of the product, which changes meanwhile.
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.apps import apps
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from tests.gear.source import PRODUCT, REPOSITORY

pytestmark = pytest.mark.contract("HRD-08")

BEFORE_THE_RULE = {
    "budget.0003_console": "0.1.0: the ledger's index by time",
    "runs.0003_disputed_index": "0.1.0: operators' open disputes",
}
"""Released; a table that was filled before them stands nowhere."""
IMPORTS_SETTINGS = {
    "dpp_project/signin/migrations/0001_second_factors.py": "Django's own form of a key to the table of users",
}
"""What is set where a migration runs is no more fixed than the product's code."""
_CREATES = re.compile(r"CREATE\s+(?:UNIQUE\s+)?INDEX\s+(CONCURRENTLY\s+)?(?:IF\s+NOT\s+EXISTS\s+)?(\w+)", re.IGNORECASE)
_DROPS = re.compile(r"DROP\s+INDEX\s+CONCURRENTLY\s+IF\s+EXISTS\s+(\w+)", re.IGNORECASE)


def ours() -> dict[str, migrations.Migration]:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    labels = {config.label for config in apps.get_app_configs() if config.name.partition(".")[0] in PRODUCT}
    return {f"{app}.{name}": one for (app, name), one in loader.disk_migrations.items() if app in labels}


def at_the_database(operations: Sequence[Operation]) -> Iterator[Any]:
    for operation in operations:
        if isinstance(operation, migrations.SeparateDatabaseAndState):
            yield from at_the_database(operation.database_operations)
        else:
            yield operation


def statements(operation: migrations.RunSQL | AddIndexConcurrently) -> list[str]:
    if isinstance(operation, AddIndexConcurrently):
        return [f"CREATE INDEX CONCURRENTLY {operation.index.name}"]
    sql = operation.sql
    return [sql] if isinstance(sql, str) else [one if isinstance(one, str) else one[0] for one in sql]


def complaints(migration: migrations.Migration) -> Iterator[str]:
    all_of_it = list(at_the_database(migration.operations))
    made: set[str] = set()
    for operation in all_of_it:
        if isinstance(operation, migrations.CreateModel):
            made.add(operation.name.lower())
        elif getattr(operation, "model_name", "").lower() not in made and (index := index_of(operation)):
            yield f"{index} is not made CONCURRENTLY"
    repeatable = [one for one in all_of_it if isinstance(one, migrations.RunSQL | AddIndexConcurrently)]
    text = [statement for operation in repeatable for statement in statements(operation)]
    yield from wrong_statements(text)
    if not any(how for statement in text for how, _ in _CREATES.findall(statement)):
        return
    if migration.atomic:
        yield "an index is made CONCURRENTLY outside of a transaction: atomic = False"
    if repeatable != all_of_it:
        yield "what is done once stands beside what may be done again: split it"


def index_of(operation: Any) -> str | None:
    """What Django would make an index of, in the same transaction."""
    match operation:
        case AddIndexConcurrently():
            return None
        case migrations.AddIndex():
            return str(operation.index.name)
        case migrations.AddConstraint() if isinstance(operation.constraint, models.UniqueConstraint):
            return str(operation.constraint.name)
        case migrations.AddField() | migrations.AlterField():
            field: Any = operation.field
            return str(operation.name) if field.unique or field.db_index else None
    return None


def wrong_statements(text: Sequence[str]) -> Iterator[str]:
    dropped: set[str] = set()
    for statement in text:
        dropped.update(_DROPS.findall(statement))
        for how, index in _CREATES.findall(statement):
            if not how:
                yield f"{index} is not made CONCURRENTLY"
            elif index not in dropped:
                yield f"{index} is not dropped before: one that was cut off stands invalid, and is in the way"


def test_every_migration_makes_its_indexes_concurrently() -> None:
    found = {name: list(complaints(one)) for name, one in ours().items()}
    assert len(found) >= 18
    assert {name for name, said in found.items() if said} == set(BEFORE_THE_RULE)


def of(*operations: Operation, atomic: bool = True) -> migrations.Migration:
    made: Any = migrations.Migration("sample", "reaper")
    made.operations, made.atomic = list(operations), atomic
    found: migrations.Migration = made
    return found


_FIELD = migrations.AddField("run", "seen_at", models.DateTimeField(null=True))
_DROP = migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS i")
_AGAIN = migrations.RunSQL(["DROP INDEX CONCURRENTLY IF EXISTS i", "CREATE INDEX CONCURRENTLY i ON runs (a)"])


@pytest.mark.parametrize(
    ("migration", "said"),
    [
        (of(migrations.AddIndex("run", models.Index("seen_at", name="i"))), 1),
        (of(migrations.AddConstraint("run", models.UniqueConstraint(fields=["a"], name="i"))), 1),
        (of(migrations.AddField("run", "a", models.TextField(null=True, unique=True))), 1),
        (of(migrations.AddField("run", "a", models.TextField(null=True, db_index=True))), 1),
        (of(migrations.RunSQL("CREATE INDEX i ON runs (a)"), atomic=False), 1),
        (of(migrations.RunSQL("CREATE UNIQUE INDEX CONCURRENTLY i ON runs (a)"), atomic=False), 1),
        (of(_AGAIN), 1),
        (of(_FIELD, _AGAIN, atomic=False), 1),
        (of(_AGAIN, atomic=False), 0),
        (of(_FIELD), 0),
        (of(AddIndexConcurrently("run", models.Index("a", name="i")), atomic=False), 1),
        (of(_DROP, AddIndexConcurrently("run", models.Index("a", name="i")), atomic=False), 0),
        (
            of(
                migrations.CreateModel("Made", [("a", models.TextField(unique=True))]),
                migrations.AddIndex("made", models.Index("a", name="i")),
            ),
            0,
        ),
        (of(migrations.AddConstraint("run", models.CheckConstraint(condition=models.Q(a=1), name="c"))), 0),
    ],
    ids=range(14),
)
def test_what_the_rule_refuses(migration: migrations.Migration, said: int) -> None:
    assert len(list(complaints(migration))) == said


STANDS_STILL = (sys.stdlib_module_names - {"importlib", "runpy"}) | {"django"}


def changing_imports(tree: ast.Module) -> set[str]:
    """What may say something else by the time the migration runs. RunPython takes its models from the state."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=module, names=names, level=level):
                found |= {f"{'.' * level}{module or ''}.{alias.name}" for alias in names}
            case ast.Name(id="__import__"):
                found.add("__import__")
    return {
        name
        for name in found
        if name.partition(".")[0] not in STANDS_STILL
        or name.startswith(("django.conf", "django.apps", "django.utils.module_loading"))
    }


def test_no_migration_imports_what_changes() -> None:
    paths = [path for package in PRODUCT for path in (REPOSITORY / package).glob("**/migrations/*.py")]
    found = {str(path.relative_to(REPOSITORY)): changing_imports(ast.parse(path.read_text("utf-8"))) for path in paths}
    assert len(found) >= len(ours())
    assert {path: said for path, said in found.items() if said} == {
        path: {"django.conf.settings"} for path in IMPORTS_SETTINGS
    }


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import uuid\nfrom typing import Any\nfrom django.db import migrations, models", set()),
        ("import django.contrib.postgres.fields", set()),
        ("from runs.states import Status", {"runs.states.Status"}),
        ("import budget.money", {"budget.money"}),
        ("def forwards(apps, editor):\n    from tenants import keys", {"tenants.keys"}),
        ("from . import shared", {"..shared"}),
        ("from ..models import Run", {"..models.Run"}),
        ("from django.apps import apps", {"django.apps.apps"}),
        ("from importlib import import_module", {"importlib.import_module"}),
        ("__import__('runs.models')", {"__import__"}),
        ("import structlog", {"structlog"}),
    ],
)
def test_what_changes_is_found_in_a_migration(source: str, said: set[str]) -> None:
    assert changing_imports(ast.parse(source)) == said
