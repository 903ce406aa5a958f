"""One batch of rows past their period: chosen, locked and deleted by one statement, with what hangs on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, connection, transaction
from django.db.models import Field, Q, QuerySet

from dpp_project.retention import Clearing

USED_MEANWHILE_MAX: Final = 3
"""How often a batch is chosen anew, of which another session has begun to use a row."""
Watermark = list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedBatch:
    rows: int = 0
    bytes: int = 0
    watermark: Watermark | None = None
    """Of the last row; None where there was none."""


def clear_batch(
    clearing: Clearing,
    *,
    cutoff: datetime,
    after: Watermark | None,
    size: int,
    noted: Callable[[ClearedBatch], object] = lambda _batch: None,
) -> ClearedBatch:
    """At most `size` rows behind `after`. `noted` writes down what was done, in the batch's own transaction.

    A row that another session begins to use between the choice and the deletion is refused by its foreign key: then all
    of the batch is undone, and chosen anew.
    """
    for left in reversed(range(USED_MEANWHILE_MAX)):
        try:
            with transaction.atomic():
                batch = _cleared(clearing, cutoff=cutoff, after=after, size=size)
                noted(batch)
        except IntegrityError:
            if not left:
                raise
        else:
            return batch
    raise AssertionError("a loop that ends by its last turn")


def pass_by(clearing: Clearing, *, cutoff: datetime, after: Watermark | None) -> Watermark | None:
    """The place of the next row behind `after`, which stays as it is; None where there is none."""
    with transaction.atomic():
        kept = replace(clearing, instead=lambda _rows: 0)
        return _cleared(kept, cutoff=cutoff, after=after, size=1).watermark


def count_due(clearing: Clearing, *, cutoff: datetime, limit: int) -> int:
    return clearing.rows(cutoff).order_by()[:limit].count()


def _cleared(clearing: Clearing, *, cutoff: datetime, after: Watermark | None, size: int) -> ClearedBatch:
    rows = clearing.rows(cutoff)
    fields = _order(rows, clearing.order)
    if after is not None:
        rows = rows.filter(_behind(fields, after))
    names = [field.name for field in fields]
    chosen = rows.order_by(*names).select_for_update(skip_locked=True, of=("self",)).values_list(*names)[:size]
    if clearing.instead is not None:
        return _done_instead(clearing.instead, fields, chosen)
    select, given = chosen.query.sql_with_params()
    table, key = rows.model._meta.db_table, str(fields[-1].column)  # noqa: SLF001  a model's own name for it
    with connection.cursor() as cursor:
        cursor.execute(_statement(select, table, key, len(fields), clearing.along), given)
        count, freed, *last = cursor.fetchone()
    return ClearedBatch(rows=count, bytes=int(freed), watermark=None if last[-1] is None else list(last))


def _done_instead(
    act: Callable[[Sequence[Any]], int], fields: Sequence["Field[Any, Any]"], chosen: "QuerySet[Any, Any]"
) -> ClearedBatch:
    found = list(chosen)
    if not found:
        return ClearedBatch()
    freed = act([row[-1] for row in found])
    last = [field.value_to_string(_holder(field, value)) for field, value in zip(fields, found[-1], strict=True)]
    return ClearedBatch(rows=len(found), bytes=freed, watermark=last)


def _holder(field: "Field[Any, Any]", value: Any) -> Any:
    return type("Holder", (), {field.attname: value})()


def _statement(select: str, table: str, key: str, columns: int, along: Sequence[str]) -> str:
    """Names come from the models and the declarations, never from outside."""
    names = [f"k{number}" for number in range(columns)]
    own = f"k{columns - 1}"
    parts = [f"old ({', '.join(names)}) AS MATERIALIZED ({select})"]
    for number, place in enumerate(along):
        other, column = place.split(".")
        parts.append(
            f'a{number} AS (DELETE FROM "{other}" USING old WHERE "{other}"."{column}" = old.{own}'  # noqa: S608
            f' RETURNING pg_column_size("{other}".*) AS bytes)'
        )
    parts.append(
        f'gone AS (DELETE FROM "{table}" USING old WHERE "{table}"."{key}" = old.{own}'  # noqa: S608
        f' RETURNING pg_column_size("{table}".*) AS bytes)'
    )
    newest = ", ".join(f"{name} DESC" for name in names)
    parts.append(f"last AS (SELECT * FROM old ORDER BY {newest} LIMIT 1)")  # noqa: S608
    freed = " + ".join(
        f"(SELECT coalesce(sum(bytes), 0) FROM {part})"  # noqa: S608
        for part in ("gone", *(f"a{number}" for number in range(len(along))))
    )
    told = ", ".join(f"last.{name}::text" for name in names)
    return (
        f"WITH {', '.join(parts)}"  # noqa: S608
        f" SELECT (SELECT count(*) FROM gone), {freed}, {told} FROM (SELECT 1) AS one LEFT JOIN last ON true"
    )


def _order(rows: "QuerySet[Any]", names: Sequence[str]) -> list["Field[Any, Any]"]:
    options = rows.model._meta  # noqa: SLF001
    return [options.pk if name == "pk" else options.get_field(name) for name in names]


def _behind(fields: Sequence["Field[Any, Any]"], after: Watermark) -> Q:
    """Those after it in the order of the columns. The first, which an index begins with, is a bound of its own too."""
    values = [field.to_python(text) for field, text in zip(fields, after, strict=True)]
    behind = Q(**{f"{fields[-1].name}__gt": values[-1]})
    for field, value in list(zip(fields, values, strict=True))[-2::-1]:
        behind = Q(**{f"{field.name}__gt": value}) | Q(**{field.name: value}) & behind
    return behind if len(fields) == 1 else Q(**{f"{fields[0].name}__gte": values[0]}) & behind
