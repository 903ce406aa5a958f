"""Two indexes that repeat others go; the unique one of a tenant's keys takes the documented name.

Done once or again, it ends the same: what a migration that was cut off has left is looked at first.
"""

from typing import Any

from django.db import migrations, models

UNIQUE, DOCUMENTED = "runs_one_per_key", "idx_runs_idem"


def _stands(editor: Any, name: str) -> bool:
    with editor.connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
        return bool(cursor.fetchone()[0])


def one_carries_the_name(_apps: Any, editor: Any) -> None:
    """While the unique one has its own name, the other is the plain one."""
    if _stands(editor, UNIQUE):
        editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {DOCUMENTED}")
        editor.execute(f"ALTER INDEX {UNIQUE} RENAME TO {DOCUMENTED}")


def each_has_its_own(_apps: Any, editor: Any) -> None:
    if not _stands(editor, UNIQUE):
        editor.execute(f"ALTER INDEX {DOCUMENTED} RENAME TO {UNIQUE}")
    editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {DOCUMENTED}")
    editor.execute(f"CREATE INDEX CONCURRENTLY {DOCUMENTED} ON runs (tenant_id, idempotency_key)")


class Migration(migrations.Migration):

    atomic = False

    dependencies = [("runs", "0009_rare_filters")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunPython(one_carries_the_name, each_has_its_own),
                migrations.RunSQL(
                    "DROP INDEX CONCURRENTLY IF EXISTS idx_runs_leased",
                    "CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_runs_leased ON runs (lease_expires_at)"
                    " WHERE finalize_stage IS NULL AND status = 'PROCESSING'",
                ),
            ],
            state_operations=[
                migrations.RemoveIndex("run", "idx_runs_idem"),
                migrations.RemoveIndex("run", "idx_runs_leased"),
                migrations.RemoveConstraint("run", "runs_one_per_key"),
                migrations.AddConstraint(
                    "run",
                    models.UniqueConstraint(
                        condition=models.Q(("idempotency_key__isnull", False)),
                        fields=("tenant", "idempotency_key"),
                        name="idx_runs_idem",
                    ),
                ),
            ],
        ),
    ]
