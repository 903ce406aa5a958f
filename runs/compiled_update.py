"""An UPDATE in the ORM's words that Django writes once for the process, and that finds its row by the primary key.

    _DISPUTE = CompiledUpdate(
        Run.objects.filter(run_id=Given("run_id"), version=Given("version"), money_state=MoneyState.SETTLED),
        money_state=MoneyState.DISPUTED,
        version=F("version") + 1,
    )
    changed = _DISPUTE(run_id=run_id, version=4)

Written anew at each call, an edge's statement costs eight times the CPU of sending it (docs/dependencies.md). It is
written from the queryset alone, before there are any arguments: so no branch can depend on one.

Postgres may look for the row through an index of the states that a guard compares: cheap while few rows are in that
state, and ruinous in a burst, when the same plan, or the same stale statistics, meets thousands of queued rows, or
their dead versions. `compared_row` keeps it to the primary key.
"""

from functools import cached_property
from typing import Any, Final

from django.db import connection
from django.db.models import Expression, Field, Q, QuerySet, TextField, Transform
from django.db.models.sql import UpdateQuery


class Compared(Transform):
    """`status__compared=x`: the column is compared, and no index of it is used to look for the row."""

    lookup_name = "compared"
    template = "(%(expressions)s || '')"
    output_field = TextField()


TextField.register_lookup(Compared)


class Given(Expression):
    """The place of an argument, by its name."""

    def __init__(self, name: str, field: "Field[Any, Any] | None" = None) -> None:
        super().__init__(output_field=field or TextField())
        self.name: Final = name

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple["Given"]]:  # type: ignore[override]  # noqa: ARG002
        """Django passes the parameters through, so the place itself stands among them until the call."""
        return "%s", (self,)


def compared_row(**columns: str | Given) -> Q:
    """The guard of a compare-and-set, whose row is named by its key."""
    return Q(**{f"{name}__compared": value for name, value in columns.items()})


class CompiledUpdate:
    """Called with every argument that its queryset and columns name, it answers how many rows were changed."""

    def __init__(self, rows: QuerySet[Any], /, **columns: Any) -> None:
        self.columns: Final = columns
        self._rows: Final = rows

    def __call__(self, **given: object) -> int:
        sql, values = self.written(**given)
        with connection.cursor() as cursor:
            cursor.execute(sql, values)
            changed: int = cursor.rowcount
        return changed

    def written(self, **given: object) -> tuple[str, list[Any]]:
        """The statement and its values, for a larger one to hold."""
        sql, parameters, names = self._compiled
        if given.keys() != names:
            raise TypeError(f"takes {sorted(names)}, was given {sorted(given)}")
        return sql, [given[one.name] if isinstance(one, Given) else one for one in parameters]

    @cached_property
    def _compiled(self) -> tuple[str, tuple[Any, ...], frozenset[str]]:
        query: Any = self._rows.query.chain(UpdateQuery)
        query.add_update_values(self.columns)
        sql, parameters = query.get_compiler(connection=connection).as_sql()
        return sql, tuple(parameters), frozenset(one.name for one in parameters if isinstance(one, Given))
