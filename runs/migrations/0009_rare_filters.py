"""Runs by pack and by reason of failure, for lists whose filter few runs pass. Only ended runs are in either."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import F, OrderBy


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('runs', '0008_run_turns'),
    ]

    operations = [
        # A creation that was cut off leaves an invalid index behind, and its repetition would find the name taken.
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS idx_runs_pack_ended", migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name='run',
            index=models.Index(
                F('pack_type'),
                F('tenant'),
                OrderBy(F('created_at'), descending=True),
                condition=models.Q(('finalize_stage', 'COMMITTED')),
                name='idx_runs_pack_ended',
            ),
        ),
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS idx_runs_reason", migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name='run',
            index=models.Index(
                condition=models.Q(('last_error_reason_code__isnull', False)),
                fields=['last_error_reason_code', 'run_id'],
                name='idx_runs_reason',
            ),
        ),
    ]
