"""A run with what was sent, in one statement that is written once.

Django would write it anew each time, which costs 0.5 ms of CPU: five times the rest of such a reading, a twentieth of a
run's whole life and most of a poll (docs/dependencies.md).
"""

import json
import uuid
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from django.db import connection, models

from runs.models import Run, RunInputs

METADATA: Final = "(SELECT jsonb_object_agg(key, value)::text FROM run_metadata WHERE run_id = runs.run_id)"
"""Of one run, as text; NULL of one without."""


class RunReader:
    """Reads one run by a condition on `runs`, with these columns of its inputs or all of them, and its metadata."""

    def __init__(self, *, sent: Sequence[str] | None = None, metadata: bool = False) -> None:
        self._sent: Final = sent
        self._metadata: Final = metadata

    def one(self, condition: str, *values: str | uuid.UUID) -> Run | None:
        """None where there is no such row. What was sent goes before the row does: an expired run has no `sent`."""
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {self.columns} FROM {self.tables} WHERE {condition}", values)  # noqa: S608  the models' own names
            row = cursor.fetchone()
        return None if row is None else self.instance(row)

    def instance(self, row: Sequence[Any]) -> Run:
        """Of a row that begins with `columns`."""
        of_run, of_sent = self._columns
        run: Run = of_run.instance(row[: of_run.width])
        if row[of_run.width] is not None:
            run.sent = of_sent.instance(row[of_run.width : of_run.width + of_sent.width])
        if self._metadata and (metadata := row[of_run.width + of_sent.width]) is not None:
            run.metadata = json.loads(metadata)
        return run

    @cached_property
    def _columns(self) -> tuple["_Columns", "_Columns"]:
        return _Columns(Run), _Columns(RunInputs, self._sent)

    tables: Final = "runs LEFT JOIN run_inputs USING (run_id)"

    @cached_property
    def columns(self) -> str:
        names = ", ".join(name for of in self._columns for name in of.names)
        return f"{names}, {METADATA}" if self._metadata else names

    @cached_property
    def width(self) -> int:
        """How many columns these are."""
        return sum(of.width for of in self._columns) + self._metadata


class _Columns:
    """Of one model; makes its instances of what Postgres answers, the columns left out being deferred."""

    def __init__(self, model: type[models.Model], chosen: Sequence[str] | None = None) -> None:
        about = model._meta  # noqa: SLF001  Django's documented way
        fields = [field for field in about.concrete_fields if chosen is None or field.attname in chosen]
        self._model: Any = model
        self._attributes = [field.attname for field in fields]
        self._converters = [
            (at, convert) for at, field in enumerate(fields) for convert in field.get_db_converters(connection)
        ]
        self.names = [f"{about.db_table}.{field.column}" for field in fields]
        self.width = len(fields)

    def instance(self, values: Sequence[Any]) -> Any:
        kept = list(values)
        for at, convert in self._converters:
            kept[at] = convert(kept[at], None, connection)
        return self._model.from_db(connection.alias, self._attributes, kept)
