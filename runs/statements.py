"""How the edges of a run become SQL: written once for the process where they are hot, and found by the primary key.

Two costs of a plain `filter(...).update(...)` are taken out here, and nothing of its meaning. Django writes the
statement anew on every call, which on the way of a run is most of an edge's CPU. And Postgres may look for the row
through an index of the states it is compared with: cheap while few rows are in that state, and ruinous in a burst,
when the same plan, or the same stale statistics, meets thousands of queued rows, or their dead versions.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec

from django.db import connection
from django.db.models import Expression, Q, TextField, Transform

P = ParamSpec("P")


class Compared(Transform):
    """`status__compared=x`: the column is compared, and no index of it is used to look for the row."""

    lookup_name = "compared"
    template = "(%(expressions)s || '')"
    output_field = TextField()


TextField.register_lookup(Compared)


def compared(**columns: str) -> Q:
    """The guard of a compare-and-set, whose row is named by its key."""
    return Q(**{f"{name}__compared": value for name, value in columns.items()})


class _Given(Expression):
    """Stands for an argument while a statement is written."""

    def __init__(self, name: str) -> None:
        super().__init__(output_field=TextField())
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:  # noqa: ARG002  Django's
        return "%s", (self,)


def written_once(edge: Callable[P, int]) -> Callable[P, int]:
    """For a function that makes one `.update()` of its keyword arguments as they are, and answers the rows it changed.

    The first call has Django write the statement, with placeholders for the arguments; every call then sends it with
    its own.
    """

    @cache
    def statement(names: tuple[str, ...]) -> tuple[str, tuple[Any, ...]]:
        written: list[tuple[str, tuple[Any, ...]]] = []

        def keep(_execute: Any, sql: str, values: Any, *_: Any) -> None:
            written.append((sql, tuple(values)))

        placeholders: Any = {name: _Given(name) for name in names}
        write: Callable[..., int] = edge
        # In the place of all others: who counts, traces or breaks statements must not take this for one.
        others, connection.execute_wrappers = connection.execute_wrappers, [keep]
        try:
            write(**placeholders)
        finally:
            connection.execute_wrappers = others
        (only,) = written
        return only

    @wraps(edge)
    def send(*_: P.args, **given: P.kwargs) -> int:
        sql, values = statement(tuple(given))
        arguments: list[Any] = [given[value.name] if isinstance(value, _Given) else value for value in values]
        with connection.cursor() as cursor:
            cursor.execute(sql, arguments)
            changed: int = cursor.rowcount
            return changed

    return send
