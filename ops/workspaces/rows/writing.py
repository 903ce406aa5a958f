"""Says which writer a transaction is of. The trigger on `workspaces` refuses each column to all but its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

from ops.workspaces.states import Writer


@contextmanager
def writing_as(writer: Writer) -> Iterator[None]:
    """A transaction of this writer. Inside another one the name holds until that ends, or until it is set anew."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('dpp.writer', %s, true)", [writer.value])
        yield
