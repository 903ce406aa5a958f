"""What a test with committed data leaves behind is deleted where it is, and only there.

Django's own way flushes every table and then makes content types and permissions anew, half a second each time. They
depend on the code alone, so here they stay. TRUNCATE of all tables gives each of them and of their indexes a new file:
25 ms of Postgres for each test, whatever it wrote. So rows are deleted from the tables that have any; a table that has
grown large is truncated.
"""

from functools import cache

from django.db import connection, transaction
from django.test import TransactionTestCase

KEPT = frozenset({"django_migrations", "django_content_type", "auth_permission"})
LARGE_BYTES = 4 * 1024 * 1024


def empty_tables(_test_case: TransactionTestCase) -> None:
    """Waits, as TRUNCATE does, for whoever still writes: no row comes after."""
    names = _tables()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(names)} IN EXCLUSIVE MODE")
        cursor.execute(_question())
        row = cursor.fetchone()
        # Neither the triggers of ledger and audit trail, which refuse it, nor foreign keys: all of it goes.
        cursor.execute("SET LOCAL session_replication_role = replica")
        if max(row[::2]) > LARGE_BYTES:
            cursor.execute(f"TRUNCATE {', '.join(names)}")
        elif filled := [name for name, has_rows in zip(names, row[1::2], strict=True) if has_rows]:
            for name in filled:
                cursor.execute(f"DELETE FROM {name}")  # noqa: S608  the name comes from the catalogue


@cache
def _question() -> str:
    """Of each table its size and whether it has a row."""
    return "SELECT " + ", ".join(f"pg_relation_size('{name}'), EXISTS (SELECT 1 FROM {name})" for name in _tables())  # noqa: S608


@cache
def _tables() -> tuple[str, ...]:
    """From now on without autovacuum: it would come at any time, and a table it found empty is planned otherwise."""
    names = set(connection.introspection.django_table_names(only_existing=True)) - KEPT
    tables = tuple(connection.ops.quote_name(name) for name in sorted(names))
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    return tables
