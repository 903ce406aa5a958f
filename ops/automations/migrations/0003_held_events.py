"""Events that wait take turns by rule: new ones, and those that wait, are found by an index each."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

NEW = "DROP INDEX CONCURRENTLY IF EXISTS idx_automation_event_new"
HELD = "DROP INDEX CONCURRENTLY IF EXISTS idx_automation_event_held"


class Migration(migrations.Migration):
    atomic = False  # an index made CONCURRENTLY is made outside of a transaction

    dependencies = [
        ("automations", "0002_guards"),
    ]

    operations = [
        migrations.RunSQL(NEW, NEW),
        AddIndexConcurrently(
            model_name="automationevent",
            index=models.Index(
                condition=models.Q(("status", "PENDING"), ("waits_for", "")),
                fields=["next_try_at", "event_pk"],
                name="idx_automation_event_new",
            ),
        ),
        migrations.RunSQL(HELD, HELD),
        AddIndexConcurrently(
            model_name="automationevent",
            index=models.Index(
                condition=models.Q(("status", "PENDING"), models.Q(("waits_for", ""), _negated=True)),
                fields=["rule", "event_pk"],
                name="idx_automation_event_held",
            ),
        ),
    ]
