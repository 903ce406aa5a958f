"""One row for each run, by an index: its letters find it, and two consumers make one."""

from django.db import migrations, models
from django.db.models import Q

ONE_PER_RUN = [
    "DROP INDEX CONCURRENTLY IF EXISTS dead_letters_one_per_run",
    "CREATE UNIQUE INDEX CONCURRENTLY dead_letters_one_per_run ON dead_letters (of_run) WHERE of_run IS NOT NULL",
]


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("reaper", "0002_one_letter_per_run")]

    operations = [
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
