"""A job's lease: the heartbeat of its open report row, and the index that lets only one row of a job have it."""

from django.db import migrations, models

ONE_AT_WORK = """
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS job_reports_one_at_work ON job_reports (job) WHERE beat_at IS NOT NULL
"""


class Migration(migrations.Migration):
    atomic = False  # an index made CONCURRENTLY is made outside of a transaction

    dependencies = [
        ("jobs", "0001_job_reports"),
    ]

    operations = [
        migrations.AddField(model_name="jobreport", name="beat_at", field=models.DateTimeField(null=True)),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(ONE_AT_WORK, "DROP INDEX CONCURRENTLY IF EXISTS job_reports_one_at_work"),
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
