"""The letters of one run become one row. Rows that stand keep theirs: `of_run` is empty there."""

from django.db import migrations, models
from django.db.models import Q

ONE_PER_RUN = [
    "SET lock_timeout = 0",
    "DROP INDEX CONCURRENTLY IF EXISTS dead_letters_one_per_run",
    "CREATE UNIQUE INDEX CONCURRENTLY dead_letters_one_per_run ON dead_letters (of_run) WHERE of_run IS NOT NULL",
    "RESET lock_timeout",
]


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("reaper", "0001_dead_letters")]

    operations = [
        migrations.AddField("deadletter", "of_run", models.UUIDField(null=True, editable=False)),
        migrations.AddField("deadletter", "letters", models.PositiveIntegerField(default=1, db_default=1)),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(ONE_PER_RUN, ["DROP INDEX CONCURRENTLY IF EXISTS dead_letters_one_per_run"])
            ],
            state_operations=[
                migrations.AddConstraint(
                    "deadletter",
                    models.UniqueConstraint(
                        fields=["of_run"], name="dead_letters_one_per_run", condition=Q(of_run__isnull=False)
                    ),
                )
            ],
        ),
    ]
