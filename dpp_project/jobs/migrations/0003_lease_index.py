"""The index that lets only one row of a job have its lease."""

from django.db import migrations, models

ONE_AT_WORK = [
    "DROP INDEX CONCURRENTLY IF EXISTS job_reports_one_at_work",
    "CREATE UNIQUE INDEX CONCURRENTLY job_reports_one_at_work ON job_reports (job) WHERE beat_at IS NOT NULL",
]


class Migration(migrations.Migration):
    atomic = False  # an index made CONCURRENTLY is made outside of a transaction

    dependencies = [
        ("jobs", "0002_lease"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(ONE_AT_WORK, ["DROP INDEX CONCURRENTLY IF EXISTS job_reports_one_at_work"]),
            ],
            state_operations=[
                migrations.AddConstraint(
                    model_name="jobreport",
                    constraint=models.UniqueConstraint(
                        condition=models.Q(("beat_at__isnull", False)),
                        fields=("job",),
                        name="job_reports_one_at_work",
                    ),
                ),
            ],
        ),
    ]
