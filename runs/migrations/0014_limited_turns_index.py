"""Which of a tenant's runs its limit keeps back, first come first."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import F, OrderBy


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("runs", "0013_limited_turns")]

    operations = [
        # A creation that was cut off leaves an invalid index behind, and its repetition would find the name taken.
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS idx_run_turns_limited", migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="runturn",
            index=models.Index(
                F("tenant"),
                OrderBy(F("priority"), descending=True),
                F("run"),
                condition=models.Q(("stands", "LIMITED")),
                name="idx_run_turns_limited",
            ),
        ),
    ]
