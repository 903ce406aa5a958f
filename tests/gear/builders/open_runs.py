"""Runs as budget needs them, in a table of the tests' own: the row first, every step by CAS, behind the port."""

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from budget import ledger, ports
from budget.ports import Ask, CommittedRun, EndedRun, HeldOn, OpenRun, Reserved, RunPosition
from budget.redis.windows import Counted

_TABLE = """
CREATE TABLE IF NOT EXISTS money_test_runs (
    run_id uuid PRIMARY KEY, tenant_id text NOT NULL, reserved bigint NOT NULL, version bigint NOT NULL DEFAULT 0,
    money text NOT NULL DEFAULT 'NONE', stage text, charge bigint, due bigint,
    ended_at timestamptz, lineage_id uuid, spend_day date
)
"""
_COMMIT = """
    UPDATE money_test_runs SET stage = 'COMMITTED', version = version + 1, charge = %s, due = %s,
           ended_at = now(),
           money = CASE WHEN %s > 0 THEN 'SETTLED' ELSE 'REFUNDED' END
     WHERE run_id = %s AND version = %s AND stage = 'CLAIMED'
    RETURNING tenant_id, run_id, %s::bigint AS due_micros, 'test'::text AS actor,
              NULL::text AS own_failure, lineage_id, spend_day
"""


@dataclass(frozen=True)
class Claimed:
    run_id: str
    version: int


