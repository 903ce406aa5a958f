"""What a test with committed data leaves behind is emptied with one statement.

Django's own way flushes every table and then makes content types and permissions anew, half a second each time. They
depend on the code alone, so here they stay.
"""

from functools import cache

from django.db import connection
from django.test import TransactionTestCase

KEPT = frozenset({"django_migrations", "django_content_type", "auth_permission"})


def empty_tables(_test_case: TransactionTestCase) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {_tables()}")


@cache
def _tables() -> str:
    names = sorted(set(connection.introspection.django_table_names(only_existing=True)) - KEPT)
    return ", ".join(connection.ops.quote_name(name) for name in names)
