"""The runs that were bought without a key of the caller's, by what was bought. Runs with one are not in it."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('runs', '0006_run_metadata'),
    ]

    operations = [
        # A creation that was cut off leaves an invalid index behind, and its repetition would find the name taken.
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS idx_runs_derived", migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name='run',
            index=models.Index(
                condition=models.Q(('idempotency_key__startswith', 'auto-')),
                fields=['tenant', 'payload_hash'],
                name='idx_runs_derived',
            ),
        ),
    ]