class RunsTable:
    """Each method is one statement, as each edge of a run is."""

    def create(self) -> None:
        self._do(_TABLE)
        self._do("TRUNCATE money_test_runs")

    def drop_table(self) -> None:
        self._do("DROP TABLE IF EXISTS money_test_runs")

    def accept(
        self, tenant_id: str, reserved_micros: int, *, lineage_id: uuid.UUID | None = None, day: date | None = None
    ) -> str:
        run_id = str(uuid.uuid4())
        self._do(
            "INSERT INTO money_test_runs (run_id, tenant_id, reserved, lineage_id, spend_day)"
            " VALUES (%s, %s, %s, %s, %s)",
            run_id,
            tenant_id,
            reserved_micros,
            lineage_id,
            day,
        )
        return run_id

    def drop(self, run_id: str) -> bool:
        return self._changed(
            "DELETE FROM money_test_runs WHERE run_id = %s AND version = 0 AND money = 'NONE' AND stage IS NULL", run_id
        )

    def mark_reserved(self, run_id: str, version: int = 0) -> bool:
        return self._changed(
            "UPDATE money_test_runs SET money = 'RESERVED', version = version + 1"
            " WHERE run_id = %s AND version = %s AND money = 'NONE' AND stage IS NULL",
            run_id,
            version,
        )

    def claim(self, run_id: str) -> Claimed | None:
        """Also takes over a run that is claimed already, as recovery does."""
        version = self._row(
            "UPDATE money_test_runs SET stage = 'CLAIMED', version = version + 1"
            " WHERE run_id = %s AND (stage IS NULL OR stage = 'CLAIMED') RETURNING version",
            run_id,
        )
        return Claimed(run_id, version[0]) if version else None

    def commit(self, claimed: Claimed, *, taken_micros: int, due_micros: int | None = None) -> bool:
        due = taken_micros if due_micros is None else due_micros
        values = [taken_micros, min(due, taken_micros), taken_micros, claimed.run_id, claimed.version, due]
        return ledger.end_run_with_entries(_COMMIT, values, taken_micros=taken_micros) == 1

    def unended(self) -> list[tuple[str, str, str]]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT run_id::text, tenant_id, money FROM money_test_runs WHERE stage IS DISTINCT FROM 'COMMITTED'"
            )
            return list(cursor.fetchall())

    # The port.

    def fence(self, *, tenant_id: str | None) -> Iterator[int]:
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE money_test_runs SET version = version + 1"
                " WHERE (stage = 'CLAIMED' OR (stage IS NULL AND money = 'NONE'))"
                " AND (%s::text IS NULL OR tenant_id = %s)",
                [tenant_id, tenant_id],
            )
            yield int(cursor.rowcount)

    def reserved(self, *, tenant_id: str | None) -> Iterator[Reserved]:
        for owner, count, micros in self._all(
            "SELECT tenant_id, count(*), sum(reserved)::bigint FROM money_test_runs"
            " WHERE stage IS DISTINCT FROM 'COMMITTED' AND money = 'RESERVED'"
            " AND (%s::text IS NULL OR tenant_id = %s) GROUP BY tenant_id",
            tenant_id,
            tenant_id,
        ):
            yield Reserved(owner, count, micros)

    def held_by_date(self, *, tenant_ids: Sequence[str]) -> Iterator[HeldOn]:
        for row in self._all(
            "SELECT tenant_id, lineage_id, spend_day,"
            " coalesce(sum(reserved) FILTER (WHERE money = 'RESERVED'), 0)::bigint"
            " FROM money_test_runs WHERE stage IS DISTINCT FROM 'COMMITTED' AND spend_day IS NOT NULL"
            " AND tenant_id = ANY(%s) GROUP BY 1, 2, 3",
            list(tenant_ids),
        ):
            yield HeldOn(*row)

    def open(self, *, tenant_id: str | None) -> Iterator[OpenRun]:
        for owner, run_id, reserved, money, claimed, lineage_id, day in self._all(
            "SELECT tenant_id, run_id::text, reserved, money, stage IS NOT NULL, lineage_id::text, spend_day"
            " FROM money_test_runs"
            " WHERE stage IS DISTINCT FROM 'COMMITTED' AND (%s::text IS NULL OR tenant_id = %s)",
            tenant_id,
            tenant_id,
        ):
            counted = Counted(lineage_id, day)
            yield OpenRun(owner, run_id, reserved, 1, money == "RESERVED", claimed, counted)

    def ended(self, *, tenant_id: str | None, within: timedelta) -> Iterator[EndedRun]:
        for owner, run_id, reserved, charge in self._all(
            "SELECT tenant_id, run_id::text, reserved, charge FROM money_test_runs"
            " WHERE stage = 'COMMITTED' AND ended_at >= now() - %s AND (%s::text IS NULL OR tenant_id = %s)",
            within,
            tenant_id,
            tenant_id,
        ):
            yield EndedRun(owner, run_id, charge, reserved - charge)

    def still_open(self, *, run_ids: Collection[str]) -> Collection[str]:
        statement = "SELECT run_id::text FROM money_test_runs WHERE run_id::text = ANY(%s)"
        return {row[0] for row in self._all(f"{statement} AND stage IS DISTINCT FROM 'COMMITTED'", list(run_ids))}

    def standing(self, ask: Ask, run_ids: Collection[str]) -> Mapping[str, bool]:
        statement = "SELECT run_id::text, stage IS NOT NULL FROM money_test_runs WHERE run_id::text = ANY(%s)"
        return dict(ask(f"{statement} AND money <> 'NONE'", [list(run_ids)]))

    def page(self, tenant_id: str, *, after: RunPosition | None, limit: int) -> Sequence[CommittedRun]:
        found = self._committed("tenant_id = %s", tenant_id)
        return [run for run in found if after is None or (run.created_at, run.run_id) > after][:limit]

    def those(self, run_ids: Sequence[uuid.UUID]) -> Sequence[CommittedRun]:
        return self._committed("run_id = ANY(%s)", list(run_ids))

    def kept_for(self) -> timedelta:
        return timedelta(days=395)

    def sold(self) -> str:
        return "SELECT run_id, 'test' AS pack_type, '' AS reason, 0::bigint AS tokens FROM money_test_runs"

    def metadata_values(self) -> str:
        return "SELECT NULL::uuid AS run_id, '' AS value WHERE false"

    def _committed(self, condition: str, *values: Any) -> list[CommittedRun]:
        """A run's cost is what was due; the table keeps what was taken, and the two are the same but where it says."""
        return [
            CommittedRun(owner, run_id, created_at, cost, 0)
            for owner, run_id, created_at, cost in self._all(
                "SELECT tenant_id, run_id, ended_at, due FROM money_test_runs"  # noqa: S608  the condition is ours
                f" WHERE stage = 'COMMITTED' AND {condition} ORDER BY ended_at, run_id",
                *values,
            )
        ]

    def _do(self, statement: str, *values: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement, list(values))

    def _changed(self, statement: str, *values: Any) -> bool:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, list(values))
            return bool(cursor.rowcount)

    def _row(self, statement: str, *values: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(statement, list(values))
            return cursor.fetchone()

    def _all(self, statement: str, *values: Any) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(statement, list(values))
            return list(cursor.fetchall())


@pytest.fixture
def runs_table(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunsTable]:
    """It goes with its test: the next one may look at all tables that stand."""
    table = RunsTable()
    table.create()
    monkeypatch.setattr(ports, "_registered", [table])
    monkeypatch.setattr(ports, "_committed", [table])
    yield table
    table.drop_table()
