"""The run that a message names, with what was sent, in one statement that is written once.

Each life begins with it, and writing it anew took Django half a millisecond, a tenth of all that a life costs its
worker's process.
"""

import uuid
from collections.abc import Sequence
from functools import cache
from typing import Any

from django.db import connection, models

from runs.models import Run, RunInputs


def read(run_id: uuid.UUID) -> Run | None:
    """None where there is no such row. What was sent goes before the row does: an expired run has no `sent`."""
    of_run, of_sent = _of(Run), _of(RunInputs)
    with connection.cursor() as cursor:
        cursor.execute(_statement(), [run_id])
        row = cursor.fetchone()
    if row is None:
        return None
    run: Run = of_run.made(row[: of_run.width])
    if row[of_run.width] is not None:
        run.sent = of_sent.made(row[of_run.width :])
    return run


@cache
def _statement() -> str:
    columns = ", ".join([*_of(Run).columns, *_of(RunInputs).columns])
    return f"SELECT {columns} FROM runs LEFT JOIN run_inputs USING (run_id) WHERE runs.run_id = %s"  # noqa: S608  names


class _Instances:
    """Of one model, made of what Postgres answers."""

    def __init__(self, model: type[models.Model]) -> None:
        about = model._meta  # noqa: SLF001  Django's documented way
        fields = about.concrete_fields
        self._model: Any = model
        self._names = [field.attname for field in fields]
        self._converters = [
            (at, convert) for at, field in enumerate(fields) for convert in field.get_db_converters(connection)
        ]
        self.columns = [f"{about.db_table}.{field.column}" for field in fields]
        self.width = len(fields)

    def made(self, values: Sequence[Any]) -> Any:
        kept = list(values)
        for at, convert in self._converters:
            kept[at] = convert(kept[at], None, connection)
        return self._model.from_db(connection.alias, self._names, kept)


_instances: dict[type[models.Model], _Instances] = {}


def _of(model: type[models.Model]) -> _Instances:
    if model not in _instances:
        _instances[model] = _Instances(model)
    return _instances[model]
