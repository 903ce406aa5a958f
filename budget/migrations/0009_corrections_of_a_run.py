"""The entries of one run: its charge has an index already, and what was corrected of it has this one, which is small."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('budget', '0008_entries_after_a_clock'),
    ]

    operations = [
        # A creation that was cut off leaves an invalid index behind, and its repetition would find the name taken.
        migrations.RunSQL(
            "DROP INDEX CONCURRENTLY IF EXISTS idx_ledger_entries_corrections", migrations.RunSQL.noop
        ),
        AddIndexConcurrently(
            model_name='ledgerentry',
            index=models.Index(
                condition=Q(('run_id__isnull', False), models.Q(('kind', 'CHARGE'), _negated=True)),
                fields=['run_id'],
                name='idx_ledger_entries_corrections',
            ),
        ),
    ]
